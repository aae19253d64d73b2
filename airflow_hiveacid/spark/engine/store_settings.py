"""Settings of stores from Spark's Hadoop configuration (`spark.hadoop.*`), for Python clients.

The Python workers of later tasks get them in their environment, which, unlike a job's local
properties, is valid for any thread and is not in the event log.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.hadoop_settings import JAVA_PATTERN, VARIABLE, travelling

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_DEFAULTS: Final = "-default.xml"
"""The file-name ending of Hadoop's own defaults."""


def give_store_settings(spark: SparkSession) -> None:
    """Pass the store settings of the Spark context, as they were at the first call, to Python."""
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
