"""Knows the yardstick of a partitioned table: flat ORC files in folders, as a table of Spark's.

Spark's own catalog in memory knows the partitions and prunes them, which costs less than any
metastore; what it lists are the folders of the partitions that a question is about, anew for each
question, since we do, too (`SETTINGS`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.cliffs.rows import CLIFF_COLUMNS, DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = {
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # One task a folder, as is Spark's default, would be most of what is measured.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPartitions:
    """A partitioned table of Spark's over folders that are there."""

    spark: SparkSession
    name: str
    path: Path

    @classmethod
    def over(cls, spark: SparkSession, name: str, path: Path) -> FlatPartitions:
        """Make the table known, and the partitions in its folder."""
        # A char's padding is no part of a flat file: ours comes without it, too.
        types = {c.name: "string" if c.type.startswith("char") else c.type for c in CLIFF_COLUMNS}
        columns = ", ".join(f"{column} {type_}" for column, type_ in types.items())
        spark.sql(
            f"CREATE TABLE {name} ({columns}, {DAY.name} {DAY.type}) USING orc"
            f" PARTITIONED BY ({DAY.name}) LOCATION '{path}'"
        )
        spark.catalog.recoverPartitions(name)
        return cls(spark=spark, name=name, path=path)

    @contextmanager
    def frame(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[DataFrame]:
        """Its rows with all columns: Spark finds out which ones are needed."""
        del columns
        rows = self.spark.table(self.name)
        yield rows if where is None else rows.where(where)

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(file.stat().st_size for file in self.path.rglob("*.orc"))

    def drop(self) -> None:
        """Forget it; the files stay."""
        self.spark.sql(f"DROP TABLE {self.name}")
