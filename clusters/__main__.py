"""Knows the command of the clusters.

    python -m clusters [AREA ...] [--only WORDS] [--keep FOLDER] [--write]

Tries every combination of these areas (all, if none is named) whose name has the words, writes
docs/clusters.json and .md and the README's table, and ends with 1 if one failed. With --write it
tries nothing, as after a merge of the json. Wants tests/ on PYTHONPATH, as `make clusters` has it.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusters.cells import FAILED, JSON, PAGE, README, Cell, drop_others, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

_AREAS: Final = ["doors", "guides", "hdfs", "kerberos", "kubernetes", "places", "s3", "yarn"]


def main(argv: Sequence[str] | None = None) -> int:
    """Try areas and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m clusters")
    # No `choices`: Python 3.11 refuses an empty list by them.
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(_AREAS))
    parser.add_argument("--only", default="", help="combinations whose name has these words")
    parser.add_argument("--keep", help="folder for servers and logs, which stays")
    parser.add_argument(
        "--write", action="store_true", help="try nothing: write page and table from the json"
    )
    asked = parser.parse_args(argv)
    if unknown := set(asked.areas) - set(_AREAS):
        parser.error(f"no such area: {', '.join(sorted(unknown))}; there are {', '.join(_AREAS)}")
    if asked.write:
        keep([], JSON, PAGE, README)
        return 0
    folder = Path(asked.keep or tempfile.mkdtemp(prefix="hiveacid-clusters-"))
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Cell] = []
    broken: list[str] = []
    try:
        for area in asked.areas or _AREAS:
            place = folder / area
            place.mkdir(exist_ok=True)
            try:
                tried = _try(area, place, asked.only)
            except Exception:  # noqa: BLE001 - other areas have servers of their own
                traceback.print_exc()
                broken.append(area)
                continue
            if tried and not asked.only:
                drop_others(tried, JSON, PAGE, README)
            found += tried
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if broken:
        print(f"not tried to the end: {', '.join(broken)}", flush=True)
    failed = [cell for cell in found if cell.outcome == FAILED]
    return 1 if failed or broken or not found else 0


def _try(area: str, place: Path, only: str) -> list[Cell]:
    """The cells of one area, each kept as it comes."""
    tried: list[Cell] = []
    for cell in importlib.import_module(f"clusters.{area}").cells(place, only):
        print(f"{cell.outcome:7} {cell.version:22} {cell.combination} {cell.note}", flush=True)
        tried.append(cell)
        keep([cell], JSON, PAGE, README)
    return tried


if __name__ == "__main__":
    sys.exit(main())
