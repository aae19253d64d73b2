"""Kubernetes: the life of an operator's task there, as far as a simulated API server goes.

It includes drivers in the cluster on each store; `places` and `kerberos` have the others.

Its pods are processes of this machine, which run Spark's own code: the submission, the driver, the
executors. Its cells are tests in Airflow's environment, which is separate from this one.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tests.proofs.clusters.lives import Lives
from tests.proofs.clusters.overview import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.proofs.clusters.cells import Cell

_TESTS: Final = ("tests/airflow/test_kubernetes.py", "tests/airflow/test_kubernetes_kerberos.py")
# Tests that show that a job runs there, with its login and store.
_PLACES: Final = {
    "test_rows_are_inserted_by_pods": ("none", "disk"),
    "test_a_table_on_hdfs_lives_by_pods": ("none", "HDFS"),
    "test_a_table_on_s3_lives_by_pods": ("none", "S3"),
    "test_a_table_lives_by_pods_where_all_is_behind_kerberos": (
        "Kerberos",
        "HDFS behind Kerberos",
    ),
}


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each test; see `Lives`."""
    lives = Lives(
        area="Kubernetes with a simulated API server",
        version=f"PySpark {version('pyspark')}",
        tests=_TESTS,
        environment=".venv",
        place=_place_of,
    )
    return lives.cells(folder, only)


def _place_of(test: str) -> Place | None:
    name, _, mode = test.rstrip("]").partition("[")
    found = _PLACES.get(name)
    return Place(f"Kubernetes, {mode}", *found) if found else None
