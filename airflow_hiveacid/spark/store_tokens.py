"""How Python gets into an HDFS with Kerberos by what Spark's JVM may do there.

Spark's `--principal` and `--keytab`, and its delegation tokens, reach JVMs alone. Takes a session;
gives the driver's own process the tokens that its JVM has or may ask for (`spark.kerberos.*`,
`spark.security.credentials.*`), anew before they expire, and Python workers theirs:

- in a container of YARN: the container's own, and nothing is done here;
- beside the driver (`local`): the driver's file, which is in memory;
- elsewhere (Kubernetes, standalone): those of HDFS, in the tasks' own function, which is in the
  memory of driver and executors; and only if Spark encrypts what it sends and what it spills.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.spark.failures import reason_of
from airflow_hiveacid.storage.stores.token_file import VARIABLE, TokenFile, scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger("hiveacid")

_T = TypeVar("_T")
_R = TypeVar("_R")

_KIND: Final = "HDFS_DELEGATION_TOKEN"
_PY4J: Final = ("py4j.java_gateway", "py4j.clientserver")
_LEAST_S: Final = 1.0
_LATER_S: Final = 60.0
_NONE_S: Final = 600.0
_UNKNOWN_S: Final = 3600.0
_RATIO: Final = 0.5
"""Of a token's life, after which the next one is fetched; Spark's own ratio is 0.75."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Credentials in Hadoop's own form; nobody is shown what is in them."""

    content: bytes = field(repr=False)


def give_store_tokens(spark: SparkSession) -> None:
    """Hand tokens on, from when a Spark context is first met here until its end."""
    global _keeper  # noqa: PLW0603 - a process has one context, and one file of tokens
    context = spark.sparkContext
    if _keeper is not None and _keeper.is_of(context):
        return
    if _keeper is None and os.environ.get(VARIABLE):
        return  # a container's own
    users = jvm_of(spark).org.apache.hadoop.security.UserGroupInformation
    if not users.isSecurityEnabled():
        return
    _keeper = _Keeper(spark)
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
    """Make them this process's, unless it was given others by whoever started it."""
    global _taken  # noqa: PLW0603 - the process has one variable
    if _taken is None:
        if os.environ.get(VARIABLE):
            return
        _taken = TokenFile()
        os.environ[VARIABLE] = _taken.path
    _taken.replace(shipped.content)


class _Keeper:
    """Keeps the tokens of one context fresh. Mutable: it has a thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self._file = TokenFile()
        self._is_own = False
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
        """Have tokens now, and from now on."""
        if self._ships:
            # py4j's log of what it is given would have them, with the tasks' functions.
            for name in _PY4J:
                logging.getLogger(name).addFilter(_without_details)
        threading.Thread(
            target=self._serve, args=(self._try_to_fetch(),), name="hdfs tokens", daemon=True
        ).start()

    def _serve(self, wait_s: float) -> None:
        while True:
            time.sleep(wait_s)
            if not self.is_running:
                return
            wait_s = self._try_to_fetch()

    def _try_to_fetch(self) -> float:
        """As `_fetch`; without tokens whoever needs one says so, and others go on."""
        try:
            return self._fetch()
        except (PySparkException, Py4JError, OSError) as error:
            log.warning("no delegation tokens from Spark, for now: %s", reason_of(error))
            return _LATER_S

    def _fetch(self) -> float:
        """Take what the JVM has or gets; gives after how many seconds that is to be done again."""
        jvm = jvm_of(self._spark)
        security = jvm.org.apache.hadoop.security
        found = security.Credentials(
            security.UserGroupInformation.getCurrentUser().getCredentials()
        )
        wait_s = _LATER_S  # Spark fetches them anew in its own time
        if self._is_own or not _of_hdfs(found):
            conf = self._context._jsc.hadoopConfiguration()  # noqa: SLF001 - no public way
            manager = jvm.org.apache.spark.deploy.security.HadoopDelegationTokenManager(
                self._context._jsc.sc().conf(),  # noqa: SLF001
                conf,
                None,
            )
            manager.obtainDelegationTokens(found)
            self._is_own = True
            wait_s = _until_half(_of_hdfs(found), conf)
        self._file.replace(_bytes_of(jvm, found))
        os.environ[VARIABLE] = self._file.path
        if self._context.master.startswith("local"):
            self._context.environment[VARIABLE] = self._file.path_for_others
        if self._ships:
            self.shipped = Tokens(_bytes_of(jvm, _hdfs_alone(jvm, found)))
        return wait_s


def _without_details(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


_keeper: _Keeper | None = None
_taken: TokenFile | None = None


def _ships(context: SparkContext) -> bool:
    """Whether workers get tokens from us, of which there is a word if they should and do not."""
    master, conf = context.master, context.getConf()
    if master.startswith(("local", "yarn")):
        return False

    def is_on(name: str) -> bool:
        return (conf.get(name, "false") or "").lower() == "true"

    if (is_on("spark.network.crypto.enabled") or is_on("spark.ssl.rpc.enabled")) and is_on(
        "spark.io.encryption.enabled"
    ):
        return True
    log.warning(
        "HDFS tokens stay on the driver, since Spark does not encrypt what it sends and spills:"
        " Python workers need tickets or tokens of their own, or set spark.authenticate,"
        " spark.network.crypto.enabled and spark.io.encryption.enabled"
    )
    return False


def _of_hdfs(credentials: JavaObject) -> list[JavaObject]:
    return [t for t in credentials.getAllTokens().toArray() if str(t.getKind()) == _KIND]


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
    except Py4JError:
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
