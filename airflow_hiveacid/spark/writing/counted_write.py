"""One write by Spark's own ORC writer, and how many rows it was.

Takes rows and a directory that is not there yet; gives the count of rows that Spark's tasks have
written. Each counts its own, and hands that to the driver with what it has committed; of several
tries of a task only the one counts that Spark has taken as its result (FileFormatWriter). The sum
stands in the plan of this very write when it returns (BasicWriteJobStatsTracker): no listener is
waited for, and no list is asked. So it tells whether files have been lost since.

Spark's public way to write (`DataFrameWriter.save`) does the same and shows the plan to nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.spark.catalyst import dataset_of, jvm_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame

_COUNT: Final = "numOutputRows"


def write_orc(
    rows: DataFrame, place: str, options: Mapping[str, str], by: Sequence[str]
) -> int | None:
    """Have Spark write rows; how many they were, None if this Spark does not say.

    Args:
        rows: what is written.
        place: the new directory.
        options: of the writer; they count more than what the session has.
        by: columns whose values become directories.

    Raises:
        PySparkException, Py4JJavaError: it has failed, and what is there is nothing.
    """
    spark = rows.sparkSession
    jvm = jvm_of(spark)
    sql = jvm.org.apache.spark.sql
    given = jvm.java.util.HashMap()
    for name, value in {**options, "path": place}.items():
        given.put(name, value)
    to_seq, not_given = jvm.PythonUtils.toSeq, jvm.scala.Option.apply(None)
    source = sql.execution.datasources.DataSource(
        spark._jsparkSession,  # noqa: SLF001 - there is no public way
        "orc",
        to_seq([]),
        not_given,
        to_seq(list(by)),
        not_given,
        jvm.PythonUtils.toScalaMap(given),
        not_given,
    )
    plan = rows._jdf.logicalPlan()  # noqa: SLF001
    command = source.planForWriting(sql.SaveMode.ErrorIfExists, plan)
    return _counted(dataset_of(spark, command).queryExecution().commandExecuted())


def _counted(plan: JavaObject) -> int | None:
    """The count in the plan of a command that was run, below what stands around it."""
    while True:
        match str(plan.getClass().getSimpleName()):
            case "CommandResult":
                plan = plan.commandPhysicalPlan()
            case "AdaptiveSparkPlanExec":
                plan = plan.executedPlan()  # the last one, which was run
            case "ResultQueryStageExec":  # Spark 4 only
                plan = plan.plan()
            case "DataWritingCommandExec":
                found = plan.metrics().get(_COUNT)
                return int(found.get().value()) if found.isDefined() else None
            case _:
                return None
