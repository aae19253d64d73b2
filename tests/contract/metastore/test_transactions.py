from __future__ import annotations

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.local.pytest_plugin import TXN_TIMEOUT_S
from airflow_hiveacid.metastore.port import MetastorePort, TxnState, TxnType
from airflow_hiveacid.metastore.preflight import Concern, preflight
from tests.contract.bench import REAL_PARAMS, Bench, access, month, start

INSERT = conflicts.DataOperation.INSERT


def test_transaction_ids_increase(client: MetastorePort) -> None:
    txn_ids = [client.open_txn() for _ in range(5)]
    assert txn_ids == sorted(set(txn_ids))
    for txn_id in txn_ids:
        client.abort_txn(txn_id)


@pytest.mark.promise("T2")
def test_a_transaction_has_one_write_id_per_table_and_tables_count_independently(
    bench: Bench, client: MetastorePort
) -> None:
    one, other = bench.table("one"), bench.table("other")
    first, second = client.open_txn(), client.open_txn()
    assert client.allocate_write_id(first, one.ref) == 1
    assert client.allocate_write_id(first, one.ref) == 1
    assert client.allocate_write_id(second, one.ref) == 2
    assert client.allocate_write_id(second, other.ref) == 1
    client.abort_txn(first)
    client.abort_txn(second)


