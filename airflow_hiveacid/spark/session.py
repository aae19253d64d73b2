"""The Spark session our applications run in, and the settings that make its results exact.

Nothing here tunes: sizes and parallelism are the submitter's business.
"""

from __future__ import annotations

import importlib
from typing import Final

from pyspark import SparkConf
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import ConfigurationError

_SETTINGS: Final = {
    # An overflow or an impossible cast is an error, never a silent NULL.
    "spark.sql.ansi.enabled": "true",
    # A Hive timestamp is a wall-clock value; expressions that turn it into an instant use one zone.
    "spark.sql.session.timeZone": "UTC",
    # Arrow is how rows reach the writers; a batch is the unit of memory in a Python worker.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Nanoseconds of a source are cut, not refused: Spark holds microseconds.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
_NEEDED: Final = ("pandas", "pyarrow", "google.protobuf", "thrift", "hmsclient")


def open_session(app_name: str) -> SparkSession:
    """Get the session, with our settings on it; the submitter's name for it wins over ours.

    Raises:
        ConfigurationError: a Python package is missing on the driver; it says which.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigurationError(
                f"the Spark environment lacks {name.partition('.')[0]} ({error}); a cluster needs"
                " pyspark, pandas, pyarrow and protobuf on the driver and on every executor"
            ) from error
    builder = SparkSession.builder
    if SparkConf().get("spark.app.name") is None:
        builder = builder.appName(app_name)
    spark = builder.getOrCreate()
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    return spark
