"""YARN: what an operator's task goes through on a real one, with tables on a real HDFS.

Its lives are tests of Airflow's environment, which this one has no part of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusters.lives import Lives
from contract.stores.mini_hdfs import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell

_LIVES: Final = {
    "YARN": ("tests/airflow/test_yarn.py",),
    "YARN behind Kerberos": (
        "tests/airflow/test_yarn_kerberos.py",
        "tests/airflow/test_guides.py::test_the_guide_for_yarn_behind_kerberos_runs_as_written",
    ),
}


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    for area, tests in _LIVES.items():
        lives = Lives(area=area, version=VERSION, tests=tests, environment=".venv")
        (folder / area).mkdir(exist_ok=True)
        yield from lives.cells(folder / area, only)
