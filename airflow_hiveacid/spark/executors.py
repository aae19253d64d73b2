"""Whether a cluster gives a driver executors, seen before anything is begun.

Spark itself waits for its first executor for ever, and in the middle of a statement that would be
with the table's locks held.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pyspark.util import InheritableThread

from airflow_hiveacid.format.errors import ExecutorsMissingError
from airflow_hiveacid.spark.failures import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP: Final = "hiveacid-first-executor"
_POLL_S: Final = 0.1


def await_executor(spark: SparkSession, timeout_s: float) -> None:
    """Return once an executor has registered; at once where tasks run in the driver.

    A small job asks for one, since with dynamic allocation none comes unasked.

    Raises:
        ExecutorsMissingError: none came in time.
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
    # The driver has a memory of its own in this list.
    known = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # noqa: SLF001 - there is no public way
    return bool(known > 1)


def _ask(spark: SparkSession) -> None:
    spark.sparkContext.setJobGroup(_GROUP, "asks the cluster for a first executor")
    try:
        spark.range(1).count()
    except SPARK_ERRORS:
        return  # it was cancelled: an executor is there, or none will be waited for
