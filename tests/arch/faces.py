"""Which modules users import from, and which names each of them hands on, read from their text."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = "airflow_hiveacid"
ANYWHERE: Final = ("acid", "errors")
"""Faces that need no Airflow; those of Airflow are the others."""
OF_AIRFLOW: Final = ("assets", "hooks", "operators", "sensors")
FACES: Final = tuple(f"{PACKAGE}.{face}" for face in sorted((*ANYWHERE, *OF_AIRFLOW)))


def tree_of(face: str) -> ast.Module:
    """The syntax of a face, by its full name."""
    path = ROOT.joinpath(*face.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text())


def names_of(face: str) -> list[str]:
    """Its `__all__`."""
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree_of(face).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return list(names)


def homes_of(face: str) -> dict[str, str]:
    """The module of each name, as type checkers find it."""
    return {
        alias.name: node.module
        for node in ast.walk(tree_of(face))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if alias.name in names_of(face)
    }
