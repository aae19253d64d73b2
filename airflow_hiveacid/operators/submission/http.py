"""HTTP requests to YARN and Kubernetes: sessions, certificates, time limits, Kerberos (RFC 4559).

The client sends a ticket only to a server that requests one, and accepts an answer only if the
server proves its identity. Like all our logins, it needs no package (docs/decisions/logins.md).

Example:
    >>> service_of("http://RM.example.com:8088/ws", "EXAMPLE.COM")
    'HTTP/rm.example.com@EXAMPLE.COM'
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.cookies import extract_cookies_to_jar
from requests.utils import get_auth_from_url

from airflow_hiveacid.format.errors import ClusterKind, ClusterUnavailableError, ConfigurationError
from airflow_hiveacid.metastore.auth import bounded
from airflow_hiveacid.operators.submission.log_tail import body_of

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.auth.krb5 import GssContext as Context


QUESTION_S: Final = (5.0, 30.0)  # connect and read time-outs, as in ORDER_S

# Airflow ends a killed task five seconds after the signal.
ORDER_S: Final = (1.0, 1.0)
"""Connect and read time-outs of an urgent request to kill an application."""


def new_session() -> requests.Session:
    """Return a session without ~/.netrc.

    Logins in ~/.netrc are for different servers. If a standby redirects, the wrong server could
    receive a login of ~/.netrc.
    """
    session = requests.Session()
    session.trust_env = False
    return session


def certificates() -> str | bool:
    """Return the environment's file of certificates, or True for the default certificates."""
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


def read_log(
    get: Callable[[requests.Session, tuple[float, float]], requests.Response],
    *,
    timeout_s: float,
    name: str,
) -> bytes:
    """Return the text that `get` requests as a stream, in a thread called `name`.

    `get` takes the connect and read time-outs, which limit the thread after the caller has left.
    """

    def read() -> bytes:
        with new_session() as session:
            return body_of(get(session, (2 * timeout_s, 2 * timeout_s)))

    return bounded(read, timeout_s=timeout_s, name=name)


@contextmanager
def parsing(kind: ClusterKind, asked: str, problem: str) -> Iterator[None]:
    """Raise ClusterUnavailableError if the code in the `with` block cannot parse an answer."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterUnavailableError(kind=kind, asked=asked, reason=problem) from error


REFUSALS: Final = (requests.codes.unauthorized, requests.codes.forbidden)
"""HTTP codes of a refused client; answers with these codes need no proof of the server's identity.

If Hadoop rejects a ticket, it answers 403 and does not prove its identity (AuthenticationFilter).
"""

_SCHEME: Final = re.compile(
    r"(?:^|,)\s*negotiate(?:\s+([A-Za-z0-9+/=]+))?\s*(?:,|\Z)", re.IGNORECASE
)
_TICKET_S: Final = 10.0
_REMEDY: Final = (
    "Set principal and keytab in the operator or in the Spark connection, or set KRB5CCNAME or"
    " KRB5_CLIENT_KTNAME"
)


class Negotiate(AuthBase):
    """A Kerberos login for `requests`.

    Args:
        client: the principal in `keytab`, or None for the owner of the tickets.
        keytab: a file with the key for new tickets. Without a keytab, tickets are read from
            `cache`, or from the default cache if `cache` is None.
        realm: the servers' realm, or None for the default realm of krb5.conf.
        make_context: a function that creates a security context with a service; tests replace it.
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
        """Register the hook that answers a server's challenge; send the URL's login at once."""
        user, password = get_auth_from_url(request.url or "")
        if user or password:
            HTTPBasicAuth(user, password)(request)
        request.register_hook("response", self._answer)
        return request

    def _answer(self, response: requests.Response, **how: Any) -> requests.Response:  # noqa: ANN401
        """Repeat the request with a ticket if the server requests one; return the last response."""
        if response.status_code != requests.codes.unauthorized or _said(response) is None:
            return response
        service = service_of(response.url, self._realm)
        context, token = self._ticket(service, how.get("timeout"))
        request = response.request.copy()
        if (cookies := request._cookies) is not None:  # noqa: SLF001 - as requests' own logins do
            extract_cookies_to_jar(cookies, response.request, response.raw)
            request.prepare_cookies(cookies)
        request.headers["Authorization"] = f"Negotiate {base64.b64encode(token).decode()}"
        _ = response.content  # read the whole body, so that the connection can be reused
        response.close()
        answer: requests.Response = response.connection.send(request, **how)
        answer.history.append(response)
        answer.request = request
        if answer.status_code not in REFUSALS:
            _check(answer, context, service)
        return answer

    def _ticket(self, service: str, timeout: object) -> tuple[Context, bytes]:
        from airflow_hiveacid.metastore.auth import bounded  # noqa: PLC0415 - as above
        from airflow_hiveacid.metastore.auth.krb5 import GssError  # noqa: PLC0415 - for tasks only

        if self._keytab and not os.access(self._keytab.removeprefix("FILE:"), os.R_OK):
            # If the keytab is missing, the library would wrongly report a missing cache.
            raise OSError(f"cannot read the keytab {self._keytab}")

        def work() -> tuple[Context, bytes]:
            context = self._make_context(service)
            return context, context.step(None)

        # A caller with a short connect timeout cannot wait for a slow KDC.
        first = timeout[0] if isinstance(timeout, tuple) else timeout
        timeout_s = min(_TICKET_S, first) if isinstance(first, float | int) else _TICKET_S
        try:
            return bounded(work, timeout_s=timeout_s, name="hiveacid-kerberos")
        except (GssError, ConfigurationError) as error:
            # Never raise a ConfigurationError here. A ConfigurationError means that nothing was
            # submitted, but an application may be running and may commit.
            raise OSError(f"no ticket for {service}: {error}. {_REMEDY}") from error
        except TimeoutError as error:
            raise OSError(f"no ticket for {service}: the KDC returned {error}") from error

    def _of_library(self, service: str) -> Context:
        from airflow_hiveacid.metastore.auth.krb5 import GssContext  # noqa: PLC0415 - for tasks only

        # Without a keytab, the client is the owner of the tickets in the cache.
        client = self._client if self._keytab else None
        return GssContext(service, client=client, keytab=self._keytab, cache=self._cache)


def service_of(url: str, realm: str | None) -> str:
    """Return a URL's service principal; if `realm` is None, the Kerberos library chooses it."""
    host = urlsplit(url).hostname or ""  # in lower case
    return f"HTTP/{host}@{realm}" if realm else f"HTTP/{host}"


def _said(response: requests.Response) -> str | None:
    """Return the data of the server's Negotiate header (may be empty), or None if it is missing."""
    challenge = _SCHEME.search(response.headers.get("WWW-Authenticate", ""))
    return None if challenge is None else (challenge[1] or "")


def _check(answer: requests.Response, context: Context, service: str) -> None:
    from airflow_hiveacid.metastore.auth.krb5 import GssError  # noqa: PLC0415 - for tasks only

    try:
        proof = base64.b64decode(_said(answer) or "", validate=True)
        if proof and not context.is_complete:
            context.step(proof)
    except (GssError, binascii.Error) as error:
        raise OSError(f"the responding server is not {service}: {error}") from error
    if not context.is_complete:
        raise OSError(
            f"the responding server (HTTP {answer.status_code}) did not prove to be {service}"
        )
