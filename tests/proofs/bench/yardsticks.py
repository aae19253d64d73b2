"""The yardsticks: plain ORC files, folders of them as a partitioned table, Spark's own compaction.

Spark writes and reads flat files and, to change a row, rewrites them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import TimestampNTZType

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.directories import AcidDirectory
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DAY
from tests.proofs.bench.sales import KEY, OPERATION

PARTITION_SETTINGS: Final = {
    # Folders of a question's partitions are listed again for each question, since we do, too.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # With Spark's default of one task per folder, mostly those tasks would be measured.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
_IDENTITY: Final = ("originalTransaction", "bucket", "rowId")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatOrc:
    """A folder of ORC files. A rewrite makes another folder and leaves this one unchanged."""

    spark: SparkSession
    path: Path

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self._rows()

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return _orc_bytes(self.path)

    def append(self, source: Path) -> int:
        """Add the rows of Parquet files, and return the bytes written."""
        before = self.size_bytes
        rows = self.spark.read.parquet(str(source))
        # Spark writes timestamps without a time zone otherwise than as ORC's timestamps.
        names = [f.name for f in rows.schema if isinstance(f.dataType, TimestampNTZType)]
        rows = rows.withColumns({name: F.col(name).cast("timestamp") for name in names})
        rows.write.mode("append").orc(str(self.path))
        return self.size_bytes - before

    def without(self, keys: Sequence[Path], path: Path) -> FlatOrc:
        """Rewrite it without the rows of these keys."""
        gone = self.spark.read.parquet(*[str(file) for file in keys])
        return self._rewritten(self._rows().join(F.broadcast(gone), KEY, "left_anti"), path)

    def set_column(self, column: str, value: str, where: str, path: Path) -> FlatOrc:
        """Rewrite it with another value, an SQL expression, in one column of some rows."""
        chosen = F.expr(f"CASE WHEN {where} THEN {value} ELSE {column} END")
        return self._rewritten(self._rows().withColumn(column, chosen), path)

    def merged(self, source: Path, path: Path) -> FlatOrc:
        """Rewrite it as the MERGE of the workload requires.

        It works for any source, like a MERGE: U and D act on existing rows, I on missing keys.
        """
        target, changes = self._rows(), self.spark.read.parquet(str(source))
        keys = target.select(KEY)
        gone = changes.where(F.col(OPERATION).isin("U", "D")).select(KEY)
        updated = changes.where(F.col(OPERATION) == "U").join(keys, KEY, "left_semi")
        inserted = changes.where(F.col(OPERATION) == "I").join(keys, KEY, "left_anti")
        parts = [target.join(F.broadcast(gone), KEY, "left_anti"), updated, inserted]
        first, *others = [part.select(target.columns) for part in parts]
        for other in others:
            first = first.unionByName(other)
        return self._rewritten(first, path)

    def drop(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.path)

    def _rows(self) -> DataFrame:
        return self.spark.read.orc(str(self.path))

    def _rewritten(self, rows: DataFrame, path: Path) -> FlatOrc:
        rows.write.orc(str(path))
        return FlatOrc(spark=self.spark, path=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatPartitions:
    """A partitioned table of Spark's over existing folders of flat ORC files.

    Spark's in-memory catalog has the partitions and prunes them, which costs less than any
    metastore.
    """

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
        return _orc_bytes(self.path)

    def drop(self) -> None:
        """Remove it from the catalog; the files stay."""
        self.spark.sql(f"DROP TABLE {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCompaction:
    """A compaction of one state of a table into a separate folder: Spark decodes and encodes.

    It does the least that gives the same rows: no order by row ID, no key index, no transaction.
    `root` is the table's folder; `buckets` is the number of files of a result.
    """

    spark: SparkSession
    root: Path
    state: AcidState
    buckets: int

    def run(self, kind: str, folder: Path) -> int:
        """Compact, `minor` or `major`, and return the bytes written."""
        if kind == "minor":
            deltas = self._read(self.state.deltas).coalesce(self.buckets)
            _write(deltas, folder / "delta")
            delete_deltas = self._read(self.state.delete_deltas).coalesce(self.buckets)
            _write(delete_deltas, folder / "delete_delta")
        else:
            _write(self._live_events(), folder / "base")
        return _orc_bytes(folder)

    def rows(self, folder: Path) -> DataFrame:
        """Return the table's rows in a result of `major`."""
        return self.spark.read.orc(str(folder / "base")).select("event_row.*")

    def _live_events(self) -> DataFrame:
        """Return the insert events of the remaining rows."""
        base = [self.state.base] if self.state.base is not None else []
        # ORC mistakes a reader of some ACID columns for a reader of the table's columns
        # (SchemaEvolution), and fails. So read all of them, by a condition that always holds.
        deleted = self._read(self.state.delete_deltas).where(
            F.col("row").isNull() & (F.col("operation") + F.col("currentTransaction") > 0)
        )
        inserts = self._read([*base, *self.state.deltas])
        gone = deleted.select(*_IDENTITY)
        return inserts.join(F.broadcast(gone), list(_IDENTITY), "left_anti")

    def _read(self, directories: Iterable[AcidDirectory]) -> DataFrame:
        files = [str(self.root / file.path) for d in directories for file in d.files]
        return self.spark.read.orc(files)


def _write(events: DataFrame, path: Path) -> None:
    """Write the events under other names, so that ORC lets some of the columns be read back."""
    renamed = events.select(*[F.col(name).alias(f"event_{name}") for name in events.columns])
    renamed.write.orc(str(path))


def _orc_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.orc"))
