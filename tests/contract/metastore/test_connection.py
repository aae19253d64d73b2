"""What the client makes of servers that are old, slow, broken, gone, or not metastores at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockState,
    LockType,
    MetastoreGeneration,
)
from airflow_hiveacid.format.ids import LockId, TxnId, WriteId
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport
from airflow_hiveacid.metastore.client import MetastoreClient, connect, connection, server_states
from airflow_hiveacid.metastore.gen.faults.ttypes import MetaException, TxnAbortedException
from airflow_hiveacid.metastore.gen.locks.ttypes import (
    AddDynamicPartitions,
    LockResponse,
    LockState as LockStates,
    LockType as LockTypes,
    ShowLocksResponse,
    ShowLocksResponseElement,
)
from airflow_hiveacid.metastore.gen.tables.ttypes import FieldSchema, Partition, StorageDescriptor
from airflow_hiveacid.metastore.gen.transactions import ttypes
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, in_the_way
from tests.contract.stub_server import NOTHING_OPEN, HangUpError, StubServer
from tests.support.slow_server import answering

REQUEST = LockRequest(txn_id=TxnId(1), components=(), agent_info="me")


def client_of(*uris: str, call_timeout_s: float = 2.0, user: str | None = None) -> MetastoreClient:
    return connect(MetastoreEndpoint(uris=uris, call_timeout_s=call_timeout_s, user=user))


def hang_up(*_: object) -> None:
    raise HangUpError


def v4(**answers: Callable[..., object]) -> StubServer:
    return StubServer(**{"get_open_txns_req": lambda _: NOTHING_OPEN, **answers})


def v3(**answers: Callable[..., object]) -> StubServer:
    known = {
        "get_open_txns": lambda: NOTHING_OPEN,
        "get_valid_write_ids": lambda _: ttypes.GetValidWriteIdsResponse(tblValidWriteIds=[]),
    }
    return StubServer(**{**known, **answers})


@contextmanager
def served(server: StubServer) -> Iterator[tuple[StubServer, MetastoreClient]]:
    with server, client_of(server.uri) as client:
        yield server, client


def refused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_an_endpoint_without_an_address_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="no address"):
        client_of()


def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.pem")
    endpoint = MetastoreEndpoint(
        uris=("thrift://127.0.0.1:1",), transport=Transport.TLS, ca_certificate=missing
    )
    with pytest.raises(errors.ConfigurationError, match=r"ca\.pem"):
        connect(endpoint).valid_txns()


def test_the_metastore_generation_is_requested_once_per_connection() -> None:
    with served(v4()) as (server, client):
        assert client.generation is MetastoreGeneration.V4
        assert client.generation is MetastoreGeneration.V4
        assert server.calls == ["get_open_txns_req"]
        client.close()
        assert client.generation is MetastoreGeneration.V4
        assert (server.connections, len(server.calls)) == (2, 2)


def test_a_server_without_the_newer_call_is_recognized_as_3x() -> None:
    with served(v3()) as (_, client):
        assert client.generation is MetastoreGeneration.V3
        assert client.valid_txns().high_watermark == 7


def test_a_server_that_fails_in_the_newer_call_is_recognized_as_4x() -> None:
    def stumble(_: object) -> None:
        raise NotImplementedError

    with served(v4(get_open_txns_req=stumble)) as (_, client):
        assert client.generation is MetastoreGeneration.V4


def test_a_server_without_write_ids_is_refused_as_too_old() -> None:
    with (
        StubServer(get_open_txns=lambda: NOTHING_OPEN) as server,
        client_of(server.uri) as client,
        pytest.raises(errors.MetastoreVersionError, match=r"older than Hive 3\.0"),
    ):
        client.open_txn()


def test_a_call_that_only_newer_servers_support_raises_a_version_error() -> None:
    with served(v3()) as (server, client):
        with pytest.raises(errors.MetastoreVersionError, match="find_next_compact2"):
            client.find_next_compaction("w", worker_version="1")
        # The connection is still good.
        assert client.valid_txns().high_watermark == 7
        assert server.connections == 1


def test_a_call_that_is_safe_to_repeat_is_repeated_after_the_connection_is_lost() -> None:
    answers = iter([hang_up, lambda: ShowLocksResponse(locks=[])])
    with served(v4(show_locks=lambda _: next(answers)())) as (server, client):
        assert client.show_locks() == ()
        assert server.calls.count("show_locks") == 2
        assert server.connections == 2


def test_a_call_that_is_not_safe_to_repeat_is_not_repeated() -> None:
    with served(v4(lock=hang_up, commit_txn=hang_up)) as (server, client):
        with pytest.raises(errors.MetastoreUnavailableError, match="lock"):
            client.lock(REQUEST)
        with pytest.raises(errors.MetastoreUnavailableError, match="commit_txn"):
            client.commit_txn(TxnId(1))
        assert (server.calls.count("lock"), server.calls.count("commit_txn")) == (1, 1)


def test_an_internal_error_is_retried_if_safe_and_then_reported_as_unavailable() -> None:
    """A call that declares no fault has no other word for a database that is away."""

    def stumble(*_: object) -> ShowLocksResponse:
        raise NotImplementedError

    answers = iter([stumble, lambda: ShowLocksResponse(locks=[]), *[stumble] * 9])
    with served(v4(show_locks=lambda _: next(answers)(), lock=stumble)) as (server, client):
        assert client.show_locks() == ()
        with pytest.raises(errors.MetastoreUnavailableError, match="Internal error"):
            client.show_locks()
        with pytest.raises(errors.MetastoreUnavailableError, match="Internal error"):
            client.lock(REQUEST)
        assert server.calls.count("lock") == 1


def test_a_closed_idle_connection_is_replaced_before_the_next_call() -> None:
    granted = LockResponse(lockid=5, state=1)
    with v4(lock=lambda _: granted) as first, v4(lock=lambda _: granted) as second:
        client = client_of(first.uri, second.uri)
        assert client.lock(REQUEST).lock_id == 5
        client._connection._protocol.trans._TBufferedTransport__trans.handle.shutdown(
            socket.SHUT_RDWR
        )
        assert client.lock(REQUEST).lock_id == LockId(5)
        client.close()


def test_no_text_of_a_user_ends_a_quoted_text_of_the_servers_sql() -> None:
    sent: list[Any] = []

    def lock(request: object) -> LockResponse:
        sent.append(request)
        return LockResponse(lockid=5, state=1)

    def open_txns(request: object) -> ttypes.OpenTxnsResponse:
        sent.append(request)
        return ttypes.OpenTxnsResponse(txn_ids=[1])

    with v4(lock=lock, open_txns=open_txns, set_ugi=lambda *_: []) as server:
        client = client_of(server.uri, user="o'brien\\")
        client.open_txn()
        client.lock(replace(REQUEST, agent_info="bob's job"))
        client.close()
    assert [request.user for request in sent] == ["o?brien?"] * 2
    assert sent[1].agentInfo == "bob?s job"


def test_an_unknown_lock_state_counts_as_not_acquired() -> None:
    answer = LockResponse(lockid=5, state=99)
    with served(v4(lock=lambda _: answer, check_lock=lambda _: answer)) as (_, client):
        assert client.lock(REQUEST).state is LockState.NOT_ACQUIRED
        assert client.check_lock(LockId(5), TxnId(1)).state is LockState.NOT_ACQUIRED


def test_a_lock_of_an_unknown_type_or_state_is_shown_and_counts_as_in_the_way() -> None:
    held = [
        ShowLocksResponseElement(
            lockid=number, txnid=9, dbname="d", tablename="t", state=state, type=kind, acquiredat=1
        )
        for number, state, kind in ((1, LockStates.ACQUIRED, 77), (2, 88, LockTypes.SHARED_WRITE))
    ]
    with served(v4(show_locks=lambda _: ShowLocksResponse(locks=held))) as (_, client):
        locks = client.show_locks()
    assert [(one.lock_type.value, one.state.value) for one in locks] == [
        ("type 77", "acquired"),
        ("shared_write", "state 88"),
    ]
    ref, write = TableRef("d", "t"), LockType.EXCLUSIVE
    wanted = LockComponent(table=ref, lock_type=write, operation=None)
    assert in_the_way(locks, [wanted], MetastoreGeneration.V4) == locks


def test_a_transaction_in_an_unknown_state_may_be_open() -> None:
    listed = [ttypes.TxnInfo(id=n, state=n, user="u", hostname="h") for n in (1, 2, 3, 99)]
    answer = ttypes.GetOpenTxnsInfoResponse(txn_high_water_mark=99, open_txns=listed)
    with served(v4(get_open_txns_info=lambda: answer)) as (_, client):
        found = client.open_txns_info()
    assert [(one.state.value, one.may_be_open) for one in found] == [
        ("committed", False),
        ("aborted", False),
        ("open", True),
        ("state 99", True),
    ]


@pytest.mark.parametrize("make", [v3, v4])
def test_locks_of_other_transactions_are_filtered_out_of_the_response(
    make: Callable[..., StubServer],
) -> None:
    locks = [
        ShowLocksResponseElement(
            lockid=txn_id, txnid=txn_id, dbname="d", tablename="t", state=1, type=1, acquiredat=1
        )
        for txn_id in (1, 2)
    ]
    with served(make(show_locks=lambda _: ShowLocksResponse(locks=locks))) as (_, client):
        assert [lock.txn_id for lock in client.show_locks(txn_id=TxnId(2))] == [2]
        assert [lock.txn_id for lock in client.show_locks()] == [1, 2]


def test_servers_are_tried_in_order_and_the_next_one_after_a_lost_connection() -> None:
    dead = f"thrift://127.0.0.1:{refused_port()}"
    with v4(show_locks=hang_up) as first, v4(show_locks=lambda _: ShowLocksResponse()) as second:
        client = client_of(dead, first.uri, second.uri)
        assert client.generation is MetastoreGeneration.V4
        assert (first.connections, second.connections) == (1, 0)
        assert client.show_locks() == ()
        assert (first.connections, second.connections) == (1, 1)
        client.close()


def test_the_error_names_all_servers_if_none_is_reachable() -> None:
    one, other = (f"thrift://127.0.0.1:{refused_port()}" for _ in range(2))
    client = client_of(one, other)
    with pytest.raises(errors.MetastoreUnavailableError, match="refused") as caught:
        client.valid_txns()
    assert one in str(caught.value)
    assert other in str(caught.value)


def test_a_call_to_a_server_that_never_responds_times_out() -> None:
    never = threading.Event()

    def wait(_: object) -> None:
        never.wait(20)
        raise HangUpError

    with v4(show_locks=wait) as server:
        client = client_of(server.uri, call_timeout_s=0.3)
        # Were it waited for, the error would be that it hung up.
        with pytest.raises(errors.MetastoreUnavailableError, match=r"show_locks.*time"):
            client.show_locks()
        never.set()
        client.close()


def test_a_connection_lost_at_the_first_call_names_the_possible_causes() -> None:
    with v4(get_open_txns_req=hang_up, show_locks=hang_up) as server:
        client = client_of(server.uri)
        with pytest.raises(
            errors.MetastoreUnavailableError,
            match=r"disconnected before it answered .*no free worker thread .*a required login",
        ):
            client.valid_txns()
    with served(v4(show_locks=hang_up)) as (server, client):
        client.valid_txns()
        with pytest.raises(errors.MetastoreUnavailableError) as caught:
            client.show_locks()
        assert "login" not in str(caught.value)


def test_a_server_that_is_not_a_metastore_is_reported_as_unavailable() -> None:
    refusal = b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 2000
    with (
        answering(lambda _, connection: connection.sendall(refusal)) as place,
        pytest.raises(errors.MetastoreUnavailableError),
    ):
        client_of(f"thrift://{place}").valid_txns()


def test_the_user_name_is_sent_before_any_other_call() -> None:
    users: list[tuple[str, list[str]]] = []

    def set_ugi(user: str, groups: list[str]) -> list[str]:
        users.append((user, groups))
        return groups

    with v4(set_ugi=set_ugi) as server, client_of(server.uri, user="etl") as client:
        client.valid_txns()
        assert server.calls[0] == "set_ugi"
        assert users == [("etl", [])]


def test_the_error_contains_the_reason_why_the_server_refused_the_user() -> None:
    def set_ugi(user: str, _: list[str]) -> None:
        raise MetaException(message=f"no such user {user}")

    with (
        v4(set_ugi=set_ugi) as server,
        client_of(server.uri, user="nobody") as client,
        pytest.raises(errors.MetastoreCallError, match="no such user nobody"),
    ):
        client.valid_txns()


def test_a_meta_exception_of_a_repeatable_call_is_retried_once_on_a_new_connection() -> None:
    def refuse(_: object) -> None:
        raise MetaException(message="Persistence Manager has been closed")

    with served(v4(get_table_req=refuse)) as (server, client):
        with pytest.raises(errors.MetastoreCallError, match="Persistence Manager"):
            client.get_table(TableRef("db", "t"))
        assert (server.calls.count("get_table_req"), server.connections) == (2, 2)


def test_the_response_to_an_interrupted_call_is_not_read_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = ttypes.OpenTxnsResponse(txn_ids=[41])
    with served(v4(open_txns=lambda _: answer)) as (server, client):
        assert client.open_txn() == 41
        stubs = client._connection._own_stubs()

        def interrupt() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(stubs, "recv_open_txns", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.open_txn()
        # On the old connection the waiting answer of open_txns would come first.
        assert client.valid_txns().high_watermark == 7
        assert server.connections == 2


def test_a_commit_does_not_wait_for_the_response_to_an_interrupted_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committed = threading.Event()

    def open_txns(_: object) -> ttypes.OpenTxnsResponse:
        if server.calls.count("open_txns") > 1:
            committed.wait(timeout=10)
        return ttypes.OpenTxnsResponse(txn_ids=[41])

    with served(v4(open_txns=open_txns, commit_txn=lambda _: committed.set())) as (server, client):
        assert client.open_txn() == 41

        def interrupt() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(client._connection._own_stubs(), "recv_open_txns", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.open_txn()
        client.commit_txn(TxnId(41))
        assert committed.is_set()
        assert server.connections == 2


def test_a_request_that_lacks_a_required_field_is_not_sent() -> None:
    with served(v4(lock=hang_up)) as (server, client):
        request = replace(REQUEST, components=None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            client.lock(request)
        assert server.calls == []


def test_the_columns_of_a_partition_are_read_only_if_it_is_sent_back() -> None:
    columns = [FieldSchema(name=f"c{i}", type="int") for i in range(2000)]
    place = StorageDescriptor(cols=columns, location="file:/t/day=1")
    answer = [Partition(values=["1"], sd=place, parameters={"numRows": "7"})]
    ref = TableRef("db", "t")
    with served(v4(get_partitions_by_names=lambda *_: answer)) as (_, client):
        (found,) = client._locations(ref, ["day=1"])
        (whole,) = client._raw_partitions(ref, ["day=1"])
    assert (found.values, found.sd.location) == (["1"], "file:/t/day=1")
    assert found.parameters == {"numRows": "7"}
    assert not hasattr(found.sd, "cols")
    assert whole.sd.cols == columns


@pytest.mark.parametrize("refusal", [MetaException("exceeds limit (=50)"), HangUpError()])
def test_a_request_above_a_limit_of_the_server_is_sent_in_smaller_calls(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """metastore.limit.partition.request or a limit on a message's bytes; no call declares which."""
    sizes: list[int] = []

    def answer(db: str, table: str, names: list[str]) -> list[Partition]:
        sizes.append(len(names))
        if len(names) > 50:
            raise refusal
        place = StorageDescriptor(location=f"file:/{db}/{table}")
        return [Partition(values=[name.partition("=")[2]], sd=place) for name in names]

    ref, names = TableRef("db", "t"), [f"day={number}" for number in range(120)]
    with served(v4(get_partitions_by_names=answer)) as (_, client):
        found = [one.values[0] for one in client._locations(ref, names)]
        assert found == [str(number) for number in range(120)]
        assert sizes == [120, 120, 60, 60, 30, 30, 30, 30]
        sizes.clear()
        with client.clone() as other:
            assert len(list(other._raw_partitions(ref, names))) == 120
        assert sizes == [30, 30, 30, 30]
        sizes.clear()
        monkeypatch.setattr(connection, "_ACCEPTED_FOR_S", 0.0)
        assert len(list(client._locations(ref, names))) == 120
        assert sizes[0] == 120, "a number that was accepted long ago still limits the calls"


