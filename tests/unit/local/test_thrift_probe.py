from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from airflow_hiveacid.local.site import Access, Language
from airflow_hiveacid.local.thrift_probe import answers

METHOD = b"get_all_databases"


def message(kind: int, body: bytes, method: bytes = METHOD) -> bytes:
    head = struct.pack(">Ii", 0x8001_0000 | kind, len(method)) + method
    return head + struct.pack(">i", 0) + body


LIST_OF_DATABASES = struct.pack(">bhbi", 15, 0, 11, 1) + struct.pack(">i", 7) + b"default\x00"
DECLARED_EXCEPTION = struct.pack(">bh", 12, 1) + b"\x00\x00"
UNDECLARED_EXCEPTION = struct.pack(">bhi", 11, 1, 4) + b"oops\x00"


@pytest.fixture
def reply(request: pytest.FixtureRequest) -> Iterator[int]:
    """Serves one connection: takes the request, sends the given bytes, hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(request.param)

        server = threading.Thread(target=serve)
        server.start()
        yield listener.getsockname()[1]
        server.join()


@pytest.mark.parametrize("reply", [message(2, LIST_OF_DATABASES)], indirect=True)
def test_a_list_of_databases_counts_as_an_answer(reply: int) -> None:
    assert answers("127.0.0.1", reply, timeout_s=2)


@pytest.mark.parametrize(
    "reply",
    [
        message(2, DECLARED_EXCEPTION),
        message(3, UNDECLARED_EXCEPTION),
        message(2, LIST_OF_DATABASES, b"get_all_somethings"),
        b"HTTP/1.1 400 Bad Request\r\nServer: something else entirely\r\n\r\n",
        b"\x80\x01",
        b"",
    ],
    ids=["its database fails", "call unknown", "other call", "a web server", "cut", "silent"],
    indirect=True,
)
def test_errors_and_invalid_replies_do_not_count_as_an_answer(reply: int) -> None:
    assert not answers("127.0.0.1", reply, timeout_s=2)


def test_a_closed_port_does_not_count_as_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not answers("127.0.0.1", port, timeout_s=2)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"\x03\x00\x00\x00\x02no", True),
        (b"\x04\x00\x00\x00\x02no", True),
        (b"\x02\x00\x00\x00\x00", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"", False),
    ],
    ids=["refused", "error", "another word", "a web server", "silent"],
    indirect=["reply"],
)
def test_a_refused_sasl_login_counts_as_an_answer(reply: int, *, expected: bool) -> None:
    access = Access(language=Language.SASL)
    assert answers("127.0.0.1", reply, access=access, timeout_s=2) is expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (message(2, LIST_OF_DATABASES), False),
    ],
    ids=["answered", "wants a token", "not yet", "plain Thrift"],
    indirect=["reply"],
)
def test_an_http_success_or_a_refused_http_login_counts_as_an_answer(
    reply: int, *, expected: bool
) -> None:
    access = Access(language=Language.HTTP)
    assert answers("127.0.0.1", reply, access=access, timeout_s=2) is expected
