"""The supported versions of Airflow, metastore, PySpark, Java and Python.

docs/reference/versions.md shows them; a test compares both. Imports none of these parts, so that a
version can be checked before a part that may be too old is imported.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError

PAGE: Final = "docs/reference/versions.md"


@dataclass(frozen=True, slots=True)
class Window:
    """The supported versions of one part, oldest first."""

    part: str
    versions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.part} {self.versions[0]} to {self.versions[-1]}"

    def fault(self, found: str) -> str | None:
        """Return "too old", "too new", or None for a version in the window."""
        if _numbers(found, self.versions[0]) < _numbers(self.versions[0], self.versions[0]):
            return "too old"
        newest = _numbers(self.versions[-1], self.versions[-1])
        return "too new" if _numbers(found, self.versions[-1]) > newest else None

    def check(self, found: str, *, newest: bool = False) -> None:
        """Raise ConfigurationError for a version that is too old; if `newest`, also if too new."""
        fault = self.fault(found)
        if fault == "too old" or (fault and newest):
            raise ConfigurationError(
                f"{self.part} {found} is {fault} for airflow-provider-hiveacid, which runs on"
                f" {self}; install one of these. {PAGE} lists all supported versions."
            )


AIRFLOW: Final = Window("Airflow", ("3.1", "3.2", "3.3"))
METASTORE: Final = Window("Hive metastore", ("3.1.2", "3.1.3", "4.0.1", "4.1.0", "4.2.0"))
PYSPARK: Final = Window("PySpark", ("3.5", "4.0", "4.1", "4.2", "4.3"))
JAVA: Final = Window("Java", ("11", "17", "21", "25"))
PYTHON: Final = Window("Python", ("3.11", "3.12", "3.13"))


@cache
def check_airflow() -> None:
    """Raise ConfigurationError for an old Airflow or a later major version; pass without one.

    Each name that a DAG file imports asks, and reading the version takes milliseconds.
    """
    for package in ("apache-airflow-core", "apache-airflow"):  # the latter alone: 2.x
        with suppress(PackageNotFoundError):
            found = version(package)
            AIRFLOW.check(found, newest=not found.startswith("3."))
            return


def _numbers(text: str, like: str) -> tuple[int, ...]:
    """Return as many numbers of a version as another one has."""
    return tuple(map(int, re.findall(r"\d+", text)[: like.count(".") + 1]))
