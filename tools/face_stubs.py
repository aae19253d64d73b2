"""The stubs of the public modules: where type checkers find the names that are imported lazily.

    .venv/bin/python -m tools.face_stubs

A test compares the stubs with the output of this program.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

FACES: Final = tuple(
    f"airflow_hiveacid.{name}"
    for name in ("acid", "assets", "errors", "hooks", "operators", "sensors")
)
"""The modules that users import from."""


def stub_file(face: str) -> Path:
    """Return the path of a public module's stub."""
    return Path(str(import_module(face).__file__)).with_suffix(".pyi")


def stub_text(face: str) -> str:
    """Return the stub of a public module; a name that is imported under itself is exported."""
    lines = [
        f"from {home} import {name} as {name}"
        for home, names in vars(import_module(face))["_HOMES"].items()
        for name in names
    ]
    return "\n".join(["# Made by `python -m tools.face_stubs`.", *sorted(lines)]) + "\n"


if __name__ == "__main__":
    for one in FACES:
        stub_file(one).write_text(stub_text(one))
