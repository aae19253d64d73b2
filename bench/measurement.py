"""Knows one whole measurement: the workload, a laboratory, a warm-up, the story, the peers.

Each system has a process of its own, since its jars and extensions belong to a JVM; flat files are
measured in each of them again, so that ratios never cross processes.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.data import generate
from bench.lab import METASTORE_VERSION, REPOSITORY, laboratory
from bench.machine import Setting, setting
from bench.records import read_records, write_records
from bench.sizes import Sizes
from bench.story import Story
from bench.systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.records import Record

FOLDER: Final = REPOSITORY / "build" / "bench"
RECORDS: Final = REPOSITORY / "build" / "bench.json"

_WARM_UP_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for. `records` is where the raw figures go."""

    system: str
    peers: tuple[str, ...]
    rows: int
    repeats: int
    warms_up: bool
    threads: int
    driver_memory: str
    records: Path

    def arguments(self) -> list[str]:
        """The command line for one peer with the same options."""
        return [
            *(() if self.warms_up else ("--cold",)),
            *("--rows", str(self.rows)),
            *("--repeats", str(self.repeats)),
            *("--threads", str(self.threads)),
            *("--driver-memory", self.driver_memory),
        ]


def setting_of(records: Path) -> Path:
    """The file beside the records that tells what they were taken on."""
    return records.with_name(f"{records.stem}-setting.json")


def measure(options: Options, say: Callable[[str], None]) -> list[Record]:
    """Measure a system and, in processes of their own, its peers; write the records.

    Raises:
        WrongRowsError: A system ended in other rows than it should have.
        LocalServerError: The metastore or a peer's jars could not be had.
        subprocess.CalledProcessError: A peer's process failed; it has said why.
    """
    records, taken_on = _measure_one(options, say)
    for peer in options.peers:
        path = FOLDER / f"{peer}.json"
        command = [sys.executable, "-m", "bench", "run", "--system", peer, "--records", str(path)]
        subprocess.run([*command, *options.arguments()], check=True, cwd=REPOSITORY)  # noqa: S603 - ourselves
        records += [r for r in read_records(path) if r.system == peer]
    write_records(options.records, records)
    taken_on.write(setting_of(options.records))
    return records


def _measure_one(options: Options, say: Callable[[str], None]) -> tuple[list[Record], Setting]:
    system = SYSTEMS[options.system]
    say(f"{system.name}: a workload of {options.rows:,} rows")
    workload, small = (generate(FOLDER, Sizes(rows=rows)) for rows in (options.rows, _WARM_UP_ROWS))
    with laboratory(
        FOLDER / f"lab-{system.name}",
        workload,
        threads=options.threads,
        driver_memory=options.driver_memory,
        settings=system.settings(FOLDER),
    ) as lab:
        stories = [
            Story(
                lab=lab,
                workload=work,
                make=partial(system.create, lab),
                name=name,
                repeats=repeats,
                say=say,
                keep=partial(write_records, FOLDER / f"unfinished-{name}-{system.name}.json"),
            )
            for name, work, repeats in (("warmup", small, 1), ("sales", workload, options.repeats))
            if work is workload or options.warms_up
        ]
        *_, records = [story.run() for story in stories]
        return records, setting(
            java=lab.java,
            metastore=METASTORE_VERSION,
            rows=options.rows,
            repeats=options.repeats,
            threads=options.threads,
            driver_memory=options.driver_memory,
        )
