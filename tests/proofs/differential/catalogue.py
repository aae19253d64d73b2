"""Hive's functions and operators, each with the kinds of its arguments and of its answer.

A line is a piece of SQL with a place `{X}` for each argument. Kinds: I whole number, J small
whole number (lengths, positions, counts), D decimal, F double, f float, N any number, S text,
X text of a number, W text of a time, O JSON, T date, M timestamp, V date or timestamp or text of
one, B boolean, Z binary, a array of numbers, A array of texts, p map, r struct, U zone, Y short
text, P text of a partition; E is one kind for the whole line, C any. A place of the form
`{'a'|'b'}` takes one of these. The product's reader decides what is left out as refused, so a
function that it accepts in future is asked about then.
"""

from __future__ import annotations

from typing import Final

EXPRESSIONS: Final = r"""
({N} + {N}) => N
({I} + {I}) => I
({D} + {D}) => D
({N} - {N}) => N
({I} - {I}) => I
({D} - {D}) => D
({N} * {N}) => N
({I} * {J}) => I
({D} * {D}) => D
({N} / {N}) => N
({D} / {D}) => D
({I} DIV {I}) => I
({N} % {N}) => N
({I} & {I}) => I
({I} | {I}) => I
(~{I}) => I
(-{N}) => N
({S} || {S}) => S
({E} = {E}) => B
({E} <> {E}) => B
({E} < {E}) => B
({E} <= {E}) => B
({E} > {E}) => B
({E} >= {E}) => B
({E} <=> {E}) => B
({N} = {N}) => B
({N} < {N}) => B
({N} >= {N}) => B
({S} = {N}) => B
({T} = {S}) => B
({T} < {M}) => B
({E} BETWEEN {E} AND {E}) => B
({E} NOT BETWEEN {E} AND {E}) => B
({E} IN ({E}, {E})) => B
({E} NOT IN ({E}, {E}, {E})) => B
({E} IS NULL) => B
({E} IS NOT NULL) => B
({E} IS DISTINCT FROM {E}) => B
({E} IS NOT DISTINCT FROM {E}) => B
({B} AND {B}) => B
({B} OR {B}) => B
(NOT {B}) => B
({B} IS TRUE) => B
({B} IS NOT FALSE) => B
({S} LIKE {'a%'|'%b%'|'_b%'|'%'|''|'12'|'a\\_%'}) => B
({S} NOT LIKE {'a%'|'% '|'abc'}) => B
({S} LIKE ANY ('a%', '1%')) => B
({S} RLIKE {'^[0-9]+$'|'b'|'(a|b)c'|'\\s'}) => B
({S} RLIKE {Y}) => B
({S} LIKE {Y}) => B
CASE WHEN {B} THEN {E} ELSE {E} END => E
CASE WHEN {B} THEN {E} END => E
CASE WHEN {B} THEN {N} ELSE {N} END => N
CASE {E} WHEN {E} THEN {I} WHEN {E} THEN {I} ELSE {I} END => I
if({B}, {E}, {E}) => E
if({B}, {N}, {N}) => N
coalesce({E}, {E}) => E
coalesce({N}, {N}) => N
coalesce({S}, {N}) => S
coalesce({E}, {E}, {E}) => E
nvl({E}, {E}) => E
nullif({E}, {E}) => E
nullif({T}, {M}) => V
isnull({C}) => B
isnotnull({C}) => B
istrue({B}) => B
isfalse({B}) => B
isnottrue({B}) => B
isnotfalse({B}) => B
assert_true({B}) => B
cast({N} AS tinyint) => I
cast({N} AS smallint) => I
cast({N} AS int) => I
cast({N} AS bigint) => I
cast({N} AS float) => f
cast({N} AS double) => F
cast({N} AS decimal(10,2)) => D
cast({N} AS decimal(38,10)) => D
cast({N} AS decimal(20,15)) => D
cast({N} AS string) => S
cast({X} AS tinyint) => I
cast({X} AS int) => I
cast({X} AS bigint) => I
cast({X} AS double) => F
cast({X} AS float) => f
cast({X} AS decimal(10,2)) => D
cast({S} AS int) => I
cast({S} AS date) => T
cast({W} AS date) => T
cast({W} AS timestamp) => M
cast({T} AS string) => S
cast({M} AS string) => S
cast({T} AS timestamp) => M
cast({M} AS date) => T
cast({B} AS string) => S
cast({B} AS int) => I
cast({N} AS boolean) => B
cast({S} AS boolean) => B
cast({S} AS binary) => Z
cast({Z} AS string) => S
cast({S} AS varchar(3)) => S
cast({S} AS char(8)) => S
cast({M} AS bigint) => I
cast({M} AS double) => F
cast({I} AS timestamp) => M
cast({T} AS int) => I
date({W}) => T
timestamp({W}) => M
decimal({X}) => D
int({X}) => I
bigint({X}) => I
double({X}) => F
float({X}) => f
string({N}) => S
smallint({N}) => I
tinyint({N}) => I
binary({S}) => Z
abs({N}) => N
acos({F}) => F
asin({F}) => F
atan({F}) => F
bin({I}) => S
bround({N}) => N
bround({D}, {0|1|2|-1}) => D
bround({F}, {0|1|2}) => F
cbrt({F}) => F
ceil({N}) => N
ceiling({D}) => I
conv({X}, 10, {16|2|-10|36}) => S
conv({S}, 16, 10) => S
cos({F}) => F
degrees({F}) => F
e() => F
exp({F}) => F
factorial({J}) => I
floor({N}) => N
greatest({E}, {E}) => E
hex({I}) => S
hex({S}) => S
hex({Z}) => S
least({E}, {E}) => E
ln({N}) => F
log({F}, {N}) => F
log({N}, {N}) => F
log10({N}) => F
log2({N}) => F
log({N}) => F
mod({N}, {N}) => N
negative({N}) => N
pi() => F
pmod({I}, {I}) => I
pmod({N}, {N}) => N
positive({N}) => N
pow({N}, {J}) => F
power({N}, {N}) => F
radians({F}) => F
round({N}) => N
round({D}, {0|1|2|-1|5}) => D
round({F}, {0|1|2|-2}) => F
round({I}, {0|-1|-2}) => I
round({N}, {J}) => N
shiftleft({I}, {J}) => I
shiftright({I}, {J}) => I
shiftrightunsigned({I}, {J}) => I
sign({N}) => N
sin({F}) => F
sqrt({N}) => F
tan({F}) => F
tanh({F}) => F
sinh({F}) => F
cosh({F}) => F
cot({F}) => F
width_bucket({N}, {0|1}, {10|100}, {3|5}) => I
unhex({S}) => Z
rand({0}) => F
ascii({S}) => I
base64({Z}) => S
btrim({S}) => S
char_length({S}) => I
character_length({S}) => I
chr({I}) => S
char({J}) => S
concat({S}, {S}) => S
concat({S}, {N}) => S
concat({C}, {C}, '|') => S
concat({Z}, {Z}) => Z
concat_ws({','|'-'|''}, {S}, {S}) => S
concat_ws({Y}, {S}, {S}) => S
concat_ws(',', {A}) => S
concat_ws(',', {S}, {A}) => S
context_ngrams({A}, {A}, {1}, {1}) => A
decode({Z}, 'UTF-8') => S
encode({S}, {'UTF-8'|'UTF-16BE'|'US-ASCII'}) => Z
elt({J}, {S}, {S}) => S
field({S}, {S}, {S}) => I
field({I}, {I}, {I}) => I
find_in_set({S}, {'a,b'|'abc,,12'}) => I
find_in_set({S}, {S}) => I
format_number({N}, {0|1|2|4}) => S
format_number({N}, '#,###.00') => S
format_number({N}, {J}) => S
get_json_object({O}, {'$.a'|'$.c'|'$.c[0]'|'$.c[1]'|'$.a[0].b'|'$.zz'}) => S
get_json_object({O}, {'$.a.b'|'$.a/b'|'$.c[-1]'|'$'}) => S
get_json_object({O}, {S}) => S
initcap({S}) => S
instr({S}, {'a'|'b'|''}) => I
instr({S}, {Y}) => I
lcase({S}) => S
left({S}, {J}) => S
length({S}) => I
length({Z}) => I
levenshtein({S}, {S}) => I
locate({'a'|'b'|''}, {S}) => I
locate({Y}, {S}) => I
locate({Y}, {S}, {J}) => I
lower({S}) => S
lpad({S}, {J}, {'x'|'ab'|''}) => S
lpad({S}, {J}, {Y}) => S
ltrim({S}) => S
mask({S}) => S
mask_first_n({S}, {2|4}) => S
mask_hash({S}) => S
mask_last_n({S}, {2|4}) => S
mask_show_first_n({S}, {2|4}) => S
mask_show_last_n({S}, {2|4}) => S
octet_length({S}) => I
parse_url({'http://a.b/c?d=e#f'|'http://a_b.c/x'|'mailto:a@b.c'}, {'HOST'|'PATH'|'QUERY'}) => S
parse_url('http://a.b/c?d=e#f', {'REF'|'PROTOCOL'}) => S
parse_url({S}, 'HOST') => S
printf({'%s'|'[%s]'}, {S}) => S
printf('%s', {C}) => S
printf('%d', {I}) => S
printf('%.2f', {F}) => S
quote({S}) => S
regexp_extract({S}, {'(b)(c)?'|'b'|'([0-9]+)'}, {0|1}) => S
regexp_extract({S}, {Y}, 0) => S
regexp_replace({S}, {'[ab]'|'b'|'\\s+'|''}, {'-'|''|'<$0>'}) => S
regexp_replace({S}, {Y}, {Y}) => S
regexp_like({S}, {Y}) => B
regexp({S}, {Y}) => B
rlike({S}, {Y}) => B
repeat({S}, {J}) => S
replace({S}, {'a'|'bc'|''}, {'x'|''}) => S
replace({S}, {Y}, {Y}) => S
reverse({S}) => S
right({S}, {J}) => S
rpad({S}, {J}, {'x'|'ab'|''}) => S
rpad({S}, {J}, {Y}) => S
rtrim({S}) => S
sentences({S}) => C
soundex({S}) => S
space({J}) => S
split({S}, {','|'b'|'\\.'|''}) => A
split({S}, {Y}) => A
str_to_map({S}) => p
str_to_map({S}, ',', {':'|'='}) => p
substr({S}, {J}) => S
substr({S}, {J}, {J}) => S
substr({S}, {length(s) - 3|length(s) - 1|0|1|2|-2}) => S
substr({Z}, {J}, {J}) => Z
substring({S}, {J}) => S
substring({S}, {J}, {J}) => S
substring_index({S}, {','|'b'|' '}, {J}) => S
substring_index({S}, {Y}, {J}) => S
translate({S}, {'ab'|'abc'|''}, {'xy'|'x'|''}) => S
translate({S}, {Y}, {Y}) => S
trim({S}) => S
ucase({S}) => S
unbase64({S}) => Z
upper({S}) => S
tojson({r}) => S
deserialize({S}, 'gzip') => S
crc32({S}) => I
md5({S}) => S
sha({S}) => S
sha1({S}) => S
sha1({Z}) => S
sha2({S}, {0|224|256|384|512}) => S
sha2({S}, {J}) => S
hash({S}) => I
murmur_hash({S}) => I
aes_encrypt({S}, '1234567890123456') => Z
aes_decrypt({Z}, '1234567890123456') => Z
add_months({V}, {J}) => V
add_months({T}, {J}) => T
date_add({V}, {J}) => T
date_sub({V}, {J}) => T
date_add({T}, {J}) => T
date_format({V}, {'yyyy-MM-dd'|'yyyy/MM'|'EEEE'|'HH:mm'|'D'|'u'|'yy'|'MMM'}) => S
date_format({V}, {Y}) => S
datediff({V}, {V}) => I
datediff({T}, {T}) => I
datetime_legacy_hybrid_calendar({T}) => T
day({V}) => I
dayofmonth({V}) => I
dayofweek({V}) => I
extract({YEAR|MONTH|DAY|HOUR|MINUTE|SECOND|QUARTER|WEEK|DAYOFWEEK} FROM {M}) => I
extract({YEAR|MONTH|DAY|WEEK} FROM {T}) => I
from_unixtime({I}) => S
from_unixtime({0|1|86399|1580466030|-1|253402300799}) => S
from_unixtime({0|1|1580466030}, {'yyyy-MM-dd'|'HH:mm:ss'|'D'}) => S
from_utc_timestamp({M}, {'America/New_York'|'Asia/Kolkata'|'UTC'|'EST'}) => M
from_utc_timestamp({M}, {'UTC+3'|'GMT+3'|'+02:00'}) => M
from_utc_timestamp({M}, {U}) => M
to_utc_timestamp({M}, {'America/New_York'|'Asia/Kolkata'|'UTC'|'PST'|'GMT-8'}) => M
to_utc_timestamp({M}, {U}) => M
to_epoch_milli({M}) => I
floor_day({M}) => M
floor_month({M}) => M
hour({V}) => I
last_day({V}) => T
minute({V}) => I
month({V}) => I
months_between({V}, {V}) => F
months_between({T}, {T}, false) => F
next_day({V}, {'MO'|'TUE'|'friday'|'xx'}) => T
next_day({T}, {Y}) => T
quarter({V}) => I
second({V}) => I
to_date({V}) => T
trunc({T}, {'MM'|'YEAR'|'QUARTER'|'mm'|'Month'|'yy'|'Q'}) => T
trunc({M}, {'MM'|'YEAR'|'QUARTER'|'mm'|'year'}) => T
trunc({W}, {'MM'|'YEAR'}) => T
trunc({T}, un) => T
trunc({N}, {0|1|2}) => N
trunc({N}) => N
unix_timestamp({M}) => I
unix_timestamp({T}) => I
unix_timestamp({W}) => I
to_unix_timestamp({T}) => I
unix_timestamp({W}, {'yyyy-MM-dd'|'yyyy-MM-dd HH:mm:ss'}) => I
weekofyear({V}) => I
year({V}) => I
({T} + INTERVAL {'1'|'-1'|'13'} MONTH) => T
({T} - INTERVAL {'1'|'3'} MONTH) => T
({T} + INTERVAL {'1'|'2'} YEAR) => T
({T} + INTERVAL {'1'|'30'} DAY) => V
({M} + INTERVAL {'1'|'13'} MONTH) => M
({M} - INTERVAL {'1'|'36'} HOUR) => M
({M} + INTERVAL {'1'|'59'} MINUTE) => M
({M} + INTERVAL {'1'} DAY) => M
({M} - {M}) => C
({T} - {T}) => C
array({E}, {E})[0] => E
array({I}, {I}) => a
array({S}, {S}) => A
array({D}, {D}) => C
array({F}, {F}) => C
{a}[{0|1|5|-1}] => I
{a}[{J}] => I
{A}[{0|1}] => S
{p}[{'k'|'a'|'zz'}] => I
{r}.a => I
{r}.c => S
array_append({a}, {I}) => a
array_contains({a}, {I}) => B
array_contains({A}, {S}) => B
coalesce(array_contains({a}, {I}), false) => B
array_distinct({a}) => a
array_distinct({A}) => A
array_except({a}, {a}) => a
array_intersect({a}, {a}) => a
array_join({A}, {','|''}) => S
array_join({A}, ',', {'n'|''}) => S
array_max({a}) => I
array_min({a}) => I
array_max({A}) => S
array_position({a}, {I}) => I
array_remove({a}, {I}) => a
array_slice({a}, {J}, {J}) => a
array_union({a}, {a}) => a
array_union({A}, {A}) => A
sort_array({a}) => a
sort_array({A}) => A
sort_array_by({A}) => A
create_union({0|1}, {I}, {S}) => C
index({a}, {0|1}) => I
in_file({S}, 'x') => B
map({'k'}, {E}) => C
map('k', {I}) => p
map_keys({p}) => A
map_values({p}) => a
coalesce(map_keys({p}), array()) => A
coalesce(map_values({p}), array()) => a
named_struct('a', {I}, 'c', {S}) => r
struct({I}, {S}) => C
size({a}) => I
size({p}) => I
coalesce(size({A}), -1) => I
cardinality_violation({I}) => I
current_authorizer() => S
current_catalog() => S
current_database() => S
current_schema() => S
current_user() => S
logged_in_user() => S
version() => S
typeof({C}) => S
uuid_is({S}) => B
xpath({'<a><b>1</b><b>2</b></a>'}, {'a/b/text()'|'a/b'}) => A
xpath_boolean({'<a><b>1</b></a>'}, {'a/b'|'a/c'}) => B
xpath_double({'<a><b>1</b></a>'}, {'sum(a/b)'|'a/c'}) => F
xpath_float({'<a><b>1</b></a>'}, {'sum(a/b)'}) => f
xpath_int({'<a><b>1</b></a>'}, {'sum(a/b)'|'a/c'}) => I
xpath_long({'<a><b>1</b></a>'}, {'sum(a/b)'}) => I
xpath_number({'<a><b>1</b></a>'}, {'sum(a/b)'}) => F
xpath_short({'<a><b>1</b></a>'}, {'sum(a/b)'}) => I
xpath_string({'<a><b>1</b></a>'}, {'a/b'|'a/c'}) => S
json_read({O}, 'struct<a:int>') => C
bucket_number() => I
get_splits({S}, {I}) => C
iceberg_bucket({I}, 4) => I
to_pg_date({S}) => T
enforce_constraint({B}) => B
grouping({I}, 0) => I
internal_interval({I}, {S}) => C
ngrams({A}, 1, 1) => A
"""
# Over groups; the answers are compared by group.
AGGREGATES: Final = r"""
avg({N}) => F
avg({D}) => D
avg(DISTINCT {I}) => F
bit_and({I}) => I
bit_or({I}) => I
collect_list({I}) => a
collect_set({E}) => A
collect_set({S}) => A
corr({F}, {F}) => F
count(*) => I
count({C}) => I
count(DISTINCT {C}) => I
count(DISTINCT {E}, {E}) => I
covar_pop({N}, {N}) => F
covar_samp({N}, {N}) => F
histogram_numeric({N}, 2) => C
max({E}) => E
min({E}) => E
percentile({I}, {0.5|0.0|1.0|0.25}) => F
percentile({I}, array(0.25, 0.5)) => F
percentile_approx({N}, 0.5) => F
percentile_cont(0.5) WITHIN GROUP (ORDER BY {N}) => F
percentile_disc(0.5) WITHIN GROUP (ORDER BY {N}) => F
approx_distinct({I}) => I
approx_count_distinct({I}) => I
compute_stats({I}) => C
regr_avgx({N}, {N}) => F
regr_avgy({N}, {N}) => F
regr_count({N}, {N}) => I
regr_intercept({N}, {N}) => F
regr_r2({N}, {N}) => F
regr_slope({N}, {N}) => F
regr_sxx({N}, {N}) => F
regr_sxy({N}, {N}) => F
regr_syy({N}, {N}) => F
std({N}) => F
stddev({N}) => F
stddev_pop({N}) => F
stddev_samp({N}) => F
sum({N}) => N
sum({I}) => I
sum({D}) => D
sum(DISTINCT {I}) => I
sum(CASE WHEN {B} THEN {I} ELSE 0 END) => I
var_pop({N}) => F
var_samp({N}) => F
variance({N}) => F
exists_any({B}) => B
"""
_FRAMES: Final = (
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
)
_ORDERS: Final = (
    "id NULLS FIRST",
    "n NULLS LAST, id NULLS LAST",
    "s DESC NULLS LAST, id NULLS LAST",
)
_WINDOWED: Final = (
    *("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"),
    *("lag({E})", "lag({E}, 2)", "lead({E})", "lag({E}, 1, {E})", "first_value({E})"),
    *("last_value({E})", "sum({I})", "sum({D})", "count({C})", "max({E})", "min({E})", "avg({D})"),
    *("first_value({E}, true)", "last_value({E}, true)", "collect_list({I})", "stddev_pop({I})"),
)


def windows() -> list[str]:
    """Return window functions over each order and frame, as lines like the others."""
    lines = []
    for call in _WINDOWED:
        framed = call.startswith(("sum", "count", "max", "min", "avg", "first", "last", "coll"))
        for order in _ORDERS:
            for frame in _FRAMES if framed else _FRAMES[:1]:
                if "RANGE" in frame and "," in order:
                    continue
                over = f"OVER (PARTITION BY g ORDER BY {order}{frame})"
                lines.append(f"{call} {over} => C")
    return lines


# Hive's functions that are in no expression, and why.
NOT_ASKED: Final = {
    **dict.fromkeys(
        ("explode", "posexplode", "inline", "stack", "json_tuple"), "a table: see the statements"
    ),
    **dict.fromkeys(
        ("current_date", "current_timestamp", "unix_timestamp", "rand", "uuid"), "of no row alone"
    ),
}
