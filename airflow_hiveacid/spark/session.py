"""The Spark session our applications run in, and the settings that make its results exact.

Nothing here tunes: sizes and parallelism are the submitter's business. What a statement means is
not: it is the same on every cluster, whatever its `spark-defaults.conf` holds.
"""

from __future__ import annotations

import importlib
import logging
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.spark.failures import SPARK_ERRORS
from airflow_hiveacid.spark.store_settings import give_store_settings
from airflow_hiveacid.spark.store_tokens import give_store_tokens
from airflow_hiveacid.spark.time_zones import UTC_OPTION, names_a_zone

log = logging.getLogger("hiveacid")

_TIME_ZONE: Final = "spark.sql.session.timeZone"
_SETTINGS: Final = {
    # An overflow or an impossible cast is an error, never a silent NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # Nothing of a source is passed over in silence.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Names are Hive's, which knows no case.
    "spark.sql.caseSensitive": "false",
    # A Hive timestamp is a wall-clock value; expressions that turn it into an instant use one zone.
    _TIME_ZONE: "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Wall-clock values of a source stay such. Nanoseconds are the business of `nanoseconds`: what
    # Spark's microseconds cannot hold is refused, never cut.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # A char comes without its padding; both sides of a comparison with a literal are padded then.
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    # What ORC is told of the rows of an ACID file is ours (`search_argument`). Spark's own filters
    # of `row.x`, which ORC does not find, would take its place.
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "parquet",
    # Rows are written by Spark's own ORC writer, into one file a task and partition, all or none.
    "spark.sql.orc.impl": "native",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    # Arrow is how rows reach the other writers; a batch is the unit of memory in a Python worker.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    # Spark 3.5 knows no bound in bytes, so the rows are few.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4096",
}
AT_START: Final = {
    # Else PySpark notes for each column that is made which line made it, which costs more than the
    # column: a millisecond or two.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""What a session has from its start, unless the submitter has it otherwise."""
_SPECULATION: Final = "spark.speculation"
"""Of a task that runs twice both copies may keep their rows, in an order, or of a chance, of their
own; whoever reads what is kept meets one or the other (docs/adr/0065)."""

# Settings of these kinds change what an expression means; Spark's defaults are what we test.
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
    """Get the session, with our settings on it; the submitter's name for it wins over ours.

    Its JVMs run in UTC, unless the submitter gave them a time zone: there, and only there, Spark's
    ORC reader tells what a wall clock says (`time_zones`).

    Raises:
        ConfigurationError: a Python package is missing on the driver; it says which. Or somebody
            else's context runs tasks twice.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigurationError(
                f"the Spark environment lacks {name.partition('.')[0]} ({error}); a cluster needs"
                " pyspark, pandas, pyarrow and protobuf on the driver and on every executor"
            ) from error
    # The JVM that was started for us knows the submitter's settings.
    SparkContext._ensure_initialized()  # noqa: SLF001 - SparkConf is empty before
    given = SparkConf()
    builder = SparkSession.builder
    if given.get("spark.app.name") is None:
        builder = builder.appName(app_name)
    at_start: dict[str, bool | float | int | str | None] = {
        key: given.get(key, value) for key, value in AT_START.items()
    }
    at_start[_SPECULATION] = "false"
    builder = builder.config(map=at_start)
    options = given.get(_EXECUTOR_OPTIONS, "") or ""
    if not names_a_zone(options):
        builder = builder.config(_EXECUTOR_OPTIONS, f"{options} {UTC_OPTION}".strip())
    spark = builder.getOrCreate()
    _check_tasks_run_once(spark)
    if not names_a_zone(given.get(_DRIVER_OPTIONS, "") or ""):
        zones = jvm_of(spark).java.util.TimeZone
        zones.setDefault(zones.getTimeZone("UTC"))
    _give_up_other_meanings(spark)
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    give_store_settings(spark)
    give_store_tokens(spark)
    return spark


def _check_tasks_run_once(spark: SparkSession) -> None:
    if (spark.sparkContext.getConf().get(_SPECULATION) or "").lower() == "true":
        raise ConfigurationError(
            f"the program's Spark context has {_SPECULATION}=true: of a task that runs twice a"
            " statement could meet the rows of either copy. Set it to false where the context is"
            " made"
        )


def check_session(spark: SparkSession) -> None:
    """See that our settings are still on a session that somebody else's code has, too.

    Its time zone is that code's own affair: nothing that is stored or read depends on it.

    Raises:
        ConfigurationError: one is another now, so that a statement could store other values.
    """
    changed = [
        f"{key}={found}"
        for key, value in _SETTINGS.items()
        if key != _TIME_ZONE and (found := _effective(spark, key)).lower() != value.lower()
    ]
    if changed:
        raise ConfigurationError(
            f"the program has set {', '.join(changed)}: statements could store other values then."
            " Leave the session as it comes while the transaction lasts"
        )


def _effective(spark: SparkSession, key: str) -> str:
    """What a setting says; of one that was unset, Spark's default, where it has one."""
    try:
        return spark.conf.get(key) or ""
    except SPARK_ERRORS:
        return ""


def _give_up_other_meanings(spark: SparkSession) -> None:
    for key, value in spark.sql("SET").collect():
        if (
            key.startswith(_MEANINGS)
            and _SETTINGS.get(key) != value
            and spark.conf.isModifiable(key)
        ):
            log.warning("%s=%s is not used: statements mean the same everywhere", key, value)
            spark.conf.unset(key)
