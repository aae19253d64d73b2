"""Statements that Hive's own engine and we run on copies: the same rows in every table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format.errors import ConstraintViolationError, TypeMismatchError
from airflow_hiveacid.sql.script import read_script
from airflow_hiveacid.sql.text import statements_of
from tests.judges.engine import HiveJudge
from tests.judges.line_process import JudgeError
from tests.support.spark_lab import Lab
from tests.support.sql_files import sql_paragraphs

_QUERIES: Final = Path(__file__).with_name("hive_queries")
_SCRIPTS: Final = sql_paragraphs(_QUERIES / "scripts.sql")
ACID: Final = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@dataclass(frozen=True)
class Twins:
    """A database of ours and one of Hive's, with the same tables."""

    lab: Lab
    judge: HiveJudge
    theirs: str

    def make(self, *definitions: str) -> None:
        """Have Hive make tables in both, or write files that both read."""
        for db in (self.lab.db, self.theirs):
            self.judge.execute(f"use {db}")
            for definition in definitions:
                self.judge.execute(definition)

    def same(self, script: str) -> None:
        """Run each statement here and there, and compare all tables that it may have changed."""
        seen: dict[str, object] = {}
        self.judge.execute(f"use {self.theirs}")
        for piece, statement in zip(
            statements_of(script), read_script(script, self.lab.db), strict=True
        ):
            with ThreadPoolExecutor(1) as beside:  # they share no table
                hive = beside.submit(self.judge.execute, piece.text)
                self.lab.run(statement.job)
                hive.result()
            has_changed = False
            for target in statement.job.target.split(", "):
                table = target.removeprefix(f"{self.lab.db}.")
                ours = self.judge.rows(f"{self.lab.db}.{table}")
                assert ours == self.judge.rows(f"{self.theirs}.{table}"), (piece.text, table)
                has_changed |= ours != seen.get(table, [])
                seen[table] = ours
            assert has_changed, f"{piece.text} has changed nothing"

    def refused(self, text: str, error: type[Exception]) -> None:
        """Neither does it."""
        self.judge.execute(f"use {self.theirs}")
        (statement,) = read_script(text, self.lab.db)
        with ThreadPoolExecutor(1) as beside:
            hive = beside.submit(self.judge.execute, text)
            with pytest.raises(error):
                self.lab.run(statement.job)
            with pytest.raises(JudgeError):
                hive.result()


@pytest.fixture
def twins(lab4: Lab, hive_judge: HiveJudge) -> Iterator[Twins]:
    other = f"hive_{uuid.uuid4().hex[:12]}"
    lab4.client.create_database(other)
    yield Twins(lab4, hive_judge, other)
    hive_judge.execute("use default")


@pytest.mark.promise("W8")
def test_inserts_of_one_query_into_several_tables_leave_the_same_rows_as_in_hive(
    twins: Twins,
) -> None:
    columns = "(id int, name string, p int)"
    twins.make(
        *(f"CREATE TABLE {name} {columns} {ACID}" for name in ("s", "t", "u")),
        f"CREATE TABLE parts (id int, name string) PARTITIONED BY (p int) {ACID}",
    )
    twins.same(
        """
        INSERT INTO s VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 1);
        FROM s INSERT INTO t SELECT id, name, p WHERE p = 1 INSERT INTO u SELECT id, name, p + 10;
        FROM t INSERT INTO t SELECT id + 10, name, p INSERT INTO u SELECT id + 100, name, p;
        FROM s x JOIN (SELECT p, count(*) AS c FROM s GROUP BY p) y ON x.p = y.p
            INSERT OVERWRITE TABLE t SELECT x.id, x.name, cast(y.c AS int) WHERE x.id < 3
            INSERT INTO TABLE parts PARTITION (p = 5) SELECT x.id, x.name
            INSERT INTO u (id, p) SELECT max(x.id), x.p GROUP BY x.p;
        WITH q AS (SELECT id, p FROM s WHERE id <> 2) FROM q
            INSERT OVERWRITE TABLE parts PARTITION (p = 5) SELECT q.id, 'five'
            INSERT OVERWRITE TABLE parts PARTITION (p = 6) SELECT q.id, 'six' WHERE q.p = 1
            INSERT OVERWRITE TABLE t SELECT DISTINCT 0, 'x', q.p;
        FROM s LATERAL VIEW explode(array(7, 8)) e AS k
            INSERT INTO t SELECT s.id, s.name, e.k WHERE e.k = 7
            INSERT INTO u SELECT s.id, s.name, e.k;
        DELETE FROM u WHERE id % 2 = 1
        """
    )


@pytest.mark.promise("W6")
def test_a_merge_with_subqueries_leaves_the_same_rows_as_in_hive(twins: Twins) -> None:
    """Without an UPDATE beside them: then Hive 4.0.1 loses rows, or leaves some as they are."""
    columns = "(id int, name string, p int)"
    twins.make(*(f"CREATE TABLE {name} {columns} {ACID}" for name in ("s", "t", "u")))
    twins.same(
        """
        INSERT INTO s VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 1), (4, 'd', 4);
        INSERT INTO t VALUES (1, 't1', 1), (2, 't2', 2), (5, 't5', 5);
        INSERT INTO u VALUES (1, 'u1', 1), (2, 'u2', 9), (4, 'u4', 9);
        MERGE INTO t USING s ON t.id = s.id
            WHEN NOT MATCHED AND s.id IN (SELECT max(u.id) FROM u) THEN INSERT VALUES
            (s.id, s.name, 0);
        MERGE INTO t USING s ON t.id = s.id
            WHEN MATCHED AND EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.p = 1) THEN DELETE;
        MERGE INTO t USING s ON t.id = s.id
            WHEN MATCHED AND t.id NOT IN (SELECT u.id FROM u WHERE u.id > 2) THEN DELETE
        """
    )


