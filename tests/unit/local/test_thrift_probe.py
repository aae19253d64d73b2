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


THRIFT, SASL, HTTP = Language.THRIFT, Language.SASL, Language.HTTP
WEB_SERVER = b"HTTP/1.1 400 Bad Request\r\nServer: something else entirely\r\n\r\n"


@pytest.mark.parametrize(
    ("language", "reply", "expected"),
    [
        pytest.param(THRIFT, message(2, LIST_OF_DATABASES), True, id="answered in Thrift"),
        pytest.param(THRIFT, message(2, DECLARED_EXCEPTION), False, id="its database fails"),
        pytest.param(THRIFT, message(3, UNDECLARED_EXCEPTION), False, id="call unknown"),
        pytest.param(THRIFT, message(2, LIST_OF_DATABASES, b"get_all_x"), False, id="other call"),
        pytest.param(THRIFT, WEB_SERVER, False, id="a web server"),
        pytest.param(THRIFT, b"\x80\x01", False, id="cut"),
        pytest.param(THRIFT, b"", False, id="silent"),
        pytest.param(SASL, b"\x03\x00\x00\x00\x02no", True, id="login refused"),
        pytest.param(SASL, b"\x04\x00\x00\x00\x02no", True, id="login failed"),
        pytest.param(SASL, b"\x02\x00\x00\x00\x00", False, id="another word"),
        pytest.param(SASL, WEB_SERVER, False, id="a web server, not SASL"),
        pytest.param(SASL, b"", False, id="silent, not SASL"),
        pytest.param(HTTP, b"HTTP/1.1 200 OK\r\n\r\n", True, id="answered"),
        pytest.param(HTTP, b"HTTP/1.1 401 Unauthorized\r\n\r\n", True, id="wants a token"),
        pytest.param(HTTP, b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False, id="not yet"),
        pytest.param(HTTP, message(2, LIST_OF_DATABASES), False, id="plain Thrift"),
    ],
    indirect=["reply"],
)
def test_an_answer_or_a_refused_login_in_the_servers_language_counts_as_an_answer(
    language: Language, reply: int, *, expected: bool
) -> None:
    access = Access(language=language)
    assert answers("127.0.0.1", reply, access=access, timeout_s=2) is expected


def test_a_closed_port_does_not_count_as_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not answers("127.0.0.1", port, timeout_s=2)
