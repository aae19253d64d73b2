-- Calls over the rows of rows.sql, one a line, grouped by function.

abs(n)
abs(de)
abs(d)
abs(-3)
abs(f)

acos(n)
acos(de)

add_months(dt, n)
add_months(dt, 1)
add_months(dt, -1)
add_months(dt, si)
add_months(ts, 1)
add_months('2015-02-28', n)
add_months(dt, k)
add_months(dtx, 1)
add_months(ts, k)
add_months(date '2015-02-28', n)

array(n, k)
array('a', s)

array_contains(arr, s)
array_contains(arr, 'a')
array_contains(ia, 1)
array_contains(ia, n)
array_contains(arr, y)

array_distinct(ia)
array_distinct(arr)

array_except(ia, array(1))
array_except(arr, array('a'))

array_intersect(arr, array('a', 'k'))
array_intersect(ia, array(1, 2))

array_join(arr, ',')
array_join(arr, y)
array_join(arr, ',', 'nil')
array_join(arr, ',', cast(NULL as string))
array_join(array_except(arr, arr), ',')
array_join(array_except(arr, arr), ',', 'nil')

array_max(ia)
array_max(arr)

array_min(ia)
array_min(arr)

array_remove(ia, 1)
array_remove(array_intersect(ia, array(77)), cast(NULL AS int))
array_remove(array_intersect(ia, array(77)), n)
array_remove(arr, 'a')

array_union(arr, array('a', 'q'))
array_union(ia, array(1, 9))

ascii(s)
ascii(y)

asin(d)

atan(n)
atan(d)

base64(cast(s as binary))
base64(cast(repeat('x', 100) as binary))
base64(cast(concat(s, repeat(y, 60)) as binary))

bigint(k)
bigint(de)
bigint(concat(n, ''))
bigint(' 7 ')

bin(n)
bin(b)

bround(de)
bround(de, 1)
bround(d, 1)
bround(n)

cast(de as int)
cast(bo as int)
cast('12' as int)
cast(n as string)
cast(de as string)
cast(dt as string)
cast(ts as string)
cast(ts as date)
cast(dt as timestamp)
cast(n as decimal(12,2))
cast(de * 1.10 as decimal(12,2))
cast(n as bigint)
cast(1.50 as string)
cast(dtx as date)

cbrt(n)
cbrt(d)

ceil(de)
ceil(d)
ceil(f)

ceiling(n)

char_length(s)
char_length(c)

character_length(v)

chr(n)
chr(65)
chr(k)
chr(-1)
chr(0)
chr(255)
chr(256)
chr(321)
chr(65535)
chr(65601)
chr(2147483647)
chr(9223372036854775807)
chr(n * 100)
chr(k + 250)
chr(-k)

coalesce(n, k, 0)
coalesce(s, 'x')
coalesce(dt, date '2020-01-01')
coalesce(de, 0)
coalesce(size(arr), -1)
coalesce(size(arr), -9)
coalesce(size(m) + 1, -9)
coalesce(regexp_extract(s, 'a(x)?', 1), 'q')
coalesce(array_contains(arr, 'a'), false)
coalesce(array_contains(ia, n), false)
coalesce(de, 0.00)
coalesce(substr(s, n), replace(y, '', 'x'))
coalesce(map_keys(m), array())

concat(s, y)
concat(s, v, c)
concat(s, n)
concat(dt, 'x')
concat(s, '-', b)
concat(1.50, s)
concat(1.50BD, s)
s like concat(y, '%')
s like case when n = 3 then 'a%' else '%' end
concat(s, '%d') like concat(s, '\\%d')
concat(110.00BD * 1.0BD, s)
concat(n * 1.10, '')

concat_ws(',', arr)
concat_ws(',', arr, s)
concat_ws(',', s, y, v)
concat_ws(',', s, c)
concat_ws(y, s, v)
concat_ws(y, arr, s)
concat_ws(',', sort_array(arr))
concat_ws('|', s, cast(n as string), cast(dt as string))

conv(n, 10, 16)
conv('ff', 16, 10)
conv(n, 10, 36)
conv(n, 2, 10)
conv(n, 36, 2)
conv(k, 10, 2)
conv(n, 10, -2)
conv(k, 16, -36)

cos(n)
cos(d)

crc32(s)
crc32(v)

current_date() > date '2020-01-01'

current_timestamp() > timestamp '2020-01-01 00:00:00'

date(dtx)

