"""YARN: what an operator's task goes through on a real one, with tables on a real HDFS.

Its lives are tests of Airflow's environment, which this one has no part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.lives import Lives
from clusters.overview import Place
from contract.stores.mini_hdfs import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    tests = ("tests/airflow/test_yarn.py",)
    lives = Lives(area="YARN", version=VERSION, tests=tests, environment=".venv", place=_of_insert)
    return lives.cells(folder, only)


def _of_insert(test: str) -> Place | None:
    name, _, mode = test.rstrip("]").partition("[")
    is_insert = name == "test_rows_are_inserted_by_a_driver_on_yarn"
    return Place(f"YARN, {mode}", "none", "HDFS") if is_insert else None
