"""Calls of functions over rows with NULL, empty texts, negative numbers, blanks and more.

By the function that each is about: every function that SQL text may call is in one of them. What
our reader writes of them and what Hive has of them answer alike (tests/interop/test_functions.py).
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {
    "id": "int",
    "s": "string",
    "y": "string",
    "v": "varchar(10)",
    "c": "char(5)",
    "n": "int",
    "k": "int",
    "b": "bigint",
    "si": "smallint",
    "d": "double",
    "f": "float",
    "de": "decimal(10,2)",
    "dt": "date",
    "ts": "timestamp",
    "bo": "boolean",
    "x": "string",
    "jp": "string",
    "dtx": "string",
    "un": "string",
    "arr": "array<string>",
    "ia": "array<int>",
    "m": "map<string,int>",
    "st": "struct<a:int,b:string>",
    "zo": "string",
}
ROWS: Final = r"""
    select cast(1 as int), cast('abc' as string), cast('b' as string), cast('abc' as
    varchar(10)), cast('ab' as char(5)), cast(3 as int), cast(1 as int), cast(3 as bigint),
    cast(3 as smallint), cast(1.5D as double), cast(1.5 as float), cast(1.50 as decimal(10,2)),
    cast('2020-01-31' as date), cast('2020-01-31 10:20:30.123456' as timestamp), cast(true as
    boolean), cast('{"a":[1,2],"b":{"c":"x"}}' as string), cast('$.a[0]' as string),
    cast('2020-02-29' as string), cast('MM' as string), array('a','b'), array(3,1,2),
    map('k',1), named_struct('a',cast(3 as int),'b','abc'), cast('America/New_York' as string)
    union all select cast(2 as int), cast('12' as string), cast('' as string), cast('12' as
    varchar(10)), cast('12' as char(5)), cast(-2 as int), cast(-16 as int), cast(-2 as bigint),
    cast(-2 as smallint), cast(-2.0D as double), cast(-2.0 as float), cast(-2.05 as
    decimal(10,2)), cast('2020-02-29' as date), cast('2019-12-31 23:59:59' as timestamp),
    cast(false as boolean), cast('{"a/b":1,"a":["x"]}' as string), cast('$.a/b' as string),
    cast('2019-11-30' as string), cast('mm' as string), array('b',cast(null as string),'a'),
    array(1), map('a',1,'b',2), named_struct('a',cast(-2 as int),'b','12'), cast('+02:00' as
    string)
    union all select cast(3 as int), cast(' 7 ' as string), cast('7' as string), cast(' 7 ' as
    varchar(10)), cast('7' as char(5)), cast(0 as int), cast(2 as int), cast(0 as bigint),
    cast(0 as smallint), cast(0.0D as double), cast(0.0 as float), cast(0.00 as decimal(10,2)),
    cast('1999-12-31' as date), cast('1970-01-01 00:00:00' as timestamp), cast(true as boolean),
    cast('[1,2]' as string), cast('$[1]' as string), cast('1970-01-01' as string), cast('YEAR'
    as string), array('x'), array(0,0), map('x',0), named_struct('a',cast(0 as int),'b',' 7 '),
    cast('UTC' as string)
    union all select cast(4 as int), cast('' as string), cast('x' as string), cast('' as
    varchar(10)), cast('' as char(5)), cast(16 as int), cast(-3 as int), cast(9999999999 as
    bigint), cast(100 as smallint), cast(1e10D as double), cast(3.25 as float), cast(99999.99 as
    decimal(10,2)), cast('2100-03-01' as date), cast('2100-12-31 01:02:03.5' as timestamp),
    cast(false as boolean), cast('x' as string), cast('$.a' as string),
    cast('2021-07-31' as string),
    cast('QUARTER' as string), split('a,b',','), array(5,4), map('k',7),
    named_struct('a',cast(16 as int),'b',''), cast('Asia/Kolkata' as string)
    union all select cast(5 as int), cast(cast(null as string) as string), cast(cast(null as
    string) as string), cast(cast(null as varchar(10)) as varchar(10)), cast(cast(null as
    char(5)) as char(5)), cast(cast(null as int) as int), cast(cast(null as int) as int),
    cast(cast(null as bigint) as bigint), cast(cast(null as smallint) as smallint),
    cast(cast(null as double) as double), cast(cast(null as float) as float), cast(cast(null as
    decimal(10,2)) as decimal(10,2)), cast(cast(null as string) as date), cast(cast(null as
    string) as timestamp), cast(cast(null as boolean) as boolean), cast(cast(null as string) as
    string), cast(cast(null as string) as string), cast(cast(null as string) as string),
    cast(cast(null as string) as string), split(cast(null as string),'x'),
    if(1=0,array(1),null), if(1=0,map('x',0),null), named_struct('a',cast(cast(null as int) as
    int),'b',cast(null as string)), cast(cast(null as string) as string)
    union all select cast(6 as int), cast('Grüße €' as string), cast('ß' as string),
    cast('Grüße' as varchar(10)), cast('ü' as char(5)), cast(-5 as int), cast(5 as int), cast(-5
    as bigint), cast(-5 as smallint), cast(0.5D as double), cast(0.5 as float), cast(0.05 as
    decimal(10,2)), cast('2021-12-15' as date), cast('2021-06-15 12:00:00' as timestamp),
    cast(true as boolean), cast('{"a":{"b":null}}' as string), cast('$.a.b' as string),
    cast('2021-06-30' as string), cast('Q' as string), array(''), array(-1,7), map('',0),
    named_struct('a',cast(-5 as int),'b','Grüße €'), cast('Europe/Berlin' as string)
    union all select cast(7 as int), cast('a,b,,c' as string), cast(',' as string),
    cast('a,b,,c' as varchar(10)), cast('a b' as char(5)), cast(7 as int), cast(3 as int),
    cast(7 as bigint), cast(7 as smallint), cast(2.5D as double), cast(2.5 as float), cast(10.10
    as decimal(10,2)), cast('2016-02-29' as date), cast('2016-02-29 00:00:00' as timestamp),
    cast(false as boolean), cast('{"a":[{"b":1},{"b":2}]}' as string), cast('$.a[-1]' as
    string), cast('2016-02-29 12:13:14' as string), cast('DD' as string), array('a','a'),
    array(1,1,2), map('k',3), named_struct('a',cast(7 as int),'b','a,b,,c'), cast('GMT+3' as
    string)
    union all select cast(8 as int), cast('The quick\tbrown fox' as string), cast('o' as
    string), cast('The quick' as varchar(10)), cast('Th' as char(5)), cast(-1 as int), cast(1 as
    int), cast(1 as bigint), cast(-1 as smallint), cast(-0.75D as double), cast(-0.75 as float),
    cast(-10.00 as decimal(10,2)), cast('2000-01-01' as date), cast('2000-01-01 23:00:00' as
    timestamp), cast(true as boolean), cast('{"b":"q","a":""}' as string), cast('$.b' as
    string), cast(' 2020-01-05 ' as string), cast('week' as string), array('o','k'), array(-5),
    map('q',9), named_struct('a',cast(-1 as int),'b','The quick\tbrown fox'), cast('PST' as
    string)
    union all select cast(9 as int), cast('abcabc' as string), cast('bc' as string),
    cast('abcabc' as varchar(10)), cast('abc' as char(5)), cast(1 as int), cast(-1 as int),
    cast(-9999999999 as bigint), cast(1 as smallint), cast(3.0D as double), cast(3.0 as float),
    cast(3.00 as decimal(10,2)), cast('1970-01-01' as date), cast('1969-12-31 23:59:59' as
    timestamp), cast(false as boolean), cast('{"a":1.50,"b":true}' as string), cast('$.a' as
    string), cast('2020-01-31 10:11:12' as string), cast('MON' as string), array('bc'),
    array(2), map('abc',1), named_struct('a',cast(1 as int),'b','abcabc'), cast('UTC+3' as
    string)
    union all select cast(10 as int), cast('-7.5' as string), cast('.' as string), cast('-7.5'
    as varchar(10)), cast('-7.5' as char(5)), cast(12 as int), cast(4 as int), cast(12 as
    bigint), cast(12 as smallint), cast(123456.789D as double), cast(7.25 as float), cast(12.34
    as decimal(10,2)), cast('2024-02-29' as date), cast('2024-10-27 02:30:00' as timestamp),
    cast(true as boolean), cast('{"a":"1"}' as string), cast('$' as string), cast('2024-2-9' as
    string), cast('' as string), array('7'), array(12), map('z',4), named_struct('a',cast(12 as
    int),'b','-7.5'), cast('-05:00' as string)
    union all select cast(11 as int), cast('7\t' as string), cast('\t' as string), cast('7 ' as
    varchar(10)), cast(' x' as char(5)), cast(99 as int), cast(7 as int),
    cast(9223372036854775807 as bigint), cast(32767 as smallint), cast(1e300D as double),
    cast(1e+30 as float), cast(0.99 as decimal(10,2)), cast('1600-01-01' as date),
    cast('1900-01-01 00:00:00' as timestamp), cast(false as boolean), cast('{}' as string),
    cast('$.zz' as string), cast('1900-01-01' as string), cast('month' as string),
    array('t',''), array(9), map('t',-1), named_struct('a',cast(99 as int),'b','7\t'), cast(''
    as string)
