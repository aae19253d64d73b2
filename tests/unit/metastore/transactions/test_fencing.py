from __future__ import annotations

import ast
from pathlib import Path

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockState
from airflow_hiveacid.format.errors import MetastoreCallError, TransactionAbortedError
from airflow_hiveacid.format.ids import AttemptId, TxnId, WriteId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.definitions.statements import locked
from airflow_hiveacid.metastore.locks import LockInfo, LockRequest, components_for
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.metastore.transactions import fencing
from airflow_hiveacid.metastore.transactions.compaction_work import compacting
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import access, listed_lock, start
from tests.contract.fake_client import FakeClient
from tests.support.terms import job_terms
from tests.unit.metastore.transactions.conftest import Lab

KEY = "flights/scheduled__2013-01-01T00:00:00+00:00/merge/-1"
TRY_1, TRY_2 = AttemptId(1, "0" * 12), AttemptId(2, "1" * 12)
OTHER_TRY_1 = AttemptId(1, "f" * 12)


def lock(agent_info: str, txn_id: int | None = 1) -> LockInfo:
    return listed_lock(1, txn_id=txn_id, agent_info=agent_info)


def fencing_token(
    first_txn_id: int, key: str = KEY, attempt: AttemptId = TRY_1
) -> fencing.FencingToken:
    return fencing.FencingToken(job_key=key, attempt=attempt, first_txn_id=TxnId(first_txn_id))


def rival(txn_id: int, first_txn_id: int, attempt: AttemptId) -> fencing.Rival:
    return fencing.Rival(
        txn_id=TxnId(txn_id),
        part_digest="",
        attempt=attempt,
        first_txn_id=TxnId(first_txn_id),
    )


@pytest.mark.parametrize("key", ["", "k", KEY, "d" * 500, "täglich/日次", "a#b@7"])
@pytest.mark.parametrize("first_txn_id", [1, 2**62])
def test_the_fencing_token_fits_the_metastores_column_and_is_recognised(
    key: str, first_txn_id: int
) -> None:
    attempt = AttemptId(999_999, "0123456789ab")
    text = fencing_token(first_txn_id, key, attempt).agent_info
    assert len(text) <= 128
    (copy,) = fencing.copies_of(key, [lock(text, 9)])
    assert (copy.txn_id, copy.first_txn_id, copy.attempt) == (9, first_txn_id, attempt)


def test_the_beginning_of_the_job_key_is_readable_in_the_fencing_token() -> None:
    assert fencing_token(7).agent_info.startswith(KEY[:40])
    assert KEY.startswith(fencing.job_key_in(fencing_token(7).agent_info))
    assert fencing.is_of_this_provider(fencing_token(7).agent_info)


def test_locks_of_other_jobs_and_programs_are_not_copies_of_the_job() -> None:
    others = [
        lock(fencing_token(1, KEY + "0").agent_info),
        lock("presto-worker-7"),
        lock(""),
        lock(fencing_token(1).agent_info, txn_id=None),
        lock(fencing_token(1).agent_info + " and more"),
    ]
    assert fencing.copies_of(KEY, others) == ()


def test_a_transaction_with_many_locks_is_one_copy() -> None:
    locks = [
        lock(fencing_token(5).agent_info, 5),
        lock(fencing_token(5).agent_info, 5),
        lock(fencing_token(3).agent_info, 3),
    ]
    assert [c.txn_id for c in fencing.copies_of(KEY, locks)] == [3, 5]


def test_an_attempt_may_end_its_own_earlier_transaction() -> None:
    mine = fencing_token(5)
    copies = [rival(5, 5, TRY_1), rival(6, 5, TRY_1)]
    assert [c.txn_id for c in fencing.older(mine, TxnId(6), copies)] == [5]
    assert fencing.newer(mine, copies) == ()


def begin_job(client: FakeClient, table: TableInfo, begun: list[TxnId]) -> None:
    """Open a transaction more of the job, with its locks, and note it among those it has begun."""
    components = components_for([], [access(table, DataOperation.INSERT)], client.generation)
    begun.append(client.open_txn())
    agent_info = fencing_token(begun[0]).agent_info
    client.lock(LockRequest(txn_id=begun[-1], components=components, agent_info=agent_info))


def test_a_lock_for_a_definition_aborts_the_transaction_of_an_older_copy(lab: Lab) -> None:
    client = FakeClient(lab.server)
    components = components_for([], [access(lab.table, DataOperation.INSERT)], client.generation)
    txn_id = client.open_txn()
    text = fencing_token(txn_id).agent_info
    client.lock(LockRequest(txn_id=txn_id, components=components, agent_info=text))
    terms = job_terms(KEY, lock_timeout_s=0, attempt=TRY_2, clock=lab.clock)
    with locked(client, components, terms):
        assert client.valid_txns().is_aborted(txn_id)


def test_a_kill_also_aborts_transactions_that_the_job_opened_meanwhile(lab: Lab) -> None:
    client, begun = FakeClient(lab.server), list[TxnId]()

    def begin_anew() -> None:
        begin_job(client, lab.table, begun)

    class Racing(FakeClient):
        def abort_txn(self, txn_id: TxnId) -> bool:
            if len(begun) < 3:
                begin_anew()
            return super().abort_txn(txn_id)

    begin_anew()
    assert fencing.abort_job(Racing(lab.server), KEY, TRY_1, [lab.table.ref]) == tuple(begun)
    assert len(begun) == 3
    assert client.valid_txns().open == ()


