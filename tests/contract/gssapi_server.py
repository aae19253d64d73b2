"""The server's half of GSSAPI, by the acceptor's calls of the system's library; RFC 4752, 3.2."""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, byref, c_int, c_uint32, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_hiveacid.metastore.auth import krb5
from tests.contract.sasl_server import COMPLETE, OK, Refusal

_ACCEPT: Final = 2
_FAILED: Final = 0xFFFF0000
AUTH, INTEGRITY, PRIVACY = 1, 2, 4


def _library() -> Any:  # noqa: ANN401 - ctypes knows functions by name only
    gss = krb5._library()
    gss.gss_accept_sec_context.argtypes = [
        POINTER(c_uint32),
        POINTER(c_void_p),
        c_void_p,
        POINTER(krb5._Buffer),
        c_void_p,
        c_void_p,
        c_void_p,
        POINTER(krb5._Buffer),
        c_void_p,
        c_void_p,
        c_void_p,
    ]
    gss.gss_accept_sec_context.restype = c_uint32
    return gss


@dataclass
class GssapiHalf:
    """Takes who shows a ticket for a principal of the keytab, and offers what it is told to."""

    keytab: Path
    layers: int = AUTH | INTEGRITY | PRIVACY
    name: str = "GSSAPI"
    chosen: int = 0
    sent: list[bytes] = field(default_factory=list)
    _context: c_void_p = field(default_factory=c_void_p)
    _round: int = 0

    def respond(self, response: bytes) -> tuple[int, bytes]:
        self._round += 1
        if self._round == 1:
            return OK, self._accept(response)
        if self._round == 2:
            assert response == b""
            return OK, self.wrap(self.offer(), is_secret=False)
        self.chosen = self.unwrap(response)[0]
        if not self.chosen & self.layers:
            raise Refusal("Client selected unsupported protection")
        return COMPLETE, b""

    def offer(self) -> bytes:
        return struct.pack(">I", self.layers << 24 | 0xFFFF)

    def seal(self, message: bytes) -> bytes:
        if self.chosen == AUTH:
            return message
        self.sent.append(self.wrap(message, is_secret=self.chosen == PRIVACY))
        return self.sent[-1]

    def unseal(self, message: bytes) -> bytes:
        return message if self.chosen == AUTH else self.unwrap(message)

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        out = krb5._Buffer()
        return self._taken(
            out,
            _library().gss_wrap(
                c_uint32(), self._context, is_secret, 0, krb5._buffer(message), c_int(), out
            ),
        )

    def unwrap(self, message: bytes) -> bytes:
        out, was_secret = krb5._Buffer(), c_int()
        plain = self._taken(
            out,
            _library().gss_unwrap(
                c_uint32(), self._context, krb5._buffer(message), out, was_secret, None
            ),
        )
        assert bool(was_secret) == (self.chosen == PRIVACY)
        return plain

    def _accept(self, token: bytes) -> bytes:
        credentials, out = c_void_p(), krb5._Buffer()
        pair = krb5._Pair(b"keytab", str(self.keytab).encode())
        self._checked(
            _library().gss_acquire_cred_from(
                c_uint32(),
                None,
                0,
                krb5._OidSet(1, ctypes.pointer(krb5._MECHANISM)),
                _ACCEPT,
                byref(krb5._Store(1, ctypes.pointer(pair))),
                credentials,
                None,
                None,
            )
        )
        return self._taken(
            out,
            _library().gss_accept_sec_context(
                c_uint32(),
                self._context,
                credentials,
                krb5._buffer(token),
                None,
                None,
                None,
                out,
                None,
                None,
                None,
            ),
        )

    def _taken(self, out: krb5._Buffer, major: int) -> bytes:
        self._checked(major)
        return krb5._take(_library(), out)

    def _checked(self, major: int) -> None:
        if major & _FAILED:
            raise Refusal("GSS initiate failed")
