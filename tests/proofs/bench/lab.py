"""The environment of a measurement: a real metastore, one Spark session, a meter on both.

All systems share the session, so that noise and settings affect all of them equally. Its setting is
described in words that name no machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self, TypeVar

from pyspark.sql import SparkSession

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import Database, LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from airflow_hiveacid.spark.engine.session import AT_START, open_session
from tests.proofs.bench.meter import Measurement, Meter

_T = TypeVar("_T")

REPOSITORY: Final = Path(__file__).resolve().parents[3]
FOLDER: Final = REPOSITORY / "build" / "bench"
SPLIT_BYTES: Final = 128 << 20
"""The bytes of files that a task reads at most: Spark's default."""

_METASTORE_VERSION: Final = "4.0.1"
_GIBI: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """What a measurement may use, and how often each case runs.

    `warms_up` is True if each case runs once, not measured, before it is measured.
    """

    repeats: int
    warms_up: bool
    threads: int
    driver_memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Machine, versions and options of one run."""

    cores: int
    memory_gib: int
    kernel: str
    python: str
    java: str
    spark: str
    pyarrow: str
    metastore: str
    workload: str
    repeats: int
    threads: int
    driver_memory: str

    def write_beside(self, records: Path) -> None:
        _beside(records).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read_beside(cls, records: Path) -> Self:
        return cls(**json.loads(_beside(records).read_text(encoding="utf-8")))


def _beside(records: Path) -> Path:
    return records.with_name(f"{records.stem}-setting.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """The laboratory of all systems. `folder` is theirs, and is removed after the measurement.

    `database` is the metastore's.
    """

    spark: SparkSession
    endpoint: MetastoreEndpoint
    meter: Meter
    folder: Path
    database: Database

    def measure(self, work: Callable[[], _T]) -> tuple[_T, Measurement]:
        """Do a piece of work once, on a clean heap; return its result and measurement."""
        self.spark._jvm.System.gc()
        return self.meter.measure(work)

    def setting(self, strength: Strength, workload: str) -> Setting:
        """Return the description of this machine and of a run with this workload."""
        return Setting(
            cores=os.cpu_count() or 1,
            memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIBI),
            kernel=f"{platform.system()} {platform.release().split('-')[0]}",
            python=platform.python_version(),
            java=str(self.spark._jvm.System.getProperty("java.version")),
            spark=importlib.metadata.version("pyspark"),
            pyarrow=importlib.metadata.version("pyarrow"),
            metastore=_METASTORE_VERSION,
            workload=workload,
            repeats=strength.repeats,
            threads=strength.threads,
            driver_memory=strength.driver_memory,
        )


@contextmanager
def laboratory(
    name: str,
    strength: Strength,
    *,
    settings: Mapping[str, str],
    split_bytes: int = SPLIT_BYTES,
    on_postgres: bool = False,
) -> Iterator[Lab]:
    """Start everything in an empty folder; at the end stop everything and remove the folder.

    `settings` of a peer are added to the session's. The metastore's database is Derby by default,
    which runs one call at a time.
    """
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = LocalMetastoreConfig(
        version=_METASTORE_VERSION, data_dir=folder / "metastore", ends_with_parent=True
    )
    try:
        with metastore_on_postgres(config) if on_postgres else LocalMetastore(config) as metastore:
            spark = session(
                folder,
                {
                    "spark.master": f"local[{strength.threads}]",
                    "spark.driver.memory": strength.driver_memory,
                    "spark.sql.shuffle.partitions": str(2 * strength.threads),
                    "spark.sql.files.maxPartitionBytes": str(split_bytes),
                    **settings,
                },
            )
            try:
                jvm_pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())
                yield Lab(
                    spark=spark,
                    endpoint=MetastoreEndpoint(uris=(metastore.uri,)),
                    meter=Meter(jvm_pid=jvm_pid),
                    folder=folder,
                    database=metastore.config.database,
                )
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # As in our applications: wall-clock values of files stay unchanged.
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The codec of our writer on a 4.x metastore; the others would write snappy.
    "spark.sql.orc.compression.codec": "zstd",
    "spark.sql.parquet.compression.codec": "zstd",
}


def session(folder: Path, settings: Mapping[str, str]) -> SparkSession:
    """Start a session with its files below a folder."""
    # Python workers get their interpreter from here, and the packages from the sources.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, inherited)])
    builder = SparkSession.builder
    below = {
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in {**AT_START, **_QUIET, **below, **settings}.items():
        builder = builder.config(key, value)
    builder.getOrCreate()
    spark = open_session("hiveacid-bench")
    spark.sparkContext.setLogLevel("ERROR")
    return spark
