"""Which modules users import from, and which names each of them hands on, read from their stubs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from tools import face_stubs

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "airflow_hiveacid"
ANYWHERE: Final = ("acid", "errors")
"""Faces that need no Airflow; those of Airflow are the others."""
OF_AIRFLOW: Final = ("assets", "hooks", "operators", "sensors")
FACES: Final = face_stubs.FACES


def names_of(face: str) -> list[str]:
    """The names that it hands on."""
    return list(homes_of(face))


def homes_of(face: str) -> dict[str, str]:
    """The module of each name, as type checkers find it."""
    return {
        alias.asname: node.module
        for node in ast.parse(face_stubs.stub_file(face).read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.asname == alias.name
    }
