"""Spark frames of a few rows that the driver has in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from pyspark.sql import DataFrame, SparkSession


def small_frame(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Return a frame of strings and integers.

    Spark keeps rows of Arrow data on the driver; for a Python list, it would start tasks. `schema`
    has the columns in order, in Spark's DDL syntax.
    """
    if not rows:
        return spark.createDataFrame([], schema)
    return spark.createDataFrame(pd.DataFrame(rows, dtype=object), schema)
