-- Each is refused; the next one is what to write in its place.

INSERT INTO dw.latest SELECT id, name, at FROM (SELECT id, name, at,
          row_number() OVER (PARTITION BY id ORDER BY at DESC) AS rn FROM stage.events) x
       WHERE rn = 1

-- in its place:
INSERT INTO dw.latest SELECT id, name, at FROM (SELECT id, name, at,
          row_number() OVER (PARTITION BY id ORDER BY at DESC NULLS LAST) AS rn FROM stage.events) x
       WHERE rn = 1

INSERT INTO mart.top SELECT id, amount FROM dw.sales ORDER BY amount DESC LIMIT 10

-- in its place:
INSERT INTO mart.top SELECT id, amount FROM dw.sales ORDER BY amount DESC NULLS LAST LIMIT 10

INSERT INTO mart.daily SELECT ds, sum(amount) FROM dw.sales GROUP BY 1

-- in its place:
INSERT INTO mart.daily SELECT ds, sum(amount) FROM dw.sales GROUP BY ds

INSERT INTO mart.spread SELECT id, stddev(amount) FROM dw.sales GROUP BY id

-- in its place:
INSERT INTO mart.spread SELECT id, stddev_pop(amount) FROM dw.sales GROUP BY id

INSERT INTO mart.spread SELECT id, percentile_approx(amount, 0.5) FROM dw.sales GROUP BY id

-- in its place:
INSERT INTO mart.spread SELECT id, percentile(amount, 0.5) FROM dw.sales GROUP BY id

INSERT INTO mart.keys SELECT hash(a, b), a, b, c FROM stage.wide

-- in its place:
INSERT INTO mart.keys SELECT crc32(concat_ws('|', a, b)), a, b, c FROM stage.wide

INSERT INTO mart.joined SELECT /*+ MAPJOIN(c) */ o.id, c.name FROM dw.orders o
       JOIN dw.customers c ON o.customer_id = c.id

-- in its place:
INSERT INTO mart.joined
       SELECT o.id, c.name FROM dw.orders o JOIN dw.customers c ON o.customer_id = c.id

UPDATE stage.flags SET is_on = cast(flag AS boolean)

-- in its place:
UPDATE stage.flags SET is_on = (flag = 'true')

INSERT INTO stage.short SELECT cast(name AS varchar(10)) FROM raw.people

-- in its place:
INSERT INTO stage.short SELECT substr(name, 1, 10) FROM raw.people

MERGE INTO dw.people t USING stage.people s ON lower(t.email) = lower(s.email)
       WHEN MATCHED THEN UPDATE SET name = s.name

-- in its place:
UPDATE dw.people SET name = (SELECT
       max(s.name) FROM stage.people s WHERE lower(s.email) = lower(dw.people.email))
       WHERE EXISTS (SELECT 1 FROM stage.people s WHERE lower(s.email) = lower(dw.people.email))

DELETE FROM dw.sales WHERE ds = '__HIVE_DEFAULT_PARTITION__'

-- in its place:
DELETE FROM dw.sales WHERE ds IS NULL
