"""The tables of TPC-DS as ACID tables, their changes, and the expected answers of the queries.

The truth is Spark's answer over the flat files, without the rows that were deleted.

Example:
    course = Course(lab, folder)
    course.load()
    course.compare("loaded", numbers=(3, 7))
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sqlglot
from pyspark.sql import DataFrame, Row
from sqlglot import exp

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from tests.support.spark_lab import Lab

_PARTITIONED: Final = {"store_sales": "ss_promo_sk", "inventory": "inv_warehouse_sk"}
_BUCKETED: Final = {"web_sales": ("ws_item_sk", 4), "customer": ("c_customer_sk", 2)}
_GONE: Final = {
    "store_sales": "ss_ticket_number % 7 = 3 OR ss_promo_sk = 2",
    "catalog_sales": "cs_quantity BETWEEN 20 AND 30",
    "web_sales": "ws_item_sk % 5 = 1",
    "store_returns": "sr_return_quantity IS NULL",
    "inventory": "inv_item_sk % 3 = 0",
    "customer": "c_customer_sk % 10 = 9",
    "item": "i_item_sk % 11 = 4",
}
"""The rows to delete, by table."""


@dataclass(kw_only=True)
class Course:
    """The tables of one run, with the answers so far.

    `folder` has the output of `generate`; `names` are those of tables, empty for all.
    """

    lab: Lab
    folder: Path
    names: Sequence[str] = ()
    _answers: dict[tuple[bool, int], Counter[Row]] = field(default_factory=dict)
    _are_deleted: bool = False

    def __post_init__(self) -> None:
        self.names = self.names or sorted(p.stem for p in self.folder.glob("*.parquet"))
        self.queries = [
            _without_limit(query)
            for query in json.loads((self.folder / "queries.json").read_text())
        ]

    def load(self) -> None:
        """Create the tables and fill each by two inserts."""
        for name in self.names:
            flat = self._flat(name)
            columns = dict(flat.dtypes)
            own = _PARTITIONED.get(name)
            partition = {own: columns.pop(own)} if own else None
            self.lab.table(name, columns, partition=partition, buckets=_BUCKETED.get(name))
        for half in (0, 1):
            for name in self.names:
                first, second = self._flat(name).columns[:2]
                source = SourceSpec(
                    format="parquet",
                    location=f"{self.folder}/{name}.parquet",
                    query=f"SELECT * FROM source WHERE pmod(hash({first}, {second}), 2) = {half}",
                )
                self.lab.run(InsertSpec(target=f"{self.lab.db}.{name}", source=source))

    def delete(self) -> None:
        """Delete some rows of some tables."""
        for name in self.names:
            if name in _GONE:
                self.lab.delete(name, _GONE[name])
        self._are_deleted = True

    def compact(self, choice: CompactionChoice) -> None:
        """Compact and clean every table; Hive 4 refuses another compaction before the cleaning."""
        for name in self.names:
            self.lab.compact(name, choice)
            self.lab.clean(name)

    def compare(self, stage: str, numbers: Iterable[int] = range(1, 100)) -> list[str]:
        """Return a line for each query that answers differently than over flat files."""
        wanted = list(numbers)
        unknown = [n for n in wanted if (self._are_deleted, n) not in self._answers]
        self._show(self._flat_now)
        self._answers |= {(self._are_deleted, n): self._answer(n) for n in unknown}
        self._show(self.lab.frame)
        return [line for n in wanted if (line := self._difference(stage, n))]

    def rows(self, numbers: Iterable[int]) -> int:
        """Return the number of rows in these queries' answers; with none, nothing was compared."""
        return sum(self._answers[self._are_deleted, number].total() for number in numbers)

    def _difference(self, stage: str, number: int) -> str:
        truth, answer = self._answers[self._are_deleted, number], self._answer(number)
        if answer == truth:
            return ""
        return (
            f"{stage}, query {number}: {truth.total()} rows over flat files, {answer.total()} over"
            f" ACID tables; missing {list(truth - answer)[:3]}, too many {list(answer - truth)[:3]}"
        )

    def _answer(self, number: int) -> Counter[Row]:
        # The benchmark's queries divide by possible zeros, and then expect null.
        with self._without_ansi():
            return Counter(self.lab.spark.sql(self.queries[number - 1]).collect())

    @contextmanager
    def _without_ansi(self) -> Iterator[None]:
        settings, name = self.lab.spark.conf, "spark.sql.ansi.enabled"
        before = str(settings.get(name))
        settings.set(name, "false")
        try:
            yield
        finally:
            settings.set(name, before)

    def _show(self, frame_of: Callable[[str], DataFrame]) -> None:
        for name in self.names:
            frame_of(name).createOrReplaceTempView(name)

    def _flat(self, name: str) -> DataFrame:
        return self.lab.spark.read.parquet(f"{self.folder}/{name}.parquet")

    def _flat_now(self, name: str) -> DataFrame:
        gone = _GONE.get(name) if self._are_deleted else None
        flat = self._flat(name)
        return flat if gone is None else flat.where(f"NOT coalesce({gone}, false)")


def _without_limit(query: str) -> str:
    """Return the query without order and limit, since ties may come in any order."""
    parsed = sqlglot.parse_one(query, read="duckdb")
    parsed.set("limit", None)
    parsed.set("order", None)
    for one in parsed.find_all(exp.Select):
        if one.parent is None or isinstance(one.parent, exp.Union):
            one.set("limit", None)
    return parsed.sql("spark")
