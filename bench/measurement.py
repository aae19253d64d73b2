"""Knows one whole measurement: the workload, a laboratory, a warm-up, the story, the peers.

Each system has a process of its own, since its jars and extensions belong to a JVM; flat files are
measured in each of them again, so that ratios to them never cross processes.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.data import generate
from bench.lab import METASTORE_VERSION, REPOSITORY, laboratory, split_bytes_of
from bench.machine import Setting, setting, setting_of
from bench.recorder import Recorder
from bench.records import read_records, write_records
from bench.sales import STAMPED_COLUMNS
from bench.sizes import Sizes
from bench.stamped import StampedStory
from bench.story import Story
from bench.systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.contender import Contender
    from bench.data import Workload
    from bench.lab import Lab
    from bench.records import Record
    from bench.systems import System

FOLDER: Final = REPOSITORY / "build" / "bench"
RECORDS: Final = REPOSITORY / "build" / "bench.json"
CHANGES_RECORDS: Final = REPOSITORY / "build" / "bench-changes.json"

_WARM_UP: Final = Sizes(rows=20_000, batches=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for. `records` is where the raw figures go.

    `only_changes` leaves out all but what reading changes costs.
    """

    system: str
    peers: tuple[str, ...]
    sizes: Sizes
    repeats: int
    warms_up: bool
    threads: int
    driver_memory: str
    records: Path
    only_changes: bool = False

    def arguments(self) -> list[str]:
        """The command line for one peer with the same options."""
        return [
            *(() if self.warms_up else ("--cold",)),
            *("--rows", str(self.sizes.rows)),
            *("--batches", str(self.sizes.batches)),
            *("--repeats", str(self.repeats)),
            *("--threads", str(self.threads)),
            *("--driver-memory", self.driver_memory),
        ]


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
        records += read_records(path)
    write_records(options.records, records)
    taken_on.write(setting_of(options.records))
    return records


def _measure_one(options: Options, say: Callable[[str], None]) -> tuple[list[Record], Setting]:
    system = SYSTEMS[options.system]
    say(f"{system.name}: a workload of {options.sizes.rows:,} rows")
    workload, small = map(_workloads, (options.sizes, _WARM_UP))
    with laboratory(
        FOLDER / f"lab-{system.name}",
        split_bytes=split_bytes_of(workload[0]),
        threads=options.threads,
        driver_memory=options.driver_memory,
        settings=system.settings(FOLDER),
    ) as lab:
        run = partial(_run, lab, system, only_changes=options.only_changes, say=say)
        if options.warms_up:
            run(small, name="warmup", repeats=1, rehearses=False)
        records = run(workload, name="sales", repeats=options.repeats, rehearses=options.warms_up)
        return records, setting(
            java=lab.java,
            metastore=METASTORE_VERSION,
            workload=f"a base of {options.sizes.rows:,} rows with 23 columns",
            repeats=options.repeats,
            threads=options.threads,
            driver_memory=options.driver_memory,
        )


def _workloads(sizes: Sizes) -> tuple[Workload, Workload]:
    """That of the plain table and that of the one with a timestamp and a char besides."""
    return generate(FOLDER, sizes), generate(FOLDER, sizes.stamped, STAMPED_COLUMNS)


def _run(  # noqa: PLR0913 - a course has that many parts
    lab: Lab,
    system: System,
    workloads: tuple[Workload, Workload],
    *,
    name: str,
    repeats: int,
    rehearses: bool,
    only_changes: bool,
    say: Callable[[str], None],
) -> list[Record]:
    """The whole course with one system, or what reading changes costs alone."""
    recorder = Recorder(
        lab=lab,
        process=system.name,
        repeats=repeats,
        rehearses=rehearses,
        say=say,
        keep=partial(write_records, FOLDER / f"unfinished-{name}-{system.name}.json"),
    )
    plain, stamped = workloads
    if only_changes:
        make = partial(_make, system, lab, plain)
        Story(recorder=recorder, workload=plain, make=make, name=name, only_changes=True).run()
        return recorder.records
    for story, workload, table in (
        (Story, plain, name),
        (StampedStory, stamped, f"{name}_stamped"),
    ):
        make = partial(_make, system, lab, workload)
        story(recorder=recorder, workload=workload, make=make, name=table).run()
    return recorder.records


def _make(system: System, lab: Lab, workload: Workload, name: str) -> Contender:
    return system.create(lab, name, workload.columns)