@pytest.mark.promise("T4")
def test_a_snapshot_distinguishes_open_aborted_and_committed_writes(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    committed, aborted, still_open = (start(client, access(table, INSERT)) for _ in range(3))
    client.commit_txn(committed.txn_id)
    client.abort_txn(aborted.txn_id)
    txns = client.valid_txns()
    assert still_open.txn_id in txns.open
    assert aborted.txn_id in txns.aborted
    assert txns.is_visible(committed.txn_id)
    write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
    assert write_ids.text() == f"{table.ref}:3:3:3:2"
    client.commit_txn(still_open.txn_id)
    write_ids = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    assert write_ids.text() == f"{table.ref}:3:9223372036854775807::2"


def test_an_old_transaction_list_shows_the_old_state(bench: Bench, client: MetastorePort) -> None:
    table = bench.table()
    early = start(client, access(table, INSERT))
    txns = client.valid_txns()
    client.commit_txn(early.txn_id)
    late = start(client, access(table, INSERT))
    client.commit_txn(late.txn_id)
    write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
    assert not write_ids.is_visible(early.write_id)
    assert not write_ids.is_visible(late.write_id)


def test_a_write_id_allocated_after_the_transactions_were_listed_is_not_visible(
    bench: Bench, client: MetastorePort
) -> None:
    """Not even in a table of which nothing older is known."""
    table = bench.table()
    txns = client.valid_txns()
    late, later = start(client, access(table, INSERT)), start(client, access(table, INSERT))
    client.commit_txn(later.txn_id)
    write_ids = client.valid_write_ids([table.ref], txns)[table.ref]
    assert not write_ids.is_visible(late.write_id)
    assert not write_ids.is_visible(later.write_id)


def test_a_table_without_writes_has_the_high_watermark_zero(
    bench: Bench, client: MetastorePort
) -> None:
    one, other = bench.table("one"), bench.table("other")
    found = client.valid_write_ids([one.ref, other.ref], client.valid_txns())
    assert [found[ref].high_watermark for ref in (one.ref, other.ref)] == [0, 0]
    assert client.valid_write_ids([], client.valid_txns()) == {}


def test_the_highest_write_id_includes_open_and_aborted_writes(
    bench: Bench, client: MetastorePort
) -> None:
    ref = bench.table().ref
    assert client.max_write_id(ref) == 0
    open_, aborted = client.open_txn(), client.open_txn()
    assert client.allocate_write_id(open_, ref) == 1
    assert client.allocate_write_id(aborted, ref) == 2
    client.abort_txn(aborted)
    assert client.max_write_id(ref) == 2
    client.abort_txn(open_)


def test_all_clients_of_a_metastore_see_its_one_id(bench: Bench, client: MetastorePort) -> None:
    assert client.metastore_id
    assert bench.client().metastore_id == client.metastore_id


def test_an_abort_can_be_repeated_and_returns_false_after_a_commit(
    bench: Bench, client: MetastorePort
) -> None:
    aborted = start(client, access(bench.table("one"), INSERT))
    assert client.abort_txn(aborted.txn_id)
    assert client.abort_txn(aborted.txn_id)
    committed = start(client, access(bench.table("other"), INSERT))
    client.commit_txn(committed.txn_id)
    assert not client.abort_txn(committed.txn_id)
    assert not client.abort_txn(ids.TxnId(1_000_000))


def test_each_call_for_an_aborted_transaction_raises_an_error(
    bench: Bench, client: MetastorePort
) -> None:
    plain, table = bench.table(), bench.partitioned("1")
    mine = start(client, access(table, INSERT))
    client.abort_txn(mine.txn_id)
    with pytest.raises(errors.TransactionAbortedError):
        client.heartbeat(mine.txn_id)
    with pytest.raises(errors.TransactionAbortedError):
        client.allocate_write_id(mine.txn_id, plain.ref)
    with pytest.raises(errors.TransactionAbortedError):
        client.add_dynamic_partitions(mine.txn_id, mine.write_id, table.ref, [month("1")], INSERT)
    with pytest.raises(errors.TransactionAbortedError):
        client.check_lock(mine.answer.lock_id, mine.txn_id)
    with pytest.raises(errors.TransactionAbortedError):
        client.commit_txn(mine.txn_id)


def test_an_unknown_transaction_is_treated_as_aborted(client: MetastorePort) -> None:
    stranger = ids.TxnId(1_000_000)
    with pytest.raises(errors.TransactionAbortedError):
        client.heartbeat(stranger)
    with pytest.raises(errors.TransactionAbortedError):
        client.commit_txn(stranger)


def test_the_commit_of_a_write_can_be_sent_twice(bench: Bench, client: MetastorePort) -> None:
    mine = start(client, access(bench.table(), INSERT))
    client.commit_txn(mine.txn_id)
    client.commit_txn(mine.txn_id)


def test_only_4x_accepts_a_repeated_commit_of_a_transaction_without_writes(
    client: MetastorePort,
) -> None:
    txn_id = client.open_txn()
    client.commit_txn(txn_id)
    if client.generation is conflicts.MetastoreGeneration.V4:
        client.commit_txn(txn_id)
    else:
        with pytest.raises(errors.TransactionAbortedError):
            client.commit_txn(txn_id)


def test_open_transactions_are_listed_with_their_users(client: MetastorePort) -> None:
    txn_ids = [client.open_txn(kind) for kind in TxnType]
    told = {txn.txn_id: txn for txn in client.open_txns_info()}
    assert [told[i].state for i in txn_ids] == [TxnState.OPEN] * len(txn_ids)
    assert all(told[i].user for i in txn_ids)
    for txn_id in txn_ids:
        client.abort_txn(txn_id)
    told = {txn.txn_id: txn for txn in client.open_txns_info()}
    # A server may have forgotten them by now; what it still tells of is aborted.
    still_open = {i for i in told if told[i].state is TxnState.OPEN}
    assert not still_open.intersection(txn_ids)


def test_every_metastore_version_accepts_the_minimum_history_of_write_ids(
    bench: Bench, client: MetastorePort
) -> None:
    table = bench.table()
    mine = start(client, access(table, INSERT))
    client.add_write_ids_to_min_history(mine.txn_id, {table.ref: mine.write_id})
    client.commit_txn(mine.txn_id)


def test_the_transaction_timeout_is_read_from_the_metastore(client: MetastorePort) -> None:
    assert client.txn_timeout_s == TXN_TIMEOUT_S
    assert client.config_value("metastore.no.such.setting", "mine") == "mine"


def test_a_cloned_client_uses_the_same_metastore(bench: Bench, client: MetastorePort) -> None:
    table = bench.table()
    with client.clone(call_timeout_s=5) as other:
        txn_id = other.open_txn()
        client.heartbeat(txn_id)
        assert other.get_table(table.ref) == table
        other.abort_txn(txn_id)
    assert client.generation is other.generation


@pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)
def test_the_preflight_check_finds_at_most_a_missing_compactor_on_the_test_servers(
    client: MetastorePort,
) -> None:
    # Nothing of these compacts on 3.1, which is said, too.
    assert {finding.concern for finding in preflight(client)} <= {Concern.NO_COMPACTOR}
