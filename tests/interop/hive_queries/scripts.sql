-- Statements in the manner of Hive's own query tests: the same ideas over small tables of ours.
-- Each script is named after the tests of Hive's whose ideas it holds (`ql/src/test/queries`); the
-- texts are ours. Hive's engine says what is right. Each statement changes one of its targets.

-- insert_into_default_keyword
INSERT INTO words VALUES (DEFAULT, 3), (2, DEFAULT);
INSERT INTO words (value, key) VALUES (dEfAULt, 5), ('v', default), (NULL, NULL);
INSERT INTO words VALUES (DEFAULT, upper('x')), (7, DEFAULT);
UPDATE words SET value = DEFAULT WHERE key = 1 AND value = 'X'

-- default_constraint
INSERT INTO kinds (k) VALUES (1);
INSERT INTO kinds (k, ts, s, de) VALUES (2, DEFAULT, 'x', 0.5),
    (3, '2020-01-01 00:00:00', DEFAULT, DEFAULT);
MERGE INTO kinds USING src ON kinds.k = src.k
    WHEN MATCHED THEN UPDATE SET s = DEFAULT, day = '2021-01-01', t = 1
    WHEN NOT MATCHED THEN INSERT (s, k) VALUES (src.v, src.k)

-- check_constraint, enforce_constraint_notnull
INSERT INTO demands VALUES (1, 100, 5, 4), (NULL, NULL, 1, NULL), (-5, 5, 0, 101);
UPDATE demands SET b = 5, j = NULL WHERE i = 1;
MERGE INTO demands USING src ON demands.a = src.k
    WHEN MATCHED AND src.k = 1 THEN DELETE
    WHEN MATCHED AND src.k > 1 THEN UPDATE SET b = 101
    WHEN NOT MATCHED AND src.k < 3 THEN INSERT VALUES (0, 10, coalesce(src.k, 3), NULL);
FROM src INSERT INTO demands (a) SELECT coalesce(k, 3) WHERE k = 1
    INSERT INTO parts PARTITION (p = 9, q) (a, q) SELECT coalesce(k, 3), 'x' WHERE k > 1

-- insert_into_with_schema, acid_multiinsert_dyn_part, acid_subquery
INSERT INTO parts PARTITION (p, q) (a, q, p) VALUES (1, 'x', 2), (3, 'y z/=', 2);
INSERT INTO parts (q, p, a) SELECT m.v, 1, n.* FROM (SELECT k FROM src WHERE k < 3) n
    CROSS JOIN (SELECT v FROM src WHERE k = 1) m;
UPDATE parts SET c = 'in' WHERE p IN (SELECT k FROM src WHERE v = 'two');
MERGE INTO parts t USING src s ON t.a = s.k
    WHEN MATCHED AND t.p = 2 AND t.q = 'x' THEN UPDATE SET c = s.v
    WHEN MATCHED AND t.p = 9 THEN DELETE
    WHEN NOT MATCHED AND s.k > 100 THEN INSERT VALUES (coalesce(s.k, 3), 'n', 7, 'n');
FROM src INSERT INTO parts PARTITION (p = 9, q) SELECT coalesce(k, 3), v, 'x' WHERE k = 5
    INSERT INTO parts PARTITION (p = 10, q) SELECT coalesce(k, 3), v, v WHERE k > 1;
DELETE FROM parts WHERE p = 2 AND q = 'y z/='

-- update_after_multiple_inserts_special_characters
INSERT INTO odd VALUES (1, 'it\'s "q" \\ ', 2), (3, 'ü\n\u00e4', NULL);
UPDATE `odd` SET `select` = concat(`select`, '`'), `x-y` = `a b` WHERE `a b` <> `x-y`
    OR `x-y` IS NULL;
DELETE FROM odd WHERE `x-y` > 2 -- a comment; with a semicolon
