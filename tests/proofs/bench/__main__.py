"""The commands of the measurement.

    python -m tests.proofs.bench [run] [--rows 4000000 | --small] [--repeats 3]
                                       [--peers delta iceberg]
    python -m tests.proofs.bench [run] --changes [--rows 4000000 | --small] [--repeats 3]
    python -m tests.proofs.bench [run] --cliffs [PART ...] [--scale 1 | --small] [--repeats 3]
    python -m tests.proofs.bench [run] --compaction [PART ...] [--scale 1 | --small] [--repeats 3]
                                       [--peers delta iceberg]
    python -m tests.proofs.bench report

`run` measures, writes the records (build/bench.json, build/bench-cliffs.json or
build/bench-compaction.json, with the setting beside them), prints the tables, and exits with 0;
with 1 if a system ends with wrong rows. Records of a part that is measured alone replace its former
ones. `--changes` measures only the cost of reading changes; its records, in
build/bench-changes.json, go into no page. `report` prints the tables of the last runs again and
writes them into docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING, Final

from rich.console import Console

from airflow_hiveacid.format.errors.tree import HiveAcidError
from airflow_hiveacid.local.errors import LocalServerError
from tests.proofs.bench.check import WrongRowsError
from tests.proofs.bench.cliffs.course import CLIFF_RECORDS, PARTS, CliffOptions, measure_cliffs
from tests.proofs.bench.cliffs.report import cliff_grids, cliff_page
from tests.proofs.bench.cliffs.sizes import CliffSizes
from tests.proofs.bench.compaction.course import (
    COMPACTION_PARTS,
    COMPACTION_RECORDS,
    CompactionOptions,
    measure_compaction,
)
from tests.proofs.bench.compaction.findings import finding_grids, finding_page, read_findings
from tests.proofs.bench.figures import pairs
from tests.proofs.bench.lab import REPOSITORY
from tests.proofs.bench.machine import Setting, setting_of
from tests.proofs.bench.measurement import CHANGES_RECORDS, RECORDS, Options, measure
from tests.proofs.bench.records import OURS, read_records
from tests.proofs.bench.report import grids, page
from tests.proofs.bench.sizes import BATCHES, Sizes
from tests.proofs.bench.systems import PEERS, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from tests.proofs.bench.grid import Grid

_FAILED: Final = 1
_ROWS: Final = 4_000_000
_SMALL: Final = Sizes(rows=10_000, batches=2)
_SMALL_SCALE: Final = 0.002
_REPEATS: Final = 3
_PAGE: Final = REPOSITORY / "docs" / "performance.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(argv)
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, _end)  # an orderly exit removes servers and folders
    try:
        if options.command == "report":
            _report(console)
        elif options.compaction is not None:
            _run_compaction(options, console)
        elif options.cliffs is not None:
            _run_cliffs(options, console)
        else:
            _run(options, console)
    except (WrongRowsError, LocalServerError, HiveAcidError, OSError, CalledProcessError) as error:
        console.print(f"FAILED: {error}", markup=False, soft_wrap=True)
        return _FAILED
    return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def _run(options: argparse.Namespace, console: Console) -> None:
    say = _clocked(console)
    path = (options.records or (CHANGES_RECORDS if options.changes else RECORDS)).resolve()
    records = measure(
        Options(
            system=options.system,
            peers=tuple(options.peers),
            sizes=_SMALL if options.small else Sizes(rows=options.rows, batches=options.batches),
            repeats=1 if options.small else options.repeats,
            warms_up=not (options.cold or options.small),
            threads=options.threads,
            driver_memory=options.driver_memory,
            records=path,
            only_changes=options.changes,
        ),
        say,
    )
    say(f"{len(records)} records in {path}")
    if options.system == OURS:
        _show(grids(pairs(records)), console)


def _run_cliffs(options: argparse.Namespace, console: Console) -> None:
    say = _clocked(console)
    path = (options.records or CLIFF_RECORDS).resolve()
    records = measure_cliffs(
        CliffOptions(
            parts=tuple(options.cliffs or PARTS),
            sizes=CliffSizes(scale=_SMALL_SCALE if options.small else options.scale),
            repeats=1 if options.small else options.repeats,
            warms_up=not (options.cold or options.small),
            threads=options.threads,
            driver_memory=options.driver_memory,
            records=path,
        ),
        say,
    )
    say(f"{len(records)} records in {path}")
    _show(cliff_grids(pairs(records)), console)


def _run_compaction(options: argparse.Namespace, console: Console) -> None:
    say = _clocked(console)
    path = (options.records or COMPACTION_RECORDS).resolve()
    findings = measure_compaction(
        CompactionOptions(
            parts=tuple(options.compaction or COMPACTION_PARTS),
            system=options.system,
            peers=tuple(options.peers),
            scale=_SMALL_SCALE if options.small else options.scale,
            repeats=1 if options.small else options.repeats,
            warms_up=not (options.cold or options.small),
            threads=options.threads,
            driver_memory=options.driver_memory,
            records=path,
        ),
        say,
    )
    if options.system == OURS:
        say(f"{len(findings)} findings in {path}")
        _show(finding_grids(findings), console)


def _clocked(console: Console) -> Callable[[str], None]:
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:7.1f} s  {line}", markup=False, soft_wrap=True)

    return say


def _report(console: Console) -> None:
    """Print and write the figures of each kind that was measured."""
    text = _PAGE.read_text(encoding="utf-8")
    kinds = ((RECORDS, grids, page), (CLIFF_RECORDS, cliff_grids, cliff_page))
    measured = [kind for kind in kinds if kind[0].exists()]
    if not measured and not COMPACTION_RECORDS.exists():
        raise FileNotFoundError(f"{RECORDS} is missing: nothing was measured")
    for records, to_grids, to_page in measured:
        found = pairs(read_records(records))
        _show(to_grids(found), console)
        text = to_page(text, found, Setting.read(setting_of(records)))
    if COMPACTION_RECORDS.exists():
        findings = read_findings(COMPACTION_RECORDS)
        _show(finding_grids(findings), console)
        text = finding_page(text, findings, Setting.read(setting_of(COMPACTION_RECORDS)))
    _PAGE.write_text(text, encoding="utf-8")
    console.print(f"written into {_PAGE.relative_to(REPOSITORY)}")


def _show(tables: Sequence[Grid], console: Console) -> None:
    for grid in tables:
        console.print(grid.rich())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.bench", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("command", choices=("run", "report"), nargs="?", default="run")
    add("--rows", type=int, default=_ROWS, help="of the base; sizes the rest, too (%(default)s)")
    add("--batches", type=int, default=BATCHES, help="appends and deletes on it (%(default)s)")
    add("--small", action="store_true", help="very few rows, once, cold: a test that it runs")
    add("--cold", action="store_true", help="no warm-up on small tables first")
    add("--repeats", type=int, default=_REPEATS, help="of each case (%(default)s)")
    add("--threads", type=int, default=os.cpu_count(), help="of Spark (%(default)s)")
    add("--driver-memory", default="3g", help="heap of Spark's JVM (%(default)s)")
    add("--peers", nargs="*", choices=PEERS, default=(), help="other table formats to measure")
    add("--system", choices=tuple(SYSTEMS), default=OURS, help=argparse.SUPPRESS)
    add("--changes", action="store_true", help="measure only the cost of reading changes")
    add("--cliffs", nargs="*", choices=PARTS, help="measure these cliffs (all) instead")
    add("--compaction", nargs="*", choices=COMPACTION_PARTS, help="measure these compactions (all)")
    add("--scale", type=float, default=1.0, help="of the sizes of cliffs and compactions")
    add("--records", type=Path, help="file for the raw figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
