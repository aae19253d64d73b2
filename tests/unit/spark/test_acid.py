"""A user's program and its one transaction, without Spark."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus, ProgramSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.reading.snapshots import held_snapshot
from airflow_hiveacid.spark import acid
from airflow_hiveacid.spark.engine.session import _SETTINGS, check_session
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.writing.runs import PlannedStatement
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.support.one_row import CONTEXT
from tests.support.steps import act_before, at
from tests.support.tables import id_table
from tests.support.terms import job_spec, job_terms


class Settings(dict[str, str]):
    """The settings of a session, of which each may be set."""

    def isModifiable(self, _key: str) -> bool:  # noqa: N802 - Spark's
        return True


class Session(SimpleNamespace):
    """A session with our settings, and what a program has made of them."""

    def __init__(self, **changed: str) -> None:
        settings = {**_SETTINGS, **{f"spark.sql.{k}": v for k, v in changed.items()}}
        super().__init__(conf=Settings(settings), sparkContext=CONTEXT)

    def sql(self, text: str) -> SimpleNamespace:
        assert text == "SET"
        return SimpleNamespace(collect=lambda: list(self.conf.items()))


@pytest.fixture
def parts(client: FakeClient, tmp_path: Path) -> TableInfo:
    (tmp_path / "parts").mkdir()
    return id_table(client, "parts", tmp_path / "parts", by="p int")


def run_program(
    server: FakeMetastore,
    program: acid.ProgramFunction,
    *,
    on_step: Callable[[str], None] = lambda _: None,
    job_key: str = "dag/run/task/-1",
    **tables: tuple[str, ...],
) -> JobResult:
    job = job_spec(
        ProgramSpec(application="job.py", **(tables or {"inserts": ("default.parts",)})),
        job_key,
        lock_timeout_s=5.0,
    )
    spark: Any = Session()
    context = JobContext.of(spark, job, FakeClient(server), on_step)
    return acid.run_program(context, program)


class Work:
    """Stands for the work of a transaction: says how many statements run at once."""

    def __init__(self) -> None:
        self.now = self.most = self.done = 0

    def run(self, *_: object) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        time.sleep(0.01)
        self.now -= 1
        self.done += 1
        return "done"

    def target(self, *_: object, **__: object) -> object:
        return SimpleNamespace(rows=lambda _: self.run())


@pytest.fixture
def work() -> Work:
    return Work()


def planned(table: TableInfo, operation: DataOperation) -> PlannedStatement:
    spec = InsertSpec(target=str(table.ref), source=SourceSpec())
    return PlannedStatement(spec=spec, table=table, operations=frozenset({operation}))


@pytest.fixture
def txn(work: Work, parts: TableInfo, monkeypatch: pytest.MonkeyPatch) -> acid.Transaction:
    change = planned(parts, DataOperation.INSERT)
    monkeypatch.setattr(acid, "planned_one", lambda *_: change)
    declared = acid._Declared(table=parts, operation=DataOperation.INSERT)
    job: Any = SimpleNamespace(spark=Session())
    return acid.Transaction(job, work, {parts.ref: declared})  # type: ignore[arg-type]


def insert(txn: acid.Transaction, rows: Any = None, **arguments: Any) -> object:  # noqa: ANN401
    return txn.insert("default.parts", rows, **arguments)


def test_statements_and_reads_are_refused_after_the_block_of_the_transaction_has_ended(
    txn: acid.Transaction, work: Work
) -> None:
    """Its files would be staged and counted, but never be committed."""
    insert(txn)
    txn._close()
    for late in (lambda: insert(txn), lambda: txn.read("default.parts")):
        with pytest.raises(errors.ConfigurationError, match="block has ended"):
            late()
    assert work.done == 1


def test_a_program_that_catches_the_error_of_an_invalid_statement_cannot_go_on(
    txn: acid.Transaction, work: Work
) -> None:
    with pytest.raises(errors.ConfigurationError, match="match"):
        insert(txn, match="by chance")
    with pytest.raises(errors.ConfigurationError, match="but the program caught"):
        insert(txn)
    with pytest.raises(errors.ConfigurationError, match="but the program caught"):
        txn._look_back()
    assert work.done == 0


def test_threads_that_share_a_transaction_wait_for_each_other(
    txn: acid.Transaction, work: Work
) -> None:
    does = [lambda: insert(txn), lambda: txn.read("default.parts")]

    def do(number: int) -> None:
        with suppress(errors.ConfigurationError):  # the block has ended
            does[number % 2]()

    threads = [threading.Thread(target=do, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while not work.now:
        time.sleep(0.001)
    txn._close()
    done = work.done
    for thread in threads:
        thread.join()
    assert work.most == 1
    assert work.done == done >= 1  # and the end waits for what is under way


def test_an_error_that_leaves_the_block_aborts_the_transaction(
    server: FakeMetastore, parts: TableInfo
) -> None:
    kept: list[acid.Transaction] = []

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        with suppress(ZeroDivisionError), acid.transaction(spark, task) as txn:
            kept.append(txn)
            raise ZeroDivisionError
        with pytest.raises(errors.ConfigurationError, match="block has ended"):
            insert(kept[0])

    with pytest.raises(errors.ConfigurationError, match="ended without a transaction"):
        run_program(server, program)
    assert FakeClient(server).show_locks(parts.ref) == ()


def test_a_statement_is_refused_if_the_program_changed_its_session_settings(
    txn: acid.Transaction, work: Work
) -> None:
    check_session(Session(**{"session.timeZone": "Europe/Berlin", "ansi.enabled": "True"}))  # type: ignore[arg-type]
    other = Session(**{"ansi.enabled": "false"})
    with pytest.raises(errors.ConfigurationError, match=r"changed spark.sql.ansi.enabled=false"):
        insert(txn, SimpleNamespace(sparkSession=other))
    txn._failure = None
    txn._job = SimpleNamespace(spark=other)  # type: ignore[assignment]
    for use in (lambda: txn.read("default.parts"), lambda: insert(txn)):
        with pytest.raises(
            errors.ConfigurationError, match=r"changed spark.sql.ansi.enabled=false"
        ):
            use()
    with pytest.raises(errors.ConfigurationError, match="but the program caught"):
        txn._look_back()
    assert work.done == 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("orderByOrdinal", "false"),
        ("groupByOrdinal", "false"),
        ("chunkBase64String.enabled", "true"),
        ("parser.escapedStringLiterals", "true"),
        ("legacy.timeParserPolicy", "LEGACY"),
        ("ansi.doubleQuotedIdentifiers", "true"),
    ],
)
def test_a_setting_that_changes_the_meaning_of_sql_is_refused(setting: str, value: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"changed spark.sql.{setting}={value},"):
        check_session(Session(**{setting: value}))  # type: ignore[arg-type]
    check_session(Session(**{"shuffle.partitions": "7"}))  # type: ignore[arg-type]


def test_a_partition_added_meanwhile_does_not_restart_a_program_that_locks_the_table(
    server: FakeMetastore, parts: TableInfo
) -> None:
    """The program locks the whole table, also for its reads."""
    calls: list[str] = []
    FakeClient(server).add_partitions(parts, [PartitionName.parse("p=-1")])

    def append() -> None:
        name = PartitionName.parse(f"p={len(calls)}")
        FakeClient(server).add_partitions(parts, [name])

    result = run_program(server, enters(calls), on_step=at("opened", append))
    assert result.status is JobStatus.COMMITTED
    assert calls == ["called", "entered"]


def test_a_program_may_exit_with_code_0_after_the_block_of_its_transaction(
    server: FakeMetastore, parts: TableInfo
) -> None:
    def ends(code: int | None, *, inside: bool = False) -> acid.ProgramFunction:
        def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
            with acid.transaction(spark, task):
                if inside:
                    sys.exit(code)
            sys.exit(code)

        return program

    with pytest.raises(errors.ConfigurationError, match="ended without a transaction"):
        run_program(server, ends(0, inside=True), job_key="inside")
    assert run_program(server, ends(0)).status is JobStatus.COMMITTED
    with pytest.raises(SystemExit):
        run_program(server, ends(3), job_key="three")
    assert FakeClient(server).show_locks(parts.ref) == ()


def enters(calls: list[str]) -> acid.ProgramFunction:
    """A program that says so when it is called, and when its block is entered."""

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        calls.append("called")
        with acid.transaction(spark, task):
            calls.append("entered")

    return program


def test_a_program_restarts_if_it_would_read_partitions_that_it_has_not_locked(
    server: FakeMetastore, parts: TableInfo, table: TableInfo
) -> None:
    calls: list[str] = []
    FakeClient(server).add_partitions(parts, [PartitionName.parse("p=-1")])

    def append(step: str) -> None:
        if step == "opened" and calls == ["called"]:
            FakeClient(server).add_partitions(parts, [PartitionName.parse("p=1")])

    run_program(
        server, enters(calls), on_step=append, reads=(str(parts.ref),), inserts=(str(table.ref),)
    )
    assert calls == ["called", "called", "entered"]


def test_a_program_that_changes_rows_restarts_after_a_commit_with_a_higher_write_id(
    server: FakeMetastore, table: TableInfo
) -> None:
    calls: list[str] = []

    def append(step: str) -> None:
        if step == "allocated" and calls == ["called"]:
            client = FakeClient(server)
            txn_id = client.open_txn()
            client.allocate_write_id(txn_id, table.ref)
            client.commit_txn(txn_id)

    run_program(server, enters(calls), on_step=append, changes=(str(table.ref),))
    assert calls == ["called", "called", "entered"]


@pytest.mark.parametrize("operation", ["overwrites", "changes"])
def test_a_restarted_program_may_read_the_table_that_it_has_locked(
    server: FakeMetastore, table: TableInfo, operation: str
) -> None:
    """Otherwise it would wait for its own lock."""
    seen: list[list[int]] = []

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        client = FakeClient(server)
        with held_snapshot(client, [str(table.ref)], job_terms("look", lock_timeout_s=0)):
            seen.append([int(lock.txn_id or 0) for lock in client.show_locks(table.ref)])
        with acid.transaction(spark, task):
            if len(seen) == 1:
                raise errors.OvertakenError(table=table.ref, txn_id=1, why="of a test")

    assert (
        run_program(server, program, **{operation: (str(table.ref),)}).status is JobStatus.COMMITTED
    )
    # Its reader's own, and what keeps its place.
    assert [len(txns) for txns in seen] == [1, 2]
    assert server.locks == {}
    assert [t.state for t in server.txns.values()].count(TxnState.OPEN) == 0


def test_a_program_does_not_read_a_table_that_was_changed_while_it_waited_for_its_locks(
    server: FakeMetastore, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old type would round or lose values that were written since."""
    source = FakeClient(server).create_table(
        NewTable(ref=TableRef("default", "source"), columns=table.columns)
    )

    def alter(*_: object) -> None:
        wider = (Column(name="id", type="decimal(20,0)"),)
        server.tables[source.ref] = dataclasses.replace(source, columns=wider)

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        with acid.transaction(spark, task):
            pytest.fail("the definition is old")

    act_before(monkeypatch, FakeClient, "lock", alter)
    with pytest.raises(errors.TableChangedError, match=r"default\.source: its columns changed"):
        run_program(server, program, reads=(str(source.ref),), inserts=(str(table.ref),))
    assert {txn.state for txn in server.txns.values()} == {TxnState.ABORTED}


