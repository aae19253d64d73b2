"""A complete statement that a different job overtakes; a stand-in makes its rows.

A restarted write aborts its first transaction, keeps its rank, and gives way to a newer copy of the
job at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.fencing import Rival, copies_of
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from airflow_hiveacid.spark.reading.events import Events
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.work import CheckedStatement, run_changes
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from tests.contract.bench import access
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.one_row import CONTEXT, OneRow
from tests.support.terms import job_spec, job_terms

_, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
STEPS = (
    "opened",
    "allocated",
    "locked",
    "fenced",
    "snapshot",
    "staged",
    "registered",
    "verified",
    "noted",
    "published",
    "body_done",
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of one row. `at` says what happens at a step of the n-th beginning."""

    server: FakeMetastore
    table: TableInfo
    operation: DataOperation = INSERT
    key: str = "dag/run/task/-1"
    attempt: AttemptId = field(default_factory=lambda: AttemptId(1, "1" * 12))
    at: dict[tuple[str, int], Callable[[], object]] = field(default_factory=dict)

    def run(self) -> JobResult:
        client, beginning = FakeClient(self.server), 0

        def on_step(name: str) -> None:
            nonlocal beginning
            if name == "opened":
                beginning += 1
            self.at.get((name, beginning), lambda: None)()

        job = InsertSpec(target=str(self.table.ref), source=SourceSpec())
        spec = job_spec(job, self.key, attempt=str(self.attempt), lock_timeout_s=5.0)
        spark: Any = SimpleNamespace(sparkContext=CONTEXT)
        rows: Any = OneRow()
        change = CheckedStatement(
            spec=spec.job,
            table=client.get_table(self.table.ref),
            operations=frozenset({self.operation}),
            make_events=lambda _target, _source: Events(frame=lambda: rows),
        )
        return run_changes(JobContext.of(spark, spec, client, on_step), [change])

    @property
    def copies(self) -> tuple[Rival, ...]:
        """The transactions that hold locks for this job now."""
        return copies_of(self.key, FakeClient(self.server).show_locks())


@pytest.fixture
def statement(server: FakeMetastore, table: TableInfo) -> Statement:
    return Statement(server=server, table=table)


def overtaken(statement: Statement, **changes: Any) -> Statement:  # noqa: ANN401
    """The statement, which an overwrite overtakes between its write ID and its locks."""
    other = Statement(
        server=statement.server, table=statement.table, operation=OVERWRITE, key="other"
    )
    at = {("allocated", 1): other.run, **changes.pop("at", {})}
    return Statement(server=statement.server, table=statement.table, at=at, **changes)


def directories(table: TableInfo) -> set[str]:
    place = Path(table.location.removeprefix("file:"))
    return {p.name for p in place.iterdir() if p.name != HIDDEN_DIRECTORY}


def states(server: FakeMetastore) -> list[TxnState]:
    """How the transactions ended, in the order of their beginnings."""
    return [txn.state for _, txn in sorted(server.txns.items())]


@pytest.mark.promise("T11")
def test_an_insert_that_an_overwrite_overtakes_is_applied_once_with_a_higher_write_id(
    statement: Statement, table: TableInfo, server: FakeMetastore
) -> None:
    result = overtaken(statement).run()
    assert result.status is JobStatus.COMMITTED
    assert result.write_ids == {str(table.ref): 3}
    assert directories(table) == {"base_0000002", "delta_0000003_0000003_0000"}
    assert states(server) == [TxnState.ABORTED, TxnState.COMMITTED, TxnState.COMMITTED]
    assert FakeClient(server).show_locks() == ()


def test_a_restarted_write_keeps_the_rank_of_its_first_transaction(statement: Statement) -> None:
    seen: list[tuple[Rival, ...]] = []
    look = {("snapshot", n): lambda: seen.append(statement.copies) for n in (1, 2)}
    overtaken(statement, at=look).run()
    assert [[(c.txn_id, c.first_txn_id) for c in copies] for copies in seen] == [[(1, 1)], [(3, 1)]]


@pytest.mark.promise("T11")
@pytest.mark.parametrize("step", STEPS)
def test_a_restarted_write_gives_way_to_a_newer_try_that_commits_at_any_step(
    statement: Statement, table: TableInfo, server: FakeMetastore, step: str
) -> None:
    newer = Statement(server=server, table=table, attempt=AttemptId(2, "2" * 12))
    results: list[JobResult] = []
    late = overtaken(statement, at={(step, 2): lambda: results.append(newer.run())})
    if step == "snapshot":  # it looks into the ledger after that
        assert late.run().status is JobStatus.ALREADY_DONE
    else:
        with pytest.raises((errors.FencedError, errors.TransactionAbortedError)):
            late.run()
    ((status, (write_id,)),) = [(r.status, r.write_ids.values()) for r in results]
    assert status is JobStatus.COMMITTED
    assert directories(table) == {"base_0000002", f"delta_{write_id:07d}_{write_id:07d}_0000"}
    assert TxnState.OPEN not in states(server)
    assert FakeClient(server).show_locks() == ()


@pytest.mark.promise("T11")
@pytest.mark.parametrize("operation", [INSERT, UPDATE])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.long_cases("hive3-*")
def test_a_restarted_write_is_fenced_by_a_newer_try_that_is_still_running(
    statement: Statement,
    table: TableInfo,
    server: FakeMetastore,
    step: str,
    operation: DataOperation,
) -> None:
    with ExitStack() as working:
        newer = begin(
            FakeClient(server),
            job_terms(statement.key, attempt=AttemptId(2, "2" * 12)),
            writes=[access(table, operation)],
        )
        at = {(step, 2): lambda: txns.append(working.enter_context(newer))}
        txns: list[MetastoreTransaction] = []
        with pytest.raises(errors.FencedError):
            overtaken(statement, operation=operation, at=at).run()
        (txn,) = txns
        txn.confirm_alive()
        assert directories(table) == {"base_0000002"}
        assert FakeClient(server).valid_txns().open == (txn.txn_id,)


def test_a_write_that_is_overtaken_every_time_raises_an_error_and_leaves_no_files(
    table: TableInfo, server: FakeMetastore
) -> None:
    client, place = FakeClient(server), Path(table.location.removeprefix("file:"))

    def overwrite() -> None:
        """By an engine that takes no lock: it would wait for those of the last beginning."""
        txn_id = client.open_txn()
        (place / f"base_{client.allocate_write_id(txn_id, table.ref):07d}").mkdir()
        client.commit_txn(txn_id)

    late = Statement(
        server=server, table=table, at={("allocated", n): overwrite for n in range(1, 6)}
    )
    with pytest.raises(errors.OvertakenError, match="base_0000010"):
        late.run()
    assert directories(table) == {f"base_{n:07d}" for n in (2, 4, 6, 8, 10)}
    assert states(server) == [TxnState.ABORTED, TxnState.COMMITTED] * 5


@pytest.mark.promise("T11")
@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE])
def test_a_row_is_never_changed_with_a_lower_write_id_than_its_own(
    table: TableInfo, server: FakeMetastore, operation: DataOperation
) -> None:
    """Hive 4 ignores a delete event that is older than its row."""

    def append(n: int) -> Callable[[], object]:
        return Statement(server=server, table=table, key=f"other {n}").run

    late = Statement(
        server=server,
        table=table,
        operation=operation,
        at={("allocated", n): append(n) for n in range(1, 7)},
    )
    write_id = late.run().write_ids[str(table.ref)]
    assert write_id == (1 if operation is INSERT else 13)
