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
    "test_an_insert_runs_in_pods_and_the_api_token_is_only_in_its_file": ("none", "disk"),
    "test_an_insert_and_a_delete_run_in_pods_for_a_table_on_hdfs": ("none", "HDFS"),
    "test_an_insert_and_a_delete_run_in_pods_for_a_table_on_s3": ("none", "S3"),
    "test_an_insert_and_a_delete_run_in_pods_with_kerberos_on_every_server": (
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
