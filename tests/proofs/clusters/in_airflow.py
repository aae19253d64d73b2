"""Areas whose combinations are tests in Airflow's environment, which is separate from this one.

YARN is a real one, with tables on each store. Kubernetes' API server is simulated; its pods are
processes of this machine, which run Spark's own code: the submission, the driver, the executors.
The guides for whole clusters are run as they are written, except that for S3, which is in `s3`;
each searches everything that its jobs have left for the secrets it used: logs, event logs, specs,
XComs, and the command lines of all processes while it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.contract.stores.mini_hdfs import VERSION
from tests.proofs.clusters.cells import Cell, Place
from tests.proofs.clusters.lives import Lives

_GUIDES: Final = "tests/airflow/test_guides.py"
_KERBEROS: Final = ("Kerberos", "HDFS behind Kerberos")
_GUIDE_PLACES: Final = {
    "test_every_command_of_the_guide_for_ldap_runs": Place("local", "password", "disk"),
    "test_every_command_of_the_guide_for_hdfs_with_kerberos_runs": Place("local", *_KERBEROS),
}
# Tests that show that a job runs there, with its login and store.
_PLACES: Final = {
    "test_an_insert_runs_in_pods_and_the_api_token_is_only_in_its_file": ("none", "disk"),
    "test_an_insert_and_a_delete_run_in_pods_for_a_table_on_hdfs": ("none", "HDFS"),
    "test_an_insert_and_a_delete_run_in_pods_for_a_table_on_s3": ("none", "S3"),
    "test_an_insert_and_a_delete_run_in_pods_with_kerberos_on_every_server": _KERBEROS,
    "test_an_insert_runs_on_yarn_for_a_table_on_hdfs": ("none", "HDFS"),
    "test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_a_shared_disk": ("none", "disk"),
    "test_an_insert_and_a_delete_run_on_yarn_for_a_table_on_s3": ("none", "S3"),
    "test_insert_merge_compaction_and_cleaning_run_on_yarn_with_kerberos": _KERBEROS,
}


def guides(folder: Path, only: str) -> Iterator[Cell]:
    tests = tuple(f"{_GUIDES}::{name}" for name in _GUIDE_PLACES)
    return _lives("Guides", "4.0.1", tests, _GUIDE_PLACES.get).cells(folder, only)


def kubernetes(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each test, with drivers in the cluster on each store; see `Lives`.

    `places` and `kerberos` have the others.
    """
    lives = _lives(
        "Kubernetes with a simulated API server",
        f"PySpark {version('pyspark')}",
        ("tests/airflow/test_kubernetes.py", "tests/airflow/test_kubernetes_kerberos.py"),
        partial(_place_of, "Kubernetes"),
    )
    return lives.cells(folder, only)


def yarn(folder: Path, only: str) -> Iterator[Cell]:
    guide = f"{_GUIDES}::test_every_command_of_the_guide_for_yarn_with_kerberos_runs"
    for area, tests in {
        "YARN": ("tests/airflow/test_yarn.py",),
        "YARN behind Kerberos": ("tests/airflow/test_yarn_kerberos.py", guide),
    }.items():
        # A JVM's options and HDFS's own folders allow no blank in a path.
        place = folder / area.replace(" ", "-")
        place.mkdir(exist_ok=True)
        yield from _lives(area, VERSION, tests, partial(_place_of, "YARN")).cells(place, only)


def _lives(
    area: str, servers: str, tests: tuple[str, ...], place: Callable[[str], Place | None]
) -> Lives:
    return Lives(area=area, version=servers, tests=tests, environment=".venv", place=place)


def _place_of(master: str, test: str) -> Place | None:
    name, _, mode = test.rstrip("]").partition("[")
    found = _PLACES.get(name)
    return Place(f"{master}, {mode}", *found) if found else None
