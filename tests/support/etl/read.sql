-- Staging: texts become values.
INSERT OVERWRITE TABLE stage.orders PARTITION (ds = '2026-11-19')
       SELECT cast(order_id AS bigint), cast(customer_id AS bigint),
              cast(amount AS decimal(12,2)), to_date(ordered_at), upper(trim(country))
       FROM raw.orders WHERE ds = '2026-11-19' AND order_id IS NOT NULL

INSERT INTO stage.orders PARTITION (ds)
       SELECT cast(trim(order_id) AS bigint), cast(customer_id AS bigint),
              cast(regexp_replace(amount, '[^0-9.-]', '') AS decimal(12,2)),
              cast(substr(ordered_at, 1, 10) AS date), country, ds FROM raw.orders

INSERT INTO stage.people SELECT cast(id AS int), initcap(name), lower(email),
              coalesce(nullif(trim(phone), ''), 'unknown') FROM raw.people

INSERT INTO stage.people SELECT cast(id AS int), concat(first_name, ' ', last_name),
              email, regexp_replace(phone, '\\s+', '') FROM raw.people WHERE email LIKE '%@%'

INSERT INTO stage.clicks SELECT get_json_object(body, '$.user.id'),
              get_json_object(body, '$.page'), from_unixtime(cast(epoch AS bigint))
        FROM raw.clicks

INSERT INTO stage.clicks SELECT j.u, j.p, c.epoch FROM raw.clicks c
       LATERAL VIEW json_tuple(c.body, 'user', 'page') j AS u, p

INSERT INTO stage.tags SELECT p.id, tag FROM raw.posts p
       LATERAL VIEW explode(split(p.tags, ',')) x AS tag WHERE tag <> ''

INSERT INTO stage.tags SELECT p.id, tag FROM raw.posts p
       LATERAL VIEW OUTER explode(split(p.tags, '\\|')) x AS tag

INSERT INTO stage.items SELECT o.id, pos, item FROM raw.baskets o
       LATERAL VIEW posexplode(o.items) x AS pos, item

INSERT INTO stage.events SELECT id, unix_timestamp(at, 'yyyy-MM-dd HH:mm:ss'), kind
       FROM raw.events WHERE length(at) = 19

INSERT INTO stage.events SELECT id, unix_timestamp(at), kind FROM raw.events
       WHERE at RLIKE '^[0-9]{4}-'

INSERT INTO stage.codes SELECT lpad(code, 8, '0'), rpad(label, 20, ' ') FROM raw.codes

INSERT INTO stage.codes SELECT substr(code, length(code) - 3), label FROM raw.codes

INSERT INTO stage.codes SELECT substr(code, -4), label FROM raw.codes

INSERT INTO stage.files SELECT substring_index(path, '/', -1), md5(path) FROM raw.files

INSERT INTO stage.files SELECT regexp_extract(path, '([0-9]{8})', 1), sha2(path, 256)
       FROM raw.files

INSERT INTO stage.urls SELECT parse_url(url, 'HOST'), parse_url(url, 'QUERY', 'utm_source')
       FROM raw.urls

INSERT INTO stage.flags SELECT id, CASE WHEN lower(flag) IN ('y', 'yes', '1') THEN 1
        ELSE 0 END
       FROM raw.flags

INSERT INTO stage.flags SELECT id, if(flag = 'Y', 'yes', 'no') FROM raw.flags

INSERT INTO stage.maps SELECT id, str_to_map(attributes, ';', '=')['color']
        FROM raw.goods

-- Dates.
INSERT INTO dw.calendar SELECT d, year(d), month(d), day(d), quarter(d), weekofyear(d),
              date_format(d, 'yyyy-MM') FROM stage.days

INSERT INTO dw.calendar SELECT d, dayofweek(d), last_day(d), next_day(d, 'MO'), hour(at),
              date_format(d, 'EEEE') FROM stage.days

DELETE FROM dw.clicks WHERE day < date_sub(current_date, 90)

