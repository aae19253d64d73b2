"""The course of the cliffs: their parts, and how some of them are measured again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.cliffs.aborted import measure_aborted
from tests.proofs.bench.cliffs.deltas import measure_deltas
from tests.proofs.bench.cliffs.flat_partitions import SETTINGS
from tests.proofs.bench.cliffs.ground import Ground, part_of
from tests.proofs.bench.cliffs.partitions import measure_partitions
from tests.proofs.bench.cliffs.past import measure_past
from tests.proofs.bench.cliffs.planning import measure_planning
from tests.proofs.bench.cliffs.sizes import CliffSizes
from tests.proofs.bench.cliffs.wide import measure_columns, measure_texts
from tests.proofs.bench.lab import METASTORE_VERSION, REPOSITORY, laboratory
from tests.proofs.bench.machine import setting, setting_of
from tests.proofs.bench.recorder import Recorder
from tests.proofs.bench.records import OURS, read_records, write_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.proofs.bench.lab import Lab
    from tests.proofs.bench.records import Record

PARTS: Final[Mapping[str, Callable[[Ground], None]]] = {
    "partitions": measure_partitions,
    "deltas": measure_deltas,
    "columns": measure_columns,
    "texts": measure_texts,
    "aborted": measure_aborted,
    "planning": measure_planning,
    "past": measure_past,
}
CLIFF_RECORDS: Final = REPOSITORY / "build" / "bench-cliffs.json"

_FOLDER: Final = REPOSITORY / "build" / "bench"
_WARM_UP: Final = CliffSizes(scale=0.001)
_SPLIT_BYTES: Final = 128 << 20  # Spark's default


@dataclass(frozen=True, slots=True, kw_only=True)
class CliffOptions:
    """The command's options; `records` is the file of raw figures, which other parts share."""

    parts: tuple[str, ...]
    sizes: CliffSizes
    repeats: int
    warms_up: bool
    threads: int
    driver_memory: str
    records: Path


def measure_cliffs(options: CliffOptions, say: Callable[[str], None]) -> list[Record]:
    """Measure some parts; their records replace the former ones of these parts.

    Raises:
        WrongRowsError: Two sides ended with different rows.
        LocalServerError: The metastore could not be started.
    """
    with laboratory(
        _FOLDER / "lab-cliffs",
        split_bytes=_SPLIT_BYTES,
        threads=options.threads,
        driver_memory=options.driver_memory,
        settings=SETTINGS,
    ) as lab:
        taken_on = setting(
            java=lab.java,
            metastore=METASTORE_VERSION,
            workload=f"at {options.sizes.scale:g} of the full size",
            repeats=options.repeats,
            threads=options.threads,
            driver_memory=options.driver_memory,
        )
        recorder = _recorder(lab, options.repeats, say, rehearses=options.warms_up)
        for part in options.parts:
            if options.warms_up:
                warm = _recorder(lab, 1, lambda _stage: None, rehearses=False)
                PARTS[part](Ground(recorder=warm, sizes=_WARM_UP, name="warm"))
            PARTS[part](Ground(recorder=recorder, sizes=options.sizes, name="full"))
    records = merged(_former(options.records), recorder.records)
    write_records(options.records, records)
    taken_on.write(setting_of(options.records))
    return records


def merged(former: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """Return the former records of other parts and the new ones, in the order of the parts."""
    measured = {part_of(record.case) for record in new}
    records = [record for record in former if part_of(record.case) not in measured]
    order = [*PARTS]
    order.insert(1, "merge")
    return sorted([*records, *new], key=lambda record: order.index(part_of(record.case)))


def _former(path: Path) -> Sequence[Record]:
    return read_records(path) if path.exists() else ()


def _recorder(lab: Lab, repeats: int, say: Callable[[str], None], *, rehearses: bool) -> Recorder:
    return Recorder(
        lab=lab,
        process=OURS,
        repeats=repeats,
        rehearses=rehearses,
        say=say,
        keep=partial(write_records, _FOLDER / "unfinished-cliffs.json"),
    )
