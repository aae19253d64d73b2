"""Thrift calls as HTTP requests, one POST each, on a connection that is kept.

Takes an address and a way to make headers, which is asked at each call: a token that was renewed
meanwhile is the one that is sent. Not Thrift's own client, which connects anew for every call,
reads the page of an error as Thrift and goes through $http_proxy.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
)
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.logins import BearerLogin, HeaderLogin
from airflow_hiveacid.metastore.doors.address import ConnectError, NotAdmittedError
from airflow_hiveacid.metastore.doors.secret import read_secret_text
from airflow_hiveacid.metastore.doors.sockets import connect_named, is_quiet, tls_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.jobs.logins import Login
    from airflow_hiveacid.metastore.doors.address import Address

_MEDIA_TYPE: Final = "application/x-thrift"
# How a message of the binary protocol begins.
_THRIFT: Final = b"\x80\x01"
_MAX_SHOWN: Final = 300
_MAX_LOOKED_AT: Final = 8 * 1024
_MAX_PAGE_BYTES: Final = 64 * 1024
# As for a frame of SASL: a catalog of many partitions comes in one answer.
_MAX_ANSWER_BYTES: Final = 1 << 30
# RFC 6750, 2.1.
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")

_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: "it does not take this login",
        HTTPStatus.FORBIDDEN: "a gateway before it does not let this login through",
        HTTPStatus.NOT_FOUND: "nobody serves this path",
        HTTPStatus.METHOD_NOT_ALLOWED: (
            "the path is not the one it serves, which is its setting"
            " metastore.client.thrift.http.path (by default /metastore)"
        ),
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
            "the token is too long for it; a token without lists of groups is shorter, or the"
            " metastore takes more with metastore.server.thrift.http.request.header.size"
        ),
    }
)


def open_http(endpoint: MetastoreEndpoint, address: Address) -> HttpTransport:
    """Connect; whether the login is taken, the first call tells.

    Raises:
        ConnectError: nobody answers there, or the TLS handshake failed.
        ConfigurationError: a certificate file, or the token, is missing or unreadable.
    """
    transport = HttpTransport(endpoint, address)
    try:
        transport.open()
    except OSError as error:
        raise ConnectError(f"{address}: {str(error) or type(error).__name__}") from error
    return transport


class HttpTransport(TTransportBase, CReadableTransport):  # type: ignore[misc] # Thrift has no types
    """One kept connection. Mutable: it buffers a request and an answer."""

    def __init__(self, endpoint: MetastoreEndpoint, address: Address) -> None:
        self._address, self._call_timeout_s = address, endpoint.call_timeout_s
        self._headers = _headers_of(endpoint.login)
        self._headers()  # so that what is missing is said before a call is made
        self._renews = isinstance(endpoint.login, BearerLogin)
        self._http = _connection(endpoint, address)
        # Connecting is for `open`: a failure there has sent nothing.
        self._http.auto_open = 0
        self._out, self._in = BytesIO(), BytesIO()

    def open(self) -> None:
        """Connect. Raises OSError."""
        self._http.connect()
        if self._http.sock is not None:
            self._http.sock.settimeout(self._call_timeout_s)

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Whether a call can be sent; see `is_quiet`."""
        return self._http.sock is not None and is_quiet(self._http.sock)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def write(self, data: bytes) -> None:
        """Add to the next request."""
        self._out.write(data)

    def flush(self) -> None:
        """Send the request and take the answer.

        A refused login comes before anything is done, so the call is sent again, once, with the
        token as it is then.
        """
        body, self._out = self._out.getvalue(), BytesIO()
        status, answer = self._post(body)
        if status == HTTPStatus.UNAUTHORIZED and self._renews:
            status, answer = self._post(body)
        if status != HTTPStatus.OK:
            self.close()
            words = self._words(status, answer)
            if status == HTTPStatus.UNAUTHORIZED:
                raise NotAdmittedError(words)
            raise TTransportException(TTransportException.UNKNOWN, words)
        if not answer.startswith(_THRIFT):
            self.close()
            raise TTransportException(
                TTransportException.UNKNOWN,
                f"{self._address} answered something else than Thrift: {_page(answer)}",
            )
        self._in = BytesIO(answer)

    def read(self, size: int) -> bytes:
        """At most `size` bytes of the answer; none at its end."""
        return self._in.read(size)

    @property
    def cstringio_buf(self) -> BytesIO:
        """What the compiled protocol reads from."""
        return self._in

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """Raises EOFError: an answer is whole."""
        raise EOFError(f"the answer ends {reqlen - len(partialread)} bytes early")

    def _post(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": _MEDIA_TYPE, **self._named()}
        self._reopen()
        try:
            self._http.request("POST", self._address.path, body, headers)
            response = self._http.getresponse()
            if response.status == HTTPStatus.OK:
                return response.status, _whole(response)
            page = response.read(_MAX_PAGE_BYTES)
        except (OSError, HTTPException) as error:
            self.close()
            raise TTransportException(
                TTransportException.UNKNOWN,
                f"no HTTP answer ({type(error).__name__}: {error}). If it is the same at each call:"
                " a metastore of 3.1 knows no HTTP, one of 4 speaks it with"
                " metastore.server.thrift.transport.mode=http, and http is not https",
                inner=error,
            ) from error
        # Whatever is left of the page would be taken for the next answer.
        self.close()
        return response.status, page

    def _named(self) -> Mapping[str, str]:
        try:
            return self._headers()
        except ConfigurationError as error:
            # It was all right at first: a file that is written anew is empty meanwhile.
            raise NotAdmittedError(f"{error}. It was there before") from error

    def _reopen(self) -> None:
        if self._http.sock is not None:
            return
        try:
            self.open()
        except OSError as error:
            raise NotAdmittedError(
                f"{self._address}: {str(error) or type(error).__name__}"
            ) from error

    def _words(self, status: int, page: bytes) -> str:
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            words = "it sends the call somewhere else, as a gateway with a login page does"
        else:
            words = _WORDS.get(status, "its log says why")
        if status == HTTPStatus.UNAUTHORIZED:
            words += (
                ": the bearer token has expired, or is not signed by whom it trusts (which, only"
                " its log says), or it takes a user's name in a header and no token"
                if self._renews
                else ": it wants a bearer token, or no user of this name"
            )
        return f"{self._address} answered HTTP {status}: {words}. It said: {_page(page)}"


def _whole(response: HTTPResponse) -> bytes:
    """The answer, as it comes: not `read()`, which takes memory for all that a length claims.

    Raises:
        HTTPException: it ended early, or has no end.
    """
    answer = bytearray()
    while piece := response.read(_MAX_PAGE_BYTES):
        answer += piece
        if len(answer) > _MAX_ANSWER_BYTES:
            raise HTTPException(f"an answer of more than {_MAX_ANSWER_BYTES} bytes is none")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return bytes(answer)


def _connection(endpoint: MetastoreEndpoint, address: Address) -> HTTPConnection:
    timeout_s = endpoint.connect_timeout_s
    if endpoint.transport.is_encrypted:
        context = tls_context(endpoint)
        found: HTTPConnection = HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=context
        )
    else:
        found = HTTPConnection(address.host, address.port, timeout=timeout_s)
    found._create_connection = connect_named  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return found


def _headers_of(login: Login | None) -> Callable[[], Mapping[str, str]]:
    match login:
        case HeaderLogin(user=user):
            return lambda: {"x-actor-username": user}
        case BearerLogin():
            return lambda: {"Authorization": f"Bearer {_token(login)}"}
        case _:
            raise ConfigurationError("over HTTP one logs in by header or bearer token only")


def _token(login: BearerLogin) -> str:
    token = read_secret_text(login.bearer).strip()
    if not _BEARER.match(token):
        raise ConfigurationError(f"what lies in {login.bearer} is no bearer token")
    return token


def _page(page: bytes) -> str:
    """What a page of HTML says, on one line."""
    # The search takes the square of the length, and no other thread runs meanwhile.
    begin = page[:_MAX_LOOKED_AT].decode(errors="replace")
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", begin, flags=re.DOTALL)
    return " ".join(text.split())[:_MAX_SHOWN] or "nothing"
