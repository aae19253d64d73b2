"""The courses of the measurement: what each measures, where its raw figures lie, how they show.

Each system has its own process, since its jars and extensions belong to a JVM. Flat files are
measured again in each of them, so that ratios to them never cross processes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.proofs.bench import contender, data, grid, report, sales, systems, yardsticks
from tests.proofs.bench.cliffs import aborted, deltas, partitions, past, planning, wide
from tests.proofs.bench.compaction import hours, many, readers, rewrites, stripes
from tests.proofs.bench.ground import Ground
from tests.proofs.bench.lab import FOLDER, REPOSITORY, Lab, Setting, Strength, laboratory
from tests.proofs.bench.recorder import Recorder
from tests.proofs.bench.records import (
    OURS,
    Finding,
    Record,
    merged,
    pairs,
    read_findings,
    read_records,
    write_records,
)
from tests.proofs.bench.scenario import Scenario, StampedScenario

Say = Callable[[str], None]
Parts = Mapping[str, Callable[[Ground], None]]

_WARM_UP: Final = data.Sizes(rows=20_000, batches=2)
_WARM_UP_SCALE: Final = 0.001
_OPEN_COST: Final = 4 << 20
"""The cost that Spark adds per file when it packs files into tasks: its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command's options.

    Attributes:
        peers: Other systems, each measured in its own process.
        sizes: The rows of the main course; cliffs and compactions have a scale.
        parts: The parts of the course to measure; empty means all.
        records: The file of raw figures, which other parts of the course share.
    """

    system: str
    peers: tuple[str, ...]
    sizes: data.Sizes
    scale: float
    parts: tuple[str, ...]
    strength: Strength
    records: Path

    def arguments(self) -> list[str]:
        """Return the command line for a peer with the same options of the main course."""
        return [
            *(() if self.strength.warms_up else ("--cold",)),
            *("--rows", str(self.sizes.rows)),
            *("--batches", str(self.sizes.batches)),
            *("--repeats", str(self.strength.repeats)),
            *("--threads", str(self.strength.threads)),
            *("--driver-memory", self.strength.driver_memory),
        ]


# ---- the main course -----------------------------------------------------------------------------


def _measure_sales(options: Options, say: Say, *, only_changes: bool = False) -> list[Record]:
    """Measure a system, and its peers in their own processes; write the records."""
    records, setting = _measure_one(options, say, only_changes=only_changes)
    command = [sys.executable, "-m", "tests.proofs.bench", "run", *options.arguments()]
    for peer in options.peers:
        path = FOLDER / f"{peer}.json"
        arguments = ["--system", peer, "--records", str(path)]
        subprocess.run([*command, *arguments], check=True, cwd=REPOSITORY)
        records += read_records(path)
    write_records(options.records, records)
    setting.write_beside(options.records)
    return records


def _measure_one(options: Options, say: Say, *, only_changes: bool) -> tuple[list[Record], Setting]:
    system, strength = systems.SYSTEMS[options.system], options.strength
    say(f"{system.name}: a workload of {options.sizes.rows:,} rows")
    workloads, small = map(_workloads, (options.sizes, _WARM_UP))
    with laboratory(
        f"lab-{system.name}",
        strength,
        settings=system.settings(FOLDER),
        split_bytes=_split_bytes_of(workloads[0]),
    ) as lab:
        record = partial(_recorder, lab, say=say, process=system.name)
        run = partial(_run_sales, system, only_changes=only_changes)
        if strength.warms_up:
            run(record("warmup", 1, rehearses=False), "warmup", small)
        recorder = record("sales", strength.repeats, rehearses=strength.warms_up)
        run(recorder, "sales", workloads)
        workload = f"a base of {options.sizes.rows:,} rows with 23 columns"
        return recorder.records, lab.setting(strength, workload)


def _workloads(sizes: data.Sizes) -> tuple[data.Workload, data.Workload]:
    """Return the plain table's workload, and that of the one with a timestamp and a char."""
    return data.generate(FOLDER, sizes), data.generate(FOLDER, sizes.stamped, sales.STAMPED_COLUMNS)


def _split_bytes_of(workload: data.Workload) -> int:
    """Return a size that makes each file of the base one task: with 128 MB two would share one."""
    largest = max(file.stat().st_size for file in workload.base.iterdir())
    return int(largest * 1.25) + _OPEN_COST


def _run_sales(
    system: systems.System,
    recorder: Recorder,
    name: str,
    workloads: tuple[data.Workload, data.Workload],
    *,
    only_changes: bool,
) -> None:
    """Run the whole course with one system, or only the part about reading changes."""

    def make(workload: data.Workload, table: str) -> contender.Contender:
        return system.create(recorder.lab, table, workload.columns)

    plain, stamped = workloads
    scenario = Scenario(recorder=recorder, workload=plain, make=partial(make, plain), name=name)
    if only_changes:
        scenario.run_changes()
        return
    scenario.run()
    StampedScenario(
        recorder=recorder, workload=stamped, make=partial(make, stamped), name=f"{name}_stamped"
    ).run()


