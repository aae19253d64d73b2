"""The yardstick: plain ORC files that Spark writes, reads and, to change a row, rewrites."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from tests.proofs.bench.sales import KEY, OPERATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOrc:
    """A folder of ORC files. A rewrite makes another folder and leaves this one unchanged."""

    spark: SparkSession
    path: Path

    @classmethod
    def write(cls, spark: SparkSession, source: Path, path: Path) -> FlatOrc:
        """Write the rows of Parquet files into a folder."""
        _read(spark, source).write.orc(str(path))
        return cls(spark=spark, path=path)

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self.rows()

    def rows(self) -> DataFrame:
        """Return its rows; flat files need no snapshot."""
        return self.spark.read.orc(str(self.path))

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(file.stat().st_size for file in self.path.glob("*.orc"))

    def append(self, source: Path) -> int:
        """Add the rows of a Parquet file, and return the bytes written."""
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
        """Rewrite it as the MERGE of the workload requires.

        It works for any source, like a MERGE: U and D act on existing rows, I on missing keys.
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
    """Return the rows of Parquet files, with timestamps that Spark writes as ORC's timestamps."""
    rows = spark.read.parquet(str(source))
    names = [field.name for field in rows.schema if isinstance(field.dataType, TimestampNTZType)]
    return rows.withColumns({name: F.col(name).cast("timestamp") for name in names})
