"""Raw figures: one record for each measured run, in a JSON list."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.proofs.bench.compaction.findings import Finding
    from tests.proofs.bench.meter import Measurement

OURS: Final = "hiveacid"
FLAT: Final = "flat-orc"
SPARK: Final = "spark"
"""Spark as it decodes and encodes the files that a compaction reads and writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one case on one system.

    Attributes:
        case: The work done, such as `scan.base.count`.
        system: The system that did it: one of the names above, or a peer's.
        process: The system of the process it ran in; yardsticks are measured in each.
        run: Number of the run for one case and system, from 0.
        seconds: Wall-clock seconds.
        cpu_seconds: CPU seconds of all our processes.
        other_cpu_seconds: CPU seconds of everything else on the machine meanwhile.
        bytes: Bytes written; for a scan, the size of the files it concerns.
        rows: Rows read by a scan, otherwise changed or written.
        driver_peak_bytes: Most resident memory of the driver's Python.
        jvm_peak_bytes: Most resident memory of the driver's JVM.
        worker_peak_bytes: Most resident memory of one Python worker.
    """

    case: str
    system: str
    process: str
    run: int
    seconds: float
    cpu_seconds: float
    other_cpu_seconds: float
    bytes: int
    rows: int
    driver_peak_bytes: int
    jvm_peak_bytes: int
    worker_peak_bytes: int

    @classmethod
    def of(
        cls,
        case: str,
        system: str,
        process: str,
        run: int,
        took: Measurement,
        *,
        size_bytes: int,
        rows: int,
    ) -> Self:
        """Return the record of a measurement."""
        return cls(
            case=case,
            system=system,
            process=process,
            run=run,
            seconds=round(took.seconds, 3),
            cpu_seconds=round(took.cpu_seconds, 2),
            other_cpu_seconds=round(took.other_cpu_seconds, 2),
            bytes=size_bytes,
            rows=rows,
            driver_peak_bytes=took.driver_peak_bytes,
            jvm_peak_bytes=took.jvm_peak_bytes,
            worker_peak_bytes=took.worker_peak_bytes,
        )


def write_records(path: Path, records: Iterable[Record | Finding]) -> None:
    """Write the list in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.new")
    lines = ",\n ".join(json.dumps(asdict(record)) for record in records)
    scratch.write_text(f"[{lines}]\n", encoding="utf-8")
    scratch.replace(path)


def read_records(path: Path) -> Sequence[Record]:
    """Read the list.

    Raises:
        FileNotFoundError: Nothing was measured.
        TypeError: Another version of this module wrote it.
    """
    return tuple(Record(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
