"""YARN: what an operator's task goes through on a real one, with tables on a real HDFS.

Its lives are tests of Airflow's environment, which this one has no part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.lives import Lives
from contract.stores.mini_hdfs import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    tests = ("tests/airflow/test_yarn.py",)
    lives = Lives(area="YARN", version=VERSION, tests=tests, environment=".venv")
    return lives.cells(folder, only)
