"""The command that runs the queries of TPC-DS.

    python -m tests.proofs.tpcds [--scale 0.02] [--queries 3 7] [--generator build/tpcds-generator]

It runs each of the 99 over flat files and over ACID tables: after two inserts filled these, after
rows of seven of them were deleted, after a minor compaction, after a major one. It exits
with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from tests.proofs.programs import clocked, laboratory, metastore, working_folder
from tests.proofs.tpcds.course import Course


def generate(folder: Path, scale: float, generator: Path) -> None:
    """Generate the files with the DuckDB that is installed there."""
    subprocess.run(
        [sys.executable, "-m", "tests.proofs.tpcds.generate", str(folder), str(scale)],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(generator), str(Path.cwd())])},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the queries and return the exit status."""
    asked = _parser().parse_args(argv)
    say = clocked()
    wrong: list[str] = []
    with (
        working_folder(None, "tpcds") as folder,
        metastore(folder) as server,
        # Its joins broadcast tables, for which 1g was not enough.
        laboratory(server, heap="3g") as lab,
    ):
        generate(folder / "flat", asked.scale, asked.generator)
        course = Course(lab=lab, folder=folder / "flat")
        stages: dict[str, Callable[[], None]] = {
            "loaded": course.load,
            "deleted": course.delete,
            "minor compaction": lambda: course.compact(CompactionChoice.MINOR),
            "major compaction": lambda: course.compact(CompactionChoice.MAJOR),
        }
        for stage, reach in stages.items():
            reach()
            found = course.compare(stage, asked.queries)
            wrong += found
            told = f"{course.rows(asked.queries)} rows, {len(found)} answers differ"
            say("\n  ".join([f"{stage}: {len(asked.queries)} queries, {told}", *found]))
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.tpcds", description=__doc__)
    parser.add_argument("--scale", type=float, default=0.02, help="1 is a gigabyte")
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 100)))
    parser.add_argument("--generator", type=Path, default=Path("build/tpcds-generator"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
