"""Check that JVMs run in UTC, so that Spark's ORC reader keeps wall-clock times unchanged.

Java's ORC treats a timestamp as an instant in the time zone of its JVM. In UTC that instant shows
the wall-clock time that Hive stored. In other time zones, some hours do not exist or exist twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.spark.engine.java_names import jvm_of
from airflow_hiveacid.storage.acid.write.flat_layout import UTC_ZONES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC_OPTION: Final = "-Duser.timezone=UTC"
_ZONE_OPTION: Final = re.compile(r"-Duser\.timezone=[\"']?([^\s\"']*)")
_OPTIONS: Final = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")


def names_a_zone(java_options: str) -> bool:
    """Return whether a JVM's options set its time zone."""
    return _ZONE_OPTION.search(java_options) is not None


def runs_in_utc(spark: SparkSession) -> bool:
    """Return whether the JVMs of driver and executors run in UTC."""
    # Compare names, because Java compares only the current rules of two zones. A zone with the
    # current rules of UTC may have had different rules in the past.
    if jvm_of(spark).java.util.TimeZone.getDefault().getID() not in UTC_ZONES:
        return False
    context = spark.sparkContext
    if context.master == "local" or context.master.startswith("local["):
        return True  # one JVM is both driver and executor
    options = " ".join(context.getConf().get(key, "") or "" for key in _OPTIONS)
    zones = _ZONE_OPTION.findall(options)
    return bool(zones) and zones[-1] in UTC_ZONES
