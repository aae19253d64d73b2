"""Answers that get lost between a real metastore and its client: nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.auth.address import parse_uri
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.transactions.commit import commit
from airflow_hiveacid.metastore.transactions.transaction import begin
from tests.contract.bench import REAL_PARAMS, Bench, access, start
from tests.contract.relay import Relay
from tests.support.terms import job_terms

INSERT = conflicts.DataOperation.INSERT
pytestmark = pytest.mark.parametrize("bench", REAL_PARAMS, indirect=True)


@pytest.fixture
def relay(bench: Bench) -> Iterator[Relay]:
    direct = bench.clients[0]
    assert isinstance(direct, MetastoreClient)
    with Relay(parse_uri(direct.endpoint.uris[0]).port) as made:
        yield made


@pytest.fixture
def remote(relay: Relay) -> Iterator[MetastoreClient]:
    """A client that sees the server through the relay."""
    with connect(MetastoreEndpoint(uris=(relay.uri,), call_timeout_s=10.0)) as made:
        yield made


def is_visible(bench: Bench, table: TableInfo, write_id: ids.WriteId) -> bool:
    direct = bench.clients[0]
    write_ids = direct.valid_write_ids([table.ref], direct.valid_txns())
    return write_ids[table.ref].is_visible(write_id)


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_a_commit_whose_request_or_response_is_lost_takes_effect_once(
    bench: Bench, relay: Relay, remote: MetastoreClient, *, is_forwarded: bool
) -> None:
    table = bench.table()
    with begin(remote, job_terms(), writes=[access(table, INSERT)]) as txn:
        relay.cut("commit_txn", is_forwarded=is_forwarded)
    assert relay.has_cut_all
    assert is_visible(bench, table, txn.write_ids[table.ref])
    assert bench.clients[0].show_locks(table.ref) == ()


def test_a_lost_commit_response_raises_commit_state_unknown_if_no_server_is_reachable(
    bench: Bench, relay: Relay, remote: MetastoreClient
) -> None:
    table = bench.table()
    mine = start(remote, access(table, INSERT))
    relay.cut("commit_txn", is_forwarded=True)
    method = "get_open_txns_req"  # also asked by 3.1's client, to know whom it speaks to
    relay.cut(method, is_forwarded=False, times=1000)
    with pytest.raises(errors.CommitStateUnknownError, match="may or may not"):
        commit(remote, mine.txn_id, {table.ref: mine.write_id}, patience_s=0.3, clock=bench.clock)
    # It did happen, so an abort would have been wrong.
    assert is_visible(bench, table, mine.write_id)


def test_a_lock_whose_response_is_lost_is_released_with_its_transaction(
    bench: Bench, relay: Relay, remote: MetastoreClient
) -> None:
    table = bench.table()
    relay.cut("lock", is_forwarded=True)
    with begin(remote, job_terms(), writes=[access(table, INSERT)]) as txn:
        assert relay.has_cut_all
        # whose answer was lost is gone, so nobody waits for a lock that nobody knows of
        assert [lock.txn_id for lock in bench.clients[0].show_locks(table.ref)] == [txn.txn_id]
    assert is_visible(bench, table, txn.write_ids[table.ref])
    assert bench.clients[0].show_locks(table.ref) == ()


def test_repeatedly_lost_lock_responses_leave_no_lock(
    bench: Bench, relay: Relay, remote: MetastoreClient
) -> None:
    table = bench.table()
    relay.cut("lock", is_forwarded=True, times=1000)
    with (
        pytest.raises(errors.MetastoreUnavailableError, match="lock"),
        begin(remote, job_terms(), writes=[access(table, INSERT)]),
    ):
        pytest.fail("the body must not run")
    assert bench.clients[0].show_locks(table.ref) == ()


def test_a_write_id_whose_response_is_lost_is_allocated_only_once(
    bench: Bench, relay: Relay, remote: MetastoreClient
) -> None:
    table = bench.table()
    relay.cut("allocate_table_write_ids", is_forwarded=True)
    with begin(remote, job_terms(), writes=[access(table, INSERT)]) as txn:
        assert txn.write_ids[table.ref] == 1
    assert is_visible(bench, table, txn.write_ids[table.ref])


def test_a_heartbeat_whose_response_is_lost_is_sent_again(
    bench: Bench, relay: Relay, remote: MetastoreClient
) -> None:
    mine = start(remote, access(bench.table(), INSERT))
    relay.cut("heartbeat", is_forwarded=True)
    remote.heartbeat(mine.txn_id)
    assert relay.has_cut_all
    remote.abort_txn(mine.txn_id)
