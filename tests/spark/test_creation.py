"""CREATE TABLE ... AS SELECT: the table is there with all its rows, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import Job, JobStatus
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client.catalog_calls import CatalogCalls
from airflow_hiveacid.sql.script import read_script
from tests.support.spark_lab import Lab, make_lab
from tests.support.spark_submit import submit
from tests.support.steps import act_after, raises

LOST = errors.MetastoreUnavailableError(uris=("thrift://hms:9083",), method="x", reason="gone")
KEY = "dag/run/task/-1"
SOURCE = """
    CREATE TABLE s (id int, name varchar(9), price decimal(6,2), at timestamp, tags array<string>)
        PARTITIONED BY (day date);
    INSERT INTO s VALUES
        (1, 'a', 1.50, TIMESTAMP '2020-01-01 10:00:00', array('x'), DATE '2020-01-01'),
        (2, 'b', NULL, NULL, NULL, DATE '2020-01-02'), (3, 'c', 2, NULL, NULL, DATE '2020-01-02');
"""


def job(lab: Lab, text: str) -> Job:
    (statement,) = read_script(text, lab.db)
    return statement.job  # type: ignore[return-value]


@pytest.mark.promise("W3")
@pytest.mark.long_cases("3.1.3")
def test_create_table_as_select_creates_a_table_with_the_rows_of_the_query(lab: Lab) -> None:
    lab.script(SOURCE)
    (result,) = lab.script(
        "CREATE TABLE t COMMENT 'sums' PARTITIONED BY (Day) CLUSTERED BY (id) INTO 2 BUCKETS"
        " TBLPROPERTIES ('a'='b') AS SELECT id, day, upper(name) AS name,"
        " CAST(price * 2 AS decimal(9,2)) AS twice, at, named_struct('x', tags) AS more"
        " FROM s WHERE id < 3"
    )
    assert (result.kind, result.status) == ("create_as", JobStatus.COMMITTED)
    assert (result.table, result.write_ids) == (f"{lab.db}.t", {f"{lab.db}.t": 1})
    assert result.rows.inserted == 2
    table = lab.info("t")
    assert [(c.name, c.type) for c in table.columns] == [
        ("id", "int"),
        ("name", "string"),
        ("twice", "decimal(9,2)"),
        ("at", "timestamp"),
        ("more", "struct<x:array<string>>"),
    ]
    assert [(c.name, c.type) for c in table.partition_columns] == [("day", "date")]
    assert (table.bucket_columns, table.num_buckets) == (("id",), 2)
    assert (table.parameters["a"], table.parameters["comment"]) == ("b", "sums")
    assert [(r[0], r[1], str(r[2]), str(r[5])) for r in lab.rows("t")] == [
        (1, "A", "3.00", "2020-01-01"),
        (2, "B", "None", "2020-01-02"),
    ]
    assert lab.client.list_tables(lab.db) == ("s", "t")
    lab.script("DELETE FROM t WHERE id = 1; INSERT INTO t SELECT * FROM t")
    assert [r[0] for r in lab.rows("t")] == [2, 2]
    assert lab.client.show_locks() == ()


@pytest.mark.promise("W3")
def test_create_table_as_select_accepts_an_empty_query_and_a_whole_table(lab4: Lab) -> None:
    lab4.script(SOURCE)
    lab4.script("CREATE TABLE empty AS SELECT id, day FROM s WHERE id > 100")
    assert lab4.rows("empty") == []
    lab4.script("INSERT INTO empty VALUES (1, '2020-01-01')")
    assert [r[0] for r in lab4.rows("empty")] == [1]
    lab4.script(
        "CREATE TABLE copy STORED AS PARQUET TBLPROPERTIES ('transactional'='true',"
        " 'transactional_properties'='insert_only') AS SELECT * FROM s"
    )
    copy, source = lab4.info("copy"), lab4.info("s")
    assert copy.columns == (*source.columns, *source.partition_columns)
    assert (copy.kind, copy.storage.format) == (TransactionalKind.INSERT_ONLY, FileFormat.PARQUET)
    assert lab4.rows("copy") == lab4.rows("s")


def test_an_existing_table_raises_an_error_unless_if_not_exists_is_given(lab4: Lab) -> None:
    text = "CREATE TABLE t AS SELECT 1 AS a"
    lab4.script(text)
    with pytest.raises(errors.DefinitionError, match="already exists"):
        lab4.script(text)
    (result,) = lab4.script(text.replace("TABLE", "TABLE IF NOT EXISTS"))
    assert result.status is JobStatus.NOTHING_TO_DO
    assert lab4.rows("t") == [(1,)]


@pytest.fixture(scope="module")
def only_s(spark: SparkSession, hive_metastore: LocalMetastore) -> Iterator[Lab]:
    """One database for all statements that fail and leave no table."""
    for lab in make_lab(spark, hive_metastore):
        lab.script(SOURCE)
        yield lab


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT 1 + 1", errors.ConfigurationError),
        ("SELECT 1 AS a, 2 AS A", errors.ConfigurationError),
        ("SELECT NULL AS a", errors.ConfigurationError),
        ("SELECT DATE '2020-01-02' - DATE '2020-01-01' AS a", errors.ConfigurationError),
        ("SELECT id, day FROM nowhere", errors.TableNotFoundError),
        ("SELECT CAST(name AS int) AS a FROM s", PySparkException),
    ],
)
@pytest.mark.promise("W3")
def test_a_failed_create_table_as_select_leaves_no_table(
    only_s: Lab, query: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        only_s.script(f"CREATE TABLE t AS {query}")
    assert only_s.client.list_tables(only_s.db) == ("s",)
    assert [p.name for p in only_s.root("s").parent.iterdir()] == ["s"]
    assert only_s.client.show_locks() == ()


@pytest.mark.promise("W3")
def test_a_new_table_is_not_visible_before_all_its_rows_are_written(lab: Lab) -> None:
    seen: list[tuple[str, bool]] = []

    def look(step: str) -> None:
        seen.append((step, "t" in lab.client.list_tables(lab.db)))

    lab.script("CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT 2", on_step=look)
    assert ("published", False) in seen
    assert seen[-1] == ("filled", False)
    assert lab.rows("t") == [(1,), (2,)]


@pytest.mark.promise("W3")
@pytest.mark.parametrize("step", ["staged", "committed", "filled"])
@pytest.mark.long_cases("staged", "committed")
def test_a_killed_create_table_leaves_a_temporary_table_and_its_retry_creates_the_table(
    lab4: Lab, tmp_path: Path, step: str
) -> None:
    spec = job(lab4, "CREATE TABLE t AS SELECT 1 AS a")
    killed = submit(tmp_path, lab4.endpoint, spec, job_key=KEY, stop_at=step)
    assert killed.code != 0, killed.log
    (left,) = lab4.client.list_tables(lab4.db)
    assert left.startswith("t__ctas_")
    assert lab4.run(spec, job_key=KEY).status is JobStatus.COMMITTED
    assert lab4.client.list_tables(lab4.db) == ("t",)
    assert lab4.rows("t") == [(1,)]
    assert lab4.run(spec, job_key=KEY).status is JobStatus.ALREADY_DONE
    with pytest.raises(errors.DefinitionError):
        lab4.run(spec, job_key=f"{KEY}/other")
    assert lab4.rows("t") == [(1,)]
    assert lab4.client.show_locks() == ()


def test_a_retry_finds_the_table_whose_final_rename_got_no_response(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = job(lab4, "CREATE TABLE t AS SELECT 1 AS a WHERE 1 = 2")
    with monkeypatch.context() as patched:
        act_after(patched, CatalogCalls, "change_table", raises(LOST))
        with pytest.raises(errors.MetastoreUnavailableError):
            lab4.run(spec, job_key=KEY)
    assert lab4.client.list_tables(lab4.db) == ("t",)
    assert lab4.run(spec, job_key=KEY).status is JobStatus.ALREADY_DONE
    assert lab4.client.get_table(TableRef(lab4.db, "t")).columns[0].type == "int"
