"""Knows what a campaign is asked for, where it lies, and how its processes are started."""

from __future__ import annotations

import enum
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.given_settings import VARIABLE
from campaign.process import CampaignProcess
from demo.layout import REPOSITORY, DemoLayout
from demo.spark_settings import spark_environment, spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FOLDER: Final = REPOSITORY / "build" / "campaign"


class Store(enum.Enum):
    """Where the tables lie: on a disk of this machine, a real HDFS, or an S3 (moto)."""

    DISK = "disk"
    HDFS = "hdfs"
    S3 = "s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """By which a process of the campaign reaches the tables' store; nothing for a disk and HDFS.

    `environment` is for each process, `spark` are settings of Spark. No secret is in the latter.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a campaign is asked for. It ends after the kills, or after the minutes at the latest.

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
        """Where Spark's settings and its class archive go."""
        return DemoLayout(repository=REPOSITORY, home=self.folder)

    @property
    def seconds_each(self) -> float:
        """How long each metastore's part may take."""
        return self.minutes * 60.0 / len(self.versions)

    @property
    def kills_each(self) -> int:
        """How many kills each part is to see."""
        return -(-self.kills // len(self.versions))


def launch_spark(options: Options, folder: Path, module: str, *arguments: str) -> CampaignProcess:
    """Start a module of the campaign below spark-submit."""
    program = spark_home(options.layout) / "bin" / "spark-submit"
    script = REPOSITORY / "campaign" / f"{module}.py"
    command = [str(program), "--master", "local[2]", "--driver-memory", "640m"]
    for name, value in options.reach.spark.items():
        command += ["--conf", f"{name}={value}"]
    # What Spark's JVM says of the store is what Python is given.
    environment = {k: v for k, v in _environment(options).items() if k != VARIABLE}
    return CampaignProcess(folder, [*command, str(script), *arguments], environment)


def launch_python(options: Options, folder: Path, module: str, *arguments: str) -> CampaignProcess:
    """Start a module of the campaign without Spark."""
    command: Sequence[str] = [sys.executable, "-m", f"campaign.{module}", *arguments]
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
