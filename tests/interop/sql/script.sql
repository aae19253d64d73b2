INSERT INTO people VALUES
    (1, 'Ada', 10.50, true, DATE '2020-01-31'), (2, 'Bo\'b "q" \\ é', -0.05, false, NULL),
    (3, NULL, NULL, NULL, '2019-02-28');
INSERT INTO orders PARTITION (country = 'AT', day) VALUES
    (100, 1, 1.25, 1), (101, 1, 2.50, '2'), (102, 9, 4, 1);
INSERT INTO TABLE orders PARTITION (country, day)
    SELECT id + 100, person, amount * 2, concat('D', 'E'), day + 1
    FROM orders WHERE day = 1;
INSERT INTO orders (day, country, id) VALUES (7, 'FR', 300);
INSERT INTO orders PARTITION (country = TRUE, day) VALUES (400, 8, 1.50, 1);
INSERT INTO notes VALUES (70, 1.50, 1.0), (71, 2, -0.0), (72, 0.05, NULL);
INSERT INTO notes SELECT p.id, concat(p.name, ': ', cast(count(*) AS string)), sum(o.amount)
    FROM people p JOIN orders o ON p.id = o.person GROUP BY p.id, p.name;
WITH big AS (SELECT person, max(amount) AS most FROM orders GROUP BY person)
    INSERT INTO notes SELECT b.person, 'big', b.most FROM big b
    LEFT JOIN people p ON b.person = p.id WHERE p.id IS NULL AND b.person IS NOT NULL;
UPDATE people SET name = CASE WHEN name IS NULL THEN 'x' ELSE upper(name) END,
    born = born + INTERVAL '1' MONTH
    WHERE id BETWEEN 1 AND 3 AND NOT (id = 2 AND member);
UPDATE people SET paid = paid + 1, member = (id % 2 = 0) WHERE paid < 0 OR paid IS NULL;
DELETE FROM orders WHERE country LIKE 'D_' AND day IN (2, 3) AND id <> 202;
DELETE FROM notes WHERE id IN (SELECT person FROM orders WHERE amount > 3.9);
MERGE INTO people AS s USING (SELECT person, sum(amount) AS amount FROM orders GROUP BY person) AS t
    ON s.id = t.person
    WHEN MATCHED AND t.amount > 100 THEN DELETE
    WHEN MATCHED THEN UPDATE SET paid = s.paid + t.amount
    WHEN NOT MATCHED AND t.person IS NOT NULL
        THEN INSERT VALUES (t.person, 'new', t.amount, NULL, NULL);
MERGE INTO orders USING people p ON orders.person = p.id AND orders.country = 'AT'
    WHEN MATCHED AND p.name = 'new' THEN DELETE
    WHEN MATCHED THEN UPDATE SET amount = p.paid;
INSERT INTO notes SELECT q.id, q.country, q.amount FROM (
    SELECT o.*, row_number() OVER
        (PARTITION BY country ORDER BY amount DESC NULLS LAST, id NULLS LAST) AS nth
    FROM orders o) q WHERE q.nth = 1;
INSERT OVERWRITE TABLE orders PARTITION (country = 'AT', day = 1)
    SELECT id, person, NULL FROM orders WHERE id < 102;
INSERT OVERWRITE TABLE notes SELECT DISTINCT id, text, score FROM notes
    UNION ALL SELECT 0, 'end', 0;
DELETE FROM people;
