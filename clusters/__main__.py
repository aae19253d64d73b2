"""Knows the command of the clusters.

    python -m clusters [AREA ...] [--only WORDS] [--keep FOLDER]

Tries every combination of these areas (all, if none is named) whose name has the words, writes
docs/clusters.json and .md, and ends with 1 if one failed. Wants tests/ on PYTHONPATH, as
`make clusters` has it.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusters.cells import FAILED, Cell, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

_AREAS: Final = ["doors", "hdfs", "kerberos", "s3", "yarn"]


def main(argv: Sequence[str] | None = None) -> int:
    """Try areas and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m clusters")
    parser.add_argument("areas", nargs="*", choices=_AREAS, default=_AREAS)
    parser.add_argument("--only", default="", help="combinations whose name has these words")
    parser.add_argument("--keep", help="folder for servers and logs, which stays")
    asked = parser.parse_args(argv)
    folder = Path(asked.keep or tempfile.mkdtemp(prefix="hiveacid-clusters-"))
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Cell] = []
    try:
        for area in asked.areas:
            place = folder / area
            place.mkdir(exist_ok=True)
            for cell in importlib.import_module(f"clusters.{area}").cells(place, asked.only):
                print(
                    f"{cell.outcome:7} {cell.version:22} {cell.combination} {cell.note}", flush=True
                )
                found.append(cell)
                keep([cell])
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    failed = [cell for cell in found if cell.outcome == FAILED]
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
