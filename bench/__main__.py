"""Knows the commands of the measurement.

    python -m bench [run] [--rows 4000000 | --small] [--repeats 3] [--peers delta iceberg]
    python -m bench report

`run` measures, writes the records (build/bench.json, and beside them what they were taken on),
prints the tables, and ends with 0; with 1 when a system ends in other rows than it should.
`report` prints the tables of the last run again and writes them into docs/performance.md.
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

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.local.errors import LocalServerError
from bench.check import WrongRowsError
from bench.figures import pairs
from bench.lab import REPOSITORY
from bench.machine import Setting
from bench.measurement import RECORDS, Options, measure, setting_of
from bench.records import OURS, read_records
from bench.report import grids, page
from bench.systems import PEERS, SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from bench.records import Record

_FAILED: Final = 1
_ROWS: Final = 4_000_000
_SMALL_ROWS: Final = 100_000
_REPEATS: Final = 3
_PAGE: Final = REPOSITORY / "docs" / "performance.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(argv)
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, _end)  # servers and folders are cleared away on the way out
    try:
        if options.command == "run":
            _run(options, console)
        else:
            _report(options, console)
    except (WrongRowsError, LocalServerError, HiveAcidError, OSError, CalledProcessError) as error:
        console.print(f"FAILED: {error}", markup=False, soft_wrap=True)
        return _FAILED
    return 0


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def _run(options: argparse.Namespace, console: Console) -> None:
    began = time.monotonic()

    def say(line: str) -> None:
        console.print(f"{time.monotonic() - began:7.1f} s  {line}", markup=False, soft_wrap=True)

    records = measure(
        Options(
            system=options.system,
            peers=tuple(options.peers),
            rows=_SMALL_ROWS if options.small else options.rows,
            repeats=1 if options.small else options.repeats,
            warms_up=not (options.cold or options.small),
            threads=options.threads,
            driver_memory=options.driver_memory,
            records=options.records.resolve(),
        ),
        say,
    )
    say(f"{len(records)} records in {options.records}")
    if options.system == OURS:
        _show(records, console)


def _report(options: argparse.Namespace, console: Console) -> None:
    records = read_records(options.records)
    setting = Setting.read(setting_of(options.records))
    _show(records, console)
    text = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(page(text, pairs(records), setting), encoding="utf-8")
    console.print(f"written into {_PAGE.relative_to(REPOSITORY)}")


def _show(records: Sequence[Record], console: Console) -> None:
    for grid in grids(pairs(records)):
        console.print(grid.rich())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("command", choices=("run", "report"), nargs="?", default="run")
    add("--rows", type=int, default=_ROWS, help="of the base; the rest follows (%(default)s)")
    add("--small", action="store_true", help=f"{_SMALL_ROWS} rows, once, cold: does it run?")
    add("--cold", action="store_true", help="no warm-up on a small table first")
    add("--repeats", type=int, default=_REPEATS, help="of each case (%(default)s)")
    add("--threads", type=int, default=os.cpu_count(), help="of Spark (%(default)s)")
    add("--driver-memory", default="3g", help="heap of Spark's JVM (%(default)s)")
    add("--peers", nargs="*", choices=PEERS, default=(), help="other table formats to measure")
    add("--system", choices=tuple(SYSTEMS), default=OURS, help=argparse.SUPPRESS)
    add("--records", type=Path, default=RECORDS, help="where the raw figures are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
