"""The Spark session of our applications, and the settings that make its results exact.

With these settings, a statement means the same on every cluster. None is for tuning.

Spark itself waits for its first executor indefinitely, and during a statement the transaction would
hold its locks meanwhile. So `await_executor` waits before a transaction begins.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from typing import Final

from py4j.java_gateway import JavaClass, JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from airflow_hiveacid.format.errors import ConfigurationError, ExecutorsMissingError
from airflow_hiveacid.plan.statements.hive_functions import CLASSES, called
from airflow_hiveacid.spark.engine import UnknownJavaCallError, jvm_of, module, unknown_calls
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from airflow_hiveacid.spark.engine.store_tokens import give_store_tokens
from airflow_hiveacid.storage.acid.write.flat_copy import UTC_ZONES
from airflow_hiveacid.storage.stores.hadoop_settings import JAVA_PATTERN, VARIABLE, travelling

log = logging.getLogger("hiveacid")

_TIME_ZONE: Final = "spark.sql.session.timeZone"
_SETTINGS: Final = {
    # An overflow or an impossible cast is an error, never a silent NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # A common type of two decimals keeps all digits after the point, and a number that does not fit
    # is an error. Spark 4 would round: decimal(20,15) 1.1 would equal decimal(38,0) 1.
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
    # A number in ORDER BY or GROUP BY is a column's position, as in Hive.
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.groupByOrdinal": "true",
    # base64 returns one line, without line breaks. Spark 3.5.0 and 3.5.1 do not have this setting.
    "spark.sql.chunkBase64String.enabled": "false",
    # A corrupt or missing file of a source causes an error and is never skipped.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Hive's names are case-insensitive.
    "spark.sql.caseSensitive": "false",
    # A Hive timestamp is a wall-clock value; an expression that converts it to an instant uses UTC.
    _TIME_ZONE: "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Wall-clock times in Parquet sources stay wall-clock times; `load_parquet` handles nanoseconds,
    # and refuses what microseconds cannot represent exactly.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # A char is read without its padding. To compare a char with a literal, Spark pads both sides.
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    # Our code builds ORC's filters (`search_argument`). Spark's own filters would hide rows,
    # because ORC compares strings, zeros and old dates with statistics in another order.
    "spark.sql.orc.filterPushdown": "false",
    # Spark's own ORC writer writes one file per task and partition, and commits all together.
    "spark.sql.orc.impl": "native",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    # The size of Arrow batches determines how much memory a Python worker needs.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Spark 3.5 has no limit in bytes, so the limit in rows is low.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
}
AT_START: Final = {
    # PySpark would record each column's source line, which takes longer than the column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""The settings at the start of a session; values that the submitter sets take precedence."""
_SPECULATION: Final = "spark.speculation"
"""With speculation a task may run twice.

Both copies of a task may cache their rows, each in its own order or with its own random values. A
reader then gets the rows of one of the copies (docs/decisions/writing.md).
"""

# Settings with these prefixes change the meaning of an expression. We test with Spark's defaults.
_MEANINGS: Final = (
    "spark.sql.legacy.",
    "spark.sql.ansi.",
    "spark.sql.parser.",
    "spark.sql.function.",
    "spark.sql.sources.outputCommitterClass",
)
_EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_NEEDED: Final = ("pandas", "pyarrow", "google.protobuf", "thrift", "hmsclient")


