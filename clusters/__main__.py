"""Knows the command that runs what users have as clusters.

    python -m clusters [--areas hdfs] [--only WORD]

Wants the tests' servers on PYTHONPATH, as `make clusters` has them. Ends with 1 if a combination
came to something else than it should.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clusters.cells import Cell, keep

if TYPE_CHECKING:
    from collections.abc import Sequence

_AREAS: Final = ("hdfs",)
_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the areas and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m clusters", description=__doc__)
    parser.add_argument("--areas", nargs="+", choices=_AREAS, default=_AREAS)
    parser.add_argument("--only", default="", help="combinations whose name has this; not kept")
    asked = parser.parse_args(argv)
    began, found = time.monotonic(), list[Cell]()
    for area in asked.areas:
        with tempfile.TemporaryDirectory(prefix=f"clusters-{area}-") as folder:
            for cell in importlib.import_module(f"clusters.{area}").cells(Path(folder), asked.only):
                found.append(cell)
                line = f"{cell.area} {cell.combination}: {cell.outcome} {cell.note}"
                print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)
    if not asked.only:
        keep(found, _DOCS)
    return 1 if any(cell.outcome == "failed" for cell in found) else 0


if __name__ == "__main__":
    sys.exit(main())