@pytest.mark.promise("T11")
def test_a_program_that_is_killed_before_its_second_transaction_stays_aborted(
    server: FakeMetastore, table: TableInfo
) -> None:
    calls: list[str] = []

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        calls.append("called")
        if len(calls) == 2:
            attempt = AttemptId.parse(task.job.spec.attempt)
            key = task.job.spec.job_key
            assert abort_job(FakeClient(server), str(key), attempt, [table.ref]) == (2,)
        with acid.transaction(spark, task):
            raise errors.OvertakenError(table=table.ref, txn_id=1, why="of a test")

    with pytest.raises(errors.TransactionAbortedError):
        run_program(server, program, overwrites=(str(table.ref),))
    assert calls == ["called"] * 2
    assert [t.state for t in server.txns.values()] == [TxnState.ABORTED] * 3
    assert server.locks == {}


def test_a_restart_succeeds_if_the_lock_request_of_the_handover_fails(
    server: FakeMetastore, table: TableInfo
) -> None:
    calls: list[str] = []

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        calls.append("called")
        with acid.transaction(spark, task):
            if len(calls) == 1:
                lost = errors.MetastoreUnavailableError(uris=(), method="lock", reason="cut off")
                server.break_next("lock", lost, is_done=True)
                raise errors.OvertakenError(table=table.ref, txn_id=1, why="of a test")

    assert run_program(server, program, overwrites=(str(table.ref),)).status is JobStatus.COMMITTED
    states = [t.state for t in server.txns.values()]
    assert states == [TxnState.ABORTED, TxnState.ABORTED, TxnState.COMMITTED]
    assert server.locks == {}