def test_written_partitions_above_a_limit_of_the_server_are_recorded_by_smaller_calls() -> None:
    sent: list[list[str]] = []

    def record(request: AddDynamicPartitions) -> None:
        if len(request.partitionnames) > 50:
            raise HangUpError
        sent.append(request.partitionnames)

    ref, names = TableRef("db", "t"), [PartitionName(("day",), (str(n),)) for n in range(120)]
    with served(v4(add_dynamic_partitions=record)) as (_, client):
        client.add_dynamic_partitions(TxnId(9), WriteId(4), ref, names, DataOperation.INSERT)
        assert [len(some) for some in sent] == [30] * 4
        assert [name for some in sent for name in some] == [str(name) for name in names]
        sent.clear()
        client.add_dynamic_partitions(TxnId(9), WriteId(4), ref, (), DataOperation.UPDATE)
        assert sent == [[]], "a call without partitions removes the record of the whole table"


def test_partitions_of_an_aborted_transaction_are_not_sent_again() -> None:
    def refuse(_: AddDynamicPartitions) -> None:
        raise TxnAbortedException("aborted")

    ref, names = TableRef("db", "t"), [PartitionName(("day",), (str(n),)) for n in range(9)]
    with served(v4(add_dynamic_partitions=refuse)) as (server, client):
        with pytest.raises(errors.TransactionAbortedError):
            client.add_dynamic_partitions(TxnId(9), WriteId(4), ref, names, DataOperation.INSERT)
        assert server.calls.count("add_dynamic_partitions") == 1


