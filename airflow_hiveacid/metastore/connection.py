"""One connection to one of a metastore's servers: when to reconnect, and when not to repeat a call.

Takes an endpoint; gives the answers of calls, or errors of our own tree. Transport faults and
unknown methods are mapped here, faults that a call declares are mapped by the caller's table of
exception classes, never by their text. Must not know what any call means.

Example:
    connection = Connection(endpoint)
    connection.call("get_open_txns", repeat=Repeat.SAFE)
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TTransport import TTransportException

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    MetastoreCallError,
    MetastoreLoginError,
    MetastoreUnavailableError,
    MetastoreVersionError,
)
from airflow_hiveacid.metastore import settings
from airflow_hiveacid.metastore.doors.address import (
    ConnectError,
    LoginRefusedError,
    NotAdmittedError,
    parse_uri,
)
from airflow_hiveacid.metastore.doors.refusals import Refusals
from airflow_hiveacid.metastore.gen.faults.ttypes import MetaException
from airflow_hiveacid.metastore.gen.service import Metastore, Places
from airflow_hiveacid.metastore.gen.transactions.ttypes import (
    GetOpenTxnsRequest,
    GetValidWriteIdsRequest,
)
from airflow_hiveacid.metastore.transport import open_transport

if TYPE_CHECKING:
    from hmsclient import HMSClient
    from thrift.protocol.TProtocol import TProtocolBase

    from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    from airflow_hiveacid.metastore.wire import Struct

Faults = Mapping[type[TException], Callable[[str], HiveAcidError]]
"""What each declared exception of a call means: a maker of our error from the server's text."""

_NO_FAULTS: Final[Faults] = {}
# What a broken connection raises. A server that closes in the middle of an answer shows as EOFError
# in the compiled protocol.
_BROKEN: Final = (TTransportException, OSError, EOFError)

_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


def _impatient() -> float:
    return 0.0


class Repeat(enum.Enum):
    """Whether a call may be sent again when its answer was lost (RetrySemantics of Hive).

    SAFE: the second time changes nothing. NEVER: it would take a second lock, claim a second entry,
    or fail because the first time succeeded.
    """

    SAFE = "safe"
    NEVER = "never"


class _NotDoneError(MetastoreUnavailableError):
    """A call that was surely not done: it was never sent, or turned away at the door.

    Callers get what it stands for, `plain`: they can do no more about it.
    """

    def __init__(self, plain: MetastoreUnavailableError) -> None:
        self.plain = plain
        super().__init__(uris=plain.uris, method=plain.method, reason=plain.reason)


class _Call(NamedTuple):
    """One call: what to send, and what to make of a refusal."""

    method: str
    arguments: tuple[object, ...]
    repeat: Repeat
    faults: Faults


