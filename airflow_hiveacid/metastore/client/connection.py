"""A connection to one server of a metastore; after failures, it reconnects and repeats calls.

It maps transport faults and unknown methods to our errors; the caller maps the exceptions that a
call declares. No code examines error messages, or knows the meaning of a call.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.known_secrets import without_secrets
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.auth.address import (
    ConnectError,
    LoginRefusedError,
    NotAdmittedError,
    parse_uri,
)
from airflow_hiveacid.metastore.auth.refusals import OUTAGES, Refusals
from airflow_hiveacid.metastore.client.transport import (
    BROKEN,
    REFUSALS,
    UNREADABLE,
    CallProtocol,
    MismatchedReplyError,
    is_internal,
    is_slow,
    may_be_too_large,
    open_transport,
    text_of,
)
from airflow_hiveacid.metastore.gen.faults.ttypes import MetaException
from airflow_hiveacid.metastore.gen.service import Metastore, Places
from airflow_hiveacid.metastore.gen.transactions.ttypes import (
    GetOpenTxnsRequest,
    GetValidWriteIdsRequest,
    MaxAllocatedTableWriteIdRequest,
)
from airflow_hiveacid.metastore.wire import DEFAULT_TXN_TIMEOUT, TXN_TIMEOUT_NAMES, Struct, seconds
from airflow_hiveacid.supported_versions import METASTORE, PAGE

if TYPE_CHECKING:
    from hmsclient import HMSClient

Faults = Mapping[type[Exception], Callable[[str], errors.HiveAcidError]]
"""For each exception class of a call: the function that makes our error from the server's text."""

_NO_FAULTS: Final[Faults] = {}
# Calls that only newer servers know, with arguments that change nothing; the newest comes last.
# docs/reference/distributions.md says what happens without each call of Hive 4.
_PROBES: Final[Mapping[str, tuple[object, ...]]] = {
    "get_valid_write_ids": (GetValidWriteIdsRequest(fullTableNames=[], validTxnList="0:0::"),),
    # 4.0.1 fails if the list of excluded types is missing and transactions exist.
    "get_open_txns_req": (GetOpenTxnsRequest(excludeTxnTypes=[]),),
    "get_max_allocated_table_write_id": (
        MaxAllocatedTableWriteIdRequest(dbName="default", tableName="hiveacid_probe"),
    ),
    "add_write_ids_to_min_history": (0, {}),
}
_BUSY: Final = "no free worker thread (metastore.server.max.threads)"

_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0

# For each metastore and method: the number of items per call that it accepted after refusing more,
# and the time of that by the monotonic clock. A restart looks like a limit, so the number counts
# only for a while.
_accepted: Final[dict[tuple[tuple[str, ...], str], tuple[int, float]]] = {}
_ACCEPTED_FOR_S: Final = 600.0

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

_log = logging.getLogger(__name__)


def _impatient() -> float:
    return 0.0


class Repeat(enum.Enum):
    """The rule for repeating a call whose response was lost (Hive's RetrySemantics).

    SAFE: repeating changes nothing. NEVER: a repeated call would take a second lock or claim a
    second entry, or would fail because the first call succeeded.
    """

    SAFE = "safe"
    NEVER = "never"


class _NotDoneError(errors.MetastoreUnavailableError):
    """A call that was certainly not executed; callers of `Connection` get `plain` instead."""

    def __init__(self, plain: errors.MetastoreUnavailableError) -> None:
        self.plain = plain
        super().__init__(
            uris=plain.uris, method=plain.method, reason=plain.reason, advice=plain.advice
        )


class _Call(NamedTuple):
    method: str
    arguments: tuple[object, ...]
    repeat: Repeat
    faults: Faults


