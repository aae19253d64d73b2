"""The environment of a measurement: a real metastore, one Spark session, a meter on both.

All systems share the session, so that noise and settings affect all of them equally.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import SparkSession

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.metastore.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres
from airflow_hiveacid.spark.engine.session import AT_START, open_session
from tests.proofs.bench.meter import Measurement, Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow_hiveacid.local.site import Database
    from tests.proofs.bench.data import Workload

_T = TypeVar("_T")

REPOSITORY: Final = Path(__file__).resolve().parents[3]
METASTORE_VERSION: Final = "4.0.1"

_OPEN_COST: Final = 4 << 20
"""The cost that Spark adds per file when it packs files into tasks: its default."""


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

    @property
    def java(self) -> str:
        """The JVM's version."""
        return str(self.spark._jvm.System.getProperty("java.version"))


@contextmanager
def laboratory(
    folder: Path,
    *,
    split_bytes: int,
    threads: int,
    driver_memory: str,
    settings: Mapping[str, str],
    on_postgres: bool = False,
) -> Iterator[Lab]:
    """Start everything in an empty folder; at the end stop everything and remove the folder.

    Tasks read at most `split_bytes` of files. `settings` of a peer are added to the session's.
    The metastore's database is Derby by default, which runs one call at a time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = LocalMetastoreConfig(
        version=METASTORE_VERSION, data_dir=folder / "metastore", ends_with_parent=True
    )
    try:
        with metastore_on_postgres(config) if on_postgres else LocalMetastore(config) as metastore:
            spark = session(
                folder,
                {
                    "spark.master": f"local[{threads}]",
                    "spark.driver.memory": driver_memory,
                    "spark.sql.shuffle.partitions": str(2 * threads),
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


def split_bytes_of(workload: Workload) -> int:
    """Return a size that makes each file of the base one task: with 128 MB two would share one."""
    largest = max(file.stat().st_size for file in workload.base.iterdir())
    return int(largest * 1.25) + _OPEN_COST
