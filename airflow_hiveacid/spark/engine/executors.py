"""Wait for a cluster's first executor, before a transaction begins.

Spark itself waits for its first executor indefinitely. During a statement, Spark would wait while
the transaction holds its locks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark.util import InheritableThread

from airflow_hiveacid.format.errors import ExecutorsMissingError
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS
from airflow_hiveacid.spark.engine.java_names import UnknownJavaCallError, unknown_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP: Final = "hiveacid-first-executor"
_POLL_S: Final = 0.1


def await_executor(spark: SparkSession, timeout_s: float) -> None:
    """Wait until an executor has registered; do not wait if tasks run in the driver.

    With dynamic allocation the cluster starts executors only for jobs. So this function runs a
    small Spark job.

    Raises:
        ExecutorsMissingError: no executor registered in time.
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
