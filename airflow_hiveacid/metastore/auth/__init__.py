"""Connections and logins to a metastore: sockets, HTTP, Kerberos, tokens, passwords.

This module limits the time of functions that cannot be interrupted, and of sockets. `bounded` runs
a function in a thread. Sockets apply one deadline to all reads and writes of a call, so a server
that sends one byte per second cannot extend the time limit.

Example:
    >>> bounded(lambda: 2 + 2, timeout_s=5.0, name="a sum")
    4
"""

from __future__ import annotations

import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

_T = TypeVar("_T")


def bounded(work: Callable[[], _T], *, timeout_s: float, name: str) -> _T:
    """Run the function in a thread called `name`, and return its result or raise TimeoutError.

    After a time-out, the thread continues, and its result is ignored.
    """
    answers: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - edge of a thread: the caller gets it
            answers.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        answer, error = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from None
    if error is not None:
        raise error
    return cast("_T", answer)


class _Bounded:
    """A socket mixin: all reads and writes after `end_within` share one deadline. Mutable."""

    _ends_at_s: float | None = None

    def end_within(self, timeout_s: float | None) -> None:
        """Set one deadline for all later reads and writes; None restores the socket's time-out."""
        self._ends_at_s = None if timeout_s is None else time.monotonic() + timeout_s

    def recv(self, *args: Any) -> bytes:  # noqa: ANN401 - as socket.socket
        """Receive as socket.socket does. Raises TimeoutError at the deadline."""
        return bytes(self._in_time().recv(*args))

    def recv_into(self, *args: Any) -> int:  # noqa: ANN401 - as socket.socket
        return int(self._in_time().recv_into(*args))

    def send(self, *args: Any) -> int:  # noqa: ANN401 - as socket.socket
        return int(self._in_time().send(*args))

    def sendall(self, *args: Any) -> None:  # noqa: ANN401 - as socket.socket
        self._in_time().sendall(*args)

    def _in_time(self) -> Any:  # noqa: ANN401 - the socket class that follows
        own_socket: Any = self
        if self._ends_at_s is not None:
            left_s = self._ends_at_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("timed out")
            own_socket.settimeout(left_s)
        return super()


class BoundedSocket(_Bounded, socket.socket):
    """A plain socket with one deadline for a whole call."""


class BoundedTlsSocket(_Bounded, ssl.SSLSocket):
    """A TLS socket with one deadline for a whole call, for use as `SSLContext.sslsocket_class`."""
