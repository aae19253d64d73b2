"""Knows the yardstick: plain ORC files that Spark writes, reads and, to change a row, rewrites."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader knows
from pyspark.sql.types import TimestampNTZType

from bench.sales import KEY, OPERATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOrc:
    """A folder of ORC files. A rewrite makes another folder and leaves this one as it is."""

    spark: SparkSession
    path: Path

    @classmethod
    def write(cls, spark: SparkSession, source: Path, path: Path) -> FlatOrc:
        """Make a folder of the rows of Parquet files."""
        _read(spark, source).write.orc(str(path))
        return cls(spark=spark, path=path)

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Its rows with all columns: Spark finds out which ones are needed."""
        del columns
        yield self.rows()

    def rows(self) -> DataFrame:
        """As `frame`; flat files need no snapshot."""
        return self.spark.read.orc(str(self.path))

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(file.stat().st_size for file in self.path.glob("*.orc"))

    def append(self, source: Path) -> int:
        """Add the rows of a Parquet file; the bytes that were written."""
        before = self.size_bytes
        _read(self.spark, source).write.mode("append").orc(str(self.path))
        return self.size_bytes - before

    def without(self, keys: Sequence[Path], path: Path) -> FlatOrc:
        """Rewrite it without the rows of these keys."""
        gone = self.spark.read.parquet(*[str(file) for file in keys])
        return self._rewritten(self.rows().join(F.broadcast(gone), KEY, "left_anti"), path)

    def set_column(self, column: str, value: str, where: str, path: Path) -> FlatOrc:
        """Rewrite it with another value, an SQL expression, in one column of some rows."""
        chosen = F.expr(f"CASE WHEN {where} THEN {value} ELSE {column} END")
        return self._rewritten(self.rows().withColumn(column, chosen), path)

    def merged(self, source: Path, path: Path) -> FlatOrc:
        """Rewrite it as the MERGE of the workload asks.

        For any source, as a MERGE must: U and D act on rows that are there, I on keys that are not.
        """
        target, changes = self.rows(), self.spark.read.parquet(str(source))
        keys = target.select(KEY)
        gone = changes.where(F.col(OPERATION).isin("U", "D")).select(KEY)
        updated = changes.where(F.col(OPERATION) == "U").join(keys, KEY, "left_semi")
        inserted = changes.where(F.col(OPERATION) == "I").join(keys, KEY, "left_anti")
        parts = [target.join(F.broadcast(gone), KEY, "left_anti"), updated, inserted]
        first, *others = [part.select(target.columns) for part in parts]
        for other in others:
            first = first.unionByName(other)
        return self._rewritten(first, path)

    def _rewritten(self, rows: DataFrame, path: Path) -> FlatOrc:
        rows.write.orc(str(path))
        return FlatOrc(spark=self.spark, path=path)


def _read(spark: SparkSession, source: Path) -> DataFrame:
    """The rows of Parquet files; timestamps of the kind that Spark writes as ORC's timestamps."""
    rows = spark.read.parquet(str(source))
    names = [field.name for field in rows.schema if isinstance(field.dataType, TimestampNTZType)]
    return rows.withColumns({name: F.col(name).cast("timestamp") for name in names})
