-- Expressions, one a line, that are refused since Hive has different values of them than Spark.
cast(extract(second FROM ts) AS string)
cast('n' AS boolean)
cast('abcd' AS varchar(2))
'x\\y' LIKE 'x\\\\y'
2 ^ 3 * 2
'a' || 1 + 2
1 DAY
trunc(dt, 'Q')
trunc(dt, 'WEEK')
from_utc_timestamp(ts, '+02:00')
to_utc_timestamp(ts, '-02:00')
from_utc_timestamp(ts, 'UTC+3')
hash(v)
trunc(ts, 'mm')
trunc(ts, lower('MM'))
rand(1)
v RLIKE ''
xpath('<a><b>1</b></a>', 'a/b')
hex(aes_encrypt(v, '1234567890123456'))
boolean('n')
sha2(v, 1)
'x\\y' LIKE ANY ('q', 'x\\\\y')