"""
CASES: Final[dict[str, tuple[str, ...]]] = {
    "abs": (
        "abs(n)",
        "abs(de)",
        "abs(d)",
        "abs(-3)",
        "abs(f)",
    ),
    "acos": (
        "acos(n)",
        "acos(de)",
    ),
    "add_months": (
        "add_months(dt, n)",
        "add_months(dt, 1)",
        "add_months(dt, -1)",
        "add_months(dt, si)",
        "add_months(ts, 1)",
        "add_months('2015-02-28', n)",
        "add_months(dt, k)",
        "add_months(dtx, 1)",
        "add_months(ts, k)",
        "add_months(date '2015-02-28', n)",
    ),
    "array": (
        "array(n, k)",
        "array('a', s)",
    ),
    "array_contains": (
        "array_contains(arr, s)",
        "array_contains(arr, 'a')",
        "array_contains(ia, 1)",
        "array_contains(ia, n)",
        "array_contains(arr, y)",
    ),
    "array_distinct": (
        "array_distinct(ia)",
        "array_distinct(arr)",
    ),
    "array_except": (
        "array_except(ia, array(1))",
        "array_except(arr, array('a'))",
    ),
    "array_intersect": (
        "array_intersect(arr, array('a', 'k'))",
        "array_intersect(ia, array(1, 2))",
    ),
    "array_join": (
        "array_join(arr, ',')",
        "array_join(arr, y)",
        "array_join(arr, ',', 'nil')",
        "array_join(arr, ',', cast(NULL as string))",
        "array_join(array_except(arr, arr), ',')",
        "array_join(array_except(arr, arr), ',', 'nil')",
    ),
    "array_max": (
        "array_max(ia)",
        "array_max(arr)",
    ),
    "array_min": (
        "array_min(ia)",
        "array_min(arr)",
    ),
    "array_remove": (
        "array_remove(ia, 1)",
        "array_remove(arr, 'a')",
    ),
    "array_union": (
        "array_union(arr, array('a', 'q'))",
        "array_union(ia, array(1, 9))",
    ),
    "ascii": (
        "ascii(s)",
        "ascii(y)",
    ),
    "asin": ("asin(d)",),
    "atan": (
        "atan(n)",
        "atan(d)",
    ),
    "base64": (
        "base64(cast(s as binary))",
        "base64(cast(repeat('x', 100) as binary))",
        "base64(cast(concat(s, repeat(y, 60)) as binary))",
    ),
    "bigint": (
        "bigint(k)",
        "bigint(de)",
        "bigint(concat(n, ''))",
        "bigint(' 7 ')",
    ),
    "bin": (
        "bin(n)",
        "bin(b)",
    ),
    "bround": (
        "bround(de)",
        "bround(de, 1)",
        "bround(d, 1)",
        "bround(n)",
    ),
    "cast": (
        "cast(de as int)",
        "cast(bo as int)",
        "cast('12' as int)",
        "cast(n as string)",
        "cast(de as string)",
        "cast(dt as string)",
        "cast(ts as string)",
        "cast(ts as date)",
        "cast(dt as timestamp)",
        "cast(n as decimal(12,2))",
        "cast(de * 1.10 as decimal(12,2))",
        "cast(n as bigint)",
        "cast(1.50 as string)",
        "cast(dtx as date)",
    ),
    "cbrt": (
        "cbrt(n)",
        "cbrt(d)",
    ),
    "ceil": (
        "ceil(de)",
        "ceil(d)",
        "ceil(f)",
    ),
    "ceiling": ("ceiling(n)",),
    "char_length": (
        "char_length(s)",
        "char_length(c)",
    ),
    "character_length": ("character_length(v)",),
    "chr": (
        "chr(n)",
        "chr(65)",
        "chr(k)",
    ),
    "coalesce": (
        "coalesce(n, k, 0)",
        "coalesce(s, 'x')",
        "coalesce(dt, date '2020-01-01')",
        "coalesce(de, 0)",
        "coalesce(size(arr), -1)",
        "coalesce(size(arr), -9)",
        "coalesce(size(m) + 1, -9)",
        "coalesce(regexp_extract(s, 'a(x)?', 1), 'q')",
        "coalesce(array_contains(arr, 'a'), false)",
        "coalesce(array_contains(ia, n), false)",
        "coalesce(de, 0.00)",
        "coalesce(substr(s, n), replace(y, '', 'x'))",
        "coalesce(map_keys(m), array())",
    ),
    "concat": (
        "concat(s, y)",
        "concat(s, v, c)",
        "concat(s, n)",
        "concat(dt, 'x')",
        "concat(s, '-', b)",
        "concat(1.50, s)",
        "concat(1.50BD, s)",
        "s like concat(y, '%')",
        "s like case when n = 3 then 'a%' else '%' end",
        "concat(s, '%d') like concat(s, '\\\\%d')",
        "concat(110.00BD * 1.0BD, s)",
        "concat(n * 1.10, '')",
    ),
    "concat_ws": (
        "concat_ws(',', arr)",
        "concat_ws(',', arr, s)",
        "concat_ws(',', s, y, v)",
        "concat_ws(',', s, c)",
        "concat_ws(y, s, v)",
        "concat_ws(y, arr, s)",
        "concat_ws(',', sort_array(arr))",
        "concat_ws('|', s, cast(n as string), cast(dt as string))",
    ),
    "conv": (
        "conv(n, 10, 16)",
        "conv('ff', 16, 10)",
        "conv(n, 10, 36)",
        "conv(n, 2, 10)",
        "conv(n, 36, 2)",
        "conv(k, 10, 2)",
        "conv(n, 10, -2)",
        "conv(k, 16, -36)",
    ),
    "cos": (
        "cos(n)",
        "cos(d)",
    ),
    "crc32": (
        "crc32(s)",
        "crc32(v)",
    ),
    "current_date": ("current_date() > date '2020-01-01'",),
    "current_timestamp": ("current_timestamp() > timestamp '2020-01-01 00:00:00'",),
    "date": ("date(dtx)",),
    "date_add": (
        "date_add(dt, n)",
        "date_add(dt, 1)",
        "date_add(ts, 1)",
        "date_add(dt, si)",
        "date_add(dtx, 1)",
    ),
    "date_format": (
        "date_format(dt, 'yyyy-MM-dd')",
        "date_format(dt, 'yyyyMMdd')",
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss')",
        "date_format(ts, 'yyyyMMddHH')",
        "date_format(ts, 'HH:mm:ss.SSS')",
        "date_format(dt, 'E')",
        "date_format(dt, 'EEEE')",
        "date_format(dt, 'MMM')",
        "date_format(dt, 'MMMM d, yyyy')",
        "date_format(dt, 'Q')",
        "date_format(dt, 'D')",
        "date_format(ts, 'a hh')",
        "date_format(ts, 'yyyy')",
        "date_format(dt, 'dd/MM/yyyy')",
        "date_format(dtx, 'yyyy-MM')",
    ),
    "date_sub": (
        "date_sub(dt, 1)",
        "date_sub(dt, k)",
        "date_sub(dtx, k)",
    ),
    "datediff": (
        "datediff(dt, date '2020-01-01')",
        "datediff(ts, dt)",
        "datediff('2020-03-01', dt)",
    ),
    "day": (
        "day(dt)",
        "day(ts)",
    ),
    "dayofmonth": ("dayofmonth(dt)",),
    "dayofweek": (
        "dayofweek(dt)",
        "dayofweek(ts)",
    ),
    "decode": ("decode(cast(s as binary), 'UTF-8')",),
    "degrees": (
        "degrees(n)",
        "degrees(d)",
    ),
    "double": ("double(k)",),
    "e": ("e()",),
    "elt": ("elt(1, s, y)",),
    "encode": ("encode(s, 'UTF-8')",),
    "exp": (
        "exp(n)",
        "exp(de)",
        "exp(1)",
    ),
    "extract": (
        "extract(year from dt)",
        "extract(month from ts)",
        "extract(day from dt)",
        "extract(hour from ts)",
        "extract(minute from ts)",
        "extract(quarter from dt)",
        "extract(week from dt)",
        "extract(dayofweek from dt)",
    ),
    "factorial": (
        "factorial(n)",
        "factorial(k)",
    ),
    "find_in_set": (
        "find_in_set(y, s)",
        "find_in_set('b', 'a,b,c')",
    ),
    "float": ("float(k)",),
    "floor": (
        "floor(de)",
        "floor(d)",
        "floor(n)",
        "floor(f)",
    ),
    "format_number": (
        "format_number(de, 2)",
        "format_number(d, 1)",
        "format_number(n, 0)",
    ),
    "from_unixtime": (
        "from_unixtime(n)",
        "from_unixtime(1600000000)",
        "from_unixtime(1600000000, 'yyyy-MM-dd')",
        "from_unixtime(n, 'yyyyMMdd HH:mm')",
        "from_unixtime(unix_timestamp(dt))",
    ),
    "from_utc_timestamp": (
        "from_utc_timestamp(dt, 'Europe/Berlin')",
        "from_utc_timestamp(ts, 'America/New_York')",
        "from_utc_timestamp(ts, 'GMT+3')",
        "from_utc_timestamp(ts, 'PST')",
        "from_utc_timestamp(dt, 'Asia/Kolkata')",
    ),
    "get_json_object": (
        "get_json_object(x, jp)",
        "get_json_object(x, '$.a/b')",
        "get_json_object(x, '$.a[-1]')",
        "get_json_object(x, '$.a[*].b')",
        "get_json_object(x, '$.a[*]')",
        "get_json_object(x, '$.a.b')",
        "get_json_object(x, '$.')",
        "get_json_object(x, '$')",
        "get_json_object(x, '$.b.c')",
    ),
    "greatest": (
        "greatest(n, k)",
        "greatest(dt, cast(ts as date))",
        "greatest(n, de)",
        "greatest(d, n)",
        "greatest(d, de)",
        "greatest(n, 5, k)",
        "greatest(b, n, 0)",
        "greatest(n, NULL)",
        "greatest(s, NULL)",
        "greatest(n, k) + 1",
    ),
    "hex": (
        "hex(n)",
        "hex(s)",
        "hex(b)",
    ),
    "hour": (
        "hour(ts)",
        "hour(dt)",
    ),
    "if": (
        "if(n > 1, 'a', 'b')",
        "if(n is null, s, y)",
        "if(bo, n, k)",
        "if(de > 1, 0.10, 0.1)",
    ),
    "initcap": (
        "initcap(s)",
        "initcap(v)",
        "initcap(c)",
        r"initcap('a\tb c')",
        "initcap(concat(s, 'ß éa'))",
        "initcap(y)",
    ),
    "instr": (
        "instr(s, y)",
        "instr(s, nullif(y, ''))",
        "instr(s, 'b')",
        "instr(v, 'abc')",
        "instr(c, ' ')",
        "instr('', y)",
        "instr(y, y)",
        "instr(s, s)",
        "instr(v, '')",
    ),
    "int": (
        "int(k)",
        "int(concat(n, ''))",
        "int(bo)",
    ),
    "isnotnull": ("isnotnull(s)",),
    "isnull": ("isnull(n)",),
    "last_day": (
        "last_day(dt)",
        "last_day(ts)",
        "last_day(dtx)",
    ),
    "lcase": ("lcase(s)",),
    "least": (
        "least(s, y)",
        "least(de, 1.5)",
        "least(d, n, k)",
        "least(de, 1.50)",
    ),
    "length": (
        "length(s)",
        "length(c)",
        "length(v)",
        "length(cast(s as binary))",
        "length(uuid())",
    ),
    "levenshtein": (
        "levenshtein(s, y)",
        "levenshtein(s, 'abc')",
    ),
    "ln": (
        "ln(n)",
        "ln(de)",
        "ln(d)",
    ),
    "locate": (
        "locate(y, s)",
        "locate(y, s, k)",
        "locate('b', s, n)",
        "locate('b', s)",
        "locate('b', s, 2)",
        "locate(y, s, 1)",
        "locate(y, s, 5)",
        "locate('', s, 2)",
        "locate('', '', 1)",
        "locate('', '', 2)",
    ),
    "log": (
        "log(2, n)",
        "log(2, d)",
        "log(10, de)",
        "log(n)",
        "log(10, n)",
        "log(2, de)",
    ),
    "log10": (
        "log10(n)",
        "log10(d)",
    ),
    "log2": (
        "log2(n)",
        "log2(de)",
    ),
    "lower": (
        "lower(s)",
        "lower(v)",
        "lower(trim(c))",
    ),
    "lpad": (
        "lpad(s, 10, y)",
        "lpad(s, 3, '')",
        "lpad(n, 5, '0')",
        "lpad(c, 8, y)",
        "lpad(s, 5, '0')",
        "lpad(v, 10, 'xy')",
        "lpad(c, 3, 'x')",
        "lpad(k, 3, '0')",
        "lpad(s, 0, 'x')",
        "lpad(s, 10, nullif(y, ''))",
    ),
    "ltrim": (
        "ltrim(s)",
        "ltrim(c)",
    ),
    "map": (
        "map('a', n)",
        "map(coalesce(s, 'k'), n)",
    ),
    "map_keys": ("map_keys(m)",),
    "map_values": ("map_values(m)",),
    "mask": (
        "mask(s)",
        "mask(v)",
    ),
    "md5": (
        "md5(s)",
        "md5(v)",
        "md5(cast(s as binary))",
    ),
    "minute": ("minute(ts)",),
    "mod": (
        "mod(n, 3)",
        "mod(n, k)",
    ),
    "month": (
        "month(dt)",
        "month(ts)",
        "month(dtx)",
    ),
    "months_between": (
        "months_between(ts, dt)",
        "months_between(dt, date '2020-02-29')",
        "months_between(dt, dtx)",
    ),
    "named_struct": ("named_struct('a', n, 'b', s)",),
    "negative": (
        "negative(n)",
        "negative(de)",
    ),
    "next_day": (
        "next_day(dt, 'MO')",
        "next_day(dt, 'friday')",
        "next_day(dtx, 'TU')",
    ),
    "nullif": (
        "nullif(n, 3)",
        "nullif(s, '')",
        "nullif(de, 0)",
        "nullif(s, y)",
    ),
    "nvl": (
        "nvl(n, 0)",
        "nvl(s, y)",
        "nvl(size(m), -1)",
        "nvl(size(m), -9)",
        "nvl(array_contains(arr, 'zz') or bo, true)",
    ),
    "octet_length": (
        "octet_length(s)",
        "octet_length(v)",
    ),
    "operators": (
        "s rlike nullif(y, '')",
        "(n % k + k) % k",
        "dt + interval '1' month",
        "dt - interval '1' year",
        "de / 1.10",
        "de / 1.1",
        "de * 1.10",
        "de * 1.00",
        "de + 1.10",
        "de - 0.50",
        "de % 1.50",
        "n * 1.10",
        "n / 2.50",
        "b / 4.0",
        "d * 1.10",
        "de / 2",
        "de / 2.0",
        "de * b",
        "de * 0",
        "de * 100.0",
        "de / 100.00",
        "de > 1.50",
        "de = 1.50",
        "case when de > 1.00 then 0.50 else 1.0 end",
        "de * (1 - 0.10)",
        "de * -1.10",
        "de between 0.50 and 10.00",
        "(de + 1.10) / 3",
        "s rlike '^[a-z]+$'",
        "ts + interval '2' hour",
        "1.00 / 7.000",
    ),
    "parse_url": (
        "parse_url('http://a.b/c?d=e#f', 'HOST')",
        "parse_url('http://a.b/c?d=e#f', 'QUERY', 'd')",
    ),
    "pi": ("pi()",),
    "pmod": (
        "pmod(b, 7)",
        "pmod(n, 3)",
        "pmod(de, 3)",
        "pmod(datediff(dt, date '1900-01-07'), 7)",
        "pmod(n, 10)",
        "pmod(n, k)",
        "pmod(n, -3)",
        "pmod(b, k)",
        "pmod(de, k)",
        "pmod(d, -3)",
        "pmod(si, k)",
    ),
    "positive": ("positive(n)",),
    "pow": ("pow(n, 2)",),
    "power": (
        "power(d, 2)",
        "power(de, 0.5)",
        "power(2, n)",
    ),
    "printf": (
        "printf('%s %s', s, dt)",
        "printf('%s', de)",
        "printf('%d|%s', n, v)",
        "printf('%.2f', d)",
        "printf('%s %s', f, bo)",
        "printf('%05d', b)",
        "printf('%s-%s', s, dt)",
        "printf('%5.2f', d)",
        "printf(concat('%s', 'x'), n)",
    ),
    "quarter": (
        "quarter(dt)",
        "quarter(ts)",
        "quarter(dtx)",
    ),
    "radians": (
        "radians(n)",
        "radians(d)",
    ),
    "rand": ("rand() < 2",),
    "regexp_extract": (
        "regexp_extract(s, '(a)(z)?', 2)",
        "regexp_extract(s, '([0-9])|(a)', 1)",
        "regexp_extract(s, '(z)?', 0)",
        "regexp_extract(s, '([a-z]+)', 1)",
        "regexp_extract(s, '([0-9]+)', 1)",
        "regexp_extract(s, 'b(.)', 0)",
        "regexp_extract(s, '^(.*?),', 1)",
        "regexp_extract(s, y, 0)",
        "regexp_extract(s, nullif(y, ''), 0)",
        "regexp_extract(s, '(a)|(b)', 2)",
    ),
    "regexp_replace": (
        "regexp_replace(s, '[^0-9]', '')",
        "regexp_replace(s, 'a', '$0$0')",
        "regexp_replace(s, y, 'q')",
        r"regexp_replace(s, '\\s+', ' ')",
        "regexp_replace(s, '(a)(b)', '$2$1')",
    ),
    "repeat": (
        "repeat(s, 2)",
        "repeat(s, n % 4)",
        "repeat(s, -1)",
    ),
    "replace": (
        "replace(s, y, 'q')",
        "replace(s, '', 'q')",
        "replace(v, y, s)",
        "replace(c, y, 'q')",
        "replace(s, 'b', '-')",
        "replace(s, 'abc', '')",
        "replace(v, ',', y)",
    ),
    "reverse": (
        "reverse(s)",
        "reverse(v)",
        "reverse(c)",
    ),
    "round": (
        "round(de)",
        "round(de, 1)",
        "round(d, 2)",
        "round(n, -1)",
        "round(f, 1)",
        "round(2.5)",
        "round(b, -2)",
    ),
    "rpad": (
        "rpad(s, 10, y)",
        "rpad(s, 3, '')",
        "rpad(s, 5, 'x')",
        "rpad(v, 10, ' ')",
        "rpad(k, 3, 'x')",
        "rpad(v, 10, y)",
    ),
    "rtrim": (
        "rtrim(s)",
        "rtrim(c)",
    ),
    "second": ("second(ts)",),
    "sha": ("sha(s)",),
    "sha1": (
        "sha1(s)",
        "sha1(v)",
    ),
    "sha2": (
        "sha2(s, 256)",
        "sha2(s, 512)",
        "sha2(s, 224)",
        "sha2(y, 384)",
        "sha2(v, 0)",
    ),
    "shiftleft": (
        "shiftleft(n, 1)",
        "shiftleft(b, 3)",
    ),
    "shiftright": ("shiftright(n, 1)",),
    "shiftrightunsigned": ("shiftrightunsigned(n, 1)",),
    "sign": (
        "sign(n)",
        "sign(de)",
        "sign(d)",
    ),
    "sin": (
        "sin(n)",
        "sin(d)",
    ),
    "size": (
        "size(arr)",
        "size(m)",
        "size(split(s, ','))",
        "size(map('a', 1))",
    ),
    "smallint": (
        "smallint(k)",
        "smallint(concat(k, ''))",
    ),
    "sort_array": (
        "sort_array(ia)",
        "sort_array(arr)",
    ),
    "soundex": (
        "soundex(s)",
        "soundex(v)",
    ),
    "space": (
        "space(2)",
        "space(k)",
    ),
    "split": (
        "split(s, ',')[0]",
        "split(c, ' ')",
        "split(s, y)",
        "split(v, y)",
        "split(s, 'x*')",
        "split(s, concat(y, '|'))",
        "split(s, ',')",
        r"split(s, '\\|')",
        "split(v, 'b')",
    ),
    "sqrt": (
        "sqrt(n)",
        "sqrt(d)",
        "sqrt(de)",
    ),
    "str_to_map": (
        "str_to_map(s)",
        "str_to_map(s, ',', ':')",
        "str_to_map(s, ',')",
        "str_to_map(s)['a']",
    ),
    "string": ("string(k)",),
    "struct": ("struct(n, s)",),
    "substr": (
        "substr(s, n)",
        "substr(s, length(s) - 5)",
        "substr('abc', n)",
        "substr(s, n, k)",
        "substr(v, n)",
        "substr(c, n)",
        "substr(dt, n)",
        "substr(s, -2)",
        "substr(s, -2, 1)",
        "substr(c, -2)",
        "substr(b, -2)",
        "substr(cast(s as binary), n)",
        "substr(s, 2)",
        "substr(s, 1, 3)",
        "substr(s, 0, 2)",
        "substr(s, 1, n)",
        "substr(s, 2, k)",
        "substr(s, 1, length(s) - 1)",
        "substr(dt, 1, 7)",
        "substr(ts, 1, 10)",
        "substr(n, 1, 1)",
        "substr(de, 1, 2)",
        "substr(c, 1, 3)",
        "substr(s, 1, 0)",
        "substr(concat(s, 'x'), 2)",
        "substr(s, -3, 2)",
        "substr(y, -2, nullif(n, n))",
        "substr(dt, -2)",
        "substr(cast(s as binary), -2)",
        "substr(ts, -4)",
        "substr(s, length(s) - 2)",
    ),
    "substring": (
        "substring(v, 2, 2)",
        "substring(s, 100)",
        "substring(v, n, k)",
    ),
    "substring_index": (
        "substring_index(s, ',', 2)",
        "substring_index('', y, n)",
        "substring_index(y, ',', nullif(n, n))",
        "substring_index(s, ',', -1)",
        "substring_index(s, y, n)",
    ),
    "tan": (
        "tan(n)",
        "tan(d)",
    ),
    "timestamp": ("timestamp(dtx)",),
    "tinyint": (
        "tinyint(k % 10)",
        "tinyint(concat(n, ''))",
    ),
    "to_date": (
        "to_date(ts)",
        "to_date(dt)",
        "to_date('2020-01-31 10:00:00')",
        "to_date(from_unixtime(1600000000))",
        "to_date(dtx)",
    ),
    "to_unix_timestamp": ("to_unix_timestamp(ts)",),
    "to_utc_timestamp": ("to_utc_timestamp(ts, 'Europe/Berlin')",),
    "translate": (
        "translate(s, 'abc', 'xy')",
        "translate(s, y, 'q')",
        "translate(v, 'a', '')",
    ),
    "trim": (
        "trim(s)",
        "trim(v)",
        "trim(c)",
        "trim(concat(' ', s, ' '))",
    ),
    "trunc": (
        "trunc(ts, 'MM')",
        "trunc(ts, 'QUARTER')",
        "trunc(ts, 'YYYY')",
        "trunc(dtx, 'MON')",
        "trunc(dtx, 'YEAR')",
    ),
    "ucase": ("ucase(s)",),
    "unbase64": ("unbase64(base64(cast(s as binary)))",),
    "unhex": (
        "unhex(hex(s))",
        "unhex('4D')",
    ),
    "unix_timestamp": (
        "unix_timestamp(ts)",
        "unix_timestamp(dt)",
        "unix_timestamp('2020-01-31 00:00:00')",
        "unix_timestamp('2020/01/31', 'yyyy/MM/dd')",
        "unix_timestamp() > 0",
    ),
    "upper": (
        "upper(s)",
        "upper(v)",
        "upper(substr(initcap(s), n))",
        "upper(concat(c, '|'))",
    ),
    "weekofyear": (
        "weekofyear(dt)",
        "weekofyear(ts)",
        "weekofyear(dtx)",
    ),
    "width_bucket": (
        "width_bucket(n, 0, 10, 5)",
        "width_bucket(cast(de as double), 0, 100, 4)",
        "width_bucket(d, 0.1, 3.3, 10)",
        "width_bucket(f, 0.1, 3.3, 10)",
        "width_bucket(k, 5, -5, 3)",
    ),
    "xpath_boolean": ("xpath_boolean('<a><b>1</b></a>', 'a/b')",),
    "xpath_double": ("xpath_double('<a><b>1.5</b></a>', 'sum(a/b)')",),
    "xpath_float": ("xpath_float('<a><b>1.5</b></a>', 'a/b')",),
    "xpath_int": ("xpath_int('<a><b>1</b></a>', 'a/b')",),
    "xpath_long": ("xpath_long('<a><b>1</b></a>', 'a/b')",),
    "xpath_number": ("xpath_number('<a><b>1</b></a>', 'a/b')",),
    "xpath_short": ("xpath_short('<a><b>1</b></a>', 'a/b')",),
    "xpath_string": (
        "xpath_string('<a><b>1</b></a>', 'a/b')",
        "xpath_string(concat('<a>', n, '</a>'), 'a')",
    ),
    "year": (
        "year(dt)",
        "year(ts)",
        "year('2020-01-31')",
        "year(dtx)",
    ),
}
QUERIES: Final = (
    "SELECT bo, count(*), count(n), count(DISTINCT s), sum(n), avg(de), max(v) FROM w GROUP BY bo",
    "SELECT bo, sum(de), sum(b % 1000), avg(n), min(s), max(ts), sum(si) FROM w GROUP BY bo",
    "SELECT bo, stddev_pop(n), stddev_samp(n), var_pop(n), var_samp(n) FROM w GROUP BY bo",
    "SELECT corr(n, k), covar_pop(n, k), covar_samp(n, k), percentile(n, 0.5) FROM w",
    "SELECT bo, sort_array(collect_set(k)), sort_array(collect_list(k)) FROM w GROUP BY bo",
    "SELECT bo, concat_ws(',', sort_array(collect_set(y))) FROM w GROUP BY bo",
    "SELECT greatest(n, k), count(*) FROM w GROUP BY greatest(n, k)",
    "SELECT substr(s, n), count(*) FROM w GROUP BY substr(s, n)",
    "SELECT max(greatest(n, k)), min(least(s, y)), max(pmod(n, -3)) FROM w",
    "SELECT bo, k, sum(n), grouping(bo), grouping(k) FROM w GROUP BY bo, k WITH ROLLUP",
    (
        "SELECT id, row_number() OVER (ORDER BY id NULLS LAST),"
        " rank() OVER (ORDER BY bo NULLS LAST),"
        " dense_rank() OVER (ORDER BY bo NULLS LAST), ntile(3) OVER (ORDER BY id NULLS LAST) FROM w"
    ),
    (
        "SELECT id, percent_rank() OVER (ORDER BY bo NULLS LAST),"
        " cume_dist() OVER (ORDER BY bo NULLS LAST), sum(n) OVER (PARTITION BY bo) FROM w"
    ),
    (
        "SELECT id, lag(n) OVER (ORDER BY id NULLS LAST),"
        " lag(n, 2, 0) OVER (ORDER BY id NULLS LAST),"
        " lead(s, 1) OVER (ORDER BY id NULLS LAST) FROM w"
    ),
    (
        "SELECT id, first_value(n) OVER (PARTITION BY bo ORDER BY id NULLS LAST),"
        " last_value(n) OVER (PARTITION BY bo ORDER BY id NULLS LAST) FROM w"
    ),
    "SELECT w.id, a FROM w LATERAL VIEW explode(w.arr) x AS a",
    "SELECT w.id, p, a FROM w LATERAL VIEW posexplode(w.ia) x AS p, a",
    "SELECT w.id, k1, v1 FROM w LATERAL VIEW OUTER explode(w.m) x AS k1, v1",
    "SELECT w.id, a1, b1 FROM w LATERAL VIEW inline(array(w.st)) x AS a1, b1",
    "SELECT w.id, c1 FROM w LATERAL VIEW stack(2, w.n, w.k) x AS c1",
    "SELECT w.id, j1, j2 FROM w LATERAL VIEW json_tuple(w.x, 'a', 'b') x AS j1, j2",
    "SELECT id FROM w WHERE substr(s, length(s) - 1) = 'bc' OR greatest(n, k) > 5",
    "SELECT a.id, b.id FROM w a JOIN w b ON substr(a.s, a.n) = substr(b.s, b.n)",
    "SELECT cast(si AS int), count(*) FROM w GROUP BY cast(si AS int) HAVING max(si) > 0",
    (
        "SELECT a.id FROM w a WHERE EXISTS (SELECT 1 FROM w b WHERE b.id = cast(a.si AS int)"
        " AND substr(b.s, b.n) <> substr(a.s, a.n))"
    ),
    "SELECT a.id FROM w a WHERE a.id IN (SELECT greatest(b.n, 1) FROM w b WHERE b.n > 0)",
    "SELECT a.id, b.id FROM w a JOIN w b ON a.id = cast(b.si AS int)",
    "SELECT de / 1.10, 1.00 / 7.000, de * 1.50 / 3.0 FROM w",
)