DELETE FROM dw.clicks WHERE ds < date_sub('2026-11-19', 365)

DELETE FROM dw.sessions WHERE datediff(current_date, to_date(started)) > 30

DELETE FROM dw.sessions WHERE started < current_timestamp - INTERVAL '7' DAY

UPDATE dw.contracts SET ends = add_months(begins, 12) WHERE ends IS NULL

UPDATE dw.contracts SET ends = date_add(begins, days) WHERE ends IS NULL AND days > 0

INSERT INTO mart.months SELECT trunc(ordered, 'MM'), sum(amount) FROM dw.orders
       GROUP BY trunc(ordered, 'MM')

INSERT INTO mart.weeks SELECT pmod(datediff(ordered, '1900-01-07'), 7), count(*)
       FROM dw.orders GROUP BY pmod(datediff(ordered, '1900-01-07'), 7)

INSERT INTO mart.ages SELECT id, floor(months_between(current_date, born) / 12)
        FROM dw.people

INSERT INTO mart.local SELECT id, from_utc_timestamp(at, 'Europe/Vienna') FROM dw.events

INSERT INTO mart.yyyymm SELECT from_unixtime(unix_timestamp(d, 'yyyy-MM-dd'), 'yyyyMM'),
              count(DISTINCT id) FROM stage.days
       GROUP BY from_unixtime(unix_timestamp(d, 'yyyy-MM-dd'), 'yyyyMM')

INSERT INTO mart.hours SELECT date_format(at, 'yyyyMMddHH'), kind, count(*) FROM dw.events
       GROUP BY date_format(at, 'yyyyMMddHH'), kind

-- Slowly changing dimensions and upserts.
MERGE INTO dw.customers t USING stage.customers s ON t.id = s.id
       WHEN MATCHED THEN UPDATE SET name = s.name, email = s.email
       WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.email)

MERGE INTO dw.customers AS t USING (SELECT id, max(name) AS name FROM stage.customers
              GROUP BY id) AS s ON t.id = s.id
       WHEN MATCHED AND t.name <> s.name THEN UPDATE SET name = s.name, changed = current_timestamp
       WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)

MERGE INTO dw.customers t USING stage.changes s ON t.id = s.id
       WHEN MATCHED AND s.op = 'D' THEN DELETE
       WHEN MATCHED AND s.op = 'U' THEN UPDATE SET name = coalesce(s.name, t.name)
       WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT VALUES (s.id, s.name, s.email)

MERGE INTO dw.prices t USING stage.prices s ON t.sku = s.sku AND t.region = s.region
       WHEN MATCHED AND (t.price <> s.price OR t.price IS NULL) THEN UPDATE SET price = s.price
       WHEN NOT MATCHED THEN INSERT VALUES (s.sku, s.region, s.price)

MERGE INTO dw.dim t USING (SELECT s.id, s.name, s.id AS mergekey FROM stage.dim s
          UNION ALL SELECT s.id, s.name, cast(NULL AS bigint) FROM stage.dim s
          JOIN dw.dim d ON s.id = d.id WHERE d.is_current = 1 AND d.name <> s.name) u
       ON t.id = u.mergekey AND t.is_current = 1
       WHEN MATCHED AND t.name <> u.name THEN UPDATE SET is_current = 0, valid_to = current_date
       WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.name, 1, current_date, NULL)

UPDATE dw.dim SET is_current = 0, valid_to = current_date
       WHERE is_current = 1 AND id IN (SELECT id FROM stage.dim)

INSERT INTO dw.dim SELECT s.id, s.name, 1, current_date, cast(NULL AS date) FROM stage.dim s
       LEFT JOIN dw.dim d ON s.id = d.id AND d.is_current = 1 WHERE d.id IS NULL

INSERT INTO dw.dim SELECT s.id, s.name, 1, current_date, NULL FROM stage.dim s
       WHERE NOT EXISTS (SELECT 1 FROM dw.dim d WHERE d.id = s.id)

