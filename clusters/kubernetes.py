"""Kubernetes: what an operator's task goes through there, as far as an API server that pretends.

Its pods are processes of this machine, in which Spark's own code runs: the submission, the driver,
the executors. Its lives are tests of Airflow's environment, which this one has no part of.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from clusters.lives import Lives
from clusters.overview import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """See `Lives`."""
    tests = ("tests/airflow/test_kubernetes.py",)
    lives = Lives(
        area="Kubernetes, whose API server pretends",
        version=f"PySpark {version('pyspark')}",
        tests=tests,
        environment=".venv",
        place=_of_insert,
    )
    return lives.cells(folder, only)


def _of_insert(test: str) -> Place | None:
    name, _, mode = test.rstrip("]").partition("[")
    is_insert = name == "test_rows_are_inserted_by_pods"
    return Place(f"Kubernetes, {mode}", "none", "disk") if is_insert else None