def open_session(app_name: str) -> SparkSession:
    """Return the session with our settings; `app_name` applies only if the submitter gave no name.

    The session's JVMs run in UTC, unless the submitter set a time zone. Spark's ORC reader returns
    wall-clock times unchanged only in UTC (`runs_in_utc`). If a Python package is missing on the
    driver, or the program created its Spark context with speculation, raise ConfigurationError.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigurationError(
                f"the Spark environment lacks {name.partition('.')[0]} ({error}); a cluster needs"
                " pyspark, pandas, pyarrow and protobuf on the driver and on every executor"
            ) from error
    # The submitter's settings come from the JVM that spark-submit started.
    SparkContext._ensure_initialized()  # noqa: SLF001 - before this SparkConf is empty
    conf = SparkConf()
    builder = SparkSession.builder
    if conf.get("spark.app.name") is None:
        builder = builder.appName(app_name)
    at_start: dict[str, bool | float | int | str | None] = {
        key: conf.get(key, value) for key, value in AT_START.items()
    }
    at_start[_SPECULATION] = "false"
    builder = builder.config(map=at_start)
    options = conf.get(_EXECUTOR_OPTIONS, "") or ""
    if not names_a_zone(options):
        builder = builder.config(_EXECUTOR_OPTIONS, f"{options} {UTC_OPTION}".strip())
    spark = builder.getOrCreate()
    _check_tasks_run_once(spark)
    if not names_a_zone(conf.get(_DRIVER_OPTIONS, "") or ""):
        zones = jvm_of(spark).java.util.TimeZone
        zones.setDefault(zones.getTimeZone("UTC"))
    for key, value in _other_meanings(spark, _explicit_settings(spark)):
        log.warning("ignored %s=%s, which would change the meaning of statements", key, value)
        spark.conf.unset(key)
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    _give_hive_functions(spark)
    give_store_settings(spark)
    give_store_tokens(spark)
    return spark


def _check_tasks_run_once(spark: SparkSession) -> None:
    if (spark.sparkContext.getConf().get(_SPECULATION) or "").lower() == "true":
        raise ConfigurationError(
            f"the program's Spark context has {_SPECULATION}=true: if a task runs twice, a"
            " statement could read the rows of either copy. Set it to false where the context is"
            " created"
        )


def check_session(spark: SparkSession) -> None:
    """Raise ConfigurationError if a program changed a setting other than the time zone."""
    conf = _explicit_settings(spark)
    changed = [
        f"{key}={has}"
        for key, value in _SETTINGS.items()
        if key != _TIME_ZONE
        and (has := conf[key] if key in conf else _default(spark, key)).lower() != value.lower()
    ]
    changed += [
        f"{key}={value}" for key, value in _other_meanings(spark, conf) if key not in _SETTINGS
    ]
    if changed:
        raise ConfigurationError(
            f"the program changed {', '.join(changed)}, so statements could store different values."
            " Leave the session's settings unchanged during the transaction"
        )


def _explicit_settings(spark: SparkSession) -> dict[str, str]:
    return dict(spark.sql("SET").collect())


def _default(spark: SparkSession, key: str) -> str:
    try:
        return spark.conf.get(key) or ""
    except SPARK_ERRORS:
        return ""


def _other_meanings(spark: SparkSession, conf: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the modifiable settings that would change what an expression means."""
    return [
        (key, value)
        for key, value in conf.items()
        if key.startswith(_MEANINGS)
        and _SETTINGS.get(key) != value
        and spark.conf.isModifiable(key)
    ]


UTC_OPTION: Final = "-Duser.timezone=UTC"
_ZONE_OPTION: Final = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']*)")
_OPTIONS: Final = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")


def names_a_zone(java_options: str) -> bool:
    """Return whether a JVM's options set its time zone."""
    return _ZONE_OPTION.search(java_options) is not None


def runs_in_utc(spark: SparkSession) -> bool:
    """Return whether the JVMs of driver and executors run in UTC.

    Java's ORC treats a timestamp as an instant in the time zone of its JVM. In UTC that instant
    shows the wall-clock time that Hive stored.
    """
    # Compare names: Java compares only the current rules of two zones.
    if jvm_of(spark).java.util.TimeZone.getDefault().getID() not in UTC_ZONES:
        return False
    context = spark.sparkContext
    if context.master == "local" or context.master.startswith("local["):
        return True  # one JVM is both driver and executor
    options = " ".join(context.getConf().get(key, "") or "" for key in _OPTIONS)
    zones = _ZONE_OPTION.findall(options)
    return bool(zones) and zones[-1] in UTC_ZONES


_GROUP: Final = "hiveacid-first-executor"
_POLL_S: Final = 0.1


