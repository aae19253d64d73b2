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
writes them into docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import CalledProcessError
from typing import Final

from rich.console import Console

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.local.process import LocalServerError
from tests.proofs.bench.courses import COURSES, Options
from tests.proofs.bench.data import BATCHES, Sizes
from tests.proofs.bench.grid import Grid, page
from tests.proofs.bench.lab import REPOSITORY, Setting, Strength
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.records import OURS
from tests.proofs.bench.systems import PEERS, SYSTEMS
from tests.proofs.programs import clocked, end_orderly

_FAILED: Final = 1
_ROWS: Final = 4_000_000
_SMALL: Final = Sizes(rows=10_000, batches=2)
_SMALL_SCALE: Final = 0.002
_REPEATS: Final = 3
_PAGE: Final = REPOSITORY / "docs" / "evidence" / "performance.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(argv)
    console = Console(highlight=False)
    end_orderly()
    try:
        if options.command == "report":
            _report(console)
        else:
            _run(options, console)
    except (WrongRowsError, LocalServerError, HiveAcidError, OSError, CalledProcessError) as error:
        console.print(f"FAILED: {error}", markup=False, soft_wrap=True)
        return _FAILED
    return 0


def _run(options: argparse.Namespace, console: Console) -> None:
    say = clocked(partial(console.print, markup=False, soft_wrap=True))
    parts = {"compaction": options.compaction, "cliffs": options.cliffs}
    name = next((name for name, chosen in parts.items() if chosen is not None), "sales")
    course = COURSES["changes" if options.changes and name == "sales" else name]
    path = (options.records or course.records).resolve()
    records = course.measure(
        Options(
            system=options.system,
            peers=tuple(options.peers),
            sizes=_SMALL if options.small else Sizes(rows=options.rows, batches=options.batches),
            scale=_SMALL_SCALE if options.small else options.scale,
            parts=tuple(parts.get(name) or ()),
            strength=Strength(
                repeats=1 if options.small else options.repeats,
                warms_up=not (options.cold or options.small),
                threads=options.threads,
                driver_memory=options.driver_memory,
            ),
            records=path,
        ),
        say,
    )
    if records:
        say(f"{len(records)} raw figures in {path}")
    if options.system == OURS:
        _show(course.grids(course.shown(records)), console)


def _report(console: Console) -> None:
    """Print and write the figures of each course that was measured."""
    text = _PAGE.read_text(encoding="utf-8")
    measured = [
        (course.mark, course)
        for course in COURSES.values()
        if course.mark and course.records.exists()
    ]
    if not measured:
        raise FileNotFoundError(f"{COURSES['sales'].records} is missing: nothing was measured")
    for mark, course in measured:
        shown = course.shown(course.read(course.records))
        tables, setting = course.grids(shown), Setting.read_beside(course.records)
        _show(tables, console)
        text = page(text, mark, tables, shown, setting)
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
    cliffs, compactions = COURSES["cliffs"].parts, COURSES["compaction"].parts
    add("--cliffs", nargs="*", choices=cliffs, help="measure these cliffs (all) instead")
    add("--compaction", nargs="*", choices=compactions, help="measure these compactions (all)")
    add("--scale", type=float, default=1.0, help="of the sizes of cliffs and compactions")
    add("--records", type=Path, help="file for the raw figures")
    return parser


if __name__ == "__main__":
    sys.exit(main())
