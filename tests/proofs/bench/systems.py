"""The systems that can be measured: ours, and two other table formats that Spark writes.

The others run as their documentation recommends, with the options that change least on disk: Delta
with deletion vectors, Iceberg with merge-on-read in format version 3. Their compactions are
configured to remove all deleted rows, as a major compaction does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_hiveacid.format.table import Column
from airflow_hiveacid.local.process import DownloadError, MissingProgramError, tail
from airflow_hiveacid.local.releases import DEPENDENCY_PLUGIN
from tests.proofs.bench import acid, contender, data, records
from tests.proofs.bench.lab import Lab
from tests.proofs.bench.sales import KEY, OPERATION

_DELTA: Final = "delta"
_ICEBERG: Final = "iceberg"
_TARGET_BYTES: Final = 128 << 20
_MERGE: Final = f"""\
MERGE INTO {{table}} t USING changes s ON t.{KEY} = s.{KEY}
WHEN MATCHED AND s.{OPERATION} = 'D' THEN DELETE
WHEN MATCHED AND s.{OPERATION} = 'U' THEN UPDATE SET *
WHEN NOT MATCHED AND s.{OPERATION} = 'I' THEN INSERT *"""
_UPDATE: Final = f"UPDATE {{table}} SET {data.RAISE[0]} = {data.RAISE[1]} WHERE {data.RAISED}"
_DELTA_JARS: Final = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "io.delta:delta-storage:4.4.0",
    "io.delta:delta-kernel-api:4.4.0",
    "io.delta:delta-kernel-defaults:4.4.0",
    "io.delta:delta-kernel-unitycatalog:4.4.0",
)
_ICEBERG_JARS: Final = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",)


@dataclass(kw_only=True)
class _Peer(ABC):
    """A table of another format; `name` is its name in SQL. Its first write creates it."""

    spark: SparkSession
    name: str
    path: Path

    @abstractmethod
    def _compact(self) -> int: ...

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Its only kind of compaction of rows."""
        return {"major": self._compact}

    def update(self) -> int:
        return self.run_sql(_UPDATE.format(table=self.name))

    def merge(self, source: Path) -> int:
        self._read(source).createOrReplaceTempView("changes")
        return self.run_sql(_MERGE.format(table=self.name))

    def yardstick(self) -> None:
        """Return None: Spark alone reads neither deletion vectors nor row positions."""
        return

    def last_changes(self, *, pre_images: bool = True) -> None:  # noqa: ARG002 - as ours
        """Return None.

        Delta records changes only for tables configured so before they are written; Iceberg's
        changelog does not support files of deleted positions.
        """
        return

    def run_sql(self, *statements: str) -> int:
        """Run statements, and return the bytes of the files that this adds."""
        return self._adding(lambda: [self.spark.sql(one).collect() for one in statements])

    def _adding(self, work: Callable[[], object]) -> int:
        """Work, and return the bytes of the files that this adds."""
        before = _bytes_below(self.path)
        work()
        return _bytes_below(self.path) - before

    def _read(self, source: Path) -> DataFrame:
        return self.spark.read.parquet(str(source))


