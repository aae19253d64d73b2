"""SASL GSSAPI (RFC 4752): the login with Kerberos. Errors explain why a ticket is missing.

The caller limits the library's wait for a KDC, which would take almost a minute.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Protection
from airflow_hiveacid.metastore.auth import bounded
from airflow_hiveacid.metastore.auth.address import (
    ConnectError,
    CountedRefusalError,
    LoginRefusedError,
)
from airflow_hiveacid.metastore.auth.krb5 import GssContext, GssError
from airflow_hiveacid.metastore.auth.sasl import MechanismError, strongest

_LAYERS: Final[Mapping[Protection, int]] = MappingProxyType(
    {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
)
_OFFER_BYTES: Final = 4
# The version bytes at the start of a keytab in MIT's format.
_KEYTAB_HEADERS: Final = (b"\x05\x01", b"\x05\x02")
_KEYTAB_HEADER_BYTES: Final = 2
# The largest message that we accept. The field for this size has three bytes.
_MAX_MESSAGE_BYTES: Final = (1 << 24) - 1

# Error numbers from MIT's krb5_err.et, for protocol errors (RFC 4120, 7.5.9) and library errors.
_BASE: Final = -1765328384
_NAME_EXPIRED, _UNKNOWN_CLIENT, _UNKNOWN_SERVICE = _BASE + 1, _BASE + 6, _BASE + 7
_REVOKED, _KEY_EXPIRED, _PREAUTH_FAILED = _BASE + 18, _BASE + 23, _BASE + 24
_BAD_INTEGRITY, _TICKET_EXPIRED, _SKEW = _BASE + 31, _BASE + 32, _BASE + 37
_NO_CACHE, _NO_REALM, _NO_KDC, _NO_KEY, _NO_FILE = (
    _BASE + 141,
    _BASE + 154,
    _BASE + 156,
    _BASE + 181,
    _BASE + 195,
)


class Kerberos:
    """An implementation of `sasl.Mechanism`. Mutable: it keeps the state of the login."""

    name: Final = "GSSAPI"
    refusal: Final = LoginRefusedError

    def __init__(
        self,
        login: KerberosLogin,
        host: str,
        *,
        timeout_s: float,
        make_context: Callable[[], GssContext] | None = None,
    ) -> None:
        self._login = login
        self._service = service_of(login, host)
        self._timeout_s = timeout_s
        self._make_context = make_context or self._library_context
        self._context: GssContext | None = None
        self._protection: Protection | None = None
        _check_keytab(login)

    @property
    def hint(self) -> str:
        """The likely causes of a refusal; see `Mechanism.hint`."""
        return (
            f"The ticket was for {self._service}: the server runs under another principal, or its"
            " keytab is older than the principal's key"
        )

    def start(self) -> bytes:
        """Get a ticket and return the first response; see `Mechanism.start`."""

        def work() -> tuple[GssContext, bytes]:
            context = self._make_context()
            return context, context.step(None)

        try:
            self._context, first = bounded(
                work, timeout_s=self._timeout_s, name="hiveacid-kerberos"
            )
        except GssError as error:
            raise self._explained(error) from error
        except TimeoutError:
            raise ConnectError(
                f"no ticket for the metastore: the KDC did not answer within {self._timeout_s:g} s"
            ) from None
        return first

    def answer(self, challenge: bytes) -> bytes:
        """Answer the server's challenge; see `Mechanism.answer`."""
        context = self._agreed_context()
        try:
            if not context.is_complete:
                return context.step(challenge)
            return self._layer(context, challenge)
        except GssError as error:
            raise MechanismError(str(error)) from error

    def finish(self, last: bytes) -> None:
        """Check that the server offered protection levels; the offer proves its identity."""
        if self._protection is None:
            raise MechanismError(f"the server ended the login early, with {len(last)} bytes")

    def wrap(self, message: bytes) -> bytes:
        """Sign a message, and encrypt it for privacy; see `Mechanism.wrap`."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        try:
            return self._agreed_context().wrap(message, is_secret=self._is_secret)
        except GssError as error:
            raise MechanismError(str(error)) from error

    def unwrap(self, message: bytes) -> bytes:
        """Verify a message, and decrypt it for privacy; see `Mechanism.unwrap`."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        try:
            return self._agreed_context().unwrap(message, is_secret=self._is_secret)
        except GssError as error:
            raise MechanismError(str(error)) from error

    @property
    def _is_secret(self) -> bool:
        return self._protection is Protection.PRIVACY

    def _agreed_context(self) -> GssContext:
        if self._context is None:
            raise MechanismError("the login has not begun")
        return self._context

    def _layer(self, context: GssContext, challenge: bytes) -> bytes:
        if self._protection is not None:
            raise MechanismError("the server sent a second offer")
        offer = context.unwrap(challenge, is_secret=False)
        if len(offer) != _OFFER_BYTES:
            raise MechanismError("the server sent an invalid list of SASL protection levels")
        offered = {protection for protection, bit in _LAYERS.items() if offer[0] & bit}
        chosen = strongest(offered, self._login.protection or Protection.AUTHENTICATION)
        size = 0 if chosen is Protection.AUTHENTICATION else _MAX_MESSAGE_BYTES
        # Send no authorization ID: the client acts as the ticket's principal.
        choice = context.wrap(struct.pack(">I", _LAYERS[chosen] << 24 | size), is_secret=False)
        self._protection = chosen
        return choice

    def _library_context(self) -> GssContext:
        login = self._login
        return GssContext(
            self._service, client=login.client, keytab=login.keytab, cache=login.cache
        )

    def _explained(self, error: GssError) -> ConnectError:
        user = self._login.client or "the tickets' owner"
        source = f"keytab {self._login.keytab}" if self._login.keytab else "ticket cache"
        final = {
            _NAME_EXPIRED: f"{user} has expired in Kerberos; its administrator can extend it",
            _REVOKED: f"{user} is locked in Kerberos",
            _KEY_EXPIRED: f"the key of {user} has expired; it needs a new one, and a new {source}",
            _UNKNOWN_CLIENT: f"Kerberos does not know {user}: it is mistyped or was deleted",
            _PREAUTH_FAILED: f"{source} holds an old key of {user}; export it again",
            _BAD_INTEGRITY: f"{source} holds an old key of {user}; export it again",
            _NO_KEY: f"{source} holds no key of {user}; `klist -k` lists its principals",
            _UNKNOWN_SERVICE: (
                f"Kerberos does not know the metastore as {self._service}: check its principal"
                " (hive.metastore.kerberos.principal), the host's name in the address, and the"
                " realm"
            ),
            _NO_REALM: f"no KDC is known for the realm of {self._service} or {user}; see krb5.conf",
        }
        passing = {
            _TICKET_EXPIRED: "the tickets have expired; the process that renews them (kinit,"
            " k5start, airflow kerberos) has stopped",
            _SKEW: "the clocks of this machine and of the KDC differ by minutes",
            _NO_KDC: "no KDC answers; see krb5.conf and the network",
        }
        absent = {_NO_CACHE, _NO_FILE}
        if error.code in absent and self._login.keytab:
            final[error.code] = final[_NO_KEY]
        elif error.code in absent:
            passing[error.code] = f"there are no tickets in {self._login.cache or 'the cache'}"
        if error.code in final:
            kind = CountedRefusalError if error.code == _PREAUTH_FAILED else LoginRefusedError
            return kind(f"no ticket for the metastore: {final[error.code]} ({error})")
        words = passing.get(error.code, "the Kerberos library gives no more specific reason")
        return ConnectError(f"no ticket for the metastore: {words} ({error})")


def service_of(login: KerberosLogin, host: str) -> str:
    """Return the full principal of the metastore on this host.

    For a service and a host alone, the library would request a ticket for the canonical name.
    """
    service, _, rest = login.service.partition("/")
    name, separator, realm = rest.partition("@")
    return f"{service}/{host.lower() if name == '_HOST' else name}{separator}{realm}"


def _check_keytab(login: KerberosLogin) -> None:
    """Check the keytab, because the library would report a missing ticket cache instead."""
    if not login.keytab:
        return
    try:
        with Path(login.keytab.removeprefix("FILE:")).open("rb") as file:
            first = file.read(_KEYTAB_HEADER_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the keytab {login.keytab} ({error.strerror}). It must exist on every"
            " machine that connects to the metastore and be readable by the connecting process"
        ) from error
    if len(first) <= _KEYTAB_HEADER_BYTES or first[:_KEYTAB_HEADER_BYTES] not in _KEYTAB_HEADERS:
        fault = "is empty" if not first else "is not a keytab, or holds no key"
        raise ConfigurationError(
            f"the keytab {login.keytab} {fault}. Export it again; `klist -k` shows what it holds"
        )