INSERT INTO dw.keys SELECT row_number() OVER (ORDER BY s.id NULLS LAST) + m.top, s.id
       FROM stage.people s CROSS JOIN (SELECT coalesce(max(k), 0) AS top FROM dw.keys) m

DELETE FROM dw.customers WHERE NOT EXISTS
          (SELECT 1 FROM stage.customers s WHERE s.id = dw.customers.id)

DELETE FROM dw.customers WHERE id IN (SELECT id FROM stage.erasures)

UPDATE dw.customers SET email = sha2(email, 256), name = 'erased', phone = NULL
       WHERE id IN (SELECT id FROM stage.erasures)

UPDATE dw.customers SET segment = CASE WHEN revenue >= 10000.00 THEN 'A'
          WHEN revenue >= 1000.00 THEN 'B' ELSE 'C' END

UPDATE dw.orders SET amount = round(amount * 1.10, 2) WHERE currency = 'EUR'

UPDATE dw.orders SET net = gross / 1.20 WHERE net IS NULL

UPDATE dw.orders SET status = upper(status), note = concat_ws('; ', note, 'checked')
       WHERE status IN ('new', 'open')

-- The last row of each key, by several idioms.
INSERT OVERWRITE TABLE dw.latest SELECT id, name, at FROM (SELECT id, name, at,
          row_number() OVER (PARTITION BY id ORDER BY at DESC NULLS LAST) AS rn FROM stage.events) x
       WHERE rn = 1

WITH ranked AS (SELECT e.*, rank() OVER (PARTITION BY id ORDER BY at DESC NULLS LAST) AS r
          FROM stage.events e)
       INSERT INTO dw.latest SELECT id, name, at FROM ranked WHERE r = 1

INSERT INTO dw.latest SELECT e.id, e.name, e.at FROM stage.events e
       JOIN (SELECT id, max(at) AS at FROM stage.events GROUP BY id) m
       ON e.id = m.id AND e.at = m.at

INSERT INTO dw.latest SELECT DISTINCT id, name, at FROM stage.events

INSERT INTO dw.latest SELECT id, max(name), max(at) FROM stage.events GROUP BY id
       HAVING count(*) = 1

INSERT INTO dw.distances SELECT id, at,
          lag(at, 1) OVER (PARTITION BY id ORDER BY at NULLS LAST) FROM stage.events

-- Facts.
INSERT INTO dw.sales PARTITION (ds) SELECT o.id, c.segment, o.amount, o.ds
        FROM stage.orders o
       LEFT JOIN dw.customers c ON o.customer_id = c.id

INSERT OVERWRITE TABLE dw.sales PARTITION (ds = '2026-11-19')
       SELECT o.id, coalesce(c.segment, 'none'), o.amount FROM stage.orders o
       LEFT JOIN dw.customers c ON o.customer_id = c.id WHERE o.ds = '2026-11-19'

INSERT INTO dw.sales PARTITION (ds) SELECT id, segment, amount, '2026-11-19' FROM dw.open
       UNION ALL SELECT id, segment, amount, ds FROM dw.closed

INSERT INTO dw.sales PARTITION (ds) SELECT a.id, b.segment, a.amount * b.rate, a.ds
       FROM stage.orders a JOIN dw.rates b ON a.currency = b.currency
       AND a.day BETWEEN b.valid_from AND b.valid_to

INSERT INTO dw.matches SELECT a.id, b.id FROM stage.left_side a
       FULL OUTER JOIN stage.right_side b ON a.id = b.id WHERE a.id IS NULL OR b.id IS NULL

INSERT INTO dw.matches SELECT a.id, b.id FROM stage.people a JOIN stage.people b
       ON lower(a.email) = lower(b.email) WHERE a.id < b.id

INSERT INTO dw.missing SELECT id FROM stage.orders WHERE customer_id NOT IN
          (SELECT id FROM dw.customers WHERE id IS NOT NULL)

