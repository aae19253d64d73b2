"""The course of the compactions: their parts, and how some of them are measured again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.cliffs.flat_partitions import SETTINGS
from tests.proofs.bench.compaction.findings import read_findings
from tests.proofs.bench.compaction.ground import Ground
from tests.proofs.bench.compaction.hours import measure_hours
from tests.proofs.bench.compaction.large import measure_large
from tests.proofs.bench.compaction.many import (
    measure_partitions,
    measure_planning,
    measure_tables,
)
from tests.proofs.bench.compaction.readers import measure_readers
from tests.proofs.bench.compaction.rewrites import measure_rewrites, rewrite
from tests.proofs.bench.compaction.stripes import measure_major, measure_minor
from tests.proofs.bench.lab import METASTORE_VERSION, REPOSITORY, laboratory
from tests.proofs.bench.machine import setting, setting_of
from tests.proofs.bench.measurement import FOLDER
from tests.proofs.bench.records import OURS, write_records
from tests.proofs.bench.systems import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.proofs.bench.compaction.findings import Finding

COMPACTION_PARTS: Final[Mapping[str, Callable[[Ground], None]]] = {
    "minor": measure_minor,
    "major": measure_major,
    "peers": measure_rewrites,
    "partitions": measure_partitions,
    "tables": measure_tables,
    "planning": measure_planning,
    "readers": measure_readers,
    "hours": measure_hours,
    "large": measure_large,
}
COMPACTION_RECORDS: Final = REPOSITORY / "build" / "bench-compaction.json"

_SPLIT_BYTES: Final = 128 << 20  # Spark's default


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """The command's options; `records` is the file of findings, which other parts share."""

    parts: tuple[str, ...]
    system: str
    peers: tuple[str, ...]
    scale: float
    repeats: int
    warms_up: bool
    threads: int
    driver_memory: str
    records: Path


def measure_compaction(options: CompactionOptions, say: Callable[[str], None]) -> Sequence[Finding]:
    """Measure some parts; their findings replace the former ones of these parts.

    For a peer, write only the records of its rewrites, which its parent process compares with ours.

    Raises:
        WrongRowsError: A compaction ended with wrong rows.
        LocalServerError: The metastore or a peer's jars are not available.
        subprocess.CalledProcessError: A peer's process failed; it has printed the reason.
    """
    system = SYSTEMS[options.system]
    with laboratory(
        FOLDER / f"lab-compaction-{system.name}",
        split_bytes=_SPLIT_BYTES,
        threads=options.threads,
        driver_memory=options.driver_memory,
        settings={**SETTINGS, **system.settings(FOLDER)},
        on_postgres=True,
    ) as lab:
        ground = Ground(
            lab=lab,
            scale=options.scale,
            repeats=options.repeats,
            warms_up=options.warms_up,
            peers=options.peers,
            say=say,
        )
        if system.name != OURS:
            write_records(options.records, rewrite(ground, system))
            return ()
        taken_on = setting(
            java=lab.java,
            metastore=METASTORE_VERSION,
            workload="the sizes that the cases name",
            repeats=options.repeats,
            threads=options.threads,
            driver_memory=options.driver_memory,
        )
        findings = read_findings(options.records) if options.records.exists() else ()
        for part in options.parts:
            ground.begin(part)
            COMPACTION_PARTS[part](ground)
            findings = merged(findings, ground.findings)
            write_records(options.records, findings)
    taken_on.write(setting_of(options.records))
    return findings


def merged(former: Sequence[Finding], new: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the former findings of other parts and the new ones, in the order of the parts."""
    measured = {finding.part for finding in new}
    kept = [finding for finding in former if finding.part not in measured]
    order = [*COMPACTION_PARTS]
    return tuple(sorted([*kept, *new], key=lambda finding: order.index(finding.part)))
