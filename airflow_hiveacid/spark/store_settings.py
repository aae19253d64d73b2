"""How Python learns what only Spark's Hadoop configuration says (`spark.hadoop.*`).

Takes a session; gives this process, and the Python workers of everything that runs in the session
from then on, the settings that their own clients of stores have use for. They go by the environment
of these workers, in whatever thread and cluster a task is started: a job's local properties are in
the event log, these are not.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.given_settings import JAVA_PATTERN, VARIABLE, travelling

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_DEFAULTS: Final = "-default.xml"
"""How files are called in which Hadoop brings settings that nobody has chosen."""


def give_store_settings(spark: SparkSession) -> None:
    """Hand the settings on, as they are when a Spark context is first met here."""
    context = spark.sparkContext
    given = context.environment.get(VARIABLE)
    if given is None:
        jsc = context._jsc  # noqa: SLF001 - there is no public way
        configuration = jsc.hadoopConfiguration()
        found = dict(configuration.getValByRegex(JAVA_PATTERN))
        given = json.dumps(travelling({n: found[n] for n in found if _is_chosen(configuration, n)}))
        context.environment[VARIABLE] = given
    os.environ[VARIABLE] = given


def _is_chosen(configuration: JavaObject, name: str) -> bool:
    """Whether a site or a user says so: defaults of Java's clients are no wishes."""
    sources = configuration.getPropertySources(name)
    return not sources or not str(list(sources)[-1]).endswith(_DEFAULTS)
