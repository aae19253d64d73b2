"""The options of a campaign, its folder, and the start of its processes."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_hiveacid.storage.stores.hadoop_settings import VARIABLE
from demo.environment import spark_environment, spark_home
from demo.layout import REPOSITORY, DemoLayout
from tests.proofs.campaign.process import CampaignProcess

FOLDER: Final = REPOSITORY / "build" / "campaign"


class Store(enum.Enum):
    """The store of the tables: a disk of this machine, a real HDFS, or an S3 (moto)."""

    DISK = "disk"
    HDFS = "hdfs"
    S3 = "s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The settings by which a process reaches the tables' store; none for a disk and HDFS.

    `environment` is for each process, `spark` are settings of Spark, without any secret.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a campaign. It ends after the kills, or after the minutes at the latest.

    `reach` is known once the store is up.
    """

    seed: int
    minutes: float
    kills: int
    versions: tuple[str, ...]
    store: Store = Store.DISK
    reach: Reach = Reach()
    timeout_s: float = 20.0
    folder: Path = FOLDER

    @property
    def layout(self) -> DemoLayout:
        """The folders of Spark and its settings."""
        return DemoLayout(repository=REPOSITORY, home=self.folder)

    @property
    def classes(self) -> Path:
        """The archive of Spark's classes, from which drivers start fast."""
        return self.folder / "spark-classes.jsa"

    @property
    def seconds_each(self) -> float:
        """The longest duration of each metastore's part, in seconds."""
        return self.minutes * 60.0 / len(self.versions)

    @property
    def kills_each(self) -> int:
        """The number of kills in each part."""
        return -(-self.kills // len(self.versions))


def launch_spark(
    options: Options, folder: Path, module: str, *arguments: str, makes_classes: bool = False
) -> CampaignProcess:
    """Start a module of the campaign below spark-submit, with or without the class archive."""
    program = spark_home(options.layout) / "bin" / "spark-submit"
    script = REPOSITORY / "tests" / "proofs" / "campaign" / f"{module}.py"
    command = [str(program), "--master", "local[2]", "--driver-memory", "640m"]
    for name, value in options.reach.spark.items():
        command += ["--conf", f"{name}={value}"]
    # Python gets the store's settings from Spark's JVM.
    environment = {k: v for k, v in _environment(options).items() if k != VARIABLE}
    archive = "ArchiveClassesAtExit" if makes_classes else "SharedArchiveFile"
    environment["SPARK_SUBMIT_OPTS"] += (
        f" -XX:{archive}={options.classes} -Xlog:cds*=off -Dspark.log.level=WARN"
    )
    return CampaignProcess(folder, [*command, str(script), *arguments], environment)


def launch_python(options: Options, folder: Path, module: str, *arguments: str) -> CampaignProcess:
    """Start a module of the campaign without Spark."""
    command: Sequence[str] = [sys.executable, "-m", f"tests.proofs.campaign.{module}", *arguments]
    return CampaignProcess(folder, command, _environment(options))


def _environment(options: Options) -> Mapping[str, str]:
    foreign = ("SPARK_", "PYSPARK_", "HADOOP_", "PYTHON", "HIVEACID_")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return {
        **inherited,
        **spark_environment(options.layout),
        **options.reach.environment,
        "PYTHONPATH": str(REPOSITORY),
    }
