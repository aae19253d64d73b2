"""SASL GSSAPI (RFC 4752): Kerberos, with a word for each reason why there is no ticket.

Takes a `KerberosLogin` and the host that is called, gives a mechanism. No wait for a KDC is longer
than the caller's bound: the library would wait for a silent one for the better part of a minute.
"""

from __future__ import annotations

import os
import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import Protection
from airflow_hiveacid.metastore.doors.address import (
    ConnectError,
    CountedRefusalError,
    LoginRefusedError,
)
from airflow_hiveacid.metastore.doors.krb5 import GssContext, GssError
from airflow_hiveacid.metastore.doors.protection import strongest
from airflow_hiveacid.metastore.doors.sasl import MechanismError
from airflow_hiveacid.metastore.doors.waits import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hiveacid.jobs.logins import KerberosLogin

_LAYERS: Final[Mapping[Protection, int]] = MappingProxyType(
    {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
)
_OFFER_BYTES: Final = 4
# What we say that we take in one message: all that three bytes can say.
_MAX_MESSAGE_BYTES: Final = (1 << 24) - 1

# Of krb5_err.et in MIT's source: numbers of the protocol (RFC 4120, 7.5.9) and the library's own.
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


class Context(Protocol):
    """A security context, as `krb5.GssContext` is one."""

    is_complete: bool

    def step(self, token: bytes | None) -> bytes:
        """See there."""

    def wrap(self, message: bytes, *, is_secret: bool) -> bytes:
        """See there."""

    def unwrap(self, message: bytes, *, is_secret: bool) -> bytes:
        """See there."""


class Kerberos:
    """See `sasl.Mechanism`. Mutable: it follows the context."""

    name: Final = "GSSAPI"
    refusal: Final = LoginRefusedError

    def __init__(
        self,
        login: KerberosLogin,
        host: str,
        *,
        timeout_s: float,
        make_context: Callable[[], Context] | None = None,
    ) -> None:
        self._login = login
        self._service = service_of(login, host)
        self._timeout_s = timeout_s
        self._make_context = make_context or self._library_context
        self._context: Context | None = None
        self._protection: Protection | None = None
        _check_keytab(login)

    @property
    def hint(self) -> str:
        """See there."""
        return (
            f"The ticket was for {self._service}: the server runs under another principal, or its"
            " keytab is older than the principal's key"
        )

    def start(self) -> bytes:
        """See there.

        Raises:
            LoginRefusedError: the KDC does not know the client, its key or the service.
            ConnectError: there is no ticket now, or no KDC.
        """

        def work() -> tuple[Context, bytes]:
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
        """See there."""
        context = self._agreed_context()
        try:
            if not context.is_complete:
                return context.step(challenge)
            return self._layer(context, challenge)
        except GssError as error:
            raise MechanismError(str(error)) from error

    def finish(self, last: bytes) -> None:
        """See there: a service that had not proved itself could have made no offer."""
        if self._protection is None:
            raise MechanismError(f"the server ended it early, with {len(last)} bytes")

    def seal(self, message: bytes) -> bytes:
        """See there."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        try:
            return self._agreed_context().wrap(message, is_secret=self._is_secret)
        except GssError as error:
            raise MechanismError(str(error)) from error

    def unseal(self, message: bytes) -> bytes:
        """See there."""
        if self._protection is Protection.AUTHENTICATION:
            return message
        try:
            return self._agreed_context().unwrap(message, is_secret=self._is_secret)
        except GssError as error:
            raise MechanismError(str(error)) from error

    @property
    def _is_secret(self) -> bool:
        return self._protection is Protection.PRIVACY

    def _agreed_context(self) -> Context:
        if self._context is None:
            raise MechanismError("the login has not begun")
        return self._context

    def _layer(self, context: Context, challenge: bytes) -> bytes:
        if self._protection is not None:
            raise MechanismError("the server makes a second offer")
        offer = context.unwrap(challenge, is_secret=False)
        if len(offer) != _OFFER_BYTES:
            raise MechanismError("the server's offer of protections is none")
        offered = {protection for protection, bit in _LAYERS.items() if offer[0] & bit}
        chosen = strongest(offered, self._login.protection)
        size = 0 if chosen is Protection.AUTHENTICATION else _MAX_MESSAGE_BYTES
        # Nobody else's name behind it: we are whom the ticket names.
        choice = context.wrap(struct.pack(">I", _LAYERS[chosen] << 24 | size), is_secret=False)
        self._protection = chosen
        return choice

    def _library_context(self) -> GssContext:
        login = self._login
        return GssContext(
            self._service, client=login.client, keytab=login.keytab, cache=login.cache
        )

    def _explained(self, error: GssError) -> ConnectError:
        who = self._login.client or "the tickets' owner"
        source = f"keytab {self._login.keytab}" if self._login.keytab else "ticket cache"
        final = {
            _NAME_EXPIRED: f"{who} has expired in Kerberos; its administrator can prolong it",
            _REVOKED: f"{who} is locked in Kerberos",
            _KEY_EXPIRED: f"the key of {who} has expired; it needs a new one, and a new {source}",
            _UNKNOWN_CLIENT: f"Kerberos does not know {who}: mistyped, or deleted",
            _PREAUTH_FAILED: f"{source} holds an old key of {who}; it has to be exported again",
            _BAD_INTEGRITY: f"{source} holds an old key of {who}; it has to be exported again",
            _NO_KEY: f"{source} holds no key of {who}; `klist -k` shows whose it holds",
            _UNKNOWN_SERVICE: (
                f"Kerberos does not know the metastore as {self._service}: its principal"
                " (hive.metastore.kerberos.principal), the host's name in the address, or the"
                " realm is another"
            ),
            _NO_REALM: f"no KDC is known for the realm of {self._service} or {who}; see krb5.conf",
        }
        passing = {
            _TICKET_EXPIRED: "the tickets have expired; whoever renews them (kinit, k5start,"
            " airflow kerberos) has stopped",
            _SKEW: "this machine's clock and the KDC's differ by minutes",
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
        words = passing.get(error.code, "the Kerberos library gives no better reason")
        return ConnectError(f"no ticket for the metastore: {words} ({error})")


def service_of(login: KerberosLogin, host: str) -> str:
    """The principal of the metastore on this host.

    A whole principal and no service at a host: of such the library asks the DNS what the host is
    really called, and then the KDC for that.
    """
    service, _, rest = login.service.partition("/")
    name, at, realm = rest.partition("@")
    return f"{service}/{host.lower() if name == '_HOST' else name}{at}{realm}"


def _check_keytab(login: KerberosLogin) -> None:
    # The library says of a missing one that it finds no cache.
    if login.keytab and not os.access(login.keytab.removeprefix("FILE:"), os.R_OK):
        raise ConfigurationError(
            f"cannot read the keytab {login.keytab}. It has to be on every machine that talks to"
            " the metastore, readable by that process"
        )