class Connection:
    """A connection that opens at the first call, and again after a failure. Not thread-safe.

    It tries servers in the order of the endpoint, and after a failure starts with the next one.
    """

    def __init__(self, endpoint: MetastoreEndpoint) -> None:
        if not endpoint.uris:
            raise errors.ConfigurationError(
                "the metastore endpoint has no address; give thrift://host:port"
            )
        self.endpoint = endpoint
        self._addresses = tuple(parse_uri(uri, endpoint.transport) for uri in endpoint.uris)
        self._first = 0
        self._protocol: CallProtocol | None = None
        self._stubs: Struct = None
        self._brief: Struct = None
        self._hms: HMSClient | None = None
        self._generation: MetastoreGeneration | None = None
        self._missing_calls: tuple[str, ...] | None = None
        self._txn_timeout_s: float | None = None
        self._metastore_id: str | None = None
        self._patience_s: Callable[[], float] = _impatient
        self._has_answered = False
        self._refusals = Refusals(endpoint.login)

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """Retry unanswered calls while `left_s()` is above 0; if it is None, stop retrying.

        SAFE calls are sent again, with growing pauses. A NEVER call is sent again only if the
        server certainly did not execute it. This is certain if no connection could be opened, or if
        the login was refused (401). A refused token may be renewed soon.
        """
        self._patience_s = left_s or _impatient

    @contextmanager
    def translating(self, method: str) -> Iterator[None]:
        """Treat an unknown value as an unreadable response, because Thrift does not check enums."""
        try:
            yield
        except KeyError as error:
            reason = f"it contains the value {error}, which is unknown"
            raise self._unreadable(method, reason) from error

    def call(
        self, method: str, *arguments: object, repeat: Repeat, faults: Faults = _NO_FAULTS
    ) -> Struct:
        """Make one call through our generated stubs.

        Raises MetastoreUnavailableError if no server answered, or a SAFE call failed twice with an
        internal error, or the response was unreadable (MetastoreAnswerError); the server may have
        executed a NEVER call. Raises MetastoreLoginError if every server refuses the login; a NEVER
        call was not sent. Raises MetastoreVersionError if the server does not have the method, and
        MetastoreCallError if it refused the call, and `faults` has no more specific error.
        """
        return self._call(self._own_stubs, _Call(method, arguments, repeat, faults))

    def brief_call(
        self, method: str, *arguments: object, repeat: Repeat, faults: Faults = _NO_FAULTS
    ) -> Struct:
        """Make one call, and parse only names and locations in the response (idl/places.thrift)."""
        return self._call(self._brief_stubs, _Call(method, arguments, repeat, faults))

    def catalog_call(self, method: str, *arguments: object, repeat: Repeat) -> Struct:
        """Make one call through hmsclient over the same connection."""
        return self._call(self.hms, _Call(method, arguments, repeat, _NO_FAULTS))

    def calls_for(
        self,
        method: str,
        items: Sequence[_Item],
        most: int,
        send: Callable[[Sequence[_Item]], _Answer],
    ) -> Iterator[_Answer]:
        """Call `send` for all items, with at most `most` at a time, and yield the responses.

        A server may limit a request's partitions (metastore.limit.partition.request) or bytes
        (metastore.server.max.message.size). So after a refusal, send half as many items per call.
        The process remembers an accepted number of items for ten minutes.
        """
        key, offset, is_smaller = (self.endpoint.uris, method), 0, False
        accepted, since = _accepted.get(key, (most, 0.0))
        size = min(most, accepted) if time.monotonic() - since < _ACCEPTED_FOR_S else most
        while offset < len(items):
            part = items[offset : offset + size]
            try:
                answer = send(part)
            except (errors.MetastoreCallError, errors.MetastoreUnavailableError) as error:
                if len(part) == 1 or not may_be_too_large(error):
                    raise
                size, is_smaller = len(part) // 2, True
                _log.info("%s with %d items failed, sending %d: %s", method, len(part), size, error)
                continue
            if is_smaller:
                _accepted[key] = size, time.monotonic()
            offset += len(part)
            yield answer

    def hms(self) -> HMSClient:
        """Return an hmsclient client on this connection; call this again after each failure."""
        protocol = self._connected()
        if self._hms is None:
            from hmsclient import HMSClient  # noqa: PLC0415 - a megabyte that most never need

            self._hms = HMSClient(iprot=protocol)
        return self._hms

    @property
    def generation(self) -> MetastoreGeneration:
        """The server's generation; each connection detects it once, by a call that 3.1 lacks.

        Raises MetastoreVersionError if the server is older than 3.0 and has no write IDs.
        """
        if self._generation is None:
            self._generation = self._probe()
        return self._generation

    @property
    def missing_calls(self) -> tuple[str, ...]:
        """Calls that this 4.x server lacks; each connection tries them once."""
        if self._missing_calls is None:
            # The first two calls determine the generation (`_probe`).
            newer = tuple(_PROBES)[2:] if self.generation is MetastoreGeneration.V4 else ()
            self._missing_calls = tuple(name for name in newer if not self._knows(name))
        return self._missing_calls

    def config_value(self, name: str, default: str) -> str:
        """Return a server setting; the server discloses only hive, hdfs and metastore settings."""
        value: str | None = self.call("get_config_value", name, default, repeat=Repeat.SAFE)
        return default if value is None else value

    @property
    def metastore_id(self) -> str:
        """The ID of the metastore's database; each connection reads it once."""
        if self._metastore_id is None:
            self._metastore_id = self.call("get_metastore_db_uuid", repeat=Repeat.SAFE)
        return self._metastore_id

    @property
    def txn_timeout_s(self) -> float:
        """The number of seconds without a heartbeat after which the server aborts a transaction."""
        if self._txn_timeout_s is None:
            texts = (self.config_value(name, "") for name in TXN_TIMEOUT_NAMES)
            text = next(filter(None, texts), DEFAULT_TXN_TIMEOUT)
            self._txn_timeout_s = seconds(text, default_unit="s")
        return self._txn_timeout_s

    def close(self) -> None:
        """Close the socket; the next call opens it again."""
        protocol, self._protocol = self._protocol, None
        self._stubs = self._brief = self._hms = None
        self._generation = self._missing_calls = self._txn_timeout_s = self._metastore_id = None
        if protocol is not None:
            try:
                protocol.trans.close()
            except OSError as error:
                _log.debug("closing a broken connection: %s", error)

    def _call(self, stubs: Callable[[], Struct], call: _Call) -> Struct:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return self._call_now(stubs, call)
            except _NotDoneError as failure:
                error = failure.plain
            except errors.MetastoreUnavailableError as failure:
                if call.repeat is Repeat.NEVER:
                    raise
                error = failure
            if self._patience_s() <= pause_s:
                raise error
            _log.warning("%s; retrying in %.1f s", error, pause_s)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _call_now(self, stubs: Callable[[], Struct], call: _Call) -> Struct:
        attempts_left = 0 if call.repeat is Repeat.NEVER else len(self._addresses)
        while True:
            method = self._method(stubs, call)
            try:
                answer = self._answer(method, call)
            except BROKEN as error:
                self._lost_server(error)
                if not attempts_left:
                    raise self._given_up(call, error) from error
                words = without_secrets(str(error))
                _log.warning(
                    "the metastore disconnected during %s, retrying: %s", call.method, words
                )
            except REFUSALS as error:
                is_general = is_internal(error) or isinstance(error, self._general_faults())
                if not (attempts_left and is_general):
                    self._refused(call, error)
                # After a restart, 4.0.1 may answer every call of a connection with "Persistence
                # Manager has been closed". A new connection works. Permanent errors have the same
                # class, so a SAFE call is repeated only once.
                words = without_secrets(str(error))
                _log.info("%s was refused, retrying on a new connection: %s", call.method, words)
                self._next_server()
                attempts_left = 1
            except BaseException:
                # The call was interrupted. Otherwise, the next call on this connection would read
                # the response to this call.
                self.close()
                raise
            else:
                self._has_answered = True
                return answer
            attempts_left -= 1

    def _answer(self, method: Callable[..., Struct], call: _Call) -> Struct:
        try:
            return method(*call.arguments)
        except UNREADABLE as error:
            is_reading = self._protocol is not None and self._protocol.is_reading
            self.close()
            if not is_reading:
                raise
            raise self._unreadable(call.method, text_of(error)) from error

    def _method(self, stubs: Callable[[], Struct], call: _Call) -> Callable[..., Struct]:
        try:
            stub: Callable[..., Struct] = getattr(stubs(), call.method)
        except errors.MetastoreUnavailableError as error:
            raise _NotDoneError(error) from error
        except errors.ConfigurationError as error:
            if not self._has_answered:
                raise
            # The configuration was valid before. A file may be missing while a different process
            # rewrites it.
            away = self._unavailable(call.method, f"{error}. An earlier call could read it")
            away.__cause__ = error
            raise _NotDoneError(away) from error
        return stub

    def _given_up(self, call: _Call, cause: Exception) -> errors.MetastoreUnavailableError:
        if isinstance(cause, MismatchedReplyError):
            return self._unreadable(call.method, text_of(cause))
        reason, advice = self._in_words(cause)
        error = self._unavailable(call.method, reason, advice)
        error.__cause__ = cause
        return _NotDoneError(error) if isinstance(cause, NotAdmittedError) else error

    def _general_faults(self) -> tuple[type[Exception], ...]:
        """Return the classes that also report a fault which only this connection has."""
        if self._hms is None:
            return (MetaException,)
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- already loaded

        return (MetaException, ttypes.MetaException)

    def _refused(self, call: _Call, error: Exception) -> NoReturn:
        for kind, make in call.faults.items():
            if isinstance(error, kind):
                raise make(text_of(error)) from error
        if isinstance(error, TProtocolException):
            self.close()
            reason = f"it does not speak Thrift's binary protocol here ({error}); check TLS"
            raise self._unavailable(call.method, reason) from error
        if is_internal(error) and call.repeat is not Repeat.NEVER:
            # The call declares no exception for this failure, such as a lost database connection.
            raise errors.MetastoreInternalError(
                uris=self.endpoint.uris, method=call.method, reason=text_of(error)
            ) from error
        unknown = TApplicationException.UNKNOWN_METHOD
        if isinstance(error, TApplicationException) and error.type == unknown:
            raise errors.MetastoreVersionError(
                f"the metastore does not know the call {call.method}, which newer versions support"
            ) from error
        raise errors.MetastoreCallError(method=call.method, reason=text_of(error)) from error

    def _own_stubs(self) -> Struct:
        protocol = self._connected()
        if self._stubs is None:
            self._stubs = Metastore.Client(protocol)
        return self._stubs

    def _brief_stubs(self) -> Struct:
        protocol = self._connected()
        if self._brief is None:
            self._brief = Places.Client(protocol)
        return self._brief

    def _connected(self) -> CallProtocol:
        if self._protocol is not None and not self._protocol.trans.isOpen():
            self.close()  # the server disconnected between two calls
        if self._protocol is None:
            self._protocol = self._connect()
        return self._protocol

    def _connect(self) -> CallProtocol:
        reasons: list[ConnectError] = []
        at_first = self._first
        for address in OUTAGES.in_order((*self._addresses[at_first:], *self._addresses[:at_first])):
            try:
                self._refusals.check(address)
                transport = open_transport(self.endpoint, address)
                protocol = CallProtocol(transport)
                self._announce_user(protocol)
            except ConnectError as error:
                self._refusals.note(address, error)
                reasons.append(error)
                is_refusal = isinstance(error, LoginRefusedError)
                if not is_refusal and OUTAGES.note(address) and len(self._addresses) > 1:
                    words = without_secrets(str(error))
                    _log.warning("using this metastore server only if no other responds: %s", words)
                continue
            OUTAGES.forget(address)
            self._first = self._addresses.index(address)
            return protocol
        reason = "; ".join(map(str, reasons))
        if all(isinstance(error, LoginRefusedError) for error in reasons):
            raise errors.MetastoreLoginError(uris=self.endpoint.uris, reason=reason)
        raise self._unavailable("connect", reason)

    def _announce_user(self, protocol: CallProtocol) -> None:
        # A login already identifies the user, so the metastore ignores a user name sent by
        # `set_ugi`.
        if self.endpoint.user is None or self.endpoint.login is not None:
            return
        try:
            Metastore.Client(protocol).set_ugi(self.endpoint.user, [])
        except (*BROKEN, *UNREADABLE, TProtocolException) as error:
            protocol.trans.close()
            raise ConnectError(f"the server did not answer set_ugi: {error}") from error
        except REFUSALS as error:
            protocol.trans.close()
            raise errors.MetastoreCallError(method="set_ugi", reason=text_of(error)) from error

    def _in_words(self, error: Exception) -> tuple[str, str]:
        """Describe why a response is missing after a connection; add the possible causes."""
        if isinstance(error, NotAdmittedError):
            return str(error), errors.REACHABLE_ADVICE
        if is_slow(error):
            return str(error), f"It is reachable; possible causes: {_BUSY}, a slow database"
        is_known = self._has_answered or self.endpoint.login is not None
        login = "" if is_known else ", a required login (Kerberos, password), TLS, HTTP"
        reason = f"it disconnected before it answered ({error})"
        return reason, f"It is reachable; possible causes: {_BUSY}, a restart{login}. See its log"

    def _lost_server(self, error: Exception) -> None:
        if not isinstance(error, NotAdmittedError):
            OUTAGES.note(self._addresses[self._first])
        self._next_server()

    def _next_server(self) -> None:
        self.close()
        self._first = (self._first + 1) % len(self._addresses)

    def _probe(self) -> MetastoreGeneration:
        if self._knows("get_open_txns_req"):
            return MetastoreGeneration.V4
        if self._knows("get_valid_write_ids"):
            return MetastoreGeneration.V3
        raise errors.MetastoreVersionError(
            f"metastore {', '.join(self.endpoint.uris)} is older than Hive 3.0 and has no write"
            f" IDs; airflow-provider-hiveacid runs on {METASTORE}. {PAGE} lists all supported"
            " versions."
        )

    def _knows(self, method: str) -> bool:
        try:
            self.call(method, *_PROBES[method], repeat=Repeat.SAFE)
        except errors.MetastoreVersionError:
            return False
        except (errors.MetastoreCallError, errors.MetastoreInternalError) as error:
            # The server refused the call, so the method exists.
            _log.debug("probing %s: %s", method, error)
        return True

    def _unreadable(self, method: str, reason: str) -> errors.MetastoreAnswerError:
        return errors.MetastoreAnswerError(uris=self.endpoint.uris, method=method, reason=reason)

    def _unavailable(
        self, method: str, reason: str, advice: str = errors.REACHABLE_ADVICE
    ) -> errors.MetastoreUnavailableError:
        return errors.MetastoreUnavailableError(
            uris=self.endpoint.uris, method=method, reason=reason, advice=advice
        )
