"""A Spark session, and this process, that know an S3: for tests, and for what `make clusters` runs.

Keys go by the environment, as users give them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hiveacid.spark.engine.session import give_store_settings
from airflow_hiveacid.storage.stores.hadoop_settings import VARIABLE
from tests.support.s3_lab import KEYS, MotoS3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def knowing(spark: SparkSession, server: MotoS3) -> Iterator[None]:
    """Let Spark's JVM, its workers and this process know a server until the block ends."""
    context = spark.sparkContext
    conf = context._jsc.hadoopConfiguration()
    kept = {name: os.environ.get(name) for name in (*KEYS, VARIABLE)}
    given = context.environment.pop(VARIABLE)
    for name, value in (server.settings | server.secrets).items():
        conf.set(name, value)
    os.environ.update(KEYS)
    context.environment.update(KEYS)
    give_store_settings(spark)
    try:
        yield
    finally:
        for name in server.settings | server.secrets:
            conf.unset(name)
        for name, was in kept.items():
            os.environ.pop(name) if was is None else os.environ.update({name: was})
            context.environment.pop(name)
        context.environment[VARIABLE] = given
