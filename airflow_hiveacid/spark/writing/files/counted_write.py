"""A write with Spark's own ORC writer, and the number of rows that it wrote.

Each task sends its count to the driver together with its commit, and only the attempt that Spark
accepted is counted (FileFormatWriter). The plan of the finished write contains the sum
(BasicWriteJobStatsTracker). The count shows whether files were lost afterwards.

Spark's public API (`DataFrameWriter.save`) does the same, but does not return the plan. It is used
with releases of Spark whose own classes differ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from airflow_hiveacid.spark.engine.expressions.catalyst import dataset_of
from airflow_hiveacid.spark.engine.java_names import (
    UnknownJavaCallError,
    call_of_any_release,
    jvm_of,
    unknown_calls,
)

_COUNT: Final = "numOutputRows"

_log = logging.getLogger(__name__)


def write_orc(
    rows: DataFrame, directory: str, options: Mapping[str, str], by: Sequence[str]
) -> int | None:
    """Write rows with Spark and return their number, or None if Spark does not report it.

    `options` override the session's settings. Spark partitions the rows into directories by the
    columns `by`.

    Raises:
        PySparkException, Py4JJavaError: the write failed; ignore any files in the directory.
    """
    spark = rows.sparkSession
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    java_options = jvm.java.util.HashMap()
    for name, value in {**options, "path": directory}.items():
        java_options.put(name, value)
    to_seq, not_given = jvm.PythonUtils.toSeq, jvm.scala.Option.apply(None)
    arguments = [
        spark._jsparkSession,  # noqa: SLF001 - there is no public way
        "orc",
        to_seq([]),
        not_given,
        to_seq(list(by)),
        not_given,
        jvm.PythonUtils.toScalaMap(java_options),
        not_given,
    ]
    try:
        source = call_of_any_release(sql.execution.datasources.DataSource, arguments, not_given)
        plan = rows._jdf.logicalPlan()  # noqa: SLF001 - as above
        with unknown_calls():
            command = source.planForWriting(sql.SaveMode.ErrorIfExists, plan)
    except UnknownJavaCallError:
        _log.warning("this release of Spark does not say how many rows it writes; they are counted")
        rows.write.format("orc").options(**options).partitionBy(*by).save(directory)
        return None
    return _counted(dataset_of(spark, command).queryExecution().commandExecuted())


def _counted(plan: JavaObject) -> int | None:
    """Return the row count from the plan of an executed command, unwrapping the outer nodes."""
    while True:
        match str(plan.getClass().getSimpleName()):
            case "CommandResult":
                plan = plan.commandPhysicalPlan()
            case "AdaptiveSparkPlanExec":
                plan = plan.executedPlan()  # the final plan; this is the plan that was executed
            case "ResultQueryStageExec":  # Spark 4 only
                plan = plan.plan()
            case "DataWritingCommandExec":
                metric = plan.metrics().get(_COUNT)
                return int(metric.get().value()) if metric.isDefined() else None
            case _:
                return None
