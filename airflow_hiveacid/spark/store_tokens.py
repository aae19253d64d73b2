"""How Python gets into an HDFS with Kerberos by what Spark's JVM may do there.

Spark's `--principal` and `--keytab`, and its delegation tokens, reach JVMs alone. Takes a session;
gives the driver's own process the tokens that its JVM has or may ask for (`spark.kerberos.*`,
`spark.security.credentials.*`), anew before they expire, and Python workers theirs:

- in a container of YARN: the container's own, which last for a day or a week; where Spark has a
  keytab, and so gets others in time, the driver goes by these, and workers do as elsewhere;
- beside the driver (`local`): the driver's file, which is in memory;
- elsewhere (Kubernetes, standalone): those of HDFS, in the tasks' own function, which is in the
  memory of driver and executors; and only if Spark encrypts what it sends and what it spills.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_hiveacid.metastore.doors.tokens import named_tokens, print_credentials
from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.storage.stores.token_file import VARIABLE, TokenFile, scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaObject, JVMView
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger("hiveacid")

_T = TypeVar("_T")
_R = TypeVar("_R")

KEYTABS: Final = ("spark.kerberos.keytab", "spark.yarn.keytab")
"""What Spark's keytab is called in its settings: by its name of today, by an older one."""

_KIND: Final = "HDFS_DELEGATION_TOKEN"
_PY4J: Final = ("py4j.java_gateway", "py4j.clientserver")
_LEAST_S: Final = 1.0
_LATER_S: Final = 60.0
_LOOK_S: Final = 15.0
_NONE_S: Final = 600.0
_UNKNOWN_S: Final = 3600.0
_START_S: Final = 120.0
"""How long a session's start waits for them: a KDC or a name node may keep silent for longer."""
_RATIO: Final = 0.5
"""Of a token's life, after which the next one is fetched; Spark's own ratio is 0.75."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Credentials in Hadoop's own form; nobody is shown what is in them.

    `replaces`: they are younger than those that a container was started with, and of the same
    places.
    """

    content: bytes = field(repr=False)
    replaces: bool = False


def give_store_tokens(spark: SparkSession) -> None:
    """Hand tokens on, from when a Spark context is first met here until its end."""
    global _keeper  # noqa: PLW0603 - a process has one context, and one file of tokens
    context = spark.sparkContext
    if _keeper is not None and _keeper.is_of(context):
        return
    is_given = bool(os.environ.get(VARIABLE)) if _keeper is None else _keeper.is_given
    if is_given and _is_beside(context.master) and not _renews(context):
        return  # a container's own, and its workers have theirs
    users = jvm_of(spark).org.apache.hadoop.security.UserGroupInformation
    if not users.isSecurityEnabled():
        return
    _keeper = _Keeper(spark, is_given=is_given)
    _keeper.start()


def with_tokens(function: Callable[..., _R]) -> Callable[..., _R]:
    """The function, such that a Python worker that calls it has tokens if it needs any."""
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
    """Make them this process's, unless it was given others by whoever started it.

    A token for the same place that it has already, and that was made later, stays: a container that
    is started in the middle of a statement is given younger ones than the statement has, and the
    tasks of two statements come to one process in turn.
    """
    global _taken  # noqa: PLW0603 - the process has one variable
    here = os.environ.get(VARIABLE)
    if _taken is None:
        if here and not shipped.replaces:
            return
        _taken = TokenFile()
    content = shipped.content
    if here:
        # What cannot be read is nothing to keep: there may be no file, or one of another form.
        with contextlib.suppress(OSError, ValueError):
            content = later_tokens(Path(here).read_bytes(), content)
    _taken.replace(content)
    os.environ[VARIABLE] = _taken.path


def later_tokens(here: bytes, brought: bytes) -> bytes:
    """Credentials with the token of each place that was made last, of those here and those brought.

    Raises:
        ValueError: one of the two cannot be read.
    """
    found = {(t.kind, t.service): (alias, t) for alias, t in named_tokens(here).items()}
    for alias, token in named_tokens(brought).items():
        known = found.get((token.kind, token.service))
        if known is None or known[1].issued_ms <= token.issued_ms:
            found[token.kind, token.service] = (alias, token)
    return print_credentials(dict(found.values()))


