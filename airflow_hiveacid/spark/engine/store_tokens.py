"""Kerberos logins from Spark's credentials: to a store with tokens, and to a metastore.

Spark's `--principal`, `--keytab` and delegation tokens reach only JVMs. The driver's Python process
gets those that the JVM has, or may request by Spark's settings (`spark.kerberos.*`,
`spark.security.credentials.*`), and new ones before they expire. Python workers get tokens as
follows:

- in a YARN container: the container's own tokens, which last for a day or a week. If Spark has a
  keytab, Spark gets new tokens before the old tokens expire. The driver uses the new tokens. Tasks
  bring the new tokens to workers, as described below;
- on the driver's machine (`local`): the driver's token file, which is in memory;
- elsewhere (Kubernetes, standalone): HDFS tokens inside the function that tasks run, in the memory
  of driver and executors. The tokens are sent only if Spark encrypts network traffic and spilled
  data.

A connection's keytab or ticket cache is on Airflow's worker, not on the cluster's nodes. Spark
ships its own credentials there: with `--keytab` the keytab under another file name, with a ticket
cache a delegation token of the metastore.

The input is an endpoint, Spark's settings and the environment variables; the output is the endpoint
to use in this process. If this process can read the files of the connection's login, the endpoint
stays unchanged. If the connection names a client, a keytab or token of a different client is
ignored.

Example:
    >>> from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
    >>> endpoint_here(MetastoreEndpoint(uris=("thrift://h",)), {}.get, {}).uris
    ('thrift://h',)
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import KerberosLogin, Login, MetastoreEndpoint, TokenLogin
from airflow_hiveacid.metastore.auth.tokens import (
    CONTAINER_FILE,
    named_tokens,
    print_credentials,
    read_token,
)
from airflow_hiveacid.spark.engine import JavaNames, jvm_of
from airflow_hiveacid.spark.engine.failures import reason_of
from airflow_hiveacid.storage.stores.token_file import VARIABLE, TokenFile, scratch

log = logging.getLogger("hiveacid")

_T = TypeVar("_T")
_R = TypeVar("_R")

KEYTABS: Final = ("spark.kerberos.keytab", "spark.yarn.keytab")
"""The current and the older name of Spark's setting for the keytab."""

_KIND: Final = "HDFS_DELEGATION_TOKEN"
_PY4J: Final = ("py4j.java_gateway", "py4j.clientserver")
_LEAST_S: Final = 1.0
_LATER_S: Final = 60.0
_LOOK_S: Final = 15.0
_NONE_S: Final = 600.0
_UNKNOWN_S: Final = 3600.0
_START_S: Final = 120.0
"""Seconds that a session's start waits for tokens; a KDC or a name node may take longer."""
_RATIO: Final = 0.5
"""The fraction of a token's lifetime until the driver fetches a new one; Spark uses 0.75."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Serialized credentials, never printed; `replaces`: newer than a container's first."""

    content: bytes = field(repr=False)
    replaces: bool = False


def give_store_tokens(spark: SparkSession) -> None:
    """Pass Spark's tokens to Python until the Spark context stops; a second call does nothing."""
    global _keeper  # noqa: PLW0603 - a process has one context, and one file of tokens
    context = spark.sparkContext
    if _keeper is not None and _keeper.is_of(context):
        return
    # After the first keeper, the variable may be its own.
    is_given = bool(os.environ.get(VARIABLE)) if _keeper is None else _keeper.is_given
    if is_given and _is_beside(context.master) and not _renews(context):
        return  # the container and its workers have their own tokens
    users = jvm_of(spark).org.apache.hadoop.security.UserGroupInformation
    if not users.isSecurityEnabled():
        return
    _keeper = _Keeper(spark, is_given=is_given)
    _keeper.start()


def with_tokens(function: Callable[..., _R]) -> Callable[..., _R]:
    """Wrap a function, so that a Python worker installs the shipped tokens before calling it."""
    keeper = _keeper
    if keeper is None or keeper.shipped is None or not keeper.is_running:
        return function
    return partial(_with_tokens, shipped=keeper.shipped, inner=function)


