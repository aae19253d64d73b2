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
