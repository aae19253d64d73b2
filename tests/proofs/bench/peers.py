"""Two other table formats that Spark writes, to compare our figures with theirs.

Both run as their documentation recommends, with the options that change least on disk: Delta with
deletion vectors, Iceberg with merge-on-read in format version 3. Their compactions are configured
to remove all deleted rows, as a major compaction does.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from tests.proofs.bench.data import RAISE, RAISED
from tests.proofs.bench.jars import Jar, fetch_jars
from tests.proofs.bench.sales import KEY, OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hiveacid.format.table import Column
    from tests.proofs.bench.lab import Lab

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"

_TARGET_BYTES: Final = 128 << 20
_MERGE: Final = f"""\
MERGE INTO {{table}} t USING changes s ON t.{KEY} = s.{KEY}
WHEN MATCHED AND s.{OPERATION} = 'D' THEN DELETE
WHEN MATCHED AND s.{OPERATION} = 'U' THEN UPDATE SET *
WHEN NOT MATCHED AND s.{OPERATION} = 'I' THEN INSERT *"""
_DELETE: Final = f"DELETE FROM {{table}} WHERE {KEY} IN (SELECT {KEY} FROM gone)"
_UPDATE: Final = f"UPDATE {{table}} SET {RAISE[0]} = {RAISE[1]} WHERE {RAISED}"
_DELTA_VERSION: Final = "4.4.0"
_DELTA_JARS: Final = tuple(
    Jar(group="io.delta", artifact=artifact, version=_DELTA_VERSION)
    for artifact in (
        "delta-spark_4.1_2.13",
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
)
_ICEBERG_JARS: Final = (
    Jar(
        group="org.apache.iceberg",
        artifact="iceberg-spark-runtime-4.1_2.13",
        version="1.12.0",
    ),
)


def delta_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a session with Delta; fetch its jars below a folder."""
    return {
        "spark.jars": ",".join(map(str, fetch_jars(_DELTA_JARS, folder / "jars" / DELTA))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        # With the default of 50 tasks for a log of a few kilobytes, mostly these would be measured.
        "spark.databricks.delta.snapshotPartitions": "4",
        "spark.databricks.delta.optimize.maxFileSize": str(_TARGET_BYTES),
        "spark.databricks.delta.optimize.minFileSize": str(_TARGET_BYTES),
    }


def iceberg_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a session with Iceberg; fetch its jar below a folder."""
    return {
        "spark.jars": ",".join(map(str, fetch_jars(_ICEBERG_JARS, folder / "jars" / ICEBERG))),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        f"spark.sql.catalog.{ICEBERG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{ICEBERG}.type": "hadoop",
        f"spark.sql.catalog.{ICEBERG}.warehouse": str(folder / f"lab-{ICEBERG}" / "iceberg"),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A Delta table at a path. Its log has relative file names, so a copy is a table, too."""

    spark: SparkSession
    path: Path

    @classmethod
    def create(cls, lab: Lab, name: str, _columns: Sequence[Column]) -> DeltaTable:
        """Return the table, which its first write creates."""
        return cls(spark=lab.spark, path=lab.folder / DELTA / name)

    @property
    def system(self) -> str:
        """Its name in records."""
        return DELTA

    @property
    def size_bytes(self) -> int:
        """Bytes of the current version's data files."""
        return int(self.spark.sql(f"DESCRIBE DETAIL {self._name}").collect()[0]["sizeInBytes"])

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Its only kind of compaction."""
        return {"major": self._compact}

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self.spark.read.format(DELTA).load(str(self.path))

    def overwrite(self, source: Path) -> int:
        """Write the first version."""
        return self._adding(
            lambda: self._read(source).write.format(DELTA).mode("overwrite").save(str(self.path))
        )

    def append(self, source: Path) -> int:
        """Add rows."""
        return self._adding(
            lambda: self._read(source).write.format(DELTA).mode("append").save(str(self.path))
        )

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys, by MERGE, since its DELETE takes no subquery."""
        self._read(keys).createOrReplaceTempView("gone")
        statement = (
            f"MERGE INTO {self._name} t USING gone s ON t.{KEY} = s.{KEY} WHEN MATCHED THEN DELETE"
        )
        return self._adding(lambda: self.spark.sql(statement).collect())

    def update(self) -> int:
        """Run the partial UPDATE of the workload."""
        return self._adding(lambda: self.spark.sql(_UPDATE.format(table=self._name)).collect())

    def merge(self, source: Path) -> int:
        """Run the MERGE of the workload."""
        self._read(source).createOrReplaceTempView("changes")
        return self._adding(lambda: self.spark.sql(_MERGE.format(table=self._name)).collect())

    def fork(self, name: str) -> DeltaTable:
        """Return a copy by hard links."""
        copy = self.path.with_name(name)
        shutil.copytree(self.path, copy, copy_function=os.link)
        return DeltaTable(spark=self.spark, path=copy)

    def drop(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.path, ignore_errors=True)

    def yardstick(self) -> None:
        """Return None: Spark cannot read its deletion vectors without it."""
        return

    def last_changes(self, *, pre_images: bool = True) -> None:  # noqa: ARG002 - as the others
        """Return None: it records changes only for tables configured so before they are written."""
        return

    def _compact(self) -> int:
        def work() -> None:
            self.spark.sql(f"OPTIMIZE {self._name}").collect()
            self.spark.sql(f"REORG TABLE {self._name} APPLY (PURGE)").collect()

        return self._adding(work)

    def _adding(self, work: Callable[[], object]) -> int:
        before = _bytes_below(self.path)
        work()
        return _bytes_below(self.path) - before

    def _read(self, source: Path) -> DataFrame:
        return self.spark.read.parquet(str(source))

    @property
    def _name(self) -> str:
        return f"{DELTA}.`{self.path}`"


@dataclass(slots=True, kw_only=True)
class IcebergTable:
    """A snapshot of an Iceberg table. Mutable: its own change moves it to a later snapshot.

    Forks share one table, whose current snapshot is the last fork's; only that fork may change.
    """

    spark: SparkSession
    name: str
    path: Path
    snapshot: int | None = field(default=None)
    is_fork: bool = field(default=False)

    @classmethod
    def create(cls, lab: Lab, name: str, _columns: Sequence[Column]) -> IcebergTable:
        """Return the table, which its first write creates."""
        path = lab.folder / ICEBERG / "bench" / name
        return cls(spark=lab.spark, name=f"{ICEBERG}.bench.{name}", path=path)

    @property
    def system(self) -> str:
        """Its name in records."""
        return ICEBERG

    @property
    def size_bytes(self) -> int:
        """Bytes of the snapshot's data and delete files."""
        files = self._load(f"{self.name}.files").agg(F.sum("file_size_in_bytes"))
        return int(files.collect()[0][0])

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Its only kind of compaction of rows."""
        return {"major": self._compact}

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self._load(self.name)

    def overwrite(self, source: Path) -> int:
        """Write the first snapshot."""
        writer = self._read(source).writeTo(self.name).using(ICEBERG)
        writer = writer.tableProperty("format-version", "3")
        for change in ("delete", "update", "merge"):
            writer = writer.tableProperty(f"write.{change}.mode", "merge-on-read")
        return self._adding(writer.createOrReplace)

    def append(self, source: Path) -> int:
        """Add rows."""
        return self._adding(lambda: self._read(source).writeTo(self.name).append())

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys."""
        self._read(keys).createOrReplaceTempView("gone")
        return self._adding(lambda: self.spark.sql(_DELETE.format(table=self.name)).collect())

    def update(self) -> int:
        """Run the partial UPDATE of the workload."""
        return self._adding(lambda: self.spark.sql(_UPDATE.format(table=self.name)).collect())

    def merge(self, source: Path) -> int:
        """Run the MERGE of the workload."""
        self._read(source).createOrReplaceTempView("changes")
        return self._adding(lambda: self.spark.sql(_MERGE.format(table=self.name)).collect())

    def fork(self, name: str) -> IcebergTable:
        """Return the same snapshot of the same table, made current; `name` is not needed."""
        del name
        snapshot = self._pinned()
        _, catalog_name = self.name.split(".", 1)
        self.spark.sql(
            f"CALL {ICEBERG}.system.set_current_snapshot('{catalog_name}', {snapshot})"
        ).collect()
        return IcebergTable(spark=self.spark, name=self.name, path=self.path, is_fork=True)

    def drop(self) -> None:
        """Drop the table; a fork has nothing of its own."""
        if not self.is_fork:
            self.spark.sql(f"DROP TABLE {self.name} PURGE").collect()

    def yardstick(self) -> None:
        """Return None: its row positions are not in its files."""
        return

    def last_changes(self, *, pre_images: bool = True) -> None:  # noqa: ARG002 - as the others
        """Return None: its changelog does not support files of deleted positions."""
        return

    def _compact(self) -> int:
        _, catalog_name = self.name.split(".", 1)
        options = {
            "target-file-size-bytes": str(_TARGET_BYTES),
            "min-input-files": "2",
            "delete-file-threshold": "1",
            "remove-dangling-deletes": "true",
        }
        texts = ", ".join(f"'{text}'" for pair in options.items() for text in pair)
        return self._adding(
            lambda: self.spark.sql(
                f"CALL {ICEBERG}.system.rewrite_data_files("
                f"table => '{catalog_name}', options => map({texts}))"
            ).collect()
        )

    def _adding(self, work: Callable[[], object]) -> int:
        before = _bytes_below(self.path)
        work()
        self.snapshot = None
        return _bytes_below(self.path) - before

    def _pinned(self) -> int:
        """Return its snapshot's ID; read after a change, outside the measurement."""
        if self.snapshot is None:
            refs = self.spark.read.table(f"{self.name}.refs").where("name = 'main'")
            self.snapshot = int(refs.select("snapshot_id").collect()[0][0])
        return self.snapshot

    def _load(self, name: str) -> DataFrame:
        # Spark's own option for time travel; Iceberg's `snapshot-id` was removed in its 1.12.
        reader = self.spark.read.format(ICEBERG).option("versionAsOf", self._pinned())
        return reader.load(name)

    def _read(self, source: Path) -> DataFrame:
        return self.spark.read.parquet(str(source))


def _bytes_below(path: Path) -> int:
    """Return the bytes of all files except Hadoop's checksums, which belong to no format."""
    return sum(
        file.stat().st_size
        for file in path.rglob("*")
        if file.is_file() and not file.name.endswith(".crc")
    )
