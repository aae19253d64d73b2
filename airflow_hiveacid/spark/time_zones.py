"""Whether Spark's ORC reader leaves wall-clock times as they are: only in JVMs that run in UTC.

Java's ORC takes a timestamp for a moment in its JVM's own time zone. In UTC that moment has the
digits of the wall clock, which is what Hive means; in another zone there are hours that do not
exist, or twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.spark.catalyst import jvm_of
from airflow_hiveacid.storage.acid.write.flat_layout import UTC_ZONES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC_OPTION: Final = "-Duser.timezone=UTC"
_ZONE_OPTION: Final = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']*)")
_OPTIONS: Final = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")


def names_a_zone(java_options: str) -> bool:
    """Whether options of a JVM say its time zone."""
    return _ZONE_OPTION.search(java_options) is not None


def runs_in_utc(spark: SparkSession) -> bool:
    """Whether the JVMs of driver and executors do."""
    # By name: Java compares the rules of today, and there are zones whose clocks once differed.
    if jvm_of(spark).java.util.TimeZone.getDefault().getID() not in UTC_ZONES:
        return False
    context = spark.sparkContext
    if context.master == "local" or context.master.startswith("local["):
        return True  # one JVM is both
    given = " ".join(context.getConf().get(key, "") or "" for key in _OPTIONS)
    found = _ZONE_OPTION.findall(given)
    return bool(found) and found[-1] in UTC_ZONES
