"""Stands between client and server: passes bytes on, over TLS if wanted, loses some on demand."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Final, Self

_HOST: Final = "127.0.0.1"
_CHUNK: Final = 1 << 16
_GLANCE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Cut:
    """Which call is cut off, and whether the server still gets it and does it."""

    method: bytes
    is_forwarded: bool


class Relay:
    """A relay in front of one port of this machine. Mutable: its cuts are planted by the test."""

    def __init__(self, target_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self.target_port = target_port
        self.connections = 0
        self._dropped = 0
        self._tls = tls
        self._cuts: list[Cut] = []
        self._is_open = True
        self._listener = socket.create_server((_HOST, 0))
        self._listener.settimeout(_GLANCE_S)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def uri(self) -> str:
        return f"thrift://{_HOST}:{self._listener.getsockname()[1]}"

    def cut(self, method: str, *, is_forwarded: bool, times: int = 1) -> None:
        """Lose the answers of the next calls of a method, or the calls themselves."""
        self._cuts += [Cut(method.encode(), is_forwarded)] * times

    def drop(self) -> None:
        """Close every connection there is, as a server does that goes down; new ones may come."""
        self._dropped += 1

    @property
    def has_cut_all(self) -> bool:
        """Whether everything that was to be cut was cut."""
        return not self._cuts

    def close(self) -> None:
        self._is_open = False
        for thread in self._threads:
            thread.join(timeout=5)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(5)
            near = self._tls.wrap_socket(client, server_side=True) if self._tls else client
            with near, socket.create_connection((_HOST, self.target_port)) as far:
                self._pass_on(near, far)

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        dropped = self._dropped
        while self._is_open and dropped == self._dropped:
            # Bytes that TLS has decrypted already are not seen by select.
            pending = getattr(near, "pending", lambda: 0)()
            ready = [near] if pending else select.select([near, far], [], [], _GLANCE_S)[0]
            for source in ready:
                data = source.recv(_CHUNK)
                if not data or (source is near and not self._forward(data, far)):
                    return
                if source is far:
                    near.sendall(data)

    def _forward(self, data: bytes, far: socket.socket) -> bool:
        cut = next((c for c in self._cuts if _calls(data, c.method)), None)
        if cut is None:
            far.sendall(data)
            return True
        self._cuts.remove(cut)
        if cut.is_forwarded:
            far.sendall(data)
            far.recv(_CHUNK)  # it is done; the client will never know
        return False


def _calls(data: bytes, method: bytes) -> bool:
    # Thrift's binary protocol: version and type, then the method's name with its length.
    return data[4:8] == len(method).to_bytes(4, "big") and data[8 : 8 + len(method)] == method
