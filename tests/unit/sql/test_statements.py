from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.specs.job import Job
from airflow_hiveacid.jobs.specs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.specs.statements import (
    ColumnMatch,
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.sql.expressions.expressions import NameScope
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.sql.statements.update_delete import agreed
from airflow_hiveacid.sql.text.names import NamedTable
from airflow_hiveacid.sql.text.nodes import check_table
from airflow_hiveacid.sql.text.text import statements_of

ALL = SourceSpec(table="db.s")
KEYS_DIFFER = "MERGE INTO db.t USING db.s b ON t.id = b.cid "


def job(text: str, database: str | None = None) -> Job:
    (statement,) = read_script(text, database)
    return statement.job


def inserted(source: SourceSpec, **more: Any) -> InsertSpec:  # noqa: ANN401
    return InsertSpec(target="db.t", source=source, match=ColumnMatch.POSITION, **more)


def values(*rows: tuple[object, ...], columns: tuple[str, ...] = ()) -> SourceSpec:
    return SourceSpec(values=rows, columns=columns)  # type: ignore[arg-type]


def query(text: str, **tables: str) -> SourceSpec:
    return SourceSpec(query=text, tables={f"__hiveacid_{k[1:]}": v for k, v in tables.items()})


OVERWRITE = InsertMode.OVERWRITE
NEITHER = ("false", "false")
INSERTS: list[tuple[str, InsertSpec]] = [
    ("INSERT INTO db.t VALUES (1)", inserted(values((1,)))),
    ("insert into table `DB`.T values(1),(2)", inserted(values((1,), (2,)))),
    ("INSERT OVERWRITE TABLE db.t VALUES (1)", inserted(values((1,)), mode=OVERWRITE)),
    ("INSERT OVERWRITE db.t VALUES (1)", inserted(values((1,)), mode=OVERWRITE)),
    (
        "INSERT INTO db.t VALUES (-1, 'a', \"b\", NULL, true, FALSE, 1.5, -2.50, .5, 1., '')",
        inserted(values((-1, "a", "b", None, "TRUE", "FALSE", 1.5, -2.5, 0.5, 1, ""))),
    ),
    (
        r"INSERT into db.t values('t\'s','a' 'b','x\ty\\z','\u00e9\101\0\q\%\200','\ud83d\ude42z')",
        inserted(values(("t's", "ab", "x\ty\\z", "éA\0q\\%200", "🙂z"))),
    ),
    (
        f"INSERT INTO db.t VALUES ({'9' * 38}, {'9' * 39}, 0.12345678901234567890)",
        inserted(values((int("9" * 38), "9" * 39, "0.1234567890123456789"))),
    ),
    ("INSERT INTO db.t VALUES (-0.0, -0, +1, 007)", inserted(values((0, 0, 1, 7)))),
    (
        "INSERT INTO db.t VALUES (100, 0.00, 1.000, -0.10, 0.00001, 01.10)",
        inserted(values((100, 0, 1, -0.1, "0.00001", 1.1))),
    ),
    (
        "INSERT INTO db.t (B, `a c`) VALUES (1, 'x')",
        inserted(values((1, "x"), columns=("b", "a c")), columns=("b", "a c")),
    ),
    (
        "INSERT INTO db.t VALUES (1 + 1, upper('x')), (current_date, 1e3)",
        inserted(query("SELECT 1 + 1, upper('x') UNION ALL SELECT current_date, 1e3")),
    ),
    (
        "INSERT INTO db.t VALUES (1.50, 1, 1.5, 1.0), (2, NULL, 'x', 2), (NULL, 0.05, 3, 3)",
        inserted(values(("1.5", "1.00", 1.5, 1), ("2.0", None, "x", 2), (None, "0.05", 3, 3))),
    ),
    (
        "INSERT INTO db.t VALUES (1, DEFAULT, 'x'), (2, default, 'y')",
        inserted(values((1, "x"), (2, "y")), default_at=(1,)),
    ),
    (
        "INSERT INTO db.t (a, b, c) VALUES (DEFAULT, 1, DEFAULT)",
        inserted(values((1,), columns=("b",)), columns=("a", "b", "c"), default_at=(0, 2)),
    ),
    (
        "INSERT INTO db.t VALUES (DEFAULT, default), (DEFAULT, DEFAULT)",
        inserted(values((), ()), default_at=(0, 1)),
    ),
    (
        "INSERT INTO db.t VALUES (DEFAULT, upper('x'))",
        inserted(query("SELECT upper('x')"), default_at=(0,)),
    ),
    (
        "INSERT INTO db.t VALUES (1, 'x'), (2, upper('y')), (3, NULL)",
        inserted(
            query("SELECT '1', 'x' UNION ALL SELECT '2', upper('y') UNION ALL SELECT '3', NULL"),
            text_at=(0,),
        ),
    ),
    (
        "INSERT INTO db.t VALUES (1, DEFAULT), (DEFAULT, 'y'), (NULL, NULL)",
        inserted(
            values(
                (1, None, "false", "true"), (None, "y", "true", "false"), (None, None, *NEITHER)
            ),
            default_where=(0, 1),
        ),
    ),
    (
        "INSERT INTO db.t (a, b, c) VALUES (DEFAULT, DEFAULT, 2.50), (DEFAULT, 1, default)",
        inserted(
            values(
                (None, 2.5, "true", "false"),
                (1, None, "false", "true"),
                columns=("b", "c", "__hiveacid_default_1", "__hiveacid_default_2"),
            ),
            columns=("a", "b", "c"),
            default_at=(0,),
            default_where=(1, 2),
        ),
    ),
    (
        r"INSERT INTO db.t VALUES (upper('x'), DEFAULT, true), (DEFAULT, 'it\'s \\', NULL)",
        inserted(
            query(
                r"SELECT upper('x'), NULL, 'TRUE', 'false', 'true' UNION ALL"
                r" SELECT NULL, 'it\'s \\', NULL, 'true', 'false'"
            ),
            default_where=(0, 1),
            text_at=(1, 2),
        ),
    ),
    (
        "INSERT INTO db.t VALUES (DATE '2020-01-01', 1L), (DATE '2020-1-1', 2)",
        inserted(query("SELECT DATE '2020-01-01', 1L UNION ALL SELECT DATE '2020-1-1', 2")),
    ),
    (
        "INSERT INTO db.t VALUES (DATE '2020-1-1', TIMESTAMP '2020-01-01 00:00:00')",
        inserted(query("SELECT DATE '2020-1-1', '2020-01-01 00:00:00'"), text_at=(1,)),
    ),
    (
        "INSERT INTO db.t VALUES (TIMESTAMP '2020-01-01 00:00:00.50')",
        inserted(query("SELECT TIMESTAMP '2020-01-01 00:00:00.50'")),
    ),
    (
        "INSERT INTO db.t VALUES (DATE '2020-01-01', TIMESTAMP '2020-01-02 03:04:05.06')",
        inserted(values(("2020-01-01", "2020-01-02 03:04:05.06"))),
    ),
    (
        "INSERT INTO db.t PARTITION (Y=1.50, m='x y', d=DATE '2020-01-01', b=true) VALUES (1)",
        inserted(values((1,)), partition={"y": "1.5", "m": "x y", "d": "2020-01-01", "b": "TRUE"}),
    ),
    (
        "INSERT INTO db.t PARTITION (y = 1, M, d) SELECT * FROM db.s",
        inserted(ALL, partition={"y": "1"}, dynamic_partition=("m", "d")),
    ),
    (
        "INSERT OVERWRITE TABLE db.t PARTITION (m) SELECT * FROM db.s",
        inserted(ALL, dynamic_partition=("m",), mode=OVERWRITE),
    ),
    (
        "INSERT INTO db.t PARTITION (y = 1, m) (a, m) SELECT * FROM db.s",
        inserted(ALL, partition={"y": "1"}, columns=("a", "m")),
    ),
    ("INSERT INTO db.t SELECT * FROM db.s", inserted(ALL)),
    ("INSERT INTO db.t SELECT * FROM db.s AS x", inserted(ALL)),
    ("INSERT INTO db.t SELECT 1, 'x'", inserted(query("SELECT 1, 'x'"))),
    (
        "INSERT INTO db.t SELECT a FROM db.s",
        inserted(query("SELECT a FROM `__hiveacid_1` AS `s`", _1="db.s")),
    ),
    (
        "INSERT INTO db.t (SELECT DISTINCT x.* FROM DB.`S` x)",
        inserted(query("(SELECT DISTINCT x.* FROM `__hiveacid_1` x)", _1="db.s")),
    ),
    (
        (
            "INSERT INTO db.t SELECT s.a, q.b FROM db.s JOIN db2.q ON s.a = q.a LEFT JOIN db.s r"
            " ON r.a = s.a WHERE s.a NOT IN (SELECT a FROM db.t) ORDER BY s.a"
        ),
        inserted(
            query(
                "SELECT s.a, q.b FROM `__hiveacid_1` AS `s` JOIN `__hiveacid_2` AS `q` ON s.a = q.a"
                " LEFT JOIN `__hiveacid_1` r ON r.a = s.a WHERE s.a NOT IN"
                " (SELECT a FROM `__hiveacid_3` AS `t`) ORDER BY s.a",
                _1="db.s",
                _2="db2.q",
                _3="db.t",
            )
        ),
    ),
    (
        (
            "WITH s AS (SELECT a FROM db.s), r AS (SELECT a FROM s) INSERT INTO db.t"
            " SELECT * FROM r JOIN S ON r.a = s.a"
        ),
        inserted(
            query(
                "WITH s AS (SELECT a FROM `__hiveacid_1` AS `s`), r AS (SELECT a FROM s)"
                " SELECT * FROM r JOIN S ON r.a = s.a",
                _1="db.s",
            )
        ),
    ),
    (
        "INSERT INTO db.t SELECT s.a AS a, 1 c FROM db.s GROUP BY a ORDER BY a NULLS LAST LIMIT 1",
        inserted(
            query(
                "SELECT s.a AS a, 1 c FROM `__hiveacid_1` AS `s` GROUP BY a"
                " ORDER BY a NULLS LAST LIMIT 1",
                v1="db.s",
            )
        ),
    ),
    (
        "INSERT INTO db.t SELECT s.a AS b, s.b AS c FROM db.s GROUP BY s.a, s.b ORDER BY b",
        inserted(
            query(
                "SELECT s.a AS b, s.b AS c FROM `__hiveacid_1` AS `s` GROUP BY s.a, s.b ORDER BY b",
                v1="db.s",
            )
        ),
    ),
    (
        "INSERT INTO db.t (a) WITH s AS (SELECT 1 a) SELECT a FROM s",
        inserted(query("WITH s AS (SELECT 1 a) SELECT a FROM s"), columns=("a",)),
    ),
    (
        "INSERT INTO db.t SELECT count(*) FROM db.s GROUP BY a + 1, substr(b, 1, 2)",
        inserted(
            query(
                "SELECT count(*) FROM `__hiveacid_1` AS `s` GROUP BY a + 1, substr(b, 1, 2)",
                _1="db.s",
            )
        ),
    ),
    (
        "INSERT INTO db.t SELECT a, k FROM db.s x LATERAL VIEW OUTER explode(m) e AS k, v",
        inserted(
            query(
                "SELECT a, k FROM `__hiveacid_1` x LATERAL VIEW OUTER explode(m) e AS k, v",
                _1="db.s",
            )
        ),
    ),
    (
        (
            "INSERT INTO db.t SELECT a, count(*) FROM db.s WHERE b > 1 GROUP BY a"
            " HAVING count(*) > 1 UNION ALL SELECT 1, 2 UNION ALL SELECT * FROM (SELECT 3, 4) q"
        ),
        inserted(
            query(
                "SELECT a, count(*) FROM `__hiveacid_1` AS `s` WHERE b > 1 GROUP BY a"
                " HAVING count(*) > 1 UNION ALL SELECT 1, 2"
                " UNION ALL SELECT * FROM (SELECT 3, 4) q",
                _1="db.s",
            )
        ),
    ),
    (
        (
            "INSERT INTO db.t SELECT a, row_number() OVER"
            " (PARTITION BY a ORDER BY b DESC NULLS LAST) FROM db.s -- newest\n  LIMIT 3"
        ),
        inserted(
            query(
                "SELECT a, row_number() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST)"
                " FROM `__hiveacid_1` AS `s` LIMIT 3",
                _1="db.s",
            )
        ),
    ),
    (
        "INSERT INTO db.t SELECT s.a IS DISTINCT FROM r.a, 1 FROM db.s JOIN db.r ON s.b = r.b",
        inserted(
            query(
                "SELECT s.a IS DISTINCT FROM r.a, 1 FROM `__hiveacid_1` AS `s`"
                " JOIN `__hiveacid_2` AS `r` ON s.b = r.b",
                _1="db.s",
                _2="db.r",
            )
        ),
    ),
    (
        "INSERT INTO db.t SELECT a FROM db.s CROSS JOIN db.r",
        inserted(
            query(
                "SELECT a FROM `__hiveacid_1` AS `s` CROSS JOIN `__hiveacid_2` AS `r`",
                _1="db.s",
                _2="db.r",
            )
        ),
    ),
]
CHANGES: list[tuple[str, UpdateSpec | DeleteSpec | CompactSpec]] = [
    ("DELETE FROM db.t", DeleteSpec(target="db.t")),
    ("DELETE FROM db.t WHERE a = 1", DeleteSpec(target="db.t", where="a = 1")),
    ("delete from DB.T x where x.a = 1", DeleteSpec(target="db.t", where="t.a = 1")),
    ("DELETE FROM db.t AS `x y` WHERE `x y`.a = 1", DeleteSpec(target="db.t", where="t.a = 1")),
    ("DELETE FROM db.t WHERE db.t.a = t.b", DeleteSpec(target="db.t", where="t.a = t.b")),
    (
        (
            "DELETE FROM db.x WHERE x.a IN (SELECT s.a FROM db.s WHERE s.x = x.s AND b = s.t.x)"
            " AND NOT EXISTS (SELECT * FROM db.s q JOIN db.x y ON q.a = y.a WHERE y.b = x.x.b)"
        ),
        DeleteSpec(
            target="db.x",
            where="t.a IN (SELECT s.a FROM `__hiveacid_1` AS `s` WHERE s.x = t.s AND `s`.b = s.t.x)"
            " AND NOT EXISTS (SELECT * FROM `__hiveacid_1` q JOIN `__hiveacid_2` y ON q.a = y.a"
            " WHERE y.b = t.x.b)",
            tables={"__hiveacid_1": "db.s", "__hiveacid_2": "db.x"},
        ),
    ),
    (
        # A column that db.s lacks has to be an error, not the statement's own.
        "DELETE FROM db.t WHERE id IN (SELECT id FROM db.s WHERE c.x > 1 AND t.id > 2)",
        DeleteSpec(
            target="db.t",
            where="id IN (SELECT `s`.id FROM `__hiveacid_1` AS `s` WHERE `s`.c.x > 1 AND t.id > 2)",
            tables={"__hiveacid_1": "db.s"},
        ),
    ),
    (
        # Within the query, the user's own t hides the statement's.
        "DELETE FROM db.t WHERE a = (SELECT max(t.a) FROM db.s t) AND t.b > 1",
        DeleteSpec(
            target="db.t",
            where="a = (SELECT max(t.a) FROM `__hiveacid_1` t) AND t.b > 1",
            tables={"__hiveacid_1": "db.s"},
        ),
    ),
    (
        # Of two tables called s, that of the query between is nearer.
        (
            "DELETE FROM db.x s WHERE EXISTS (SELECT 1 FROM db.r s"
            " WHERE EXISTS (SELECT 1 FROM db.q y WHERE y.a = s.b))"
        ),
        DeleteSpec(
            target="db.x",
            where="EXISTS (SELECT 1 FROM `__hiveacid_1` s"
            " WHERE EXISTS (SELECT 1 FROM `__hiveacid_2` y WHERE y.a = s.b))",
            tables={"__hiveacid_1": "db.r", "__hiveacid_2": "db.q"},
        ),
    ),
    (
        (
            "UPDATE db.t q SET a = (SELECT max(s.a) FROM db.s WHERE s.b = q.b), c = 'db.s'"
            " WHERE b IN (SELECT b FROM (SELECT s.b FROM db2.s LATERAL VIEW explode(s.m) e AS k) z)"
        ),
        UpdateSpec(
            target="db.t",
            set={
                "a": "(SELECT max(s.a) FROM `__hiveacid_1` AS `s` WHERE s.b = t.b)",
                "c": "'db.s'",
            },
            where="b IN (SELECT `z`.b FROM"
            " (SELECT s.b FROM `__hiveacid_2` AS `s` LATERAL VIEW explode(s.m) e AS k) z)",
            tables={"__hiveacid_1": "db.s", "__hiveacid_2": "db2.s"},
        ),
    ),
    ("UPDATE db.t SET a = 1", UpdateSpec(target="db.t", set={"a": "1"})),
    (
        "UPDATE db.t SET a = default, b = `DEFAULT`",
        UpdateSpec(target="db.t", set={"a": "DEFAULT", "b": "`DEFAULT`"}),
    ),
    ("UPDATE db.t SET `B``c` = 1", UpdateSpec(target="db.t", set={"b`c": "1"})),
    (
        "UPDATE db.t SET A = b, `b c` = concat(a, ', WHERE'), d = NULL WHERE a IN (1, 2) AND b = 3",
        UpdateSpec(
            target="db.t",
            set={"a": "b", "b c": "concat(a, ', WHERE')", "d": "NULL"},
            where="a IN (1, 2) AND b = 3",
        ),
    ),
    (
        "UPDATE db.t x SET x.a = x.b, b = CASE WHEN x.a = 1 THEN 2 ELSE x.b END",
        UpdateSpec(target="db.t", set={"a": "t.b", "b": "CASE WHEN t.a = 1 THEN 2 ELSE t.b END"}),
    ),
    ("TRUNCATE db.t", TruncateSpec(target="db.t")),
    (
        "truncate table db.t partition (Y=1, `m`='a/b')",
        TruncateSpec(target="db.t", partition={"y": "1", "m": "a/b"}),
    ),
    (
        "LOAD DATA INPATH 'hdfs://nn/in' INTO TABLE db.t",
        LoadSpec(target="db.t", location="hdfs://nn/in"),
    ),
    (
        "load data inpath \"/a;b\" overwrite into table `db`.t partition (Y=01, `m`='a/b')",
        LoadSpec(target="db.t", location="/a;b", partition={"y": "1", "m": "a/b"}, overwrite=True),
    ),
    (
        "ALTER TABLE db.t COMPACT 'major'",
        CompactSpec(target="db.t", choice=CompactionChoice.MAJOR),
    ),
    (
        "alter table db.t partition (Y=TRUE, m='a/b') compact \"MINOR\" and wait",
        CompactSpec(target="db.t", partition="y=true/m=a%2Fb", choice=CompactionChoice.MINOR),
    ),
]


def clause(when: str, action: str, condition: str | None = None, **more: Any) -> MergeClause:  # noqa: ANN401
    return MergeClause(
        when=MergeWhen(when), action=MergeAction(action), condition=condition, **more
    )


MERGES: list[tuple[str, MergeSpec]] = [
    (
        "MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN DELETE",
        MergeSpec(target="db.t", source=ALL, keys=("id",), clauses=(clause("matched", "delete"),)),
    ),
    (
        (
            "MERGE INTO db.t AS s USING db.s AS t ON (t.Id = s.ID AND s.k = t.k) AND s.m = 1"
            " AND (t.x > 1 OR s.y BETWEEN 1 AND 2) AND (t.z = 1) = (s.z = 2)"
            " WHEN MATCHED AND t.op = 'D' THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET a = t.a + s.a, s.b = 't.b'"
            " WHEN NOT MATCHED AND CASE WHEN t.a = 1 THEN true END"
            " THEN INSERT VALUES (t.id, 'x', NULL)"
            " WHEN NOT MATCHED BY SOURCE AND s.a = 1 THEN UPDATE SET a = 0"
            " WHEN NOT MATCHED BY SOURCE THEN DELETE"
        ),
        MergeSpec(
            target="db.t",
            source=ALL,
            keys=("id", "k"),
            condition="t.m = 1 AND (s.x > 1 OR t.y BETWEEN 1 AND 2) AND (s.z = 1) = (t.z = 2)",
            clauses=(
                clause("matched", "delete", "s.op = 'D'"),
                clause("matched", "update", set={"a": "s.a + t.a", "b": "'t.b'"}),
                clause(
                    "not_matched",
                    "insert",
                    "CASE WHEN s.a = 1 THEN true END",
                    values=("s.id", "'x'", "NULL"),
                ),
                clause("not_matched_by_source", "update", "t.a = 1", set={"a": "0"}),
                clause("not_matched_by_source", "delete"),
            ),
        ),
    ),
    (
        (
            "MERGE INTO db.t USING (SELECT id, a FROM db.s) AS q ON t.id = q.id"
            " WHEN NOT MATCHED BY TARGET THEN INSERT (ID, `b c`) VALUES (q.id, concat(q.a, ','))"
            " WHEN MATCHED THEN UPDATE SET *"
        ),
        MergeSpec(
            target="db.t",
            source=query("SELECT id, a FROM `__hiveacid_1` AS `s`", _1="db.s"),
            keys=("id",),
            clauses=(
                clause("not_matched", "insert", set={"id": "s.id", "b c": "concat(s.a, ',')"}),
                clause("matched", "update"),
            ),
        ),
    ),
    (
        (
            "MERGE INTO db.t USING db.s ON s.id = t.id AND t.a = s.b AND t.id = s.c"
            " AND t.a <=> s.a AND t.x.y = s.z AND length(t.a) = s.n"
            " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.a)"
        ),
        MergeSpec(
            target="db.t",
            source=SourceSpec(
                table="db.s",
                query="SELECT `c` AS `c`, `a` AS `__hiveacid_a`, `z` AS `z`, `n` AS `n`,"
                " `id` AS `id`, `b` AS `a` FROM source",
            ),
            keys=("id", "a"),
            condition="t.id = s.`c` AND t.a <=> s.`__hiveacid_a` AND t.x.y = s.`z`"
            " AND length(t.a) = s.`n`",
            clauses=(clause("not_matched", "insert", set={"id": "s.`__hiveacid_a`"}),),
        ),
    ),
    (
        KEYS_DIFFER + "WHEN MATCHED AND b.id > 1 THEN UPDATE SET v = b.`v w`.x",
        MergeSpec(
            target="db.t",
            source=SourceSpec(
                table="db.s",
                query="SELECT `id` AS `__hiveacid_id`, `v w` AS `v w`, `cid` AS `id` FROM source",
            ),
            keys=("id",),
            clauses=(clause("matched", "update", "s.`__hiveacid_id` > 1", set={"v": "s.`v w`.x"}),),
        ),
    ),
    (
        (
            "MERGE INTO db.t USING (SELECT * FROM db.s JOIN db.q USING (x)) b ON t.id = b.cid"
            " WHEN MATCHED THEN DELETE"
        ),
        MergeSpec(
            target="db.t",
            source=query(
                "SELECT `cid` AS `id` FROM (SELECT * FROM `__hiveacid_1` AS `s` JOIN `__hiveacid_2`"
                " AS `q` USING (x)) AS source",
                _1="db.s",
                _2="db.q",
            ),
            keys=("id",),
            clauses=(clause("matched", "delete"),),
        ),
    ),
    (
        (
            "MERGE INTO db.t USING (SELECT s.* FROM db.s) b ON t.id = b.id"
            " WHEN MATCHED AND b.x IN (SELECT y FROM db.s WHERE t.z = s.z) THEN DELETE"
            " WHEN NOT MATCHED AND NOT EXISTS (SELECT 1 FROM db.t q WHERE q.v = b.v) THEN INSERT *"
        ),
        MergeSpec(
            target="db.t",
            source=query("SELECT s.* FROM `__hiveacid_1` AS `s`", _1="db.s"),
            keys=("id",),
            clauses=(
                clause(
                    "matched",
                    "delete",
                    "s.x IN (SELECT `s`.y FROM `__hiveacid_2` AS `s` WHERE t.z = s.z)",
                ),
                clause(
                    "not_matched",
                    "insert",
                    "NOT EXISTS (SELECT 1 FROM `__hiveacid_3` q WHERE q.v = s.v)",
                ),
            ),
            tables={"__hiveacid_2": "db.s", "__hiveacid_3": "db.t"},
        ),
    ),
    (
        KEYS_DIFFER + "WHEN MATCHED THEN UPDATE SET a = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT VALUES (b.cid, DEFAULT)",
        MergeSpec(
            target="db.t",
            source=SourceSpec(
                table="db.s", query="SELECT `cid` AS `cid`, `cid` AS `id` FROM source"
            ),
            keys=("id",),
            clauses=(
                clause("matched", "update", set={"a": "DEFAULT"}),
                clause("not_matched", "insert", values=("s.`cid`", "DEFAULT")),
            ),
        ),
    ),
    (
        KEYS_DIFFER + "WHEN MATCHED AND b.v IN (SELECT max(y) FROM db.o o WHERE o.z = b.z)"
        " THEN DELETE",
        MergeSpec(
            target="db.t",
            source=SourceSpec(
                table="db.s", query="SELECT `v` AS `v`, `z` AS `z`, `cid` AS `id` FROM source"
            ),
            keys=("id",),
            clauses=(
                clause(
                    "matched",
                    "delete",
                    "s.`v` IN (SELECT max(`o`.y) FROM `__hiveacid_1` o WHERE o.z = s.`z`)",
                ),
            ),
            tables={"__hiveacid_1": "db.o"},
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), [*INSERTS, *CHANGES, *MERGES])
def test_a_statement_is_read_as_the_equivalent_job(text: str, expected: Job) -> None:
    assert job(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t WHERE a = 1",
        "UPDATE t SET a = 1",
        "INSERT INTO t SELECT * FROM s",
        "INSERT INTO t SELECT a FROM s JOIN other.s x ON s.a = x.a",
        "WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c, d",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "LOAD DATA INPATH '/a' INTO TABLE t",
        "ALTER TABLE t COMPACT 'major'",
    ],
)
def test_a_table_without_a_database_is_refused_unless_a_default_database_is_given(
    text: str,
) -> None:
    with pytest.raises(SqlTextError, match="is not the name of a table"):
        job(text)
    found = job(text, "DB")
    assert found.target == "db.t"
    if isinstance(found, InsertSpec | MergeSpec):
        tables = found.source.tables or {"": found.source.table}
        assert {str(name).partition(".")[0] for name in tables.values()} <= {"db", "other"}
        assert "c" not in {str(name).partition(".")[2] for name in tables.values()}


def test_more_than_500_rows_are_refused_if_any_contains_an_expression() -> None:
    rows = "(1), " * 499
    assert isinstance(job(f"INSERT INTO db.t VALUES {rows}(1 + 1)"), InsertSpec)
    assert isinstance(job(f"INSERT INTO db.t VALUES {rows}(1), (2)"), InsertSpec)
    with pytest.raises(SqlTextError, match="put the rows into a table"):
        job(f"INSERT INTO db.t VALUES {rows}(1), (1 + 1)")


def test_a_negative_zero_is_read_as_zero() -> None:
    found = job("INSERT INTO db.t VALUES (-0.0, -0)")
    assert isinstance(found, InsertSpec)
    assert repr(found.source.values) == "((0, 0),)"


def test_a_part_that_parses_differently_within_its_statement_is_refused() -> None:
    names = NameScope(qualifiers={}, sides=frozenset("t"))
    (alone,), (other,) = statements_of("a = 1"), statements_of("a = 1 AND b = 2")
    tree = alone.parsed(exp.Condition)
    assert agreed(alone, tree, names) == "a = 1"
    for node in (other.parsed(exp.Condition), None):
        with pytest.raises(SqlTextError, match="not clear where this ends"):
            agreed(alone, node, names)


def test_a_table_that_the_parser_reads_as_a_different_table_is_refused() -> None:
    (span,) = statements_of("DELETE FROM db.t x")
    node = span.parsed().this
    check_table(span, node, NamedTable(ref=TableRef("db", "t"), alias="x"))
    for ref, alias in ((("db", "s"), "x"), (("d", "t"), "x"), (("db", "t"), None)):
        with pytest.raises(SqlTextError, match="not clear which table"):
            check_table(span, node, NamedTable(ref=TableRef(*ref), alias=alias))


def test_each_statement_has_its_number_line_and_column() -> None:
    found = read_script("DELETE FROM db.t;\n\n  ;  UPDATE db.t\nSET a = 1\n; -- end\n")
    assert [(s.number, s.line, s.column) for s in found] == [(1, 1, 1), (2, 3, 6)]


MERGE = "MERGE INTO db.t USING db.s ON t.id = s.id "
ERRORS: list[tuple[str, int, str]] = [
    # other statements
    ("SELECT 1", 1, "'SELECT' are not supported; a task changes rows"),
    ("USE db", 1, "database"),
    ("SET a = b", 1, "conf"),
    ("'x'", 1, "not supported"),
    ("(DELETE FROM db.t)", 1, "not supported"),
    ("EXPLAIN DELETE FROM db.t", 1, "not supported"),
    ("TRUNCATE TABLE db.t PARTITION (a)", 1, "'a' has no value"),
    ("TRUNCATE TABLE db.t PARTITION (a=1, a=2)", 37, "named twice"),
    ("TRUNCATE TABLE db.t COLUMNS (a)", 21, "not understood here"),
    ("TRUNCATE TABLE", 15, "table"),
    ("LOAD DATA LOCAL INPATH '/a' INTO TABLE db.t", 11, "omit LOCAL"),
    ("LOAD MODEL m", 1, "not followed by DATA INPATH"),
    ("LOAD DATA INPATH ' ' INTO TABLE db.t", 1, "not followed by a location"),
    ("LOAD DATA INPATH concat('a') INTO TABLE db.t", 1, "not followed by a location"),
    ("LOAD DATA INPATH '/a' 'b' INTO TABLE db.t", 23, "not followed by INTO TABLE"),
    ("LOAD DATA INPATH '/a'", 22, "not followed by INTO TABLE"),
    ("LOAD DATA INPATH '/a' INTO TABLE db.t PARTITION (p)", 1, "'p' has no value"),
    ("LOAD DATA INPATH '/a' INTO TABLE db.t INPUTFORMAT 'x' SERDE 'y'", 39, "not understood"),
    ("ALTER TABLE db.t COMPACT 'rebalance'", 26, "'minor' or 'major'"),
    ("ALTER TABLE db.t COMPACT major", 26, "'minor' or 'major'"),
    ("ALTER TABLE db.t COMPACT", 25, "'minor' or 'major'"),
    ("ALTER TABLE db.t COMPACT 'major' POOL 'x'", 34, "the words after the kind of compaction"),
    ("ALTER TABLE db.t PARTITION (a) COMPACT 'major'", 30, "not a valid partition value"),
    ("ALTER TABLE db.t PARTITION (a=1, a=2) COMPACT 'major'", 34, "named twice"),
    ("ALTER VIEW db.t COMPACT 'major'", 7, "only ALTER TABLE is supported"),
    # DELETE
    ("DELETE db.t", 1, "FROM is missing"),
    ("DELETE FROM", 12, "the name of a table is missing"),
    ("DELETE FROM 'x'", 13, "the name of a table is missing"),
    ("DELETE FROM a.b.c", 13, "write only db.table"),
    ("DELETE FROM db.`a b`", 13, "not a valid table name"),
    ("DELETE FROM db.t WHERE", 18, "cannot be read at 'WHERE': something is missing there"),
    ("DELETE FROM db.t x y WHERE a = 1", 20, "cannot be read"),
    ("DELETE FROM db.t AS WHERE a = 1", 18, "no name follows AS"),
    ("DELETE FROM db.t WHERE a = 1 LIMIT 3", 36, "LIMIT in DELETE"),
    ("DELETE FROM db.t WHERE a = 1 ORDER BY a LIMIT 3", 39, "ORDER in DELETE"),
    ("DELETE FROM db.t WHERE a = 1 RETURNING a", 40, "RETURNING in DELETE"),
    ("DELETE FROM db.t USING db.s WHERE t.a = s.a", 24, "in DELETE"),
    ("DELETE FROM db.t PARTITION (p = 1) WHERE a = 1", 31, "cannot be read"),
    ("DELETE FROM db.t, db.s", 19, "JOIN in TABLE"),
    ("DELETE FROM db.t WHERE a = ANY (SELECT a FROM db.s)", 33, "ANY and ALL are not supported"),
    ("DELETE FROM db.t WHERE a IN (WITH c AS (SELECT 1) SELECT * FROM c)", 30, "WITH, ANY and"),
    ("DELETE FROM db.t q WHERE a IN (SELECT t.a FROM db.s t WHERE t.b = q.b)", 67, "another alias"),
    ("DELETE FROM db.x WHERE a IN (SELECT t.a FROM db.t WHERE t.b = x.b)", 63, "another alias"),
    ("DELETE FROM db.x WHERE a IN (SELECT b FROM db.s JOIN db.r ON s.c = r.c)", 37, "any table"),
    ("DELETE FROM db.x WHERE a IN (SELECT k FROM db.s LATERAL VIEW explode(s.m) e AS k)", 37, "an"),
    ("DELETE FROM db.x WHERE a IN (SELECT b)", 37, "may be a column of any table here"),
    ("DELETE FROM db.t WHERE a IN (SELECT b FROM db.t WHERE db.t.a = 1)", 55, "another alias"),
    ("DELETE FROM db.x WHERE a IN (SELECT b FROM db.x WHERE db.x.a = 1)", 55, "a different alias"),
    ("DELETE FROM db.t WHERE a IN (SELECT a FROM s)", 44, "is not the name of a table"),
    ("DELETE FROM db.t WHERE a IN (SELECT a FROM db.s GROUP BY 1)", 49, "a constant in Hive"),
    ("DELETE FROM db.t WHERE a IN (SELECT a FROM db.s ORDER BY a LIMIT 1)", 58, "NULLS FIRST"),
    ("DELETE FROM db.t WHERE a IN (SELECT version() FROM db.s)", 37, "version()"),
    ("DELETE FROM db.t WHERE a IN (SELECT a FROM db.s TABLESAMPLE (1 ROWS))", 62, "TABLESAMPLE"),
    # UPDATE
    ("UPDATE db.t", 12, "SET is missing"),
    ("UPDATE db.t SET", 16, "not an assignment"),
    ("UPDATE db.t SET a", 17, "not an assignment"),
    ("UPDATE db.t SET a = 1, a = 2", 24, "assigned twice"),
    ("UPDATE db.t SET a = 1, A = 2", 24, "assigned twice"),
    ("UPDATE db.t SET x.a = 1", 17, "a column of the target"),
    ("UPDATE db.t x SET t.a = 1", 19, "a column of the target"),
    ("UPDATE db.t SET (a, b) = (1, 2)", 17, "not a column"),
    ("UPDATE db.t SET a = upper(DEFAULT)", 27, "DEFAULT replaces a column"),
    ("UPDATE db.t SET a = 1 WHERE b = DEFAULT", 33, "DEFAULT replaces a column"),
    ("UPDATE db.t SET a = 1 FROM db.s WHERE t.a = s.a", 28, "FROM in UPDATE"),
    ("UPDATE db.t SET a = 1 WHERE b = 2 LIMIT 1", 41, "LIMIT in UPDATE"),
    ("UPDATE db.t JOIN db.s ON t.a = s.a SET a = 1", 18, "SET is missing"),
    ("UPDATE db.t SET a = (SELECT max(a) FROM explode(3))", 41, "functions that return a table"),
    ("WITH c AS (SELECT 1) UPDATE db.t SET a = 1", 1, "INSERT is missing after WITH"),
    # INSERT
    ("INSERT db.t VALUES (1)", 1, "neither INTO nor OVERWRITE"),
    ("INSERT INTO db.t", 17, "the rows are missing"),
    ("INSERT INTO db.t (a)", 21, "the rows are missing"),
    ("INSERT INTO db.t VALUES", 18, "cannot be read"),
    ("INSERT INTO db.t VALUES 1, 2", 25, "not a row"),
    ("INSERT INTO db.t VALUES (1), (1, 2)", 30, "2 values, not 1"),
    ("INSERT INTO db.t (a, b) VALUES (1)", 32, "1 values, not 2"),
    ("INSERT INTO db.t (a, A) VALUES (1, 2)", 22, "named twice"),
    ("INSERT INTO db.t (a.b) VALUES (1)", 19, "not a column of the table"),
    (
        "INSERT INTO db.t VALUES (1), (DEFAULT), (2.5)",
        26,
        "if some rows have DEFAULT in a string column",
    ),
    ("INSERT INTO db.t VALUES (a)", 26, "no table here contains this column"),
    ("INSERT INTO db.t VALUES (upper('x')), (1), ('02')", 45, "write all of them as"),
    ("INSERT INTO db.t VALUES (1) LIMIT 1", 29, "LIMIT"),
    ("INSERT INTO db.t VALUES ((SELECT 1))", 27, "a query within"),
    (r"INSERT INTO db.t VALUES ('\ud83d')", 26, "an unpaired surrogate (half a character)"),
    ("INSERT INTO db.t x VALUES (1)", 18, "cannot be read at 'x'"),
    ("INSERT INTO db.t PARTITION p = 1 VALUES (1)", 1, "PARTITION is not followed by a list"),
    ("INSERT INTO db.t PARTITION (p = NULL) VALUES (1)", 31, "let a query supply it"),
    ("INSERT INTO db.t PARTITION (p = '') VALUES (1)", 31, "not a valid partition value"),
    ("INSERT INTO db.t PARTITION (p = 1 + 1) VALUES (1)", 31, "not a valid partition value"),
    ("INSERT INTO db.t PARTITION (p > 1) VALUES (1)", 31, "not a valid partition value"),
    ("INSERT INTO db.t PARTITION (p, q = 1) SELECT 1", 32, "comes after one without"),
    ("INSERT INTO db.t PARTITION (p = 1, P = 2) SELECT 1", 36, "named twice"),
    ("INSERT INTO db.t PARTITION (p = 1) (p, a) SELECT 1", 1, "already has a value"),
    ("INSERT INTO db.t PARTITION (p) (a) SELECT 1", 1, "not in the list"),
    ("INSERT OVERWRITE TABLE db.t PARTITION (p = 1) IF NOT EXISTS SELECT 1", 47, "IF NOT EXISTS"),
    ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", 18, "writing a directory"),
    ("INSERT OVERWRITE LOCAL DIRECTORY '/x' SELECT 1", 18, "writing a directory"),
    ("INSERT INTO db.t TABLE db.s", 24, "TABLE in INSERT"),
    ("INSERT INTO db.t BY NAME SELECT 1", 13, "BY_NAME in INSERT"),
    ("INSERT INTO db.t SELECT 1 RETURNING a", 37, "RETURNING in INSERT"),
    ("INSERT INTO db.t SELECT 1; SELECT 2", 28, "not supported"),
    ("WITH c AS (SELECT 1) INSERT INTO db.t VALUES (1)", 1, "VALUES cannot use WITH"),
    ("WITH c AS (SELECT 1) INSERT INTO db.t WITH d AS (SELECT 1) SELECT 1", 39, "two WITH"),
    # queries
    ("INSERT INTO db.t SELECT a FROM db.s TABLESAMPLE (10 PERCENT)", 50, "TABLESAMPLE"),
    ("INSERT INTO db.t SELECT TRANSFORM (a) USING 'cat' AS b FROM db.s", 36, "not supported"),
    ("INSERT INTO db.t SELECT a FROM db.s GROUP BY 1", 37, "a constant in Hive"),
    ("INSERT INTO db.t SELECT a FROM db.s GROUP BY b, (1)", 37, "a constant in Hive"),
    ("INSERT INTO db.t SELECT a FROM db.s GROUP BY ROLLUP (1, 2)", 37, "a constant in Hive"),
    ("INSERT INTO db.t SELECT left(a, 1) FROM db.s", 25, "not compared"),
    ("INSERT INTO db.t SELECT system.builtin.left(a, 1) FROM db.s", 25, "functions of a database"),
    ("INSERT INTO db.t SELECT 1, `builtin` . `left` (a, 1) FROM db.s", 28, "functions of a"),
    ("INSERT INTO db.t SELECT a FROM db.s WHERE session.f(a) > 1", 43, "functions of a database"),
    ("DELETE FROM db.t WHERE a IN (SELECT builtin.f(b) FROM db.s)", 37, "functions of a database"),
    ("INSERT INTO db.t SELECT a FROM explode(3)", 32, "functions that return a table"),
    ("INSERT INTO db.t SELECT a FROM (VALUES (1)) v", 41, "VALUES as a table"),
    ("INSERT INTO db.t SELECT a FROM db.s ORDER BY a LIMIT 1", 46, "NULLS FIRST"),
    (
        "INSERT INTO db.t SELECT 1 AS A, sum(b) FROM db.s GROUP BY a ORDER BY a NULLS LAST LIMIT 1",
        70,
        "the GROUP BY column in Hive",
    ),
    ("INSERT INTO db.t SELECT a FROM db.s ORDER BY a NULLS LAST, b LIMIT 1", 60, "NULLS FIRST"),
    ("INSERT INTO db.t SELECT max(a) OVER (ORDER BY b) FROM db.s", 47, "NULLS FIRST"),
    ("INSERT INTO db.t SELECT max(a) OVER w FROM db.s WINDOW w AS (ORDER BY b)", 71, "NULLS FIRST"),
    ("INSERT INTO db.t SELECT max(a) OVER (ORDER BY b ROWS 1 PRECEDING) FROM db.s", 47, "NULLS"),
    ("INSERT INTO db.t SELECT a FROM db.s, db.q JOIN db.r ON q.a = r.a", 27, "CROSS JOIN"),
    ("INSERT INTO db.t SELECT 1 UNION SELECT 2 EXCEPT SELECT 3", 25, "parentheses"),
    ("INSERT INTO db.t SELECT a FROM db.s STRAIGHT_JOIN db.q ON s.a = q.a", 18, "not supported"),
    ("INSERT INTO db.t SELECT a FROM db.s NATURAL JOIN db.q", 50, "not supported"),
    ("INSERT INTO db.t SELECT a FROM db.s FULL OUTER JOIN db.q USING (a)", 53, "left table's"),
    ("INSERT INTO db.t SELECT a FROM db.s RIGHT JOIN db.q USING (a)", 48, "is the left table's"),
    ("INSERT INTO db.t SELECT a FROM db.s QUALIFY row_number() OVER () = 1", 45, "QUALIFY"),
    ("INSERT INTO db.t SELECT a FROM db.s FOR UPDATE", 18, "LOCK in SELECT"),
    ("INSERT INTO db.t SELECT a INTO db.x FROM db.s", 32, "INTO"),
    ("INSERT INTO db.t SELECT * EXCEPT (a) FROM db.s", 35, "in STAR"),
    ("INSERT INTO db.t WITH RECURSIVE c AS (SELECT 1) SELECT * FROM c", 33, "RECURSIVE in WITH"),
    ("INSERT INTO db.t WITH c AS (SELECT * FROM c) SELECT * FROM c", 18, "refers to itself"),
    (
        "INSERT INTO db.t WITH c AS (SELECT * FROM d), d AS (SELECT 1) SELECT 1",
        43,
        "names a later WITH query",
    ),
    ("INSERT INTO db.t SELECT a FROM c.d.e", 32, "write only db.table"),
    ("INSERT INTO db.t SELECT a FROM db.`x y`", 32, "not a valid table name"),
    ("INSERT INTO db.t SELECT a FROM db.s PIVOT (sum(a) FOR b IN (1))", 44, "PIVOT"),
    ("INSERT INTO db.t SELECT count(*) FILTER (WHERE a > 1) FROM db.s", 25, "FILTER"),
    ("INSERT INTO db.t SELECT a day FROM db.s WHERE b = 1 day", 53, "cannot be read at 'day'"),
    ("INSERT INTO db.t SELECT a day, 1 day FROM db.s", 34, "an interval in Hive"),
    ("INSERT INTO db.t SELECT version() FROM db.s", 25, "version()"),
    ("INSERT INTO db.t SELECT a || b + c FROM db.s", 32, "parentheses"),
    ("INSERT INTO db.t SELECT a FROM db.s LIMIT 1, 2", 37, "LIMIT"),
    # MERGE
    ("MERGE db.t USING db.s ON t.id = s.id WHEN MATCHED THEN DELETE", 7, "INTO is missing"),
    ("MERGE INTO db.t ON t.id = s.id WHEN MATCHED THEN DELETE", 20, "USING is missing"),
    ("MERGE INTO db.t USING db.s WHEN MATCHED THEN DELETE", 33, "ON is missing"),
    ("MERGE INTO db.t USING db.s ON t.id = s.id", 42, "WHEN is missing"),
    ("MERGE INTO db.t USING (SELECT 1) ON t.id = s.id WHEN MATCHED THEN DELETE", 32, "no alias"),
    ("MERGE INTO db.t USING (db.s) s ON t.id = s.id WHEN MATCHED THEN DELETE", 23, "not a query"),
    (
        "MERGE INTO db.t USING x.t ON t.id = t.id WHEN MATCHED THEN DELETE",
        1,
        "name of both target and source",
    ),
    (
        "MERGE INTO db.t a USING db.s A ON a.id = a.id WHEN MATCHED THEN DELETE",
        1,
        "name of both target and source",
    ),
    ("MERGE INTO db.t USING db.s ON id = id WHEN MATCHED THEN DELETE", 31, "no equality"),
    (
        "MERGE INTO db.t USING db.s ON t.id = s.id AND t.k = 1 OR t.k = 2 WHEN MATCHED THEN DELETE",
        31,
        "no",
    ),
    ("MERGE INTO db.t USING db.s ON t.id > s.id WHEN MATCHED THEN DELETE", 31, "no equality"),
    ("MERGE INTO db.t USING db.s ON t.id = t.k WHEN MATCHED THEN DELETE", 31, "no equality"),
    (
        "MERGE INTO db.t USING db.s ON t.id = s.id OR t.k = s.k WHEN MATCHED THEN DELETE",
        31,
        "no equality",
    ),
    (
        "MERGE INTO db.t USING db.s ON t.id = lower(s.id) WHEN MATCHED THEN DELETE",
        31,
        "no equality",
    ),
    ("MERGE INTO db.t USING db.s ON t.id.x = s.id WHEN MATCHED THEN DELETE", 31, "no equality"),
    (MERGE + "AND t.a IN (SELECT 1) WHEN MATCHED THEN DELETE", 55, "a query within"),
    (MERGE + "WHEN MATCHED DELETE", 62, "THEN is missing"),
    (MERGE + "WHEN MATCHED THEN DELETE RETURNING a", 78, "RETURNING in MERGE"),
    (MERGE + "WHEN MATCHED THEN DELETE WHERE a = 1", 68, "cannot be read"),
    (MERGE + "WHEN MATCHED THEN INSERT VALUES (1)", 61, "write UPDATE or DELETE"),
    (MERGE + "WHEN NOT MATCHED THEN DELETE", 65, "write INSERT"),
    (MERGE + "WHEN NOT MATCHED BY SOURCE THEN INSERT VALUES (1)", 75, "write UPDATE or DELETE"),
    (MERGE + "WHEN MATCHED THEN DO NOTHING", 61, "is not UPDATE, DELETE or INSERT"),
    (MERGE + "WHEN MATCHED OR s.a = 1 THEN DELETE", 59, "cannot be read"),
    (MERGE + "WHEN MATCHED AND s.a = 1 OR s.a = 2 THEN DELETE", 68, "OR but without parentheses"),
    (
        MERGE + "WHEN MATCHED THEN DELETE WHEN MATCHED AND s.a = 1 THEN DELETE",
        104,
        "no row reaches",
    ),
    (MERGE + "WHEN MATCHED THEN UPDATE SET a = 1, a = 2", 79, "assigned twice"),
    (MERGE + "WHEN MATCHED THEN UPDATE SET s.a = 1", 72, "a column of the target"),
    (MERGE + "WHEN MATCHED AND t.a = DEFAULT THEN DELETE", 66, "DEFAULT replaces a column"),
    (MERGE + "WHEN MATCHED THEN UPDATE a = 1", 68, "cannot be read"),
    (MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", 82, "no source row"),
    (MERGE + "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", 72, "2 columns get 1 values"),
    (MERGE + "WHEN NOT MATCHED THEN INSERT (a, a) VALUES (1, 2)", 76, "named twice"),
    (MERGE + "WHEN NOT MATCHED THEN INSERT VALUES (1), (2)", 82, "cannot be read"),
    (MERGE + "WHEN NOT MATCHED THEN INSERT SELECT 1", 72, "cannot be read"),
    ("WITH c AS (SELECT 1) " + MERGE + "WHEN MATCHED THEN DELETE", 1, "INSERT is missing after"),
    (KEYS_DIFFER + "WHEN MATCHED THEN UPDATE SET *", 71, "the keys have different names"),
    (KEYS_DIFFER + "WHEN NOT MATCHED THEN INSERT *", 75, "the keys have different names"),
    (KEYS_DIFFER + "WHEN MATCHED AND a = 1 THEN DELETE", 63, "may be a column of either table"),
]


@pytest.mark.parametrize(("text", "column", "message"), ERRORS)
def test_an_unsupported_statement_is_refused_with_its_line_and_column(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(SqlTextError) as raised:
        read_script(text)
    assert message in str(raised.value)
    assert (raised.value.line, raised.value.column) == (1, column)
