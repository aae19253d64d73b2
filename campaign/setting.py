"""Knows what a campaign is asked for, where it lies, and how its processes are started."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from campaign.process import CampaignProcess
from demo.layout import REPOSITORY, DemoLayout
from demo.spark_settings import spark_environment, spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FOLDER: Final = REPOSITORY / "build" / "campaign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a campaign is asked for. It ends after the kills, or after the minutes at the latest.

    `on_hdfs`: tables lie on a real HDFS, not on a disk of this machine.
    """

    seed: int
    minutes: float
    kills: int
    versions: tuple[str, ...]
    on_hdfs: bool = False
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


def launch_spark(layout: DemoLayout, folder: Path, module: str, *arguments: str) -> CampaignProcess:
    """Start a module of the campaign below spark-submit."""
    program = spark_home(layout) / "bin" / "spark-submit"
    script = REPOSITORY / "campaign" / f"{module}.py"
    command = [str(program), "--master", "local[2]", "--driver-memory", "640m", str(script)]
    return CampaignProcess(folder, [*command, *arguments], _environment(layout))


def launch_python(
    layout: DemoLayout, folder: Path, module: str, *arguments: str
) -> CampaignProcess:
    """Start a module of the campaign without Spark."""
    command: Sequence[str] = [sys.executable, "-m", f"campaign.{module}", *arguments]
    return CampaignProcess(folder, command, _environment(layout))


def _environment(layout: DemoLayout) -> Mapping[str, str]:
    foreign = ("SPARK_", "PYSPARK_", "HADOOP_", "PYTHON", "HIVEACID_")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    return {**inherited, **spark_environment(layout), "PYTHONPATH": str(REPOSITORY)}
