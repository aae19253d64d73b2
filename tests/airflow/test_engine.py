"""A change of rows, a restore or a compaction on the worker or with Spark, as `engine` chooses."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.arrow import compaction
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    SparkNeededError,
    StoreUnavailableError,
    TaskKilledError,
)
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.operators import (
    HiveAcidCompactOperator,
    HiveAcidCompactTablesOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidLoadOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidSqlOperator,
    HiveAcidTransactionOperator,
    HiveAcidTruncateOperator,
    HiveAcidUpdateOperator,
)
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import TaskLog, run_task
from tests.unit.storage.orc_tables import write_plain

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.airflow_support import Connections, FakeSpark

pytestmark = pytest.mark.usefixtures("spark")
_REF = TableRef("d", "t")


@pytest.fixture(autouse=True)
def client(
    connections: Connections,  # noqa: ARG001 - the connections of every task
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> FakeClient:
    """A metastore with an empty table, which the hook uses."""
    monkeypatch.delenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT")
    made = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: made)
    made.create_database("d")
    (tmp_path / "t").mkdir()
    columns = (Column(name="id", type="int"), Column(name="name", type="string"))
    made.create_table(NewTable(ref=_REF, columns=columns, location=f"file:{tmp_path}/t"))
    return made


def _insert(*rows: tuple[Any, ...], number: int = 1, **given: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    source = {"columns": ["id", "name"], "values": [list(row) for row in rows]}
    return HiveAcidInsertOperator(task_id=f"insert{number}", table="d.t", source=source, **given)


def test_statements_run_on_the_worker_without_spark(spark: FakeSpark) -> None:
    result = run_task(_insert((1, "a"), (2, "b"), (3, "c"), engine="worker"))
    assert (result["status"], result["rows"]["inserted"]) == ("committed", 3)
    delete = HiveAcidDeleteOperator(task_id="delete", table="d.t", where="id = 1", engine="auto")
    assert run_task(delete)["rows"]["deleted"] == 1
    merge = HiveAcidMergeOperator(
        task_id="merge",
        table="d.t",
        source={"columns": ["id", "name"], "values": [[2, "B"], [9, "i"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
        engine="worker",
    )
    rows = run_task(merge)["rows"]
    assert (rows["updated"], rows["inserted"]) == (1, 1)
    update = HiveAcidUpdateOperator(
        task_id="update", table="d.t", assignments={"name": "'z'"}, engine="{{ 'worker' }}"
    )
    assert run_task(update)["rows"]["updated"] == 3
    truncate = HiveAcidTruncateOperator(task_id="truncate", table="d.t", engine="worker")
    assert run_task(truncate)["status"] == "committed"
    assert spark.calls == []


class _State(str, Enum):  # noqa: UP042 - whose text is not its value
    OPEN = "open"


def test_the_worker_reads_values_from_json_as_a_driver_does() -> None:
    result = run_task(_insert((1, _State.OPEN), engine="worker"))
    assert {"prepare", "lock", "work", "publish", "commit"} <= result["phases"].keys()
    delete = HiveAcidDeleteOperator(
        task_id="delete", table="d.t", where="name = 'open'", engine="worker"
    )
    assert run_task(delete)["rows"]["deleted"] == 1


def test_spark_runs_statements_by_default(spark: FakeSpark) -> None:
    run_task(_insert((1, "a")))
    assert len(spark.calls) == 1


def test_statements_of_sql_run_on_the_worker(spark: FakeSpark) -> None:
    sql = "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'); DELETE FROM d.t WHERE id = 2"
    results = run_task(HiveAcidSqlOperator(task_id="sql", sql=sql, engine="worker"))["statements"]
    assert [result["rows"]["deleted"] for result in results] == [0, 1]
    assert spark.calls == []


def test_several_statements_of_a_transaction_run_on_the_worker(spark: FakeSpark) -> None:
    statements = [
        {"insert": {"table": "d.t", "source": {"columns": ["id"], "values": [[1], [2]]}}},
        "UPDATE d.t SET name = 'u' WHERE id = 1",
    ]
    task = HiveAcidTransactionOperator(task_id="both", statements=statements, engine="auto")
    rows = run_task(task)["rows"]
    assert (rows["inserted"], rows["updated"]) == (2, 1)
    assert spark.calls == []


def test_the_connection_chooses_the_engine_of_tasks_that_choose_none(
    connections: Connections, spark: FakeSpark
) -> None:
    connections.metastore(engine="auto")
    run_task(_insert((1, "a")))
    assert spark.calls == []
    run_task(_insert((1, "a"), number=2, engine="spark"))
    assert len(spark.calls) == 1


@pytest.mark.parametrize(
    "given", [{"where": "upper(name) = 'A'"}, {"where": "id = 1", "env_vars": {"A": "b"}}]
)
def test_spark_runs_what_the_worker_cannot_or_may_not(
    spark: FakeSpark, given: dict[str, Any]
) -> None:
    run_task(HiveAcidDeleteOperator(task_id="delete", table="d.t", engine="auto", **given))
    assert len(spark.calls) == 1


def test_with_the_worker_alone_a_statement_that_needs_spark_fails(spark: FakeSpark) -> None:
    task = HiveAcidDeleteOperator(
        task_id="delete", table="d.t", where="upper(name) = 'A'", engine="worker"
    )
    with pytest.raises(SparkNeededError, match="after upper"):
        run_task(task)
    assert spark.calls == []


def test_a_wrong_engine_is_an_import_error_of_the_dag() -> None:
    with pytest.raises(ConfigurationError, match="engine must be one of auto, worker, spark"):
        _insert((1, "a"), engine="java")


def test_files_are_loaded_on_the_worker(spark: FakeSpark, tmp_path: Path) -> None:
    write_plain(tmp_path / "in.orc", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    load = partial(HiveAcidLoadOperator, table="d.t", location=f"file:{tmp_path}/in.orc")
    result = run_task(load(task_id="load", engine="worker"))
    assert (result["status"], result["rows"]["inserted"]) == ("committed", 2)
    assert spark.calls == []
    run_task(load(task_id="by_default"))
    assert len(spark.calls) == 1


def test_a_load_of_sql_runs_on_the_worker(spark: FakeSpark, tmp_path: Path) -> None:
    write_plain(tmp_path / "in.orc", [{"id": 1, "name": "a"}])
    sql = f"LOAD DATA INPATH 'file:{tmp_path}/in.orc' INTO TABLE d.t"
    run_task(HiveAcidSqlOperator(task_id="sql", sql=sql, engine="auto"))
    assert spark.calls == []


def test_a_version_is_restored_on_the_worker(spark: FakeSpark) -> None:
    for number in (1, 2):
        run_task(_insert((number, "a"), number=number, engine="worker"))
    restore = partial(HiveAcidRestoreOperator, table="d.t", version=1)
    planned = run_task(restore(task_id="plan", plan_only=True, engine="worker"))
    result = run_task(restore(task_id="restore", engine="auto"))
    assert (planned["status"], result["status"]) == ("planned", "committed")
    assert result["details"]["restore"] == planned["details"]["restore"]
    assert (result["rows"]["inserted"], result["rows"]["deleted"]) == (0, 1)
    assert spark.calls == []
    run_task(restore(task_id="by_default"))
    assert len(spark.calls) == 1


# ---- compactions ---------------------------------------------------------------------------------

_HERE = "the worker did this job without Spark"


@pytest.fixture
def _two_deltas() -> None:
    """The table has something to compact."""
    for number in (1, 2):
        run_task(_insert((number, "a"), number=number, engine="worker"))


def _compact(**given: Any) -> HiveAcidCompactOperator:  # noqa: ANN401
    return HiveAcidCompactOperator(task_id="compact", table="d.t", choice="major", **given)


def _choosing(log: TaskLog) -> list[str]:
    """The lines that say which engine did the job, and why."""
    return [line for line in log.lines if "without Spark" in line or "a Spark driver" in line]


@pytest.mark.usefixtures("_two_deltas")
@pytest.mark.parametrize("engine", ["auto", "worker"])
def test_a_small_partition_is_compacted_on_the_worker_if_an_engine_is_named(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    log = TaskLog.of_tasks(monkeypatch)
    result = run_task(_compact(engine=engine))
    assert (result["status"], result["kind"], result["files"]) == ("committed", "compact", 1)
    (outcome,) = result["details"]["compactions"]
    assert (outcome["kind"], outcome["done"], outcome["rows"]) == ("major", True, 2)
    assert {"prepare", "lock", "work", "commit"} <= result["phases"].keys()
    assert (spark.calls, _choosing(log)) == ([], [_HERE])
    again = run_task(_compact(engine=engine))
    assert again["status"] == "nothing_to_do"


@pytest.mark.usefixtures("_two_deltas")
def test_a_compaction_of_many_tables_runs_on_the_worker(spark: FakeSpark) -> None:
    task = HiveAcidCompactTablesOperator(
        task_id="all", tables="d.*", choice="minor", engine="worker"
    )
    result = run_task(task)
    assert (result["status"], result["kind"]) == ("committed", "compact_tables")
    assert spark.calls == []


@pytest.mark.usefixtures("_two_deltas")
@pytest.mark.parametrize("given", [{}, {"on_worker": True}, {"engine": "spark"}])
def test_a_driver_compacts_unless_an_engine_is_named(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    log = TaskLog.of_tasks(monkeypatch)
    run_task(_compact(**given))
    assert (len(spark.calls), _choosing(log)) == (1, [])


@pytest.mark.usefixtures("_two_deltas")
def test_the_older_word_beside_the_engine_starts_no_driver(spark: FakeSpark) -> None:
    assert run_task(_compact(engine="worker", on_worker=True))["status"] == "committed"
    assert spark.calls == []


@pytest.mark.usefixtures("_two_deltas")
def test_the_connection_names_the_engine_of_a_compaction(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.metastore(engine="auto")
    assert run_task(_compact())["status"] == "committed"
    assert spark.calls == []


@pytest.mark.usefixtures("_two_deltas")
def test_a_driver_does_a_compaction_that_is_too_large_for_the_worker(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(compaction.compact_in_process, most_bytes=10)
    monkeypatch.setattr(compaction, "compact_in_process", small)
    with pytest.raises(SparkNeededError, match="or compact fewer partitions"):
        run_task(_compact(engine="worker"))
    assert spark.calls == []
    log = TaskLog.of_tasks(monkeypatch)
    run_task(_compact(engine="auto"))
    assert len(spark.calls) == 1
    (line,) = _choosing(log)
    assert line.startswith("the worker cannot do this job, so a Spark driver does it: table d.t: ")
    assert "the compaction reads" in line


@pytest.mark.usefixtures("_two_deltas")
def test_a_driver_compacts_what_the_worker_cannot_write(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise StoreUnavailableError(location="file:/t", action="write to", reason="no login")

    monkeypatch.setattr(compaction, "compact_bucket", refuse)
    with pytest.raises(StoreUnavailableError):
        run_task(_compact(engine="worker"))
    run_task(_compact(engine="auto"))
    assert len(spark.calls) == 1


@pytest.mark.usefixtures("_two_deltas")
def test_a_killed_compaction_leaves_the_table_for_the_next_try(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, aborted: list[str], tmp_path: Path
) -> None:
    task = _compact(engine="auto")
    real = compaction.compact_bucket

    def killed(work: Any) -> Any:  # noqa: ANN401
        task.on_kill()
        return real(work)

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "compact_bucket", killed)
        with pytest.raises(TaskKilledError):
            run_task(task)
    assert (len(aborted), spark.calls) == (1, [])
    assert not [*tmp_path.glob("t/base_*")]
    assert run_task(_compact(engine="auto"))["status"] == "committed"