date_add(dt, n)
date_add(dt, 1)
date_add(ts, 1)
date_add(dt, si)
date_add(dtx, 1)

date_format(dt, 'yyyy-MM-dd')
date_format(dt, 'yyyyMMdd')
date_format(ts, 'yyyy-MM-dd HH:mm:ss')
date_format(ts, 'yyyyMMddHH')
date_format(ts, 'HH:mm:ss.SSS')
date_format(dt, 'E')
date_format(dt, 'EEEE')
date_format(dt, 'MMM')
date_format(dt, 'MMMM d, yyyy')
date_format(dt, 'Q')
date_format(dt, 'D')
date_format(ts, 'a hh')
date_format(ts, 'yyyy')
date_format(dt, 'dd/MM/yyyy')
date_format(dtx, 'yyyy-MM')

date_sub(dt, 1)
date_sub(dt, k)
date_sub(dtx, k)

datediff(dt, date '2020-01-01')
datediff(ts, dt)
datediff('2020-03-01', dt)

day(dt)
day(ts)

dayofmonth(dt)

dayofweek(dt)
dayofweek(ts)

decode(cast(s as binary), 'UTF-8')

degrees(n)
degrees(d)

double(k)

e()

elt(1, s, y)

encode(s, 'UTF-8')

exp(n)
exp(de)
exp(1)

extract(year from dt)
extract(month from ts)
extract(day from dt)
extract(hour from ts)
extract(minute from ts)
extract(quarter from dt)
extract(week from dt)
extract(dayofweek from dt)

factorial(n)
factorial(k)

find_in_set(y, s)
find_in_set('b', 'a,b,c')

float(k)

floor(de)
floor(d)
floor(n)
floor(f)

format_number(de, 2)
format_number(d, 1)
format_number(n, 0)

from_unixtime(n)
from_unixtime(1600000000)
from_unixtime(1600000000, 'yyyy-MM-dd')
from_unixtime(n, 'yyyyMMdd HH:mm')
from_unixtime(unix_timestamp(dt))

from_utc_timestamp(dt, 'Europe/Berlin')
from_utc_timestamp(ts, 'America/New_York')
from_utc_timestamp(ts, 'GMT+3')
from_utc_timestamp(ts, 'PST')
from_utc_timestamp(dt, 'Asia/Kolkata')

get_json_object(x, jp)
get_json_object(x, '$.a/b')
get_json_object(x, '$.a[-1]')
get_json_object(x, '$.a[*].b')
get_json_object(x, '$.a[*]')
get_json_object(x, '$.a.b')
get_json_object(x, '$.')
get_json_object(x, '$')
get_json_object(x, '$.b.c')

greatest(n, k)
greatest(dt, cast(ts as date))
greatest(n, de)
greatest(d, n)
greatest(d, de)
greatest(n, 5, k)
greatest(b, n, 0)
greatest(n, NULL)
greatest(s, NULL)
greatest(n, k) + 1

hex(n)
hex(s)
hex(b)
hex(de)
hex(d)
hex(f)
hex(de * 1.5)

hour(ts)
hour(dt)

if(n > 1, 'a', 'b')
if(n is null, s, y)
if(bo, n, k)
if(de > 1, 0.10, 0.1)

initcap(s)
initcap(v)
initcap(c)
initcap('a\tb c')
initcap(concat(s, 'ß éa'))
initcap(y)

instr(s, y)
instr(s, nullif(y, ''))
instr(s, 'b')
instr(v, 'abc')
instr(c, ' ')
instr('', y)
instr(y, y)
instr(s, s)
instr(v, '')

int(k)
int(concat(n, ''))
int(bo)

isnotnull(s)

isnull(n)

last_day(dt)
last_day(ts)
last_day(dtx)

lcase(s)

least(s, y)
least(de, 1.5)
least(d, n, k)
least(de, 1.50)

length(s)
length(c)
length(v)
length(cast(s as binary))
length(uuid())

levenshtein(s, y)
levenshtein(s, 'abc')

ln(n)
ln(de)
ln(d)

locate(y, s)
locate(y, s, k)
locate('b', s, n)
locate('b', s)
locate('b', s, 2)
locate(y, s, 1)
locate(y, s, 5)
locate('', s, 2)
locate('', '', 1)
locate('', '', 2)

log(2, n)
log(2, d)
log(10, de)
log(n)
log(10, n)
log(2, de)

log10(n)
log10(d)

log2(n)
log2(de)

