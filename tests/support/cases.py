"""Cases of tests in text files: a line with a text, and below it what a test expects of it.

Lines that begin with a blank, `^` or `->` belong to the text above; `# ` begins a comment. `⏎` in a
text is the end of a line.
"""

from __future__ import annotations

import json
from pathlib import Path

from airflow_hiveacid.format.codec import Codec
from airflow_hiveacid.jobs import maintenance, metastore_statements, statements


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
    return [(text, _job(below)) for text, below in cases_of(file)]


def _job(text: str) -> object:
    name, _, fields = text.strip().partition(" ")
    for module in (statements, maintenance, metastore_statements):
        if hasattr(module, name):
            return Codec().read(getattr(module, name), json.loads(fields or "{}"))
    raise LookupError(f"no job is called {name}")
