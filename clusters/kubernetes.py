"""Kubernetes: what an operator's task goes through there, as far as an API server that pretends.

On each store, too, where a driver is in the cluster; `places` and `kerberos` have the others.

Its pods are processes of this machine, in which Spark's own code runs: the submission, the driver,
the executors. Its lives are tests of Airflow's environment, which this one has no part of.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from clusters.lives import Lives
from clusters.overview import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell

_TESTS: Final = ("tests/airflow/test_kubernetes.py", "tests/airflow/test_kubernetes_kerberos.py")
# Whose lives show that a job runs there, and the login and the store with which it does.
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
    """See `Lives`."""
    lives = Lives(
        area="Kubernetes, whose API server pretends",
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