lower(s)
lower(v)
lower(trim(c))

lpad(s, 10, y)
lpad(s, 3, '')
lpad(n, 5, '0')
lpad(c, 8, y)
lpad(s, 5, '0')
lpad(v, 10, 'xy')
lpad(c, 3, 'x')
lpad(k, 3, '0')
lpad(s, 0, 'x')
lpad(s, 10, nullif(y, ''))

ltrim(s)
ltrim(c)

map('a', n)
map(coalesce(s, 'k'), n)

map_keys(m)

map_values(m)

mask(s)
mask(v)

md5(s)
md5(v)
md5(cast(s as binary))

minute(ts)

mod(n, 3)
mod(n, k)

month(dt)
month(ts)
month(dtx)

months_between(ts, dt)
months_between(dt, date '2020-02-29')
months_between(dt, dtx)

named_struct('a', n, 'b', s)

negative(n)
negative(de)

next_day(dt, 'MO')
next_day(dt, 'friday')
next_day(dtx, 'TU')

nullif(n, 3)
nullif(s, '')
nullif(de, 0)
nullif(s, y)

nvl(n, 0)
nvl(s, y)
nvl(size(m), -1)
nvl(size(m), -9)
nvl(array_contains(arr, 'zz') or bo, true)

octet_length(s)
octet_length(v)

-- operators
s rlike nullif(y, '')
(n % k + k) % k
dt + interval '1' month
dt - interval '1' year
de / 1.10
de / 1.1
de * 1.10
de * 1.00
de + 1.10
de - 0.50
de % 1.50
n * 1.10
n / 2.50
b / 4.0
d * 1.10
de / 2
de / 2.0
de * b
de * 0
de * 100.0
de / 100.00
de > 1.50
de = 1.50
case when de > 1.00 then 0.50 else 1.0 end
de * (1 - 0.10)
de * -1.10
de between 0.50 and 10.00
(de + 1.10) / 3
s rlike '^[a-z]+$'
ts + interval '2' hour
1.00 / 7.000

parse_url('http://a.b/c?d=e#f', 'HOST')
parse_url('http://a.b/c?d=e#f', 'QUERY', 'd')

pi()

pmod(b, 7)
pmod(n, 3)
pmod(de, 3)
pmod(datediff(dt, date '1900-01-07'), 7)
pmod(n, 10)
pmod(n, k)
pmod(n, -3)
pmod(b, k)
pmod(de, k)
pmod(d, -3)
pmod(si, k)

positive(n)

pow(n, 2)

power(d, 2)
power(de, 0.5)
power(2, n)

printf('%s %s', s, dt)
printf('%s', de)
printf('%d|%s', n, v)
printf('%.2f', d)
printf('%s %s', f, bo)
printf('%05d', b)
printf('%s-%s', s, dt)
printf('%5.2f', d)
printf(concat('%s', 'x'), n)

quarter(dt)
quarter(ts)
quarter(dtx)

radians(n)
radians(d)

rand() < 2

regexp_extract(s, '(a)(z)?', 2)
regexp_extract(s, '([0-9])|(a)', 1)
regexp_extract(s, '(z)?', 0)
regexp_extract(s, '([a-z]+)', 1)
regexp_extract(s, '([0-9]+)', 1)
regexp_extract(s, 'b(.)', 0)
regexp_extract(s, '^(.*?),', 1)
regexp_extract(s, y, 0)
regexp_extract(s, nullif(y, ''), 0)
regexp_extract(s, '(a)|(b)', 2)

regexp_replace(s, '[^0-9]', '')
regexp_replace(s, 'a', '$0$0')
regexp_replace(s, y, 'q')
regexp_replace(s, '\\s+', ' ')
regexp_replace(s, '(a)(b)', '$2$1')

repeat(s, 2)
repeat(s, n % 4)
repeat(s, -1)

replace(s, y, 'q')
replace(s, '', 'q')
replace(v, y, s)
replace(c, y, 'q')
replace(s, 'b', '-')
replace(s, 'abc', '')
replace(v, ',', y)

reverse(s)
reverse(v)
reverse(c)

round(de)
round(de, 1)
round(d, 2)
round(n, -1)
round(f, 1)
round(2.5)
round(b, -2)

rpad(s, 10, y)
rpad(s, 3, '')
rpad(s, 5, 'x')
rpad(v, 10, ' ')
rpad(k, 3, 'x')
rpad(v, 10, y)

