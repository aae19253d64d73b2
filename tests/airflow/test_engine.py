"""A row change on the worker or with Spark, as `engine` chooses."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import ConfigurationError, SparkNeededError
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.operators import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidSqlOperator,
    HiveAcidTransactionOperator,
    HiveAcidTruncateOperator,
    HiveAcidUpdateOperator,
)
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import run_task

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