class Connection:
    """The connection in use, made at the first call and again after a break. Not thread-safe.

    Servers are tried in the order of the endpoint; after a break the next one is tried first.
    Mutable: it follows the life of a socket.
    """

    def __init__(self, endpoint: MetastoreEndpoint) -> None:
        if not endpoint.uris:
            raise ConfigurationError(
                "the metastore endpoint has no address; give thrift://host:port"
            )
        self.endpoint = endpoint
        self._addresses = tuple(parse_uri(uri, endpoint.transport) for uri in endpoint.uris)
        self._first = 0
        self._protocol: TProtocolBase | None = None
        self._stubs: Struct = None
        self._places: Struct = None
        self._hms: HMSClient | None = None
        self._generation: MetastoreGeneration | None = None
        self._txn_timeout_s: float | None = None
        self._patience_s: Callable[[], float] = _impatient
        self._has_answered = False
        self._refusals = Refusals(endpoint.login)

    def be_patient(self, left_s: Callable[[], float] | None) -> None:
        """Wait for a server that does not answer for as long as `left_s` gives seconds; None: not.

        What may be sent twice is sent again, with growing pauses; what may not, only while it was
        surely not done: there was no connection to send it on, or it was turned away with its login
        (401), which whoever renews a token may be about to change.
        """
        self._patience_s = left_s or _impatient

    def call(
        self, method: str, *arguments: object, repeat: Repeat, faults: Faults = _NO_FAULTS
    ) -> Struct:
        """Make one call through our own stubs.

        Raises:
            MetastoreUnavailableError: no server answered, or, to what may be repeated, only with an
                internal error; a NEVER call may have been done.
            MetastoreLoginError: each server refuses the login; a NEVER call was not sent.
            MetastoreVersionError: the server does not know the method.
            MetastoreCallError: the server refused and `faults` has no better error.
        """
        for argument in arguments:
            _validate(argument)
        return self._call(self._own_stubs, _Call(method, arguments, repeat, faults))

    def places_call(
        self, method: str, *arguments: object, repeat: Repeat, faults: Faults = _NO_FAULTS
    ) -> Struct:
        """Make one call of whose answer only names and places are read (see idl/places.thrift).

        Raises as `call` does.
        """
        return self._call(self._place_stubs, _Call(method, arguments, repeat, faults))

    def catalog_call(
        self, method: str, *arguments: object, repeat: Repeat, faults: Faults = _NO_FAULTS
    ) -> Struct:
        """Make one call through hmsclient, over the same connection. Raises as `call` does."""
        return self._call(self.hms, _Call(method, arguments, repeat, faults))

    def hms(self) -> HMSClient:
        """Hmsclient's client on this connection. It is of no use after a break: ask again."""
        protocol = self._connected()
        if self._hms is None:
            # A megabyte of stubs, which most connections never need.
            from hmsclient import HMSClient  # noqa: PLC0415

            self._hms = HMSClient(iprot=protocol)
        return self._hms

    @property
    def generation(self) -> MetastoreGeneration:
        """Which generation the server is of, found out once per connection by a call 3.1 lacks.

        Raises:
            MetastoreVersionError: the server is older than 3.0: it knows no write IDs.
        """
        if self._generation is None:
            self._generation = self._probe()
        return self._generation

    def config_value(self, name: str, default: str) -> str:
        """A setting of the server, which tells only what begins with hive, hdfs or metastore."""
        value: str | None = self.call("get_config_value", name, default, repeat=Repeat.SAFE)
        return default if value is None else value

    @property
    def txn_timeout_s(self) -> float:
        """Seconds of silence after which the server gives a transaction up; asked once."""
        if self._txn_timeout_s is None:
            texts = (self.config_value(name, "") for name in settings.TXN_TIMEOUT_NAMES)
            text = next(filter(None, texts), settings.DEFAULT_TXN_TIMEOUT)
            self._txn_timeout_s = settings.seconds(text, default_unit="s")
        return self._txn_timeout_s

    def close(self) -> None:
        """Close the socket; the next call opens it again."""
        protocol, self._protocol = self._protocol, None
        self._stubs = self._places = self._hms = self._generation = self._txn_timeout_s = None
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
            except _NotDoneError as found:
                error = found.plain
            except MetastoreUnavailableError as found:
                if call.repeat is Repeat.NEVER:
                    raise
                error = found
            if self._patience_s() <= pause_s:
                raise error
            _log.warning("%s; asking again in %.1f s", error, pause_s)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _call_now(self, stubs: Callable[[], Struct], call: _Call) -> Struct:
        attempts_left = 0 if call.repeat is Repeat.NEVER else len(self._addresses)
        while True:
            method = self._method(stubs, call)
            try:
                answer = method(*call.arguments)
            except _BROKEN as error:
                reason = self._in_words(error)
                self._next_server()
                if not attempts_left:
                    raise self._given_up(call, reason, error) from error
                _log.warning("the metastore hung up in %s, trying again: %s", call.method, error)
            except TException as error:
                is_general = _is_internal(error) or isinstance(error, self._general_faults())
                if not (attempts_left and is_general):
                    self._refused(call, error)
                # After a restart 4.0.1 may answer every call of one connection with "Persistence
                # Manager has been closed", and the same call of another one well. A class cannot
                # tell that from a reason that stays, so what may be repeated is, once.
                _log.warning("%s was refused, asking on a new connection: %s", call.method, error)
                self._next_server()
                attempts_left = 1
            except BaseException:
                # Interrupted in the middle: the answer would be taken for that of the next call.
                self.close()
                raise
            else:
                self._has_answered = True
                return answer
            attempts_left -= 1

    def _method(self, stubs: Callable[[], Struct], call: _Call) -> Callable[..., Struct]:
        try:
            found: Callable[..., Struct] = getattr(stubs(), call.method)
        except MetastoreUnavailableError as error:
            raise _NotDoneError(error) from error
        except ConfigurationError as error:
            if not self._has_answered:
                raise
            # It was all right before: a file that is written anew is empty, or gone, meanwhile.
            away = self._unavailable(call.method, f"{error}. It was there before")
            away.__cause__ = error
            raise _NotDoneError(away) from error
        return found

    def _given_up(
        self, call: _Call, reason: str, cause: BaseException
    ) -> MetastoreUnavailableError:
        error = self._unavailable(call.method, reason)
        error.__cause__ = cause
        return _NotDoneError(error) if isinstance(cause, NotAdmittedError) else error

    def _general_faults(self) -> tuple[type[TException], ...]:
        if self._hms is None:
            return (MetaException,)
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- is loaded by now

        return (MetaException, ttypes.MetaException)

    def _refused(self, call: _Call, error: TException) -> NoReturn:
        for kind, make in call.faults.items():
            if isinstance(error, kind):
                raise make(_text(error)) from error
        if isinstance(error, TProtocolException):
            self.close()
            reason = f"it does not speak Thrift's binary protocol here ({error}); TLS or not?"
            raise self._unavailable(call.method, reason) from error
        if _is_internal(error) and call.repeat is not Repeat.NEVER:
            # Mostly its database that is gone: where a call declares no fault for that, the reason
            # stays in the server's log.
            raise self._unavailable(call.method, _text(error)) from error
        unknown = TApplicationException.UNKNOWN_METHOD
        if isinstance(error, TApplicationException) and error.type == unknown:
            raise MetastoreVersionError(
                f"the metastore does not know the call {call.method}, which newer ones do"
            ) from error
        raise MetastoreCallError(method=call.method, reason=_text(error)) from error

    def _own_stubs(self) -> Struct:
        protocol = self._connected()
        if self._stubs is None:
            self._stubs = Metastore.Client(protocol)
        return self._stubs

    def _place_stubs(self) -> Struct:
        protocol = self._connected()
        if self._places is None:
            self._places = Places.Client(protocol)
        return self._places

    def _connected(self) -> TProtocolBase:
        if self._protocol is not None and not self._protocol.trans.isOpen():
            self.close()  # the server went away while nobody was calling
        if self._protocol is None:
            self._protocol = self._connect()
        return self._protocol

    def _connect(self) -> TProtocolBase:
        reasons: list[ConnectError] = []
        for step in range(len(self._addresses)):
            at = (self._first + step) % len(self._addresses)
            address = self._addresses[at]
            try:
                self._refusals.check(address)
                transport = open_transport(self.endpoint, address)
                protocol = TBinaryProtocolAccelerated(transport, fallback=True)
                self._announce_user(protocol)
            except ConnectError as error:
                self._refusals.note(address, error)
                reasons.append(error)
                continue
            self._first = at
            return protocol
        reason = "; ".join(map(str, reasons))
        if all(isinstance(error, LoginRefusedError) for error in reasons):
            raise MetastoreLoginError(uris=self.endpoint.uris, reason=reason)
        raise self._unavailable("connect", reason)

    def _announce_user(self, protocol: TProtocolBase) -> None:
        # Who has logged in is known, and a metastore does not listen to another name.
        if self.endpoint.user is None or self.endpoint.login is not None:
            return
        try:
            Metastore.Client(protocol).set_ugi(self.endpoint.user, [])
        except (*_BROKEN, TProtocolException) as error:
            protocol.trans.close()
            raise ConnectError(f"set_ugi was not answered: {error}") from error
        except TException as error:
            protocol.trans.close()
            raise MetastoreCallError(method="set_ugi", reason=_text(error)) from error

    def _in_words(self, error: BaseException) -> str:
        """Why a call was not answered; a server that wants a login just hangs up without one."""
        is_slow = getattr(error, "type", None) == TTransportException.TIMED_OUT
        if is_slow or self._has_answered or self.endpoint.login is not None:
            return str(error)
        return (
            f"{error}. It has never answered here: it may want a login (Kerberos, a password), TLS"
            " or HTTP"
        )

    def _next_server(self) -> None:
        self.close()
        self._first = (self._first + 1) % len(self._addresses)

    def _probe(self) -> MetastoreGeneration:
        # 4.0.1 stumbles over a missing list as soon as there are transactions to list.
        if self._knows("get_open_txns_req", GetOpenTxnsRequest(excludeTxnTypes=[])):
            return MetastoreGeneration.V4
        request = GetValidWriteIdsRequest(fullTableNames=[], validTxnList="0:0::")
        if self._knows("get_valid_write_ids", request):
            return MetastoreGeneration.V3
        raise MetastoreVersionError(
            f"metastore {', '.join(self.endpoint.uris)} is older than Hive 3.0 and knows no write"
            " IDs; Hive 3.1 or 4.x is needed"
        )

    def _knows(self, method: str, request: object) -> bool:
        try:
            self.call(method, request, repeat=Repeat.SAFE)
        except MetastoreVersionError:
            return False
        except (MetastoreCallError, MetastoreUnavailableError) as error:
            if isinstance(error, MetastoreUnavailableError) and not _is_internal(error.__cause__):
                raise
            # Refused, hence known, which is all that was asked.
            _log.debug("probing %s: %s", method, error)
        return True

    def _unavailable(self, method: str, reason: str) -> MetastoreUnavailableError:
        return MetastoreUnavailableError(uris=self.endpoint.uris, method=method, reason=reason)


def _is_internal(error: BaseException | None) -> bool:
    internal = TApplicationException.INTERNAL_ERROR
    return isinstance(error, TApplicationException) and error.type == internal


def _validate(argument: object) -> None:
    # Generated code writes a struct without its required fields; the server then drops the
    # connection.
    check = getattr(argument, "validate", None)
    if check is not None:
        check()


def _text(error: TException) -> str:
    message = getattr(error, "message", None)
    return str(message or error or type(error).__name__)
