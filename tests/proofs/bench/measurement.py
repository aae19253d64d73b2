"""One whole measurement: the workload, a laboratory, a warm-up, the course, the peers.

Each system has its own process, since its jars and extensions belong to a JVM. Flat files are
measured again in each of them, so that ratios to them never cross processes.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.data import generate
from tests.proofs.bench.lab import METASTORE_VERSION, REPOSITORY, laboratory, split_bytes_of
from tests.proofs.bench.machine import Setting, setting, setting_of
from tests.proofs.bench.recorder import Recorder
from tests.proofs.bench.records import read_records, write_records
from tests.proofs.bench.sales import STAMPED_COLUMNS
from tests.proofs.bench.scenario import Scenario
from tests.proofs.bench.sizes import Sizes
from tests.proofs.bench.stamped import StampedScenario
from tests.proofs.bench.systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proofs.bench.contender import Contender
    from tests.proofs.bench.data import Workload
    from tests.proofs.bench.lab import Lab
    from tests.proofs.bench.records import Record
    from tests.proofs.bench.systems import System

FOLDER: Final = REPOSITORY / "build" / "bench"
RECORDS: Final = REPOSITORY / "build" / "bench.json"
CHANGES_RECORDS: Final = REPOSITORY / "build" / "bench-changes.json"

_WARM_UP: Final = Sizes(rows=20_000, batches=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command's options. `records` is the file of raw figures.

    `only_changes` limits the measurement to the cost of reading changes.
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
        """Return the command line for a peer with the same options."""
        return [
            *(() if self.warms_up else ("--cold",)),
            *("--rows", str(self.sizes.rows)),
            *("--batches", str(self.sizes.batches)),
            *("--repeats", str(self.repeats)),
            *("--threads", str(self.threads)),
            *("--driver-memory", self.driver_memory),
        ]


def measure(options: Options, say: Callable[[str], None]) -> list[Record]:
    """Measure a system, and its peers in their own processes; write the records.

    Raises:
        WrongRowsError: A system ended with wrong rows.
        LocalServerError: The metastore or a peer's jars are not available.
        subprocess.CalledProcessError: A peer's process failed; it has printed the reason.
    """
    records, taken_on = _measure_one(options, say)
    for peer in options.peers:
        path = FOLDER / f"{peer}.json"
        command = [
            sys.executable,
            "-m",
            "tests.proofs.bench",
            "run",
            "--system",
            peer,
            "--records",
            str(path),
        ]
        subprocess.run([*command, *options.arguments()], check=True, cwd=REPOSITORY)
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
    """Return the plain table's workload, and that of the one with a timestamp and a char."""
    return generate(FOLDER, sizes), generate(FOLDER, sizes.stamped, STAMPED_COLUMNS)


def _run(
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
    """Run the whole course with one system, or only the part about reading changes."""
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
        Scenario(recorder=recorder, workload=plain, make=make, name=name, only_changes=True).run()
        return recorder.records
    for scenario, workload, table in (
        (Scenario, plain, name),
        (StampedScenario, stamped, f"{name}_stamped"),
    ):
        make = partial(_make, system, lab, workload)
        scenario(recorder=recorder, workload=workload, make=make, name=table).run()
    return recorder.records


def _make(system: System, lab: Lab, workload: Workload, name: str) -> Contender:
    return system.create(lab, name, workload.columns)
