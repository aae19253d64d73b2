"""YARN: the life of an operator's task on a real one, with tables on each store.

Its cells are tests in Airflow's environment, which is separate from this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.contract.stores.mini_hdfs import VERSION
from tests.proofs.clusters.lives import Lives
from tests.proofs.clusters.overview import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.proofs.clusters.cells import Cell

_LIVES: Final = {
    "YARN": ("tests/airflow/test_yarn.py",),
    "YARN behind Kerberos": (
        "tests/airflow/test_yarn_kerberos.py",
        "tests/airflow/test_guides.py::test_the_guide_for_yarn_behind_kerberos_runs_as_written",
    ),
}
# Tests that show that a job runs there, with its login and store.
_PLACES: Final = {
    "test_rows_are_inserted_by_a_driver_on_yarn": ("none", "HDFS"),
    "test_a_table_on_a_disk_that_all_nodes_share_lives_on_yarn": ("none", "disk"),
    "test_a_table_on_s3_lives_on_yarn": ("none", "S3"),
    "test_a_table_lives_on_a_yarn_where_all_is_behind_kerberos": (
        "Kerberos",
        "HDFS behind Kerberos",
    ),
}


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each test; see `Lives`."""
    for area, tests in _LIVES.items():
        lives = Lives(area=area, version=VERSION, tests=tests, environment=".venv", place=_place_of)
        # A JVM's options and HDFS's own folders allow no blank in a path.
        place = folder / area.replace(" ", "-")
        place.mkdir(exist_ok=True)
        yield from lives.cells(place, only)


def _place_of(test: str) -> Place | None:
    name, _, mode = test.rstrip("]").partition("[")
    found = _PLACES.get(name)
    return Place(f"YARN, {mode}", *found) if found else None