rtrim(s)
rtrim(c)

second(ts)

sha(s)

sha1(s)
sha1(v)

sha2(s, 256)
sha2(s, 512)
sha2(s, 224)
sha2(y, 384)
sha2(v, 0)

shiftleft(n, 1)
shiftleft(b, 3)

shiftright(n, 1)

shiftrightunsigned(n, 1)

sign(n)
sign(de)
sign(d)

sin(n)
sin(d)

size(arr)
size(m)
size(split(s, ','))
size(map('a', 1))

smallint(k)
smallint(concat(k, ''))

sort_array(ia)
sort_array(arr)

soundex(s)
soundex(v)

space(2)
space(k)

split(s, ',')[0]
split(c, ' ')
split(s, y)
split(v, y)
split(s, 'x*')
split(s, concat(y, '|'))
split(s, ',')
split(s, '\\|')
split(v, 'b')

sqrt(n)
sqrt(d)
sqrt(de)

str_to_map(s)
str_to_map(s, ',', ':')
str_to_map(s, ',')
str_to_map(s)['a']

string(k)

struct(n, s)

substr(s, n)
substr(s, length(s) - 5)
substr('abc', n)
substr(s, n, k)
substr(v, n)
substr(c, n)
substr(dt, n)
substr(s, -2)
substr(s, -2, 1)
substr(c, -2)
substr(b, -2)
substr(cast(s as binary), n)
substr(s, 2)
substr(s, 1, 3)
substr(s, 0, 2)
substr(s, 1, n)
substr(s, 2, k)
substr(s, 1, length(s) - 1)
substr(dt, 1, 7)
substr(ts, 1, 10)
substr(n, 1, 1)
substr(de, 1, 2)
substr(c, 1, 3)
substr(s, 1, 0)
substr(concat(s, 'x'), 2)
substr(s, -3, 2)
substr(y, -2, nullif(n, n))
substr(dt, -2)
substr(cast(s as binary), -2)
substr(ts, -4)
substr(s, length(s) - 2)

substring(v, 2, 2)
substring(s, 100)
substring(v, n, k)

substring_index(s, ',', 2)
substring_index('', y, n)
substring_index(y, ',', nullif(n, n))
substring_index(s, ',', -1)
substring_index(s, y, n)

tan(n)
tan(d)

timestamp(dtx)

tinyint(k % 10)
tinyint(concat(n, ''))

to_date(ts)
to_date(dt)
to_date('2020-01-31 10:00:00')
to_date(from_unixtime(1600000000))
to_date(dtx)

to_unix_timestamp(ts)

to_utc_timestamp(ts, 'Europe/Berlin')

translate(s, 'abc', 'xy')
translate(s, y, 'q')
translate(v, 'a', '')

trim(s)
trim(v)
trim(c)
trim(concat(' ', s, ' '))

trunc(ts, 'MM')
trunc(ts, 'QUARTER')
trunc(ts, 'YYYY')
trunc(dtx, 'MON')
trunc(dtx, 'YEAR')

ucase(s)

unbase64(base64(cast(s as binary)))

unhex(hex(s))
unhex('4D')

unix_timestamp(ts)
unix_timestamp(dt)
unix_timestamp('2020-01-31 00:00:00')
unix_timestamp('2020/01/31', 'yyyy/MM/dd')
unix_timestamp() > 0

upper(s)
upper(v)
upper(substr(initcap(s), n))
upper(concat(c, '|'))

weekofyear(dt)
weekofyear(ts)
weekofyear(dtx)

width_bucket(n, 0, 10, 5)
width_bucket(cast(de as double), 0, 100, 4)
width_bucket(d, 0.1, 3.3, 10)
width_bucket(f, 0.1, 3.3, 10)
width_bucket(k, 5, -5, 3)

xpath_boolean('<a><b>1</b></a>', 'a/b')

xpath_double('<a><b>1.5</b></a>', 'sum(a/b)')

xpath_float('<a><b>1.5</b></a>', 'a/b')

xpath_int('<a><b>1</b></a>', 'a/b')

xpath_long('<a><b>1</b></a>', 'a/b')

xpath_number('<a><b>1</b></a>', 'a/b')

xpath_short('<a><b>1</b></a>', 'a/b')

xpath_string('<a><b>1</b></a>', 'a/b')
xpath_string(concat('<a>', n, '</a>'), 'a')

year(dt)
year(ts)
year('2020-01-31')
year(dtx)
