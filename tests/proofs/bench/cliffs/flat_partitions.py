"""The yardstick of a partitioned table: flat ORC files in folders, as a table of Spark's.

Spark's in-memory catalog has the partitions and prunes them, which costs less than any metastore.
It lists the folders of a question's partitions again for each question, since we do, too
(`SETTINGS`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETTINGS: Final = {
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # With Spark's default of one task per folder, mostly those tasks would be measured.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPartitions:
    """A partitioned table of Spark's over existing folders."""

    spark: SparkSession
    name: str
    path: Path

    @classmethod
    def over(cls, spark: SparkSession, name: str, path: Path) -> FlatPartitions:
        """Create the table in the catalog, with the partitions in its folder."""
        # A flat file contains no padding of a char; ours leaves it out, too.
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
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        rows = self.spark.table(self.name)
        yield rows if where is None else rows.where(where)

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(file.stat().st_size for file in self.path.rglob("*.orc"))

    def drop(self) -> None:
        """Remove it from the catalog; the files stay."""
        self.spark.sql(f"DROP TABLE {self.name}")
