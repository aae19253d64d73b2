-- Expressions, one a line, that have the same values in Hive.
'a' 'b' || s
concat('it\'s', "d\"q", 'a\Z\%\_\u00e9\101\q')
concat_ws(',', arr, s, cast(NULL AS string))
(i + 1) || 'x'
i / 2
i DIV 2
-i % 2
-7 % i
pmod(-7, 3)
d * d + 1
d / i
1.5 + i
i & 1 + 2
5 | i & 1
~i
s > 9
s = 2
i = 3.0
i <=> n
n <=> NULL
i IS DISTINCT FROM n
n IN (1, NULL)
i NOT IN (2, NULL)
i BETWEEN 2 AND 3 AND NOT b = false
NOT b OR n IS NULL
s LIKE '0_' AND 'x%' LIKE 'x\\%' AND 'a\nb' LIKE 'a%b'
s RLIKE '^[0-9]+$'
CASE WHEN n = 1 THEN 'a' WHEN s = '02' THEN 'b' END
CASE i WHEN 1 THEN 'a' ELSE v END
if(n = 1, 1, 2)
coalesce(n, i)
nvl(n, 0)
nullif(i, 3)
coalesce(size(nul), -1)
coalesce(array_contains(nul, 'x'), false)
m['k'] + st.a
arr[1]
substr(v, length(v) - 1)
substr(v, 0, 2)
substring(v, 2)
upper(trim(concat(' ', v)))
lpad(s, 4, '0')
regexp_replace(v, '[ab]', '-')
regexp_extract(v, '(b)(c)', 2)
split('a,b,,', ',')[3]
instr(v, 'c')
locate('b', v)
initcap('a b-c d')
translate(v, 'ab', 'x')
substring_index('a.b.c', '.', 2)
format_number(1234.5, 1)
md5(v)
sha2(v, 256)
crc32(v)
hex(255)
hex(v)
conv('ff', 16, 10)
round(2.5)
round(-2.5)
round(2.675D, 2)
bround(2.5)
floor(-1.5)
ceil(d)
power(2, 3)
ln(-1)
cast(' 12 ' AS int)
cast(s AS int)
cast(1.005 AS decimal(3,2))
cast(d AS int)
cast('2020-01-01' AS timestamp)
cast(dt AS string)
cast(ts AS string)
to_date('2020-01-31 10:00:00')
datediff('2020-03-01', '2020-02-28')
date_add(dt, 1)
dt + INTERVAL '1' MONTH
ts + INTERVAL '1' DAY
last_day(dt)
next_day(dt, 'MO')
months_between('2020-02-29', '2020-01-31')
trunc('2020-02-29', 'MM')
year(dt)
weekofyear(dt)
dayofweek(dt)
extract(month FROM dt)
hour(ts)
date_format(dt, 'EEEE yyyy-MM-dd')
dt < '2020-02-01'
ts = cast('2020-01-01 10:20:30' AS timestamp)
'a' < 'B'
get_json_object('{"a":{"b":1}}', '$.a.b')
get_json_object('{"a":[{"b":"x"}]}', '$.a[*]')
coalesce(map_keys(if(n = 1, m, NULL)), array())
coalesce(regexp_extract(v, '(a)(z)?', 2), '')
nullif(regexp_extract(v, 'q|(z)', 1), '')
coalesce(str_to_map(cast(n AS string)), map())['x']
array_join(array('b', 'a', cast(n AS string)), ',')
concat_ws(',', split(v, 'b'), s)
trunc(dt, 'QUARTER')
from_utc_timestamp(ts, 'America/New_York')
atan(i)
v LIKE ANY ('x', 'a%')
get_json_object('{"a":[{"b":"x"}]}', '$.a[*].b')
d / 1.10
concat(1.50, v)
sqrt(-1D)
greatest(1, n)
least(1, n)
size(nul)
array_contains(nul, 'x')
array_contains(array(1, n), 2)
add_months('2015-02-28', 1)
substr(v, -5)
pmod(7, -3)
ascii('é')
rpad(v, 5, '')
lpad(v, 5, '')
split(v, '')
replace(v, '', '-')
instr(substr(v, 9), '')
regexp_extract(v, '(a)(z)?', 2)
concat_ws('-', array('a', cast(NULL AS string)))
map_keys(if(n = 1, m, NULL))
map_values(if(n = 1, m, NULL))
size(str_to_map(cast(n AS string)))
asin(2D)
acos(2D)
soundex(s)