class DeltaTable(_Peer):
    """A Delta table at a path. Its log has relative file names, so a copy is a table, too."""

    system = _DELTA

    @classmethod
    def create(cls, lab: Lab, name: str, _columns: Sequence[Column]) -> DeltaTable:
        return cls._at(lab.spark, lab.folder / _DELTA / name)

    @classmethod
    def _at(cls, spark: SparkSession, path: Path) -> DeltaTable:
        return cls(spark=spark, name=f"{_DELTA}.`{path}`", path=path)

    @property
    def size_bytes(self) -> int:
        """Bytes of the current version's data files."""
        return int(self.spark.sql(f"DESCRIBE DETAIL {self.name}").collect()[0]["sizeInBytes"])

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self.spark.read.format(_DELTA).load(str(self.path))

    def overwrite(self, source: Path) -> int:
        return self._save(source, "overwrite")

    def append(self, source: Path) -> int:
        return self._save(source, "append")

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys, by MERGE, since its DELETE takes no subquery."""
        self._read(keys).createOrReplaceTempView("gone")
        return self.run_sql(
            f"MERGE INTO {self.name} t USING gone s ON t.{KEY} = s.{KEY} WHEN MATCHED THEN DELETE"
        )

    def fork(self, name: str) -> DeltaTable:
        """Return a copy by hard links."""
        copy = self.path.with_name(name)
        shutil.copytree(self.path, copy, copy_function=os.link)
        return self._at(self.spark, copy)

    def drop(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _compact(self) -> int:
        return self.run_sql(f"OPTIMIZE {self.name}", f"REORG TABLE {self.name} APPLY (PURGE)")

    def _save(self, source: Path, mode: str) -> int:
        return self._adding(
            lambda: self._read(source).write.format(_DELTA).mode(mode).save(str(self.path))
        )


@dataclass(kw_only=True)
class IcebergTable(_Peer):
    """A snapshot of an Iceberg table. Mutable: its own change moves it to a later snapshot.

    Forks share one table, whose current snapshot is the last fork's; only that fork may change.
    """

    snapshot: int | None = None
    is_fork: bool = False
    system = _ICEBERG

    @classmethod
    def create(cls, lab: Lab, name: str, _columns: Sequence[Column]) -> IcebergTable:
        path = lab.folder / _ICEBERG / "bench" / name
        return cls(spark=lab.spark, name=f"{_ICEBERG}.bench.{name}", path=path)

    @property
    def size_bytes(self) -> int:
        """Bytes of the snapshot's data and delete files."""
        files = self._load(f"{self.name}.files").agg(F.sum("file_size_in_bytes"))
        return int(files.collect()[0][0])

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Yield its rows with all columns: Spark determines those it needs."""
        del columns
        yield self._load(self.name)

    def overwrite(self, source: Path) -> int:
        writer = self._read(source).writeTo(self.name).using(_ICEBERG)
        writer = writer.tableProperty("format-version", "3")
        for change in ("delete", "update", "merge"):
            writer = writer.tableProperty(f"write.{change}.mode", "merge-on-read")
        return self._adding(writer.createOrReplace)

    def append(self, source: Path) -> int:
        return self._adding(lambda: self._read(source).writeTo(self.name).append())

    def delete(self, keys: Path) -> int:
        self._read(keys).createOrReplaceTempView("gone")
        return self.run_sql(f"DELETE FROM {self.name} WHERE {KEY} IN (SELECT {KEY} FROM gone)")

    def fork(self, name: str) -> IcebergTable:
        """Return the same snapshot of the same table, made current; `name` is not needed."""
        del name
        snapshot = self._pinned()
        self.spark.sql(
            f"CALL {_ICEBERG}.system.set_current_snapshot('{self._catalog_name}', {snapshot})"
        ).collect()
        return IcebergTable(spark=self.spark, name=self.name, path=self.path, is_fork=True)

    def drop(self) -> None:
        """Drop the table; a fork has nothing of its own."""
        if not self.is_fork:
            self.spark.sql(f"DROP TABLE {self.name} PURGE").collect()

    def _compact(self) -> int:
        options = {
            "target-file-size-bytes": str(_TARGET_BYTES),
            "min-input-files": "2",
            "delete-file-threshold": "1",
            "remove-dangling-deletes": "true",
        }
        texts = ", ".join(f"'{text}'" for pair in options.items() for text in pair)
        return self.run_sql(
            f"CALL {_ICEBERG}.system.rewrite_data_files("
            f"table => '{self._catalog_name}', options => map({texts}))"
        )

    def _adding(self, work: Callable[[], object]) -> int:
        size_bytes = super()._adding(work)
        self.snapshot = None
        return size_bytes

    @property
    def _catalog_name(self) -> str:
        return self.name.split(".", 1)[1]

    def _pinned(self) -> int:
        """Return its snapshot's ID; read after a change, outside the measurement."""
        if self.snapshot is None:
            refs = self.spark.read.table(f"{self.name}.refs").where("name = 'main'")
            self.snapshot = int(refs.select("snapshot_id").collect()[0][0])
        return self.snapshot

    def _load(self, name: str) -> DataFrame:
        # Spark's own option for time travel; Iceberg's `snapshot-id` was removed in its 1.12.
        reader = self.spark.read.format(_ICEBERG).option("versionAsOf", self._pinned())
        return reader.load(name)