class _Keeper:
    """Keeps the tokens of one context fresh. Mutable: it has a thread.

    Args:
        spark: of the context.
        is_given: the process was started with tokens, as a driver on Kubernetes may be. They stay,
            unless it is a container of YARN for which Spark gets others by a keytab.
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
        """Whether it cares for that one."""
        return self._context is context

    @property
    def is_running(self) -> bool:
        """Whether its context was not stopped; the next one may encrypt nothing."""
        return self._context._jsc is not None  # noqa: SLF001 - there is no public way

    def start(self) -> None:
        """Have tokens now, if they come in time, and from now on."""
        if self._ships:
            # py4j's log of what it is given would have them, with the tasks' functions.
            for name in _PY4J:
                logging.getLogger(name).addFilter(_without_details)
        has_tried = threading.Event()
        threading.Thread(
            target=self._serve, args=(has_tried,), name="hdfs tokens", daemon=True
        ).start()
        if not has_tried.wait(_START_S):
            log.warning("no delegation tokens from Spark within %.0f s: going on", _START_S)

    def _serve(self, has_tried: threading.Event) -> None:
        while self.is_running:
            wait_s = self._try_to_fetch()
            has_tried.set()
            time.sleep(wait_s)

    def _try_to_fetch(self) -> float:
        """As `_fetch`; without tokens whoever needs one says so, and others go on."""
        try:
            wait_s = self._fetch()
        except Exception as error:  # noqa: BLE001 - else there would be no later try
            complaint = reason_of(error)
            if self.is_running and complaint != self._complaint:
                log.warning("no delegation tokens from Spark, for now: %s", complaint)
                self._complaint = complaint
            return _LATER_S
        self._complaint = ""
        return wait_s

    def _fetch(self) -> float:
        """Take what the JVM has or gets; gives after how many seconds that is to be done again."""
        jvm = jvm_of(self._spark)
        security = jvm.org.apache.hadoop.security
        found = security.Credentials(
            security.UserGroupInformation.getCurrentUser().getCredentials()
        )
        wait_s = _LOOK_S  # Spark fetches them anew in its own time
        if self._own is not None or not _of_hdfs(found):
            wait_s = self._fetch_own(jvm)
            found.addAll(self._own)
        if self.is_given and self._renews and not _of_hdfs(found):
            return _LATER_S  # what the container has is more
        if not self.is_given or self._renews:
            self._show(_bytes_of(jvm, found))
        if self._ships:
            content = _bytes_of(jvm, _hdfs_alone(jvm, found))
            self.shipped = Tokens(content, replaces=self._renews)
        return wait_s

    def _fetch_own(self, jvm: JVMView) -> float:
        """Have Spark's providers fetch some; those that they do not get anew stay as they are.

        They log why, and go on (HadoopFSDelegationTokenProvider).
        """
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
        # Not by the minute where it is one name node of several: the others make new ones then.
        return _UNKNOWN_S if _of_hdfs(fresh) else _LATER_S

    def _show(self, content: bytes) -> None:
        """Have them lie where this process's clients look, and workers' beside it."""
        if self._file is None:
            self._file = TokenFile()
        self._file.replace(content)
        os.environ[VARIABLE] = self._file.path
        if self._context.master.startswith("local"):
            self._context.environment[VARIABLE] = self._file.path


def _without_details(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


_keeper: _Keeper | None = None
_taken: TokenFile | None = None


def _is_beside(master: str) -> bool:
    """Whether workers find tokens without us, or those of the driver's file."""
    return master.startswith(("local", "yarn"))


def _renews(context: SparkContext) -> bool:
    """Whether Spark has younger tokens in time than containers were started with."""
    conf = context.getConf()
    return context.master.startswith("yarn") and any(map(conf.get, KEYTABS))


def _ships(context: SparkContext) -> bool:
    """Whether workers get tokens from us, of which there is a word if they should and do not."""
    master, conf = context.master, context.getConf()
    if _is_beside(master) and not _renews(context):
        return False

    def is_on(name: str) -> bool:
        return (conf.get(name, "false") or "").lower() == "true"

    # Spark 3 takes the second for a word that nobody knows, and sends in clear.
    is_ssl = is_on("spark.ssl.rpc.enabled") and not context.version.startswith("3.")
    if (is_on("spark.network.crypto.enabled") or is_ssl) and is_on("spark.io.encryption.enabled"):
        return True
    if _is_beside(master):
        log.info(
            "Python in executors goes by the tokens of its container, which last for a day as a"
            " rule: a longer job needs spark.authenticate, spark.network.crypto.enabled and"
            " spark.io.encryption.enabled"
        )
        return False
    log.warning(
        "HDFS tokens stay on the driver, since Spark does not encrypt what it sends and spills:"
        " Python workers need tickets or tokens of their own, or set spark.authenticate,"
        " spark.network.crypto.enabled and spark.io.encryption.enabled"
    )
    return False


def _of_hdfs(credentials: JavaObject) -> list[JavaObject]:
    return [t for t in credentials.getAllTokens().toArray() if str(t.getKind()) == _KIND]


def _services(credentials: JavaObject) -> set[str]:
    return {str(token.getService()) for token in _of_hdfs(credentials)}


def _hdfs_alone(jvm: JavaObject, credentials: JavaObject) -> JavaObject:
    """Without what workers have no use for, such as the metastore's token."""
    chosen = jvm.org.apache.hadoop.security.Credentials()
    for token in _of_hdfs(credentials):
        chosen.addToken(token.getService(), token)
    return chosen


def _until_half(tokens: list[JavaObject], conf: JavaObject) -> float:
    """How long to use tokens that we may renew, before others are fetched."""
    if not tokens:
        return _NONE_S  # tables lie elsewhere, or Spark was told to fetch none
    try:
        ends_ms: int = min(token.renew(conf) for token in tokens)
    except (Py4JError, PySparkException):
        return _UNKNOWN_S  # a JVM that is not logged in itself (standalone) may not renew
    return max(_LEAST_S, (ends_ms / 1000 - time.time()) * _RATIO)


def _bytes_of(jvm: JavaObject, credentials: JavaObject) -> bytes:
    """By a file in memory: py4j's own log, if it is on, would hold what it is given."""
    descriptor, path = scratch()
    try:
        stream = jvm.java.io.DataOutputStream(jvm.java.io.FileOutputStream(path))
        credentials.writeTokenStorageToStream(stream)
        stream.close()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)