def test_a_retry_does_not_enter_a_committed_block_again(
    server: FakeMetastore, parts: TableInfo
) -> None:
    del parts
    calls: list[str] = []
    assert run_program(server, enters(calls)).status is JobStatus.COMMITTED
    assert run_program(server, enters(calls)).status is JobStatus.ALREADY_DONE
    assert calls == ["called", "entered", "called"]


def test_a_block_cannot_end_normally_if_the_program_suppressed_a_failed_statement(
    server: FakeMetastore, parts: TableInfo
) -> None:
    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        with acid.transaction(spark, task) as txn, suppress(errors.ConfigurationError):
            insert(txn, match="by chance")

    with pytest.raises(errors.ConfigurationError, match="but the program caught"):
        run_program(server, program)
    assert FakeClient(server).show_locks(parts.ref) == ()


def test_a_program_may_open_only_one_transaction(server: FakeMetastore, parts: TableInfo) -> None:
    del parts
    calls: list[str] = []

    def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
        for _ in range(2):
            enters(calls)(spark, task)

    with pytest.raises(errors.ConfigurationError, match="a program may open only one transaction"):
        run_program(server, program)
    assert calls == ["called", "entered", "called"]


@pytest.mark.parametrize(
    ("declared", "done", "is_allowed"),
    [
        (DataOperation.INSERT, DataOperation.INSERT, True),
        (DataOperation.INSERT, DataOperation.DELETE, False),
        (DataOperation.UPDATE, DataOperation.DELETE, True),
        (DataOperation.UPDATE, DataOperation.OVERWRITE, False),
        (DataOperation.OVERWRITE, DataOperation.OVERWRITE, True),
        (DataOperation.SELECT, DataOperation.INSERT, False),
    ],
)
def test_a_statement_is_refused_unless_the_program_declares_its_operation(
    txn: acid.Transaction,
    work: Work,
    parts: TableInfo,
    monkeypatch: pytest.MonkeyPatch,
    declared: DataOperation,
    done: DataOperation,
    *,
    is_allowed: bool,
) -> None:
    change = planned(parts, done)
    monkeypatch.setattr(acid, "planned_one", lambda *_: change)
    txn._tables = {parts.ref: acid._Declared(table=parts, operation=declared)}
    if is_allowed:
        insert(txn)
    else:
        with pytest.raises(errors.ConfigurationError, match="does not declare this"):
            insert(txn)
    assert work.done == is_allowed


