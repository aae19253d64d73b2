"""The command of the clusters.

    python -m tests.proofs.clusters [AREA ...] [--only WORDS] [--keep FOLDER] [--write]

It tries every combination of these areas (default: all) with the words in its name, writes
docs/evidence/clusters.json and .md and the table of support.md, and exits with 1 if one failed.
With --write it tries nothing, for use after a merge of the json.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.proofs.clusters import hdfs, in_airflow, kerberos, logins, places, s3
from tests.proofs.clusters.cells import FAILED, JSON, PAGE, SUPPORT, Cell, drop_others, keep
from tests.proofs.programs import refuse_unknown, working_folder

_AREAS: Final[Mapping[str, Callable[[Path, str], Iterator[Cell]]]] = {
    "guides": in_airflow.guides,
    "hdfs": hdfs.cells,
    "kerberos": kerberos.cells,
    "kubernetes": in_airflow.kubernetes,
    "logins": logins.cells,
    "places": places.cells,
    "s3": s3.cells,
    "yarn": in_airflow.yarn,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Try areas and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.clusters")
    parser.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(_AREAS))
    parser.add_argument("--only", default="", help="combinations whose name has these words")
    parser.add_argument("--keep", help="folder for servers and logs, which stays")
    parser.add_argument(
        "--write", action="store_true", help="try nothing: write page and table from the json"
    )
    asked = parser.parse_args(argv)
    refuse_unknown(parser, "area", asked.areas, _AREAS)
    if asked.write:
        keep([], JSON, PAGE, SUPPORT)
        return 0
    found: list[Cell] = []
    broken: list[str] = []
    with working_folder(asked.keep, "hiveacid-clusters") as folder:
        for area in asked.areas or _AREAS:
            place = folder / area
            place.mkdir(exist_ok=True)
            try:
                tried = _try(area, place, asked.only)
            except Exception:  # noqa: BLE001 - other areas have their own servers
                traceback.print_exc()
                broken.append(area)
                continue
            if tried and not asked.only:
                drop_others(tried, JSON, PAGE, SUPPORT)
            found += tried
    if broken:
        print(f"not completely tried: {', '.join(broken)}", flush=True)
    failed = [cell for cell in found if cell.outcome == FAILED]
    return 1 if failed or broken or not found else 0


def _try(area: str, place: Path, only: str) -> list[Cell]:
    """Return the cells of one area, keeping each as it comes."""
    tried: list[Cell] = []
    for cell in _AREAS[area](place, only):
        print(f"{cell.outcome:7} {cell.version:22} {cell.combination} {cell.note}", flush=True)
        tried.append(cell)
        keep([cell], JSON, PAGE, SUPPORT)
    return tried


if __name__ == "__main__":
    sys.exit(main())