def test_a_request_that_is_refused_at_any_size_raises_the_refusal() -> None:
    ref, sizes = TableRef("db", "t"), []

    def refuse(_: str, __: str, names: list[str]) -> None:
        sizes.append(len(names))
        raise MetaException("no access")

    with served(v4(get_partitions_by_names=refuse)) as (_, client):
        for _ in range(2):
            sizes.clear()
            with pytest.raises(errors.MetastoreCallError, match="no access"):
                list(client._locations(ref, ["day=1", "day=2", "day=3"]))
            assert sizes == [3, 3, 1, 1]


def test_a_slow_or_unreachable_server_is_not_asked_again_with_fewer_items() -> None:
    ref, names, waits = TableRef("db", "t"), [f"day={n}" for n in range(100)], threading.Event()
    sizes = []

    def wait(_: str, __: str, some: list[str]) -> None:
        sizes.append(len(some))
        waits.wait()

    with (
        v4(get_partitions_by_names=wait) as server,
        client_of(server.uri, call_timeout_s=0.5) as client,
    ):
        with pytest.raises(errors.MetastoreUnavailableError, match="get_partitions_by_names"):
            list(client._locations(ref, names))
        waits.set()
        assert set(sizes) == {100}
    gone = client_of(f"thrift://127.0.0.1:{refused_port()}")
    with pytest.raises(errors.MetastoreUnavailableError, match="connect"):
        list(gone._locations(ref, names))


