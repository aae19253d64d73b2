"""What a connection makes of a server that is slow, confused or hostile: a typed error, in time."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.TTransport import TMemoryBuffer

from airflow_hiveacid.format import errors, ids, table
from airflow_hiveacid.jobs.endpoint import HeaderLogin, MetastoreEndpoint, Transport
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.client.connection import Connection, Repeat
from airflow_hiveacid.metastore.gen.locks.ttypes import ShowLocksRequest, ShowLocksResponse
from airflow_hiveacid.metastore.gen.notifications import ttypes
from airflow_hiveacid.metastore.gen.service import Metastore
from tests.contract.stub_server import StubServer
from tests.support.slow_server import answering


def reply(*, name: str = "show_locks", kind: int = TMessageType.REPLY, number: int = 0) -> bytes:
    """The answer that no locks are held."""
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, kind, number)
    Metastore.show_locks_result(success=ShowLocksResponse(locks=[])).write(protocol)
    return bytes(buffer.getvalue())


def drip(data: bytes, connection: socket.socket) -> None:
    """Send the end of an answer, too, so that only a bound of the whole call can fail."""
    for at in range(min(len(data), 60)):
        connection.sendall(data[at : at + 1])
        time.sleep(0.1)
    connection.sendall(data[60:])


def test_a_call_times_out_even_if_the_server_sends_a_byte_now_and_then() -> None:
    with (
        answering(lambda _, connection: drip(reply(), connection)) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",), call_timeout_s=1.0)) as client,
        pytest.raises(errors.MetastoreUnavailableError, match=r"show_locks.*time"),
    ):
        client.show_locks()


@pytest.mark.parametrize("part", ["head", "body"])
def test_an_http_call_times_out_even_if_the_server_sends_a_byte_now_and_then(part: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(reply())

    def answer(_: bytes, connection: socket.socket) -> None:
        if part == "body":
            connection.sendall(head)
            drip(reply(), connection)
        else:
            drip(head + reply(), connection)

    with (
        answering(answer) as place,
        connect(
            MetastoreEndpoint(
                uris=(f"http://{place}/metastore",),
                transport=Transport.HTTP,
                login=HeaderLogin(user="etl"),
                call_timeout_s=1.0,
            )
        ) as client,
        pytest.raises(errors.MetastoreUnavailableError, match="timed out"),
    ):
        client.show_locks()


def test_a_response_that_arrives_byte_by_byte_is_read() -> None:
    def answer(_: bytes, connection: socket.socket) -> None:
        for byte in reply():
            connection.sendall(bytes([byte]))

    with (
        answering(answer) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",))) as client,
    ):
        assert client.show_locks() == ()


@pytest.mark.parametrize(
    "wrong",
    [{"name": "show_compact"}, {"number": 7}, {"kind": TMessageType.CALL}],
    ids=["name", "number", "kind"],
)
def test_a_reply_to_a_different_call_raises_an_error(wrong: dict[str, object]) -> None:
    with (
        answering(lambda _, connection: connection.sendall(reply(**wrong))) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",), call_timeout_s=5.0)) as client,
        pytest.raises(errors.MetastoreAnswerError, match=r"expected reply \d+ to show_locks"),
    ):
        client.show_locks()


def test_the_calls_of_a_connection_have_increasing_sequence_numbers() -> None:
    numbers: list[int] = []

    def answer(request: bytes, connection: socket.socket) -> None:
        (length,) = struct.unpack_from(">i", request, 4)
        (number,) = struct.unpack_from(">i", request, 8 + length)
        numbers.append(number)
        connection.sendall(reply(number=number))

    with (
        answering(answer) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",))) as client,
    ):
        assert [client.show_locks() for _ in range(3)] == [(), (), ()]
    assert numbers == [0, 1, 2]


def _in_place_of_the_list(data: bytes) -> bytes:
    """An answer of one lock whose only field, a text, has this length and these bytes."""
    whole = reply()
    head = whole[: whole.index(b"\x0c\x00\x00")]  # success, a struct
    lock = b"\x0b\x00\x02" + data  # its field dbname
    return head + b"\x0c\x00\x00" + b"\x0f\x00\x01" + b"\x0c\x00\x00\x00\x01" + lock


@pytest.mark.parametrize(
    "text",
    [struct.pack(">i", 2_000_000_000), struct.pack(">i", -1), struct.pack(">i", 2) + b"\xff\xfe"],
    ids=["of 2 GB", "of a negative length", "not UTF-8"],
)
def test_an_unreadable_string_in_a_reply_raises_a_retryable_error(text: bytes) -> None:
    with (
        answering(lambda _, connection: connection.sendall(_in_place_of_the_list(text))) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",), call_timeout_s=2.0)) as client,
        pytest.raises(errors.HiveAcidError) as caught,
    ):
        client.show_locks()
    assert isinstance(caught.value, errors.MetastoreUnavailableError)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "field",
    [
        b"\x0f\x00\x01" + b"\x08\x00\x00\x00\x01" + bytes(4),  # locks, a list of numbers
        b"\x63\x00\x09" + bytes(4),
    ],
    ids=["of another type", "of a type that Thrift does not have"],
)
def test_a_reply_field_of_a_wrong_type_raises_a_typed_error(field: bytes) -> None:
    whole = reply()
    data = whole[: whole.index(b"\x0c\x00\x00")] + b"\x0c\x00\x00" + field + b"\x00\x00"
    with (
        answering(lambda _, connection: connection.sendall(data)) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",), call_timeout_s=2.0)) as client,
        pytest.raises(errors.MetastoreAnswerError, match=r"show_locks.*cannot be read"),
    ):
        client.show_locks()


def test_a_lock_without_a_state_raises_a_typed_error() -> None:
    data = _in_place_of_the_list(struct.pack(">i", 1) + b"d") + b"\x00" + b"\x00\x00"
    with (
        answering(lambda _, connection: connection.sendall(data)) as place,
        connect(MetastoreEndpoint(uris=(f"thrift://{place}",), call_timeout_s=2.0)) as client,
        pytest.raises(errors.MetastoreAnswerError, match=r"show_locks.*contains the value None"),
    ):
        client.show_locks()


def test_a_wrong_argument_raises_a_type_error_and_not_a_reply_error() -> None:
    with (
        answering(lambda _, connection: connection.sendall(reply())) as place,
        contextlib.closing(
            Connection(MetastoreEndpoint(uris=(f"thrift://{place}",)))
        ) as connection,
    ):
        connection.call("show_locks", ShowLocksRequest(), repeat=Repeat.SAFE)
        with pytest.raises(TypeError, match="argument"):
            connection.call("show_locks", 1, 2, repeat=Repeat.SAFE)


def _log(*events: tuple[int, str, str]) -> Callable[[Any], ttypes.NotificationEventResponse]:
    """What a server of 3.1 says of its log; it knows no list of kinds to leave out."""
    known = [
        ttypes.NotificationEvent(
            eventId=number,
            eventTime=100 + number,
            eventType=kind,
            dbName="db",
            tableName="t",
            message=message,
        )
        for number, kind, message in events
    ]

    def answer(request: Any) -> ttypes.NotificationEventResponse:  # noqa: ANN401
        later = [event for event in known if event.eventId > request.lastEvent]
        return ttypes.NotificationEventResponse(events=later[: request.maxEvents])

    return answer


_GIVEN = '{"dbName": "db", "tableName": "t", "txnIdList": [7], "writeIdList": [1]}'
_LONG = "x" * 17_000_000


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([(3, "ADD_PARTITION", _LONG)], {ids.WriteId(1): 104}),
        # What cannot be read may have given the name to another table.
        ([(3, "ALTER_TABLE", _LONG)], {}),
    ],
    ids=["of a kind that says nothing", "of one that may"],
)
def test_a_17_mb_event_hides_commits_only_if_it_may_be_a_rename_of_a_table(
    events: list[tuple[int, str, str]], told: dict[ids.WriteId, int]
) -> None:
    log = _log((2, "ALLOC_WRITE_ID_EVENT", _GIVEN), *events, (4, "COMMIT_TXN", '{"txnid": 7}'))
    with (
        StubServer(
            get_current_notificationEventId=lambda: ttypes.CurrentNotificationEventId(eventId=4),
            get_next_notification=log,
        ) as server,
        connect(MetastoreEndpoint(uris=(server.uri,))) as client,
    ):
        assert client.logged_commits(table.TableRef("db", "t")) == told
