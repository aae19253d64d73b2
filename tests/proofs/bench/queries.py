"""The five questions that scans are measured with, and the columns that each needs.

They range from almost nothing to everything: the number of rows; one column; a filter that keeps
one row in fifty; every column of every row; a join with a small table. A reader of a full-ACID
table names its columns; for flat files, Spark determines them.

A table with a timestamp and a char gets the same questions twice: without these two, and with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, functions as F

from tests.proofs.bench.sales import COLUMNS, CUSTOMERS

Answer = tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question to a frame with at least these columns; None means all."""

    columns: tuple[str, ...] | None
    ask: Callable[[DataFrame], Answer]


def count_rows(rows: DataFrame) -> Answer:
    return _answer(rows.agg(F.count(F.lit(1))))


def sum_one_column(rows: DataFrame, more: Sequence[Column] = ()) -> Answer:
    """Answer SELECT sum(paid)."""
    return _answer(rows.agg(F.sum("paid"), *more))


def filter_and_group(rows: DataFrame, more: Sequence[Column] = (), day: str = "sold_on") -> Answer:
    """Answer with two conditions, then sums by channel."""
    few = rows.where((F.col("status") == "paid") & F.col(day).between("2023-01-01", "2023-06-30"))
    sums = few.groupBy("channel").agg(F.count(F.lit(1)), F.sum("paid"), *more)
    return _answer(sums.orderBy("channel"))


def read_everything(rows: DataFrame) -> Answer:
    """Read every column of every row in Spark's row format, without further work."""
    # Not the `noop` sink: Delta with deletion vectors refuses it (delta-io/delta#4794).
    return ((rows._jdf.queryExecution().toRdd().count(),),)


def read_columns(rows: DataFrame, names: Sequence[str]) -> Answer:
    """Read every row of these columns."""
    return read_everything(rows.select(*names))


def join_and_group(rows: DataFrame, more: Sequence[Column] = ()) -> Answer:
    """Answer with sums by the customers' segment, which is in another table."""
    customers = rows.sparkSession.range(1, CUSTOMERS).select(
        F.col("id").alias("customer_id"), (F.col("id") % 10).alias("segment")
    )
    joined = rows.join(customers, "customer_id").groupBy("segment")
    return _answer(joined.agg(F.count(F.lit(1)), F.sum("paid"), *more).orderBy("segment"))


QUERIES: Final[Mapping[str, Query]] = {
    "count": Query(columns=(), ask=count_rows),
    "sum": Query(columns=("paid",), ask=sum_one_column),
    "filter": Query(columns=("status", "sold_on", "channel", "paid"), ask=filter_and_group),
    "all": Query(columns=None, ask=read_everything),
    "join": Query(columns=("customer_id", "paid"), ask=join_and_group),
}
STAMPED: Final = ("sum", "filter", "all", "join")
"""The questions that need columns."""


_PLAIN: Final = tuple(column.name for column in COLUMNS)
_STAMPS: Final = ("sold_at", "grade")


def plain_queries() -> Mapping[str, Query]:
    """Return questions to a table with a timestamp and a char that need neither."""
    everything = Query(columns=_PLAIN, ask=partial(read_columns, names=_PLAIN))
    return {name: QUERIES[name] for name in STAMPED} | {"all": everything}


def stamped_queries() -> Mapping[str, Query]:
    """Return the same questions with the timestamp and the char added."""
    # As text: a timestamp of a flat file has a time zone, that of a Hive table has none.
    more = (F.max("sold_at").cast("string"), F.max("grade"))
    asked: Mapping[str, Callable[[DataFrame], Answer]] = {
        "sum": partial(sum_one_column, more=more),
        "filter": partial(filter_and_group, more=more, day="sold_at"),
        "all": partial(read_columns, names=(*_PLAIN, *_STAMPS)),
        "join": partial(join_and_group, more=more),
    }
    return {
        name: Query(columns=(*(QUERIES[name].columns or _PLAIN), *_STAMPS), ask=asked[name])
        for name in STAMPED
    }


def _answer(frame: DataFrame) -> Answer:
    return tuple(tuple(row) for row in frame.collect())