def test_a_server_that_failed_for_one_connection_is_asked_last_by_the_next() -> None:
    with v4(show_locks=hang_up) as broken, v4(show_locks=lambda _: ShowLocksResponse()) as well:
        for _ in range(3):
            with client_of(broken.uri, well.uri) as client:
                assert client.show_locks() == ()
        assert (len(broken.calls), len(well.calls)) == (1, 3)


def test_an_unreachable_server_is_told_once_and_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dead = f"127.0.0.1:{refused_port()}"
    caplog.set_level("INFO")
    with v4(show_locks=lambda _: ShowLocksResponse()) as well:
        for _ in range(3):
            with client_of(f"thrift://{dead}", well.uri) as client:
                assert client.show_locks() == ()
        with pytest.raises(errors.MetastoreUnavailableError):
            client_of(f"thrift://{dead}").show_locks()
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert dead in told.getMessage()
    assert told.exc_info is None


def test_each_server_has_its_own_state() -> None:
    dead = f"thrift://127.0.0.1:{refused_port()}"
    own = {"get_metastore_db_uuid": lambda: "m"}
    with v4(**own) as first, v3(**own) as second:
        endpoint = MetastoreEndpoint(uris=(first.uri, dead, second.uri))
        answering, (failure,) = server_states(endpoint)
        assert answering == (first.uri, second.uri)
        assert failure.uris == (dead,)


