"""Kerberos through the system library libgssapi_krb5, called with ctypes.

A YARN container cannot install packages. Hosts that use Kerberos have the library
(libgssapi-krb5-2, krb5-libs). Credentials from a keytab need MIT's library, 1.11 or later.
"""

from __future__ import annotations

import ctypes
import functools
import secrets
import weakref
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, Final, TypeAlias

from airflow_hiveacid.format.errors import ConfigurationError

_GSSAPI: Final = "libgssapi_krb5.so.2"
_KRB5: Final = "libkrb5.so.3"
_Library: TypeAlias = Any  # ctypes finds the functions only by name


class GssError(Exception):
    """An error of the library; `code` is its error number from krb5.h."""

    def __init__(self, text: str, code: int) -> None:
        self.code = code
        super().__init__(text)


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


# The OIDs of the Kerberos mechanism and of the name type for a full principal (RFC 1964).
_MECHANISM: Final = _Oid(9, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_PRINCIPAL: Final = _Oid(10, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")

_INITIATE: Final = 1
_CONTINUE: Final = 1
_MUTUAL, _REPLAY, _SEQUENCE, _CONFIDENTIAL, _INTEGRITY = 2, 4, 8, 16, 32
_WANTED: Final = _MUTUAL | _REPLAY | _SEQUENCE | _CONFIDENTIAL | _INTEGRITY
_NEEDED: Final = _MUTUAL | _INTEGRITY
# If a bit in the upper half of a status is set, the call failed. A bit in the lower half means that
# a message was repeated, late or out of order.
_FAILED: Final = 0xFFFF0000
_OUT_OF_ORDER: Final = 2 | 4 | 8 | 16
_OF_GSSAPI, _OF_MECHANISM = 1, 2


class GssContext:
    """One side of a security context with a service. Mutable; for one thread at a time.

    Its credentials are the client's key in `keytab`, the tickets in `cache`, or the process's own
    cache. They are freed when this object is garbage-collected.
    """

    def __init__(
        self, service: str, *, client: str | None, keytab: str | None, cache: str | None
    ) -> None:
        """Find the credentials; with a keytab, get a ticket from the KDC. Raises GssError."""
        self._gss = _library()
        self._minor = c_uint32()
        self._context, self._credentials = c_void_p(), c_void_p()
        self._service, own_name = c_void_p(), c_void_p()
        self.is_complete = False
        # Use a memory cache for this context only, because the process's cache may contain tickets
        # of a different user.
        private = f"MEMORY:hiveacid-{secrets.token_hex(8)}" if keytab else None
        handles = (self._context, self._credentials, self._service, own_name)
        weakref.finalize(self, _release, self._gss, handles, private).atexit = False
        self._name(service, self._service)
        if client:
            self._name(client, own_name)
        paths = ((b"client_keytab", keytab), (b"ccache", private or cache))
        pairs = [_Pair(key, path.encode()) for key, path in paths if path]
        self._check(
            self._gss.gss_acquire_cred_from(
                self._minor,
                own_name,
                0,
                _OidSet(1, ctypes.pointer(_MECHANISM)),
                _INITIATE,
                byref(_Store(len(pairs), (_Pair * len(pairs))(*pairs))) if pairs else None,
                self._credentials,
                None,
                None,
            )
        )

    def step(self, token: bytes | None) -> bytes:
        """Return the response to a token; the first step gets a ticket from the KDC."""
        out, flags = _Buffer(), c_uint32()
        major = self._gss.gss_init_sec_context(
            self._minor,
            self._credentials,
            self._context,
            self._service,
            _MECHANISM,
            _WANTED,
            0,
            None,
            None if token is None else _buffer(token),
            None,
            out,
            flags,
            None,
        )
        answer = self._take(out)
        self._check(major)
        self.is_complete = not major & _CONTINUE
        if self.is_complete and flags.value & _NEEDED != _NEEDED:
            raise GssError("the service did not prove its identity, or cannot protect messages", 0)
        return answer

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        """Sign a message, and encrypt it if `is_secret`. Raises GssError."""
        out, is_encrypted = _Buffer(), c_int()
        major = self._gss.gss_wrap(
            self._minor, self._context, int(is_secret), 0, _buffer(message), is_encrypted, out
        )
        wrapped = self._take(out)
        self._check(major)
        if is_secret and not is_encrypted.value:
            raise GssError("the library cannot encrypt messages in this context", 0)
        return wrapped

    def unwrap(self, message: bytes, *, is_secret: bool) -> bytes:
        """Verify and decrypt a message; raise GssError if it is repeated, late or in clear text."""
        out, was_encrypted = _Buffer(), c_int()
        major = self._gss.gss_unwrap(
            self._minor, self._context, _buffer(message), out, was_encrypted, None
        )
        plain = self._take(out)
        self._check(major)
        if major & _OUT_OF_ORDER:
            raise GssError("a message was repeated or lost in transit", 0)
        if is_secret and not was_encrypted.value:
            raise GssError("a message that must be encrypted arrived in clear text", 0)
        return plain

    def _name(self, text: str, name: c_void_p) -> None:
        buffer = _buffer(text.encode())
        self._check(self._gss.gss_import_name(self._minor, buffer, _PRINCIPAL, name))

    def _take(self, buffer: _Buffer) -> bytes:
        return _take(self._gss, buffer)

    def _check(self, major: int) -> None:
        if major & _FAILED:
            code = c_int(self._minor.value).value
            texts = (
                _display(self._gss, major, _OF_GSSAPI),
                _display(self._gss, self._minor.value, _OF_MECHANISM) if code else "",
            )
            raise GssError(": ".join(filter(None, texts)), code)


def _buffer(data: bytes) -> _Buffer:
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.kept = data  # keep the bytes in memory while the library may read them
    return buffer


def _take(gss: _Library, buffer: _Buffer) -> bytes:
    """Return a result's bytes and free it; call this before a check that may raise an error."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    gss.gss_release_buffer(c_uint32(), buffer)
    return data


def _display(gss: _Library, code: int, kind: int) -> str:
    context, texts = c_uint32(), []
    while True:
        out = _Buffer()
        if gss.gss_display_status(c_uint32(), code, kind, _MECHANISM, context, out) & _FAILED:
            break
        texts.append(_take(gss, out).decode(errors="replace"))
        if not context.value:
            break
    return ", ".join(texts)


def _release(gss: _Library, handles: tuple[c_void_p, ...], private: str | None) -> None:
    context, credentials, *names = handles
    minor = c_uint32()
    if context.value:
        gss.gss_delete_sec_context(minor, context, None)
    if credentials.value:
        gss.gss_release_cred(minor, credentials)
    for name in names:
        if name.value:
            gss.gss_release_name(minor, name)
    if private is not None:
        _forget(private)


def _forget(cache: str) -> None:
    """Remove a memory cache; otherwise it would outlive its credentials."""
    krb5 = ctypes.CDLL(_KRB5)
    context, handle = c_void_p(), c_void_p()
    if krb5.krb5_init_context(byref(context)):
        return
    if not krb5.krb5_cc_resolve(context, cache.encode(), byref(handle)):
        krb5.krb5_cc_destroy(context, handle)
    krb5.krb5_free_context(context)


@functools.cache
def _library() -> _Library:
    try:
        gss = ctypes.CDLL(_GSSAPI)
        for name, types in _SIGNATURES.items():
            function = getattr(gss, name)
            function.argtypes, function.restype = types, c_uint32
    except (OSError, AttributeError) as error:
        raise ConfigurationError(
            f"Kerberos needs {_GSSAPI} of MIT Kerberos 1.11 or later ({error}); install"
            " libgssapi-krb5-2 (Debian) or krb5-libs (RHEL)"
        ) from error
    return gss


_NUMBER, _HANDLE, _BUFFER = POINTER(c_uint32), POINTER(c_void_p), POINTER(_Buffer)
_SIGNATURES: Final = {
    "gss_import_name": [_NUMBER, _BUFFER, POINTER(_Oid), _HANDLE],
    "gss_acquire_cred_from": [
        _NUMBER,
        c_void_p,
        c_uint32,
        POINTER(_OidSet),
        c_int,
        POINTER(_Store),
        _HANDLE,
        c_void_p,
        c_void_p,
    ],
    "gss_init_sec_context": [
        _NUMBER,
        c_void_p,
        _HANDLE,
        c_void_p,
        POINTER(_Oid),
        c_uint32,
        c_uint32,
        c_void_p,
        _BUFFER,
        c_void_p,
        _BUFFER,
        _NUMBER,
        c_void_p,
    ],
    "gss_wrap": [_NUMBER, c_void_p, c_int, c_uint32, _BUFFER, POINTER(c_int), _BUFFER],
    "gss_unwrap": [_NUMBER, c_void_p, _BUFFER, _BUFFER, POINTER(c_int), c_void_p],
    "gss_display_status": [_NUMBER, c_uint32, c_int, POINTER(_Oid), _NUMBER, _BUFFER],
    "gss_release_buffer": [_NUMBER, _BUFFER],
    "gss_release_name": [_NUMBER, _HANDLE],
    "gss_release_cred": [_NUMBER, _HANDLE],
    "gss_delete_sec_context": [_NUMBER, _HANDLE, c_void_p],
}