def test_a_kill_aborts_a_compaction_that_has_not_locked_its_table_yet(lab: Lab) -> None:
    def kill() -> tuple[TxnId, ...]:
        assert lab.client.show_locks(lab.table.ref) == ()
        return fencing.abort_job(lab.client, KEY, TRY_1, [lab.table.ref])

    with (
        pytest.raises(TransactionAbortedError),
        compacting(
            lab.client,
            job_terms(KEY, lock_timeout_s=1, attempt=TRY_1, clock=lab.clock),
            table=lab.table,
            partition=None,
            compaction_type=CompactionType.MAJOR,
        ) as work,
    ):
        assert kill() == (work.txn.txn_id,)


def test_a_kill_aborts_the_other_transactions_if_one_cannot_be_aborted(lab: Lab) -> None:
    """This includes a transaction that the job opened meanwhile."""
    client, begun = FakeClient(lab.server), list[TxnId]()

    def begin_anew() -> None:
        begin_job(client, lab.table, begun)

    class Stubborn(FakeClient):
        def abort_txn(self, txn_id: TxnId) -> bool:
            if txn_id == begun[0]:
                raise MetastoreCallError(method="abort_txn", reason="for no reason")
            if len(begun) == 2:
                begin_anew()
            return super().abort_txn(txn_id)

    begin_anew()
    begin_anew()

    with pytest.raises(MetastoreCallError, match="for no reason"):
        fencing.abort_job(Stubborn(lab.server), KEY, TRY_1, [lab.table.ref])
    assert len(begun) == 3
    assert client.valid_txns().open == (begun[0],)


@pytest.mark.parametrize("is_definition", [False, True])
def test_a_retry_without_lock_wait_gets_the_locks_of_the_try_that_it_aborts(
    lab: Lab, *, is_definition: bool
) -> None:
    """A dead driver's transaction is open until it times out; each try would fail until then."""
    client, overwrite = FakeClient(lab.server), access(lab.table, DataOperation.OVERWRITE)
    components = components_for([], [overwrite], lab.server.generation)
    dead = client.open_txn()
    agent_info = fencing_token(dead).agent_info
    client.lock(LockRequest(txn_id=dead, components=components, agent_info=agent_info))
    terms = job_terms(KEY, lock_timeout_s=0, attempt=TRY_2, clock=lab.clock)
    retry = (
        locked(client, components, terms)
        if is_definition
        else begin(
            client,
            job_terms(KEY, lock_timeout_s=0, attempt=TRY_2, clock=lab.clock),
            writes=[overwrite],
        )
    )
    with retry:
        (held,) = client.show_locks(lab.table.ref)
        assert held.state is LockState.ACQUIRED
    states = [txn.state for txn in lab.server.txns.values()]
    assert states == [TxnState.ABORTED, TxnState.COMMITTED]
    assert lab.clock.slept_s == []


def test_no_lock_request_of_the_package_invents_an_agent_info() -> None:
    """`is_of_this_provider` knows what this module returns; other texts delay every cleaning."""
    calls = [
        (path, node)
        for path in Path(fencing.__file__).parents[2].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("LockRequest")
    ]
    own = [(p, k.value) for p, call in calls for k in call.keywords if k.arg == "agent_info"]
    assert len(own) >= 5
    texts = [f"{p.name}: {ast.unparse(v)}" for p, v in own if "agent_info" not in ast.unparse(v)]
    assert texts == []
    for kind in (CompactionType.MINOR, CompactionType.MAJOR):
        assert fencing.is_of_this_provider(fencing.agent_info_of_compactor(kind.value))


# ---- the owner of a transaction ----------------------------------------------------------------


@pytest.mark.parametrize("committed", [0, 1])
@pytest.mark.parametrize("number", range(7))
def test_the_writer_is_found_among_other_open_transactions(
    client: FakeClient, table: TableInfo, number: int, committed: int
) -> None:
    """They are without a write ID, have one of a later number, or have aborted an earlier one."""
    aborted = client.open_txn()
    client.allocate_write_id(aborted, table.ref)
    for _ in range(committed):
        client.commit_txn(start(client, access(table, DataOperation.INSERT)).txn_id)
    txns = [client.open_txn() for _ in range(7)]
    client.abort_txn(aborted)
    writer = txns[number]
    write_id = client.allocate_write_id(writer, table.ref)
    for other in txns[::-1]:
        client.allocate_write_id(other, table.ref)
    assert fencing.writer_of(client, table.ref, write_id) == writer
    client.abort_txn(writer)
    assert fencing.writer_of(client, table.ref, write_id) is None


def test_an_unknown_transaction_is_named_by_its_number(client: FakeClient) -> None:
    assert fencing.owner_text(client, TxnId(9)).startswith("transaction 9; if its process has died")


@pytest.mark.parametrize("method", ["open_txns_info", "show_locks", "valid_write_ids"])
def test_a_server_that_refuses_the_question_changes_only_the_message(
    client: FakeClient, table: TableInfo, method: str
) -> None:
    refused = MetastoreCallError(method=method, reason="denied")
    txn_id = start(client, access(table, DataOperation.INSERT)).txn_id
    client.server.break_next(method, refused, is_done=False)
    if method == "valid_write_ids":
        assert fencing.writer_of(client, table.ref, WriteId(1)) is None
    else:
        text = fencing.owner_text(client, txn_id)
        assert text.startswith(f"transaction {txn_id}")
        assert text.endswith(f"end it with `hiveacid abort {txn_id}`")