def test_an_insert_after_an_overwrite_of_the_same_table_is_refused(
    txn: acid.Transaction, work: Work, parts: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn._tables = {parts.ref: acid._Declared(table=parts, operation=DataOperation.OVERWRITE)}
    kinds = iter([DataOperation.INSERT, DataOperation.OVERWRITE, DataOperation.INSERT])
    monkeypatch.setattr(
        acid,
        "planned_one",
        lambda *_: planned(parts, next(kinds)),
    )
    insert(txn)
    insert(txn)
    with pytest.raises(errors.StatementOrderError, match="statement 3 changes"):
        insert(txn)
    assert work.done == 2


def test_a_table_that_is_declared_more_than_once_gets_the_strongest_lock(
    server: FakeMetastore, parts: TableInfo
) -> None:
    name = str(parts.ref)
    locks: list[set[str]] = []

    def look() -> None:
        held = FakeClient(server).show_locks(parts.ref)
        locks.append({lock.lock_type.name for lock in held})

    tables = {"reads": (name,), "inserts": (name,), "changes": (name.upper(),)}
    run_program(server, enters([]), on_step=at("locked", look), **tables)
    assert locks == [{"SHARED_WRITE"}]


def test_a_program_started_by_hand_exits_and_names_the_operator_that_submits_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["merge_orders.py", "2026-01-01"])
    called: list[object] = []
    with pytest.raises(SystemExit):
        acid.run(lambda *given: called.append(given))
    assert "HiveAcidPySparkOperator submits it" in capsys.readouterr().err
    assert called == []
