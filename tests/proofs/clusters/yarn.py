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
        "tests/airflow/test_guides.py::test_every_command_of_the_guide_for_yarn_with_kerberos_runs",
    ),
}
# Tests that show that a job runs there, with its login and store.
_PLACES: Final = {
    "test_an_insert_runs_on_yarn_for_a_table_on_hdfs": ("none", "HDFS"),
    "test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_a_shared_disk": ("none", "disk"),
    "test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_s3": ("none", "S3"),
    "test_insert_merge_compaction_and_cleaning_run_on_yarn_with_kerberos": (
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
