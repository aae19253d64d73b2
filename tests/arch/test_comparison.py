"""Each cell of the comparison with other providers has its source, and each of ours has a test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from airflow_hiveacid.cli.definition import COMMANDS

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "evidence" / "comparison.md"
SOURCES: Final = ROOT / "docs" / "evidence" / "comparison-sources.md"
COLUMNS: Final = ["this one", "Databricks", "Amazon", "Google", "Spark", "Cosmos"]
ENTRIES: Final = ["this one", "tests", *COLUMNS[1:]]

Rows: TypeAlias = dict[str, list[str]]
"""The cells of each row, without the first, by the first."""


def tables_of(text: str, heading: str) -> dict[str, str]:
    """Return the text below each heading of this level, by the heading."""
    parts = re.split(rf"^{heading} +", text, flags=re.MULTILINE)[1:]
    return {title.strip(): body for title, _, body in (part.partition("\n") for part in parts)}


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables in a text, without the rules below their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in lines]
    return [row for row in cells if set("".join(row)) != {"-"}]


def compared(text: str) -> dict[str, Rows]:
    """Return the rows of each section of the comparison that has a table with all columns."""
    found = {}
    for section, body in tables_of(text, "##").items():
        rows = rows_of(body)
        if rows:
            assert rows[0][-len(COLUMNS) :] == COLUMNS, section
            found[section] = {row[0]: row[1:] for row in rows[1:]}
    return found


def faults(page: str, sources: str) -> list[str]:
    """Return which entries the page of sources lacks for the rows of the comparison."""
    found = []
    named = {section: tables_of(body, "###") for section, body in tables_of(sources, "##").items()}
    for section, rows in compared(page).items():
        entries = named.pop(section, {})
        for row, cells in rows.items():
            if len(cells) != len(COLUMNS) or not all(cells):
                found.append(f"{section}, {row}: not one cell a column")
            columns = {entry[0]: entry[-1] for entry in rows_of(entries.pop(row, ""))[1:]}
            found += [
                f"{section}, {row}, {column}: no source"
                for column in ENTRIES
                if "`" not in columns.get(column, "")
            ]
        found += [f"{section}, {row}: not compared" for row in entries]
    return [*found, *(f"{section}: not compared" for section in named)]


@cache
def functions_in(path: Path) -> frozenset[str]:
    """Return the names of the functions of a file, read from its text."""
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def missing(entry: str) -> list[str]:
    """Return which files and tests of an entry the repository does not have."""
    found = []
    for name in re.findall(r"`([^`]+)`", entry):
        path, _, function = name.partition("::")
        file = ROOT / path
        if not file.is_file() or (function and function not in functions_in(file)):
            found.append(name)
    return found


def test_each_cell_has_a_source() -> None:
    page = PAGE.read_text()
    assert sum(len(rows) for rows in compared(page).values()) > 20
    assert faults(page, SOURCES.read_text()) == []


def test_each_file_and_test_of_ours_exists() -> None:
    entries = rows_of(SOURCES.read_text())
    ours = [row[1] for row in entries if row[0] == "this one"]
    tests = [row[1] for row in entries if row[0] == "tests"]
    assert len(ours) == len(tests) > 20
    assert [name for entry in ours + tests for name in missing(entry)] == []
    assert all(re.search(r"`tests/\S+\.py::test_\w+`", entry) for entry in tests)
    assert all("`airflow_hiveacid/" in entry for entry in ours)


def test_the_numbers_of_commands_and_metrics_are_those_of_the_code() -> None:
    (rows,) = (rows for rows in compared(PAGE.read_text()).values() if "own metrics" in rows)
    metrics = (ROOT / "airflow_hiveacid/operators/reporting/outlets.py").read_text()
    assert rows["own metrics"][0] == str(len(set(re.findall(r'"(hiveacid\.\w+)"', metrics))))
    assert f"{len(COMMANDS)} commands" in rows["commands of `airflow`"][0]
