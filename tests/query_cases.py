r"""Statements in the manner of Hive's own query tests: the same ideas over small tables of ours.

Each case is named after the tests of Hive's whose ideas it holds (`ql/src/test/queries`); the
texts are ours. Hive's engine says what is right.
"""

from __future__ import annotations

from typing import Final

_ACID: Final = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TABLES: Final = (
    "CREATE EXTERNAL TABLE src (k int, v string) STORED AS ORC",
    "INSERT INTO src VALUES (1, 'one'), (2, 'two'), (5, NULL), (NULL, 'none')",
    (
        "CREATE TABLE words (key int DEFAULT 1, value string) CLUSTERED BY (key) INTO 2 BUCKETS"
        f" {_ACID}"
    ),
    (
        r"CREATE TABLE kinds (k int, t tinyint DEFAULT 127Y, b bigint DEFAULT 5L,"
        r" e double DEFAULT 1E3, de decimal(9,2) DEFAULT 1234567.89, s string DEFAULT 'it\'s',"
        r" day date DEFAULT DATE'2018-02-14', ts timestamp DEFAULT TIMESTAMP'2016-02-22 12:45:07',"
        r" c char(4) DEFAULT cast('abcdef' AS char(4)),"
        r" v varchar(3) DEFAULT cast('abcdef' AS varchar(3)), i int DEFAULT cast(4.9 AS int),"
        f" f float DEFAULT cast(45.4 AS float), bo boolean DEFAULT cast('true' AS boolean)) {_ACID}"
    ),
    (
        "CREATE TABLE demands (i int, j int, a int NOT NULL ENABLE, b bigint,"
        " CONSTRAINT c1 CHECK (-i > -10), CONSTRAINT c2 CHECK (a BETWEEN i AND j),"
        " CONSTRAINT c3 CHECK (b IN (4, 5) OR b > 100 AND NOT b = 200),"
        f" CONSTRAINT c4 CHECK (i + NULL > 0)) {_ACID}"
    ),
    (
        "CREATE TABLE types (ti tinyint, si smallint, i int, bi bigint, f float, d double,"
        " de decimal(5,2), ts timestamp, day date, s string, vc varchar(20), ch char(8), b boolean)"
        f" {_ACID}"
    ),
)
CASES: Final = {
    "insert_into_default_keyword": r"""
        INSERT INTO words VALUES (DEFAULT, 3), (2, DEFAULT);
        INSERT INTO words (value, key) VALUES (dEfAULt, 5), ('v', default), (NULL, NULL);
        INSERT INTO words VALUES (DEFAULT, upper('x')), (7, DEFAULT);
        UPDATE words SET value = DEFAULT WHERE key = 1 AND value = 'X'
    """,
    "default_constraint": r"""
        INSERT INTO kinds (k) VALUES (1);
        INSERT INTO kinds (k, ts, s, de) VALUES (2, DEFAULT, 'x', 0.5),
            (3, '2020-01-01 00:00:00', DEFAULT, DEFAULT);
        MERGE INTO kinds USING src ON kinds.k = src.k
            WHEN MATCHED THEN UPDATE SET s = DEFAULT, day = '2021-01-01', t = 1
            WHEN NOT MATCHED THEN INSERT (s, k) VALUES (src.v, src.k)
    """,
    "check_constraint, enforce_constraint_notnull": r"""
        INSERT INTO demands VALUES (1, 100, 5, 4), (NULL, NULL, 1, NULL), (-5, 5, 0, 101);
        UPDATE demands SET b = 5, j = NULL WHERE i = 1
    """,
}
"""Scripts by the names of Hive's tests. Each statement changes one of its targets."""
