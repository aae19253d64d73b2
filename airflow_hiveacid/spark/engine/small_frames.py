"""Spark frames of a few rows that the driver has in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from pyspark.sql import DataFrame, SparkSession


def small_frame(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
    """Return a frame of strings and integers.

    The rows are passed as Arrow data. Spark keeps such rows on the driver. For a Python list, Spark
    would start tasks, and their Python workers would unpickle the rows. `schema` has the columns in
    the order of the rows' values, in Spark's DDL syntax.
    """
    if not rows:
        return spark.createDataFrame([], schema)
    return spark.createDataFrame(pd.DataFrame(rows, dtype=object), schema)