@pytest.mark.promise("W1")
def test_defaults_and_constraints_have_the_same_effect_as_in_hive(twins: Twins) -> None:
    twins.make(
        "CREATE TABLE d (id int NOT NULL ENABLE, name string DEFAULT 'none',"
        f" n int DEFAULT 7, CONSTRAINT ck CHECK (n < 100) ENABLE) {ACID}",
        f"CREATE TABLE s (id int, p int) {ACID}",
        f"CREATE TABLE off (id int NOT NULL DISABLE) {ACID}",
    )
    twins.same(
        """
        INSERT INTO s VALUES (1, 1), (2, 2), (30, 3), (31, NULL);
        INSERT INTO d (id) VALUES (1), (2);
        INSERT INTO d VALUES (3, DEFAULT, 4), (4, DEFAULT, NULL);
        INSERT INTO d (n, id) SELECT p, id + 10 FROM s;
        UPDATE d SET name = DEFAULT, n = 5 WHERE id = 3;
        UPDATE d SET n = DEFAULT WHERE id > 10;
        MERGE INTO d USING s ON d.id = s.id WHEN MATCHED THEN UPDATE SET name = DEFAULT
            WHEN NOT MATCHED THEN INSERT VALUES (s.id, DEFAULT, 50);
        INSERT INTO off SELECT p FROM s
        """
    )
    for text in (
        "INSERT INTO d (name) VALUES ('x')",
        "INSERT INTO d VALUES (9, 'x', 100)",
        "INSERT INTO d SELECT p, 'x', 1 FROM s",
        "UPDATE d SET n = 100 + id",
        "UPDATE d SET id = NULL WHERE id = 1",
        "MERGE INTO d USING s ON d.id = s.id WHEN MATCHED THEN UPDATE SET n = 1000",
    ):
        twins.refused(text, ConstraintViolationError)
    # Rows of before a constraint are left alone, and are new ones when they change.
    twins.make(
        f"CREATE TABLE old (i int, j int, k int) {ACID}",
        "INSERT INTO old VALUES (NULL, 1, 1), (200, 2, 2), (3, 3, 3)",
        "ALTER TABLE old CHANGE i i int CONSTRAINT nn NOT NULL ENABLE",
        "ALTER TABLE old ADD CONSTRAINT few CHECK (i < 100)",
    )
    for j in (1, 2):
        twins.refused(f"UPDATE old SET k = 5 WHERE j = {j}", ConstraintViolationError)
    twins.same("UPDATE old SET k = 5 WHERE j = 3; UPDATE old SET i = 6 WHERE j < 3")


@pytest.mark.promise("W1")
@pytest.mark.parametrize("flat", ["orc", "parquet", "textfile"])
@pytest.mark.long_cases("orc")
def test_statements_with_flat_tables_as_sources_leave_the_same_rows_as_in_hive(
    twins: Twins, flat: str
) -> None:
    values = "id int, name varchar(4), c char(3), d decimal(8,2), day date, at timestamp, f double"
    rows = (
        "SELECT 1, 'ab', 'x', 1.50, date '2020-01-31', timestamp '2020-01-01 10:20:30.5', 0.1"
        " UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, NULL"
        " UNION ALL SELECT 3, '', 'xyz', -0.05, date '1969-12-31',"
        " timestamp '1950-06-01 00:00:00', -0.0"
    )
    twins.make(
        f"CREATE EXTERNAL TABLE whole ({values}) STORED AS {flat}",
        f"INSERT INTO whole {rows}",
        f"CREATE EXTERNAL TABLE parts ({values}) PARTITIONED BY (p string) STORED AS {flat}",
        f"INSERT INTO parts PARTITION (p = 'a b') {rows}",
        "ALTER TABLE parts ADD COLUMNS (younger int)",
        f"INSERT INTO parts PARTITION (p = 'c') SELECT q.*, 7 FROM ({rows}) q",
        f"CREATE TABLE t ({values}, p string, younger int) {ACID}",
    )
    twins.same(
        f"""
        INSERT INTO t SELECT f.*, '{flat}', 0 FROM whole f;
        INSERT INTO t SELECT id, name, c, d, day, at, f, p, younger FROM parts WHERE p <> 'd';
        DELETE FROM t WHERE id IN (SELECT id FROM parts WHERE younger = 7) AND p = 'c' AND id = 1
        """
    )


@pytest.mark.promise("W1")
@pytest.mark.parametrize(
    "scripts",
    [
        [_SCRIPTS[0], *_SCRIPTS[3:]],
        # Further defaults and constraints.
        pytest.param(_SCRIPTS, marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_hives_own_query_tests_leave_the_same_rows_as_in_hive(
    twins: Twins, scripts: list[str]
) -> None:
    twins.make(*sql_paragraphs(_QUERIES / "tables.sql"))
    for script in scripts:
        twins.same(script)
    # Hive keeps nine digits of a second, Spark six: rather none than a time that nobody wrote.
    with pytest.raises(TypeMismatchError, match="more than six fractional digits of a second"):
        twins.lab.script("INSERT INTO types (ts) VALUES ('2020-01-01 10:20:30.123456789')")
