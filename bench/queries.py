"""Knows the five questions that scans are measured with, and the columns that each is about.

From almost nothing to everything: how many rows; one column; a filter that keeps one row in fifty;
every column of every row; a join with a small table. Who reads a full-ACID table names the columns
it wants; of flat files Spark finds them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader knows

from bench.data import CUSTOMERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

Answer = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question to a frame that has at least these columns; None means all."""

    columns: tuple[str, ...] | None
    ask: Callable[[DataFrame], Answer]


def count_rows(rows: DataFrame) -> Answer:
    """SELECT count(*)."""
    return _answer(rows.agg(F.count(F.lit(1))))


def sum_one_column(rows: DataFrame) -> Answer:
    """SELECT sum(paid)."""
    return _answer(rows.agg(F.sum("paid")))


def filter_and_group(rows: DataFrame) -> Answer:
    """Two conditions, then sums by channel."""
    few = rows.where(
        (F.col("status") == "paid") & F.col("sold_on").between("2023-01-01", "2023-06-30")
    )
    return _answer(few.groupBy("channel").agg(F.count(F.lit(1)), F.sum("paid")).orderBy("channel"))


def read_everything(rows: DataFrame) -> Answer:
    """Every column of every row, in Spark's own row format, and nothing done with it."""
    # Not the `noop` sink: Delta with deletion vectors refuses it (delta-io/delta#4794).
    return ((rows._jdf.queryExecution().toRdd().count(),),)  # noqa: SLF001 - only the JVM has this


def join_and_group(rows: DataFrame) -> Answer:
    """Sums by the customers' segment, which another table knows."""
    customers = rows.sparkSession.range(1, CUSTOMERS).select(
        F.col("id").alias("customer_id"), (F.col("id") % 10).alias("segment")
    )
    joined = rows.join(customers, "customer_id")
    return _answer(
        joined.groupBy("segment").agg(F.count(F.lit(1)), F.sum("paid")).orderBy("segment")
    )


QUERIES: Final[Mapping[str, Query]] = {
    "count": Query(columns=(), ask=count_rows),
    "sum": Query(columns=("paid",), ask=sum_one_column),
    "filter": Query(columns=("status", "sold_on", "channel", "paid"), ask=filter_and_group),
    "all": Query(columns=None, ask=read_everything),
    "join": Query(columns=("customer_id", "paid"), ask=join_and_group),
}


def _answer(frame: DataFrame) -> Answer:
    return tuple(tuple(row) for row in frame.collect())
