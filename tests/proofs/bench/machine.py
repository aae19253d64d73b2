"""The machine and versions of a measurement, in words that name no machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

_GIBI: Final = 1 << 30


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

    def write(self, path: Path) -> None:
        """Write it beside the records."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of `write`."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def setting(
    *, java: str, metastore: str, workload: str, repeats: int, threads: int, driver_memory: str
) -> Setting:
    """Return the description of this machine and this run."""
    return Setting(
        cores=os.cpu_count() or 1,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIBI),
        kernel=f"{platform.system()} {platform.release().split('-')[0]}",
        python=platform.python_version(),
        java=java,
        spark=importlib.metadata.version("pyspark"),
        pyarrow=importlib.metadata.version("pyarrow"),
        metastore=metastore,
        workload=workload,
        repeats=repeats,
        threads=threads,
        driver_memory=driver_memory,
    )


def setting_of(records: Path) -> Path:
    """Return the file beside the records that describes their setting."""
    return records.with_name(f"{records.stem}-setting.json")