def _with_tokens(
    batches: Iterator[_T], *, shipped: Tokens, inner: Callable[[Iterator[_T]], _R]
) -> _R:
    take_tokens(shipped)
    return inner(batches)


def take_tokens(shipped: Tokens) -> None:
    """Use the shipped tokens in this process.

    A process that was started with tokens takes only tokens that replace them.

    A newer token for a service is kept: a container that starts in the middle of a statement has
    newer ones, and a process may run tasks of two statements in turn.
    """
    global _token_file  # noqa: PLW0603 - the process has one variable
    path = os.environ.get(VARIABLE)
    if _token_file is None:
        if path and not shipped.replaces:
            return
        _token_file = TokenFile()
    content = shipped.content
    if path:
        # Ignore an unreadable file, because it may be missing or in a different format.
        with contextlib.suppress(OSError, ValueError):
            content = later_tokens(Path(path).read_bytes(), content)
    _token_file.replace(content)
    os.environ[VARIABLE] = _token_file.path


def later_tokens(here: bytes, brought: bytes) -> bytes:
    """Merge tokens; keep only the newest for each service. ValueError: one cannot be parsed."""
    tokens = {(t.kind, t.service): (alias, t) for alias, t in named_tokens(here).items()}
    for alias, token in named_tokens(brought).items():
        previous = tokens.get((token.kind, token.service))
        if previous is None or previous[1].issued_ms <= token.issued_ms:
            tokens[token.kind, token.service] = (alias, token)
    return print_credentials(dict(tokens.values()))


class _Keeper:
    """A background thread that keeps the tokens of one Spark context fresh. Mutable.

    `is_given` is True if the process was started with tokens, as a driver on Kubernetes may be. The
    process keeps these tokens, unless Spark on YARN gets new tokens with a keytab (`_renews`).
    `_own` are those that the keeper had to request, because the JVM's user had no HDFS tokens; from
    then on the keeper renews them, because Spark does not. If `_ships`, tasks bring `shipped` to
    Python workers on other machines.
    """

    def __init__(self, spark: SparkSession, *, is_given: bool) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self.is_given = is_given
        self._renews = _renews(self._context)
        self._file: TokenFile | None = None
        self._complaint = ""
        self._own: JavaObject | None = None
        self._ships = _ships(self._context)
        self.shipped: Tokens | None = None

    def is_of(self, context: SparkContext) -> bool:
        return self._context is context

    @property
    def is_running(self) -> bool:
        """True until the keeper's context stops; the next context may run without encryption."""
        return self._context._jsc is not None  # noqa: SLF001 - there is no public way

    def start(self) -> None:
        """Start a thread that fetches and renews tokens; wait up to two minutes for the first."""
        if self._ships:
            # py4j logs arguments at debug level, and the tasks' functions contain the tokens.
            for name in _PY4J:
                logging.getLogger(name).addFilter(_without_details)
        has_tried = threading.Event()
        threading.Thread(
            target=self._serve, args=(has_tried,), name="hdfs tokens", daemon=True
        ).start()
        if not has_tried.wait(_START_S):
            log.warning("no delegation tokens from Spark in %.0f s; continuing without", _START_S)

    def _serve(self, has_tried: threading.Event) -> None:
        while self.is_running:
            wait_s = self._try_to_fetch()
            has_tried.set()
            time.sleep(wait_s)

    def _try_to_fetch(self) -> float:
        """Fetch tokens; only log a failure, as a client without a token raises its own error."""
        try:
            wait_s = self._fetch()
        except Exception as error:  # noqa: BLE001 - an escaping error would end the thread
            complaint = reason_of(error)
            if self.is_running and complaint != self._complaint:
                log.warning("no delegation tokens from Spark, for now: %s", complaint)
                self._complaint = complaint
            return _LATER_S
        self._complaint = ""
        return wait_s

    def _fetch(self) -> float:
        """Take the tokens that the JVM has or fetches; return the seconds until the next fetch."""
        jvm = jvm_of(self._spark)
        security = jvm.org.apache.hadoop.security
        credentials = security.Credentials(
            security.UserGroupInformation.getCurrentUser().getCredentials()
        )
        wait_s = _LOOK_S  # Spark itself decides when to fetch new tokens
        if self._own is not None or not _of_hdfs(credentials):
            wait_s = self._fetch_own(jvm)
            credentials.addAll(self._own)
        if self.is_given and self._renews and not _of_hdfs(credentials):
            return _LATER_S  # keep the container's own tokens
        if not self.is_given or self._renews:
            self._show(_bytes_of(jvm, credentials))
        if self._ships:
            content = _bytes_of(jvm, _hdfs_alone(jvm, credentials))
            self.shipped = Tokens(content, replaces=self._renews)
        return wait_s

    def _fetch_own(self, jvm: JavaNames) -> float:
        """Let Spark's providers fetch tokens; keep a service's old token if its provider fails."""
        conf = self._context._jsc.hadoopConfiguration()  # noqa: SLF001 - no public way
        manager = jvm.org.apache.spark.deploy.security.HadoopDelegationTokenManager(
            self._context._jsc.sc().conf(),  # noqa: SLF001
            conf,
            None,
        )
        fresh = jvm.org.apache.hadoop.security.Credentials()
        manager.obtainDelegationTokens(fresh)
        if self._own is None:
            self._own = jvm.org.apache.hadoop.security.Credentials()
        are_all = _services(self._own) <= _services(fresh)
        self._own.addAll(fresh)
        if are_all:
            return _until_half(_of_hdfs(fresh), conf)
        # If some name nodes fail, do not retry every minute: the others issue new tokens.
        return _UNKNOWN_S if _of_hdfs(fresh) else _LATER_S

    def _show(self, content: bytes) -> None:
        if self._file is None:
            self._file = TokenFile()
        self._file.replace(content)
        os.environ[VARIABLE] = self._file.path
        if self._context.master.startswith("local"):
            self._context.environment[VARIABLE] = self._file.path