def _bytes_below(path: Path) -> int:
    """Return the bytes of all files except Hadoop's checksums, which belong to no format."""
    return sum(
        file.stat().st_size
        for file in path.rglob("*")
        if file.is_file() and not file.name.endswith(".crc")
    )


# ---- their jars and settings ---------------------------------------------------------------------


def _delta_settings(folder: Path) -> dict[str, str]:
    return {
        "spark.jars": jars_below(_DELTA_JARS, folder / "jars" / _DELTA),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
        # With the default of 50 tasks for a log of a few kilobytes, mostly these would be measured.
        "spark.databricks.delta.snapshotPartitions": "4",
        "spark.databricks.delta.optimize.maxFileSize": str(_TARGET_BYTES),
        "spark.databricks.delta.optimize.minFileSize": str(_TARGET_BYTES),
    }


def _iceberg_settings(folder: Path) -> dict[str, str]:
    return {
        "spark.jars": jars_below(_ICEBERG_JARS, folder / "jars" / _ICEBERG),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        f"spark.sql.catalog.{_ICEBERG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{_ICEBERG}.type": "hadoop",
        f"spark.sql.catalog.{_ICEBERG}.warehouse": str(folder / f"lab-{_ICEBERG}" / "iceberg"),
    }


_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "</dependency>"
)


def pom(jars: Sequence[str]) -> str:
    """Return a Maven project that depends on jars; each is `group:artifact:version`."""
    lines = [_DEPENDENCY.format(*jar.split(":")) for jar in jars]
    return _POM.format(dependencies="\n".join(lines))


def jars_below(jars: Sequence[str], folder: Path) -> str:
    """Return the paths of jars in a folder, separated by commas; download missing ones.

    Each is `group:artifact:version`, without its dependencies, which must be named, too.

    Raises:
        MissingProgramError: Maven is needed but not installed.
        DownloadError: Maven failed.
    """
    parts = [jar.split(":") for jar in jars]
    files = [folder / f"{artifact}-{version}.jar" for _, artifact, version in parts]
    if not all(file.is_file() for file in files):
        _fetch(pom(jars), folder)
    return ",".join(map(str, files))


def _fetch(project: str, folder: Path) -> None:
    program = shutil.which("mvn")
    if program is None:
        raise MissingProgramError("mvn", "install Maven (Debian: apt-get install maven)")
    folder.mkdir(parents=True, exist_ok=True)
    file, log = folder / "pom.xml", folder / "maven.log"
    file.write_text(project)
    goal = f"{DEPENDENCY_PLUGIN}:copy-dependencies"
    options = [f"-DoutputDirectory={folder}", "-DexcludeTransitive=true"]
    with log.open("w") as output:
        status = subprocess.run(
            [program, "--batch-mode", "-f", str(file), goal, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if status:
        raise DownloadError("the jars of a peer", log, tail(log))


# ---- the choice ----------------------------------------------------------------------------------


def _nothing(_folder: Path) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system. `settings` returns its session's settings, given a folder for its jars.

    `create` makes an empty table with a name and columns.
    """

    name: str
    create: Callable[[Lab, str, Sequence[Column]], contender.Contender]
    settings: Callable[[Path], Mapping[str, str]] = _nothing


SYSTEMS: Final[Mapping[str, System]] = {
    records.OURS: System(name=records.OURS, create=acid.AcidTable.create),
    _DELTA: System(name=_DELTA, create=DeltaTable.create, settings=_delta_settings),
    _ICEBERG: System(name=_ICEBERG, create=IcebergTable.create, settings=_iceberg_settings),
}
PEERS: Final = tuple(name for name in SYSTEMS if name != records.OURS)
