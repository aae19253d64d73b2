"""Streams in a task: a loop on the worker, or a program of Spark."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_hiveacid.airflow_names import stats
from airflow_hiveacid.format.conflicts import POLICY_PROPERTY, MetastoreGeneration
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    TaskKilledError,
    TransactionAbortedError,
)
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.metastore import client as metastore_client
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.operators import HiveAcidStreamOperator
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import TaskLog, run_task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.airflow_support import Connections, FakeSpark

LOOP = {"task_id": "stream", "batches": "clicks.batches", "stream": "clicks"}


@pytest.fixture(autouse=True)
def client(
    connections: Connections,  # noqa: ARG001 - the connections of every task
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> FakeClient:
    """A metastore with two empty tables, which the hook uses."""
    made = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: made)
    made.create_database("d")
    for name in ("t", "u"):
        (tmp_path / name).mkdir()
        columns = (Column(name="id", type="int"),)
        location = f"file:{tmp_path}/{name}"
        made.create_table(NewTable(ref=TableRef("d", name), columns=columns, location=location))
    return made


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A user's module, whose function yields two batches after some offsets."""
    module: Any = ModuleType("clicks")

    def batches(offsets: int | None) -> Iterator[tuple[Any, int] | None]:
        first = (offsets or 0) + 1
        yield None
        for number in (first, first + 1):
            rows = pa.table({"id": pa.array([number], pa.int32())})
            yield dict.fromkeys(module.tables, rows), number

    module.batches, module.tables = batches, ["d.t"]
    monkeypatch.setitem(sys.modules, "clicks", module)
    return module


@pytest.mark.usefixtures("clicks")
def test_a_loop_continues_in_the_next_run_and_sends_metrics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[str, object]] = []
    monkeypatch.setattr(stats, "incr", lambda name, count=1, **_: sent.append((name, count)))
    monkeypatch.setattr(stats, "timing", lambda name, *_, **__: sent.append((name, None)))
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"], run_for="1 hour")
    first, second = run_task(task), run_task(task)
    assert (first["kind"], first["status"], first["rows"]["inserted"]) == ("stream", "committed", 2)
    assert [one["details"]["offsets"] for one in (first, second)] == [2, 4]
    assert ("hiveacid.stream_rows", 2) in sent
    assert ("hiveacid.stream_batches", 2) in sent
    assert {"hiveacid.stream_lag", "hiveacid.stream_last_commit"} <= {name for name, _ in sent}


def test_a_loop_merges_the_tables_in_changes_by_their_keys(clicks: Any) -> None:  # noqa: ANN401
    clicks.tables = ["d.t", "d.u"]
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"], changes=["d.u"], keys=["id"])
    assert run_task(task)["rows"]["inserted"] == 4


def test_the_conflict_policy_of_a_loop_overrides_that_of_its_table(
    clicks: Any,  # noqa: ANN401
    client: FakeClient,
    tmp_path: Path,
) -> None:
    (tmp_path / "v").mkdir()
    client.create_table(
        NewTable(
            ref=TableRef("d", "v"),
            columns=(Column(name="id", type="int"),),
            location=f"file:{tmp_path}/v",
            parameters={POLICY_PROPERTY: "hive"},
        )
    )
    clicks.tables = ["d.v"]
    run_task(HiveAcidStreamOperator(**LOOP, inserts=["d.v"], conflict_policy="strict"))
    (note,) = (tmp_path / "v" / "_hiveacid").glob("*.done.json")
    result = JobResult.parse(json.loads(note.read_text())["result"])
    assert result.details["conflict_policy"] == {"d.v": "strict"}


@pytest.mark.usefixtures("clicks")
def test_the_heartbeats_of_a_loop_come_as_often_as_the_task_says() -> None:
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"], heartbeat_s=9999)
    with pytest.raises(ConfigurationError, match="heartbeat_s=9999 is too long"):
        run_task(task)


@pytest.mark.usefixtures("aborted")
def test_a_killed_loop_ends_at_a_batch_border(clicks: Any) -> None:  # noqa: ANN401
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"])
    batches = clicks.batches

    def killed(offsets: Any) -> Iterator[Any]:  # noqa: ANN401
        for batch in batches(offsets):
            if batch is not None:
                task.on_kill()
            yield batch

    clicks.batches = killed
    with pytest.raises(TaskKilledError, match="ended after the batch with offsets 1"):
        run_task(task)


