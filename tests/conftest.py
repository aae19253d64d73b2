"""Knows which tier a test belongs to, and which promises it proves.

Tiers are folders: nobody marks a test by hand, except with `server` where it starts a metastore
without one of the fixtures. Promises become properties of the JUnit file, where `make promises`
finds them.
"""

from __future__ import annotations

import importlib.metadata
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from airflow_hiveacid.format import known_secrets
from tools.promises import read_promises

# The laboratory needs PySpark itself, which the Airflow environment does not hold.
_LABORATORY: Final = (
    ["tests.support.spark_lab"] if any(importlib.metadata.distributions(name="pyspark")) else []
)
pytest_plugins = ["airflow_hiveacid.local.pytest_plugin", *_LABORATORY]

# A busy machine is no failure: how long an example took says nothing of what it proves. The same
# code always gets the same examples, so a commit that passed passes again. `make long` takes more
# and other ones; tests that set their number take a multiple of this one.
_EXAMPLES: Final = os.environ.get("HIVEACID_EXAMPLES")
settings.register_profile(
    "busy",
    deadline=None,
    derandomize=_EXAMPLES is None,
    max_examples=int(_EXAMPLES or "40"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy")

_HERE: Final = Path(__file__).resolve().parent
_TIERS: Final = {
    "contract": ("contract",),
    "spark": ("spark",),
    "airflow": ("airflow",),
    "interop": ("interop", "judge"),
    "bench": ("bench",),
}
# What starts something lies where tools/run_tests.sh looks for it.
_STARTING: Final = {
    "server": ("contract", "spark", "interop", "airflow", "bench"),
    "spark": ("spark",),
    "interop": ("interop",),
    "judge": ("interop",),
}
_SERVER_FIXTURES: Final = frozenset(
    {"hive_metastore", "hive_metastore_3", "hive_metastore_on_postgres"}
)

# The Spark environment holds no Airflow: there these folders could not even be imported. They run
# in the other environment (tools/run_tests.sh), where nothing is left out. Asked by distribution,
# since `import airflow` would find the folder of that name beside this file.
_OF_AIRFLOW: Final = (
    "airflow",
    "support/airflow_minors.py",
    *map(str, _HERE.glob("support/*_tasks.py")),
)
_HAS_AIRFLOW: Final = any(importlib.metadata.distributions(name="apache-airflow"))
# The proofs are no tests, and some need packages that only their own command installs.
collect_ignore = ["proofs", *(() if _HAS_AIRFLOW else _OF_AIRFLOW)]


@pytest.fixture(autouse=True)
def _no_known_secrets() -> None:
    """Hides in a test's messages only the secrets that this test has read."""
    known_secrets.forget_secrets()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test by its folder and fixtures, and notes its promises."""
    known = {
        promise.id for promise in read_promises(_HERE.parent / "docs" / "evidence" / "promises.md")
    }
    for item in items:
        for marker in _markers(item.path):
            item.add_marker(marker)
        if _is_long_case(item):
            item.add_marker("long")
        if _SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("server")
        _check_folder(item)
        _note_promises(item, known)


def _markers(file: Path) -> tuple[str, ...]:
    if not file.is_relative_to(_HERE):
        return ()
    folders = file.relative_to(_HERE).parts[:-1]
    return _TIERS.get(folders[0], ()) if folders else ()


def _is_long_case(item: pytest.Item) -> bool:
    """Return whether the ID of a case matches a pattern of `long_cases`."""
    case = getattr(item, "callspec", None)
    patterns = [arg for marker in item.iter_markers("long_cases") for arg in marker.args]
    return case is not None and any(fnmatchcase(case.id, pattern) for pattern in patterns)


def _check_folder(item: pytest.Item) -> None:
    for marker, folders in _STARTING.items():
        if item.get_closest_marker(marker) and item.path.relative_to(_HERE).parts[0] not in folders:
            places = " or ".join(f"tests/{folder}" for folder in folders)
            raise pytest.UsageError(f"{item.nodeid} is marked {marker}: it belongs into {places}")


def _note_promises(item: pytest.Item, known: set[str]) -> None:
    for marker in item.iter_markers("promise"):
        for promise in marker.args:
            if promise not in known:
                raise pytest.UsageError(
                    f"{item.nodeid}: no promise {promise} in docs/evidence/promises.md"
                )
            item.user_properties.append(("promise", promise))
