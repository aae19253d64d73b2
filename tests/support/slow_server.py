"""Servers that send bytes as a test wants, for example one now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_HEAD_BYTES: Final = 64 * 1024
_EMPTY: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_PAUSE_S: Final = 0.1


@contextmanager
def answering(answer: Callable[[bytes, socket.socket], None]) -> Iterator[str]:
    """The host and port of a server that hands each request, and its socket, to `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                while request := connection.recv(_HEAD_BYTES):
                    answer(request, connection)

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed at the end of the test
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # Without this, the thread might accept a connection to the descriptor's next owner.
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


@contextmanager
def dripping() -> Iterator[str]:
    """The address of an HTTP server that sends a byte now and then; an answer takes 7 seconds."""

    def drip(_: bytes, connection: socket.socket) -> None:
        for byte in _EMPTY:
            connection.sendall(bytes([byte]))
            time.sleep(_PAUSE_S)

    with answering(drip) as place:
        yield f"http://{place}"
