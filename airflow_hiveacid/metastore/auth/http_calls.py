"""Thrift calls over HTTP: each call is one POST request on a persistent connection.

Each request has the current token. Thrift's own HTTP client opens a connection for every call,
parses error pages as Thrift messages, and uses $http_proxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BytesIO
from types import MappingProxyType
from typing import Final, cast

from thrift.transport.TTransport import CReadableTransport, TTransportBase, TTransportException

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import beginning_of
from airflow_hiveacid.jobs.endpoint import BearerLogin, HeaderLogin, Login, MetastoreEndpoint
from airflow_hiveacid.metastore.auth import BoundedSocket, BoundedTlsSocket
from airflow_hiveacid.metastore.auth.address import Address, ConnectError, NotAdmittedError
from airflow_hiveacid.metastore.auth.secret import read_secret_text
from airflow_hiveacid.metastore.auth.sockets import connect_named, is_quiet, tls_context

_MEDIA_TYPE: Final = "application/x-thrift"
# The first bytes of a message in the binary protocol.
_THRIFT: Final = b"\x80\x01"
_MAX_SHOWN: Final = 300
_MAX_LOOKED_AT: Final = 8 * 1024
_MAX_PAGE_BYTES: Final = 64 * 1024
# The limit is the same as for a SASL frame. One response may contain all partitions of a table.
_MAX_ANSWER_BYTES: Final = 1 << 30
# RFC 6750, 2.1.
_BEARER: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")

_WORDS: Final[Mapping[int, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: "it rejects this login",
        HTTPStatus.FORBIDDEN: "a gateway in front of it rejects this login",
        HTTPStatus.NOT_FOUND: "it provides no service at this path",
        HTTPStatus.METHOD_NOT_ALLOWED: (
            "the path is wrong; the right path is in the server's setting"
            " metastore.client.thrift.http.path (default: /metastore)"
        ),
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: (
            "the token is too long for it; use a token without lists of groups, or raise the"
            " metastore's metastore.server.thrift.http.request.header.size"
        ),
    }
)


def open_http(endpoint: MetastoreEndpoint, address: Address) -> HttpTransport:
    """Connect or raise ConnectError; only the first call shows if the login is accepted."""
    transport = HttpTransport(endpoint, address)
    try:
        transport.open()
    except OSError as error:
        raise ConnectError(f"{address}: {str(error) or type(error).__name__}") from error
    return transport


class HttpTransport(TTransportBase, CReadableTransport):  # type: ignore[misc] # Thrift has no types
    """A transport over one HTTP connection. Mutable: buffers a request and a response."""

    def __init__(self, endpoint: MetastoreEndpoint, address: Address) -> None:
        self._address, self._call_timeout_s = address, endpoint.call_timeout_s
        self._headers = _headers_of(endpoint.login)
        self._headers()  # a missing secret raises an error before the first call
        self._renews = isinstance(endpoint.login, BearerLogin)
        self._http = _connection(endpoint, address)
        # Without auto_open, only `open` connects, so its error proves that no request was sent.
        self._http.auto_open = 0
        self._out, self._in = BytesIO(), BytesIO()

    def open(self) -> None:
        """Connect. Raises OSError."""
        self._http.connect()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Return True if a call can be sent; see `is_quiet`."""
        return self._http.sock is not None and is_quiet(self._socket())

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def write(self, data: bytes) -> None:
        """Append data to the next request."""
        self._out.write(data)

    def flush(self) -> None:
        """Send the request and read the response.

        A server refuses a login before it executes the call, so a refused call is sent once more.
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
                f"{self._address} answered with something other than Thrift: {_page(answer)}",
            )
        self._in = BytesIO(answer)

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes of the response, or no bytes at its end."""
        return self._in.read(size)

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer that the compiled protocol reads."""
        return self._in

    def cstringio_refill(self, partialread: bytes, reqlen: int) -> BytesIO:
        """Raise EOFError: the whole response has already been read from the server."""
        raise EOFError(f"the answer ends {reqlen - len(partialread)} bytes early")

    def _post(self, body: bytes) -> tuple[int, bytes]:
        headers = {"Content-Type": _MEDIA_TYPE, "Accept": _MEDIA_TYPE, **self._named()}
        self._reopen()
        self._socket().end_within(self._call_timeout_s)
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
                f"no HTTP answer ({type(error).__name__}: {error}). If every call fails like this:"
                " Hive 3.1 does not support HTTP, Hive 4.x requires"
                " metastore.server.thrift.transport.mode=http, and the URI must say http or https"
                " as the server does",
                inner=error,
            ) from error
        self.close()  # the next response would begin with the rest of the error page
        return response.status, page

    def _socket(self) -> BoundedSocket | BoundedTlsSocket:
        # http.client declares another socket type than `connect_named` returns
        return cast("BoundedSocket | BoundedTlsSocket", self._http.sock)

    def _named(self) -> Mapping[str, str]:
        try:
            return self._headers()
        except ConfigurationError as error:
            # The token was valid at the start. The token's file may be empty while another process
            # rewrites the file.
            raise NotAdmittedError(f"{error}. An earlier call could read it") from error

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
            words = "it redirects the call, as a gateway with a login page does"
        else:
            words = _WORDS.get(status, "its log gives the reason")
        if status == HTTPStatus.UNAUTHORIZED:
            words += (
                ": the bearer token has expired, or its signer is not trusted (only the"
                " server's log says so), or the server expects a user name in a header instead of a"
                " token"
                if self._renews
                else ": it requires a bearer token, or the server does not know this user"
            )
        return f"{self._address} answered HTTP {status}: {words}. It said: {_page(page)}"


def _whole(response: HTTPResponse) -> bytes:
    """Read the response in pieces; `read()` would allocate the whole Content-Length at once."""
    answer = bytearray()
    while piece := response.read(_MAX_PAGE_BYTES):
        answer += piece
        if len(answer) > _MAX_ANSWER_BYTES:
            raise HTTPException(f"the response exceeds the {_MAX_ANSWER_BYTES}-byte limit")
    if response.length:
        raise IncompleteRead(b"", response.length)
    return bytes(answer)


def _connection(endpoint: MetastoreEndpoint, address: Address) -> HTTPConnection:
    timeout_s = endpoint.connect_timeout_s
    if endpoint.transport.is_encrypted:
        context = tls_context(endpoint)
        connection: HTTPConnection = HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=context
        )
    else:
        connection = HTTPConnection(address.host, address.port, timeout=timeout_s)
    connection._create_connection = connect_named  # type: ignore[attr-defined]  # noqa: SLF001 - no public way
    return connection


def _headers_of(login: Login | None) -> Callable[[], Mapping[str, str]]:
    match login:
        case HeaderLogin(user=user):
            return lambda: {"x-actor-username": user}
        case BearerLogin():
            return lambda: {"Authorization": f"Bearer {_token(login)}"}
        case _:
            raise ConfigurationError("an HTTP transport needs a login by header or bearer token")


def _token(login: BearerLogin) -> str:
    token = read_secret_text(login.bearer).strip()
    if not _BEARER.match(token):
        raise ConfigurationError(f"the content of {login.bearer} is not a bearer token")
    return token


def _page(page: bytes) -> str:
    # the expression takes quadratic time in the page's length, and holds the interpreter lock
    begin = page[:_MAX_LOOKED_AT].decode(errors="replace")
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", begin, flags=re.DOTALL)
    return beginning_of(" ".join(text.split()), _MAX_SHOWN) or "nothing"
