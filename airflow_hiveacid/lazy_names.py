"""Lazy exports: a public module exports names, and imports their modules on first use.

Users import from a few public modules, but the definitions are in different modules. The import of
a public module must be fast, because a scheduler parses DAGs every few seconds. A public module
must not require Airflow or PySpark, because some processes do not have both.

Type checkers read the stub beside a public module, which `python -m tools.face_stubs` writes.

Example:
    >>> get, list_names, names = lazy_names("a_face", {"pathlib": ["Path"], "json": ["dumps"]})
    >>> get("Path").__name__
    'Path'
    >>> list_names() == names == ["Path", "dumps"]
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

_OF_AIRFLOW: Final = {f"airflow_hiveacid.{n}" for n in ("assets", "hooks", "operators", "sensors")}


def lazy_names(
    face: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a public module.

    Args:
        face: the name of the public module.
        homes: a mapping from each defining module to the names that are exported from it.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:  # noqa: ANN401 - exported names have various types
        if name not in home_of:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        if face in _OF_AIRFLOW:  # an old Airflow lacks names that the modules import
            import_module("airflow_hiveacid.supported_versions").check_airflow()
        return getattr(import_module(home_of[name]), name)

    return get, lambda: sorted(home_of), sorted(home_of)
