"""What documentation and examples import of us is public, and so are the errors they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format import errors
from tests.arch.faces import FACES, PACKAGE, ROOT, names_of

_PAGES: Final = [
    ROOT / "README.md",
    *(p for p in sorted(ROOT.glob("docs/**/*.md")) if p.parent.name != "decisions"),
]
_PROGRAMS: Final = [
    *ROOT.glob("dags/*.py"),
    *ROOT.glob("spark_apps/examples/*.py"),
    *ROOT.glob("docker/**/*.py"),
    ROOT / "demo" / "pyspark_startup.py",
]
_FROM: Final = re.compile(rf"\bfrom\s+({PACKAGE}[\w.]*)\s+import\s+(\([^)]*\)|[^\n;]+)")
_IMPORT: Final = re.compile(rf"^\s*import\s+({PACKAGE}[\w.]*)", re.MULTILINE)
_PATH: Final = re.compile(rf"\b{PACKAGE}(?:\.[a-z_]\w*)+")
# Not imported by users: a command, and what pytest and Airflow load by its name.
_NAMED: Final = {f"{PACKAGE}.{name}" for name in ("local", "local.pytest_plugin", "bundles")}


def not_public(text: str) -> list[str]:
    """What a text imports or names of our modules that is not public."""
    wrong = [f"import {module}" for module in _IMPORT.findall(text) if module not in FACES]
    for module, listed in _FROM.findall(text):
        given = re.sub(r"#[^\n]*|[()\s]", " ", listed).replace(",", " , ")
        names = [name.split()[0] for name in given.split(",") if name.strip()]
        if module == PACKAGE:
            wrong += [f"{PACKAGE}.{name}" for name in names if f"{PACKAGE}.{name}" not in FACES]
        elif module in FACES:
            wrong += [f"{module}.{name}" for name in names if name not in names_of(module)]
        else:
            wrong.append(f"from {module}")
    return wrong + [path for path in _PATH.findall(text) if path not in {*FACES, *_NAMED}]


def relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", [*_PAGES, *_PROGRAMS], ids=relative)
def test_documentation_and_examples_import_only_public_names(file: Path) -> None:
    assert not_public(file.read_text()) == []


def test_the_imports_of_pages_and_programs_are_found() -> None:
    everything = "\n".join(file.read_text() for file in [*_PAGES, *_PROGRAMS])
    found = {module for module, _ in _FROM.findall(everything)}
    assert found >= {PACKAGE, *(f"{PACKAGE}.{face}" for face in ("acid", "hooks", "operators"))}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("from airflow_hiveacid.operators.sql import HiveAcidSqlOperator", "from"),
        ("from airflow_hiveacid.operators import sql", "airflow_hiveacid.operators.sql"),
        ("x; from airflow_hiveacid.acid import (\n    run,  # why\n    story,\n)", "acid.story"),
        ("from airflow_hiveacid import acid, spark", "airflow_hiveacid.spark"),
        ("import airflow_hiveacid.format.errors", "import airflow_hiveacid.format.errors"),
        ("values (`airflow_hiveacid.plan.x`)", "airflow_hiveacid.plan.x"),
    ],
)
def test_an_internal_module_or_name_is_refused(text: str, wrong: str) -> None:
    assert wrong in " ".join(not_public(text))


@pytest.mark.parametrize("file", _PAGES, ids=relative)
def test_errors_that_a_page_names_can_be_imported(file: Path) -> None:
    named = set(re.findall(r"\b[A-Z]\w*Error\b", file.read_text()))
    ours = {name for name in named if hasattr(errors, name)}
    assert ours - {*names_of(f"{PACKAGE}.errors")} == set()