@pytest.mark.usefixtures("aborted")
def test_the_offsets_of_a_loop_forge_no_line_of_its_log(
    clicks: Any,  # noqa: ANN401
    log: TaskLog,
) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32())})
    clicks.batches = lambda _: [(rows, "a\x1b[31m\nforged")]
    run_task(HiveAcidStreamOperator(**LOOP, inserts=["d.t"]))
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"])

    def killed(_: object) -> Iterator[None]:
        task.on_kill()
        yield None

    clicks.batches = killed
    with pytest.raises(TaskKilledError, match=r"with offsets a\\x1b\[31m\\nforged$"):
        run_task(task)
    assert r"the stream continues after offsets a\x1b[31m\nforged" in log.lines


@pytest.mark.promise("A6")
@pytest.mark.parametrize(("batch", "continues_at"), [(0, None), (1, None), (2, 1)])
@pytest.mark.usefixtures("clicks")
def test_a_kill_during_a_batch_aborts_it_and_the_next_run_repeats_it(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, batch: int, continues_at: int | None
) -> None:
    """Batch 0 is that of the start. Airflow may end the process before the batch ends."""
    monkeypatch.setattr(metastore_client, "connect", lambda _: client.clone())
    task = HiveAcidStreamOperator(**LOOP, inserts=["d.t"])
    states: list[list[TxnState]] = []
    lock = FakeClient.lock

    def killed(self: FakeClient, *given: Any) -> Any:  # noqa: ANN401
        answer = lock(self, *given)
        if len(states) == batch:
            task.on_kill()
        states.append([txn.state for txn in client.server.txns.values()])
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(FakeClient, "lock", killed)
        with pytest.raises(TransactionAbortedError):
            run_task(task)
    assert states[-1] == [*[TxnState.COMMITTED] * batch, TxnState.ABORTED]
    result = run_task(HiveAcidStreamOperator(**LOOP, inserts=["d.t"]))
    assert result["details"]["offsets"] == (continues_at or 0) + 2
    assert result["rows"]["inserted"] == 2


def test_a_program_gets_its_tables_and_its_time_limit(spark: FakeSpark, tmp_path: Path) -> None:
    program = tmp_path / "clicks.py"
    program.touch()
    task = HiveAcidStreamOperator(
        task_id="stream",
        application=str(program),
        inserts=["d.t"],
        changes=["d.u"],
        run_for="10 minutes",
    )
    run_task(task)
    spec = spark.call["spec"]
    assert (spec["kind"], spec["job"]["run_for_s"]) == ("stream", 600.0)
    assert (spec["job"]["inserts"], spec["job"]["changes"]) == (["d.t"], ["d.u"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batches": None, "stream": None}, "either application"),
        ({"application": "/x.py"}, "either application"),
        ({"stream": None}, "if and only if you give batches"),
        ({"overwrites": ["d.u"]}, "overwrites no table"),
        ({"reads": ["d.u"]}, "reads and application_args are for application"),
        ({"changes": ["d.u"]}, "their key columns in keys"),
        ({"keys": ["id"]}, "their key columns in keys"),
        ({"run_for": "soon"}, "run_for"),
        ({"batches": None, "application": "/x.py"}, "if and only if you give batches"),
    ],
)
def test_arguments_that_do_not_fit_together_fail_when_the_dag_is_parsed(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        HiveAcidStreamOperator(**{**LOOP, "inserts": ["d.t"], **arguments})


@pytest.mark.parametrize("path", ["no_such_module.batches", "clicks.missing", "clicks"])
@pytest.mark.usefixtures("clicks")
def test_a_function_that_is_missing_fails_before_anything_is_written(
    path: str, client: FakeClient
) -> None:
    task = HiveAcidStreamOperator(**{**LOOP, "batches": path}, inserts=["d.t"])
    with pytest.raises(ConfigurationError, match=path):
        run_task(task)
    assert not client.server.txns
