"""An HTTP server that sends a whole answer, a byte now and then."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_PAUSE_S: Final = 0.1
_MOST_BYTES: Final = 64 * 1024


@contextmanager
def dripping() -> Iterator[str]:
    """Yield the server's address; each answer takes seven seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                connection.recv(_MOST_BYTES)
                for byte in _ANSWER:
                    connection.sendall(bytes([byte]))
                    time.sleep(_PAUSE_S)

        def accept() -> None:
            with contextlib.suppress(OSError):  # ended below
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # Without this, the thread might accept a connection to the descriptor's next owner.
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
