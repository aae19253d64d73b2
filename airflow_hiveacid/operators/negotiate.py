"""Kerberos over HTTP (RFC 4559), for what is asked by `requests`: YARN's resource manager.

Takes whose key or tickets; shows a ticket to a server that asks for one, and to no other, and
believes no answer of a server that has shown a ticket and did not prove to be the one it is for.
Through the system's own library, as everywhere here (docs/adr/0046), so no package is needed.

Example:
    >>> service_of("http://RM.example.com:8088/ws", "EXAMPLE.COM")
    'HTTP/rm.example.com@EXAMPLE.COM'
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.cookies import extract_cookies_to_jar
from requests.utils import get_auth_from_url

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.metastore.doors.kerberos import Context

REFUSALS: Final = (requests.codes.unauthorized, requests.codes.forbidden)
"""What is said to who is not let in, or may not do this. It is believed without a proof.

Hadoop answers a ticket that it does not take with the second, which proves nothing then
(AuthenticationFilter).
"""

_SCHEME: Final = re.compile(
    r"(?:^|,)\s*negotiate(?:\s+([A-Za-z0-9+/=]+))?\s*(?:,|\Z)", re.IGNORECASE
)
_TICKET_S: Final = 10.0
_REMEDY: Final = (
    "It is fetched with principal and keytab of the operator or of the Spark connection, else the"
    " tickets of KRB5CCNAME count, or the keytab of KRB5_CLIENT_KTNAME"
)


class Negotiate(AuthBase):
    """A login for `requests`.

    Args:
        client: whose key is in `keytab`; None: the tickets' owner.
        keytab: by which tickets are fetched, else those of `cache`, else the process's own.
        cache: where tickets are.
        realm: of the servers; None: that of krb5.conf.
        make_context: makes a security context with a service, for tests.
    """

    def __init__(
        self,
        *,
        client: str | None = None,
        keytab: str | None = None,
        cache: str | None = None,
        realm: str | None = None,
        make_context: Callable[[str], Context] | None = None,
    ) -> None:
        self._client, self._keytab, self._cache = client, keytab, cache
        self._realm = realm
        self._make_context = make_context or self._of_library

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Answer the server if it asks who we are; a login in its address is sent at once."""
        user, password = get_auth_from_url(request.url or "")
        if user or password:
            HTTPBasicAuth(user, password)(request)
        request.register_hook("response", self._answer)
        return request

    def _answer(self, response: requests.Response, **how: Any) -> requests.Response:  # noqa: ANN401
        """What comes after a ticket was shown; or the same, if nobody asks for one.

        Raises:
            OSError: there is no ticket, or the server did not prove itself, and has not refused.
        """
        if response.status_code != requests.codes.unauthorized or _said(response) is None:
            return response
        service = service_of(response.url, self._realm)
        context, token = self._ticket(service, how.get("timeout"))
        request = response.request.copy()
        if (cookies := request._cookies) is not None:  # noqa: SLF001 - as requests' own logins do
            extract_cookies_to_jar(cookies, response.request, response.raw)
            request.prepare_cookies(cookies)
        request.headers["Authorization"] = f"Negotiate {base64.b64encode(token).decode()}"
        _ = response.content  # all of it, so that its connection can be used again
        response.close()
        answer: requests.Response = response.connection.send(request, **how)
        answer.history.append(response)
        answer.request = request
        if answer.status_code not in REFUSALS:
            _check(answer, context, service)
        return answer

    def _ticket(self, service: str, timeout: object) -> tuple[Context, bytes]:
        from airflow_hiveacid.metastore.doors.krb5 import GssError  # noqa: PLC0415 - for tasks only
        from airflow_hiveacid.metastore.doors.waits import bounded  # noqa: PLC0415 - as above

        if self._keytab and not os.access(self._keytab.removeprefix("FILE:"), os.R_OK):
            # The library says of a missing one that it finds no cache.
            raise OSError(f"cannot read the keytab {self._keytab}")

        def work() -> tuple[Context, bytes]:
            context = self._make_context(service)
            return context, context.step(None)

        # Whoever connects in a hurry cannot wait for a KDC, either.
        first = timeout[0] if isinstance(timeout, tuple) else timeout
        timeout_s = min(_TICKET_S, first) if isinstance(first, float | int) else _TICKET_S
        try:
            return bounded(work, timeout_s=timeout_s, name="hiveacid-kerberos")
        except (GssError, ConfigurationError) as error:
            # Also without the library: an application that runs meanwhile may commit, so it must
            # not look as if nothing had been begun.
            raise OSError(f"no ticket for {service}: {error}. {_REMEDY}") from error
        except TimeoutError as error:
            raise OSError(f"no ticket for {service}: the KDC gives {error}") from error

    def _of_library(self, service: str) -> Context:
        from airflow_hiveacid.metastore.doors.krb5 import GssContext  # noqa: PLC0415 - for tasks only

        # Without a keytab the tickets' owner is who is in the cache.
        client = self._client if self._keytab else None
        return GssContext(service, client=client, keytab=self._keytab, cache=self._cache)


def service_of(url: str, realm: str | None) -> str:
    """The principal of who serves an address; a whole one, so that the DNS has no say."""
    host = urlsplit(url).hostname or ""  # in small letters
    return f"HTTP/{host}@{realm}" if realm else f"HTTP/{host}"


def _said(response: requests.Response) -> str | None:
    """What a server says of Negotiate, which may be nothing more; None: it does not speak it."""
    found = _SCHEME.search(response.headers.get("WWW-Authenticate", ""))
    return None if found is None else (found[1] or "")


def _check(answer: requests.Response, context: Context, service: str) -> None:
    from airflow_hiveacid.metastore.doors.krb5 import GssError  # noqa: PLC0415 - for tasks only

    try:
        proof = base64.b64decode(_said(answer) or "", validate=True)
        if proof and not context.is_complete:
            context.step(proof)
    except (GssError, binascii.Error) as error:
        raise OSError(f"who answers is not {service}: {error}") from error
    if not context.is_complete:
        raise OSError(f"who answers (HTTP {answer.status_code}) did not prove to be {service}")