def _recorder(
    lab: Lab, name: str, repeats: int, *, rehearses: bool, say: Say, process: str = OURS
) -> Recorder:
    return Recorder(
        lab=lab,
        process=process,
        repeats=repeats,
        rehearses=rehearses,
        say=say,
        keep=partial(write_records, FOLDER / f"unfinished-{name}-{process}.json"),
    )


# ---- cliffs --------------------------------------------------------------------------------------

_CLIFFS: Final[Parts] = {
    "partitions": partitions.measure_partitions,
    "deltas": deltas.measure_deltas,
    "columns": wide.measure_columns,
    "texts": wide.measure_texts,
    "aborted": aborted.measure_aborted,
    "planning": planning.measure_planning,
    "past": past.measure_past,
}


def _measure_cliffs(options: Options, say: Say) -> list[Record]:
    """Measure some parts; their records replace the former ones of these parts.

    Raises:
        ValueError: The scale is beyond the figures' own, or none.
    """
    if not 0 < options.scale <= 1:
        raise ValueError(f"scale must lie above 0 and not above 1, not {options.scale}")
    strength = options.strength
    with laboratory("lab-cliffs", strength, settings=yardsticks.PARTITION_SETTINGS) as lab:
        setting = lab.setting(strength, f"at {options.scale:g} of the full size")
        record = partial(_recorder, lab, "cliffs")
        recorder = record(strength.repeats, rehearses=strength.warms_up, say=say)
        for part in options.parts or _CLIFFS:
            if strength.warms_up:
                warm = record(1, rehearses=False, say=lambda _stage: None)
                _CLIFFS[part](Ground(recorder=warm, scale=_WARM_UP_SCALE, name="warm"))
            _CLIFFS[part](Ground(recorder=recorder, scale=options.scale))
    former = read_records(options.records) if options.records.exists() else ()
    # The MERGE is a part of its own on the page, and is measured with the partitions.
    first, *others = _CLIFFS
    records = merged(former, recorder.records, [first, "merge", *others])
    write_records(options.records, records)
    setting.write_beside(options.records)
    return records


# ---- compactions ---------------------------------------------------------------------------------

COMPACTIONS: Final[Parts] = {
    "minor": stripes.measure_minor,
    "major": stripes.measure_major,
    "peers": rewrites.measure_rewrites,
    "partitions": many.measure_partitions,
    "tables": many.measure_tables,
    "planning": many.measure_planning,
    "readers": readers.measure_readers,
    "hours": hours.measure_hours,
    "large": stripes.measure_large,
}


def _measure_compactions(options: Options, say: Say) -> Sequence[Finding]:
    """Measure some parts; their findings replace the former ones of these parts.

    For a peer, write only the records of its rewrites, which its parent process compares with ours.
    """
    system, strength = systems.SYSTEMS[options.system], options.strength
    with laboratory(
        f"lab-compaction-{system.name}",
        strength,
        settings={**yardsticks.PARTITION_SETTINGS, **system.settings(FOLDER)},
        on_postgres=True,
    ) as lab:
        recorder = _recorder(
            lab, "compaction", strength.repeats, rehearses=strength.warms_up, say=say
        )
        ground = Ground(recorder=recorder, scale=options.scale, peers=options.peers)
        if system.name != OURS:
            write_records(options.records, rewrites.rewrite(ground, system))
            return ()
        setting = lab.setting(strength, "the sizes that the cases name")
        findings = read_findings(options.records) if options.records.exists() else ()
        for part in options.parts or COMPACTIONS:
            ground.begin_part(part)
            COMPACTIONS[part](ground)
            findings = tuple(merged(findings, ground.findings, [*COMPACTIONS]))
            write_records(options.records, findings)
    setting.write_beside(options.records)
    return findings


# ---- the table of courses ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One kind of measurement.

    Attributes:
        measure: Measures, writes the raw figures and returns them.
        records: The file of raw figures.
        shown: Returns what is shown of them: a pair for each case, or each finding.
        mark: The name of its place on the page; None if it is on no page.
        parts: The parts that can be measured alone.
    """

    measure: Callable[[Options, Any], Sequence[Any]]
    records: Path
    read: Callable[[Path], Sequence[Any]] = read_records
    shown: Callable[[Sequence[Any]], Sequence[Any]] = pairs
    grids: Callable[[Sequence[Any]], Sequence[grid.Grid]] = report.sales_grids
    mark: str | None = None
    parts: Sequence[str] = ()


_BUILD: Final = REPOSITORY / "build"

COURSES: Final[Mapping[str, Course]] = {
    "sales": Course(measure=_measure_sales, records=_BUILD / "bench.json", mark="figures"),
    "changes": Course(
        measure=partial(_measure_sales, only_changes=True), records=_BUILD / "bench-changes.json"
    ),
    "cliffs": Course(
        measure=_measure_cliffs,
        records=_BUILD / "bench-cliffs.json",
        grids=report.cliff_grids,
        mark="cliffs",
        parts=tuple(_CLIFFS),
    ),
    "compaction": Course(
        measure=_measure_compactions,
        records=_BUILD / "bench-compaction.json",
        read=read_findings,
        shown=tuple,
        grids=report.finding_grids,
        mark="compactions",
        parts=tuple(COMPACTIONS),
    ),
}