def await_executor(spark: SparkSession, timeout_s: float) -> None:
    """Wait until an executor has registered; do not wait if tasks run in the driver.

    A small job is run, because with dynamic allocation the cluster starts executors only for jobs.
    If no executor registers in time, raise ExecutorsMissingError.
    """
    context = spark.sparkContext
    if context.master == "local" or context.master.startswith("local["):
        return
    began = time.monotonic()
    asker: InheritableThread | None = None
    while not _has_executor(spark):
        if asker is None:
            asker = InheritableThread(target=_ask, args=(spark,), session=spark, daemon=True)
            asker.start()
        if (waited_s := time.monotonic() - began) > timeout_s:
            context.cancelJobGroup(_GROUP)
            raise ExecutorsMissingError(
                application=context.applicationId, master=context.master, waited_s=waited_s
            )
        time.sleep(_POLL_S)
    if asker is not None:
        context.cancelJobGroup(_GROUP)


def _has_executor(spark: SparkSession) -> bool:
    # The map of executors also contains the driver.
    try:
        with unknown_calls():
            count = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001 - there is no public way
    except UnknownJavaCallError:
        return True  # Spark's first job then waits
    return bool(count > 1)


def _ask(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup(_GROUP, "ask the cluster for a first executor")
    try:
        spark.range(1).count()
    except SPARK_ERRORS:
        return  # cancelled: an executor has registered, or the wait has timed out


_DEFAULTS: Final = "-default.xml"
"""The file-name ending of Hadoop's own defaults."""


def give_store_settings(spark: SparkSession) -> None:
    """Pass the store settings of the Spark context, as they were at the first call, to Python.

    Workers of later tasks get them in their environment, which, unlike a job's local properties, is
    valid for any thread and is not in the event log.
    """
    context = spark.sparkContext
    text = context.environment.get(VARIABLE)
    if text is None:
        jsc = context._jsc  # noqa: SLF001 - there is no public way
        configuration = jsc.hadoopConfiguration()
        pairs = dict(configuration.getValByRegex(JAVA_PATTERN))
        text = json.dumps(travelling({n: pairs[n] for n in pairs if _is_chosen(configuration, n)}))
        context.environment[VARIABLE] = text
    os.environ[VARIABLE] = text


def _is_chosen(configuration: JavaObject, name: str) -> bool:
    """Return True if the setting comes from a site file or a user; False for Hadoop's default."""
    sources = configuration.getPropertySources(name)
    return not sources or not str(list(sources)[-1]).endswith(_DEFAULTS)


def _give_hive_functions(spark: SparkSession) -> None:
    """Register functions of Hive's own classes (`plan.statements.hive_functions`) under our names.

    A separate Spark catalog, which shares the session's function registry, registers them without
    Hive's catalog. The classes are in Spark's jars hive-exec and spark-hive, on executors, too.
    """
    try:
        _register(spark)
    except UnknownJavaCallError as error:
        log.warning(
            "%s: statements that call Hive's own functions, such as add_months, will fail", error
        )


@unknown_calls()
def _register(spark: SparkSession) -> None:
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    if not isinstance(sql.hive.HiveUDFExpressionBuilder, JavaClass):
        raise UnknownJavaCallError("Spark's Hive module (spark-hive, hive-exec) is missing")
    maker, none = module(sql.hive, "HiveUDFExpressionBuilder"), module(jvm.scala, "None")
    no_files = jvm.PythonUtils.toSeq([])
    state = spark._jsparkSession.sessionState()  # noqa: SLF001 - there is no public way
    # This catalog only registers functions, so it needs no tables, files or parser.
    catalog = sql.catalyst.catalog.SessionCatalog(
        None,
        None,
        state.functionRegistry(),
        state.tableFunctionRegistry(),
        None,
        None,
        None,
        maker,
        0,
        0,
        "default",
    )
    for name, class_name in CLASSES.items():
        identifier = sql.catalyst.FunctionIdentifier(called(name))
        function = sql.catalyst.catalog.CatalogFunction(identifier, class_name, no_files)
        catalog.registerFunction(function, True, none)  # noqa: FBT003 - py4j has no keywords