def _without_details(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


_keeper: _Keeper | None = None
_token_file: TokenFile | None = None


def _is_beside(master: str) -> bool:
    """Return True if workers can read tokens locally: in their container or the driver's file."""
    return master.startswith(("local", "yarn"))


def _renews(context: SparkContext) -> bool:
    """Return whether Spark replaces the tokens of containers before they expire."""
    conf = context.getConf()
    return context.master.startswith("yarn") and any(map(conf.get, KEYTABS))


def _ships(context: SparkContext) -> bool:
    """Return whether tasks carry tokens to workers; log a message if encryption is off."""
    master, conf = context.master, context.getConf()
    if _is_beside(master) and not _renews(context):
        return False

    def is_on(name: str) -> bool:
        return (conf.get(name, "false") or "").lower() == "true"

    # Spark 3 ignores spark.ssl.rpc.enabled, and sends data unencrypted.
    is_ssl = is_on("spark.ssl.rpc.enabled") and not context.version.startswith("3.")
    if (is_on("spark.network.crypto.enabled") or is_ssl) and is_on("spark.io.encryption.enabled"):
        return True
    if _is_beside(master):
        log.info(
            "Python in executors uses the tokens of its container. These usually last for a day."
            " If the job takes longer, set spark.authenticate, spark.network.crypto.enabled and"
            " spark.io.encryption.enabled"
        )
        return False
    log.warning(
        "HDFS tokens stay on the driver, because Spark does not encrypt its network traffic and"
        " spilled data. Give Python workers their own tickets or tokens. Or turn encryption on:"
        " set spark.authenticate, spark.network.crypto.enabled and spark.io.encryption.enabled"
    )
    return False


def _of_hdfs(credentials: JavaObject) -> list[JavaObject]:
    return [t for t in credentials.getAllTokens().toArray() if str(t.getKind()) == _KIND]


def _services(credentials: JavaObject) -> set[str]:
    return {str(token.getService()) for token in _of_hdfs(credentials)}


def _hdfs_alone(jvm: JavaObject, credentials: JavaObject) -> JavaObject:
    """Return only the HDFS tokens; workers need no other tokens, such as the metastore's."""
    chosen = jvm.org.apache.hadoop.security.Credentials()
    for token in _of_hdfs(credentials):
        chosen.addToken(token.getService(), token)
    return chosen


def _until_half(tokens: list[JavaObject], conf: JavaObject) -> float:
    """Return the seconds until the next fetch: half the remaining lifetime of these tokens."""
    if not tokens:
        return _NONE_S  # tables are in other stores, or Spark's settings disable HDFS tokens
    try:
        ends_ms: int = min(token.renew(conf) for token in tokens)
    except (Py4JError, PySparkException):
        return _UNKNOWN_S  # a JVM without its own login (standalone) cannot renew tokens
    return max(_LEAST_S, (ends_ms / 1000 - time.time()) * _RATIO)


def _bytes_of(jvm: JavaObject, credentials: JavaObject) -> bytes:
    """Serialize credentials through a file in memory, since py4j may log its arguments."""
    descriptor, path = scratch()
    try:
        stream = jvm.java.io.DataOutputStream(jvm.java.io.FileOutputStream(path))
        credentials.writeTokenStorageToStream(stream)
        stream.close()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


_CONTAINER: Final = "CONTAINER_ID"
"""The variable that YARN sets in each container."""

_IN_POD: Final = "spark.kubernetes.submitInDriver"
"""The setting that Spark adds for a driver that runs in a pod."""

_PRINCIPAL: Final = ("spark.kerberos.principal", "spark.yarn.principal")


def endpoint_here(
    endpoint: MetastoreEndpoint,
    setting: Callable[[str], str | None],
    environment: Mapping[str, str] = os.environ,
) -> MetastoreEndpoint:
    """Return the endpoint with a login that works here; `setting` returns Spark's settings."""
    login = endpoint.login
    is_sent = bool(environment.get(_CONTAINER)) or setting(_IN_POD) == "true"
    if not isinstance(login, KerberosLogin) or not is_sent:
        return endpoint
    if _is_there(login, environment):
        return endpoint
    new_login = _by_sparks_keytab(login, setting) or _by_token(login, environment)
    return endpoint if new_login is None else replace(endpoint, login=new_login)


def _is_there(login: KerberosLogin, environment: Mapping[str, str]) -> bool:
    if login.keytab:
        return _can_read(login.keytab)
    # The Kerberos library uses this keytab to fill a ticket cache that does not exist yet.
    if _can_read(environment.get("KRB5_CLIENT_KTNAME", "")):
        return True
    cache = login.cache or environment.get("KRB5CCNAME", "")
    return _can_read(cache) if cache.startswith(("FILE:", "/")) else bool(cache)


def _can_read(file: str) -> bool:
    return os.access(file.removeprefix("FILE:"), os.R_OK)


def _by_sparks_keytab(login: KerberosLogin, setting: Callable[[str], str | None]) -> Login | None:
    principal = next(filter(None, map(setting, _PRINCIPAL)), None)
    keytab = next(filter(None, map(setting, KEYTABS)), None)
    if principal is None or keytab is None or not os.access(keytab, os.R_OK):
        return None
    if login.client not in (None, principal, principal.partition("@")[0]):
        log.warning(
            "ignoring Spark's keytab for the metastore: it is for %s, the connection names %s",
            principal,
            login.client,
        )
        return None
    log.info("logging in to the metastore with Spark's keytab, as %s", principal)
    return replace(login, client=principal, keytab=str(Path(keytab).absolute()), cache=None)


def _by_token(login: KerberosLogin, environment: Mapping[str, str]) -> Login | None:
    if not environment.get(CONTAINER_FILE):
        return None
    token_login = TokenLogin(protection=login.protection)
    try:
        token = read_token(token_login)
        owner = token.owner if login.client else None
    except (ConfigurationError, ValueError) as error:
        log.warning("there is no login for the metastore in this container: %s", error)
        return None
    if login.client and owner is not None and not _is_same(login.client, owner):
        log.warning(
            "ignoring Spark's token for the metastore: it is for %s, the connection names %s",
            owner,
            login.client,
        )
        return None
    log.info("logging in to the metastore with Spark's delegation token")
    return token_login


def _is_same(client: str, owner: str) -> bool:
    """Return whether an owner is the connection's client; realm and host may be missing."""
    name = client.partition("@")[0]
    is_short = not set("/@") & set(owner)
    return (
        owner in (client, name)
        or owner.partition("@")[0] == client
        or (is_short and owner == name.partition("/")[0])
    )
