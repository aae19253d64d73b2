"""Cases of tests in text files: a line with a text, and below it what a test expects of it.

Lines that begin with a blank, `^` or `->` belong to the text above; `# ` begins a comment. `⏎` in a
text is the end of a line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.jobs import job, maintenance, metastore_statements, statements


def cases_of(file: Path) -> list[tuple[str, str]]:
    """Return each text of a file with what stands below it; "" if nothing does."""
    cases: list[tuple[str, str]] = []
    for line in file.read_text().splitlines():
        if line.startswith((" ", "^", "->")):
            text, expected = cases.pop()
            cases.append((text, f"{expected}{line}\n"))
        elif line and not line.startswith("# "):
            cases.append((line.replace("⏎", "\n"), ""))
    return cases


def named_cases_of(file: Path) -> list[Any]:
    """Return the cases of a file by the names behind `# `: their lines, and the indented lines."""
    cases = []
    for block in f"\n{file.read_text()}".split("\n# ")[1:]:
        name, *lines = block.splitlines()
        given = (line for line in lines if line and not line.startswith(" "))
        expected = (line.strip() for line in lines if line.startswith(" "))
        cases.append(pytest.param("\n".join(given), "\n".join(expected), id=name))
    return cases


def texts_of(file: Path) -> list[str]:
    """Return the texts of a file."""
    return [text for text, _ in cases_of(file)]


def changes_of(file: Path) -> list[tuple[str, str | None]]:
    """Return each text with the text behind `-> `, or None without one."""
    return [(text, below.strip().removeprefix("-> ") or None) for text, below in cases_of(file)]


def results_of(file: Path) -> list[tuple[str, ...]]:
    """Return each text with each of the texts behind a `-> ` below it."""
    return [(text, *below.replace("-> ", "").splitlines()) for text, below in cases_of(file)]


def refusals_of(file: Path) -> list[tuple[str, int, str]]:
    """Return each text, the column (from 1) of the caret below it, and the words beside that."""
    return [
        (text, below.index("^") + 1, below.partition("^")[2].strip())
        for text, below in cases_of(file)
    ]


def jobs_of(file: Path) -> list[tuple[str, object]]:
    """Return each text with the job below it: its class, and as JSON what is not a default."""
    return [(text, job_of(below)) for text, below in cases_of(file)]


def job_of(text: str) -> Any:  # noqa: ANN401
    """Return the job of a class name and, as JSON, the arguments that are not defaults."""
    name, _, fields = text.strip().partition(" ")
    for module in (statements, maintenance, metastore_statements, job):
        if hasattr(module, name):
            return Codec().read(getattr(module, name), json.loads(fields or "{}"))
    raise LookupError(f"no job is called {name}")


def tables_of(module: str) -> dict[str, list[list[Any]]]:
    """Return the tables of the text file beside a module, each by the name behind `== ` above it.

    A line is a case: its values as JSON, with commas between them. `# ` begins a comment.
    """
    tables: dict[str, list[list[Any]]] = {}
    for line in Path(module).with_suffix(".txt").read_text().splitlines():
        if line.startswith("== "):
            table = tables.setdefault(line.removeprefix("== "), [])
        elif line and not line.startswith("# "):
            table.append(json.loads(f"[{line}]"))
    return tables