INSERT INTO dw.missing SELECT o.id FROM stage.orders o LEFT SEMI JOIN dw.closed c
       ON o.id = c.id

FROM stage.orders o INSERT INTO dw.big SELECT o.id, o.amount WHERE o.amount >= 1000
       INSERT INTO dw.small SELECT o.id, o.amount WHERE o.amount < 1000

-- Marts.
INSERT INTO mart.daily SELECT ds, country, count(*), sum(amount), avg(amount), min(amount),
          max(amount) FROM dw.sales GROUP BY ds, country

INSERT INTO mart.daily SELECT ds, coalesce(country, 'all'), sum(amount) FROM dw.sales
       GROUP BY ds, country WITH ROLLUP

INSERT INTO mart.cube SELECT ds, country, sum(amount) FROM dw.sales
       GROUP BY ds, country GROUPING SETS ((ds, country), (ds), ())

INSERT INTO mart.pivot SELECT id, sum(CASE WHEN kind = 'a' THEN amount ELSE 0 END),
          sum(CASE WHEN kind = 'b' THEN amount ELSE 0 END) FROM dw.facts GROUP BY id

INSERT INTO mart.lists SELECT id, concat_ws(',', collect_set(name)) FROM dw.names
        GROUP BY id

INSERT INTO mart.lists SELECT id, concat_ws(',', sort_array(collect_set(name))) FROM dw.names
       GROUP BY id

INSERT INTO mart.lists SELECT id, concat_ws('|', sort_array(collect_list(cast(n AS string))))
       FROM dw.names GROUP BY id

INSERT INTO mart.shares SELECT id, amount,
        round(amount / sum(amount) OVER (PARTITION BY ds), 4)
       FROM dw.sales

INSERT INTO mart.running SELECT id, ds, sum(amount) OVER (PARTITION BY id
          ORDER BY ds NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM dw.sales

INSERT INTO mart.quartiles SELECT id, ntile(4) OVER (ORDER BY amount NULLS LAST)
        FROM dw.sales

INSERT INTO mart.first SELECT id, first_value(name) OVER (PARTITION BY id
          ORDER BY at NULLS LAST) FROM dw.events

INSERT INTO mart.spread SELECT id, stddev_samp(amount), var_pop(amount), percentile(n, 0.5)
       FROM dw.sales GROUP BY id

INSERT INTO mart.extremes SELECT id, greatest(a, b, c), least(a, b, c) FROM dw.triples

INSERT INTO mart.basket SELECT id, size(items), array_contains(items, 'book')
        FROM dw.baskets

INSERT INTO mart.basket SELECT id, size(split(items, ',')), split(items, ',')[0]
       FROM raw.baskets

INSERT INTO mart.attributes SELECT id, attributes['color'], address.city FROM dw.goods

INSERT INTO mart.attributes SELECT id, k, v FROM dw.goods
       LATERAL VIEW explode(attributes) x AS k, v

INSERT INTO mart.amounts SELECT id, format_number(amount, 2), printf('%05d', n)
        FROM dw.sales

INSERT INTO mart.rates SELECT id, cast(done AS double) / nullif(total, 0) FROM dw.jobs

INSERT INTO mart.masked SELECT id, concat('***', substr(card, length(card) - 3)),
          translate(name, 'aeiou', '*****') FROM dw.cards

INSERT INTO mart.keys SELECT md5(concat_ws('|', a, b, cast(c AS string))), a, b, c
       FROM stage.wide

INSERT INTO mart.buckets SELECT abs(crc32(name) % 16), count(*) FROM dw.names
       GROUP BY abs(crc32(name) % 16)

INSERT INTO mart.names SELECT id, coalesce(nick, first_name, 'nameless'), reverse(code),
          instr(email, '@'), locate('.', email), length(email) FROM dw.people

INSERT INTO mart.words SELECT word, count(*) FROM raw.posts
       LATERAL VIEW explode(split(lower(text), '\\s+')) x AS word GROUP BY word