def test_servers_of_two_metastores_are_no_connection() -> None:
    with (
        v4(get_metastore_db_uuid=lambda: "m") as first,
        v4(get_metastore_db_uuid=lambda: "n") as second,
    ):
        endpoint = MetastoreEndpoint(uris=(first.uri, second.uri))
        ids = f"{first.uri} has m, {second.uri} has n. Make one connection for each metastore"
        with pytest.raises(errors.ConfigurationError, match=ids):
            server_states(endpoint)


def test_the_reached_limit_of_open_transactions_is_named() -> None:
    def refuse(*_: object) -> None:
        raise NotImplementedError

    for open_txns, is_reached in ((range(1, 10), True), (range(1, 5), False)):
        listed = ttypes.GetOpenTxnsResponse(
            txn_high_water_mark=99, open_txns=list(open_txns), abortedBits=b""
        )
        with (
            StubServer(
                get_open_txns_req=lambda _, listed=listed: listed,
                open_txns=refuse,
                get_config_value=lambda *_: "10",
            ) as server,
            client_of(server.uri) as client,
            pytest.raises(errors.MetastoreInternalError, match="failed in open_txns") as caught,
        ):
            client.open_txn()
        words = "9 transactions are open, and metastore.max.open.txns is 10"
        assert (words in str(caught.value)) is is_reached
        assert "reachable" not in str(caught.value)
        assert caught.value.retryable
