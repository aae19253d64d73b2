"""The rows of docs/airflow-kills.json, what was seen in each play, and docs/airflow-kills.md.

A run replaces the rows of the plays that it has run and leaves the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.support.documents import DOCS, table_line

JSON: Final = DOCS / "airflow-kills.json"
PAGE: Final = DOCS / "airflow-kills.md"

_HEAD: Final = Path(__file__).with_name("head.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One play: what happens, what was seen, and why that violates a promise (empty: it does not).

    Several rows of a play differ in `title`.
    """

    play: str
    title: str
    seen: str
    violation: str = ""
    seconds: float = 0.0


def read(file: Path = JSON) -> list[Row]:
    """Return the rows of earlier runs."""
    return [Row(**one) for one in json.loads(file.read_text())] if file.exists() else []


def keep(
    rows: Iterable[Row], order: Iterable[str], *, file: Path = JSON, page: Path = PAGE
) -> None:
    """Replace the rows of these rows' plays, and write both files."""
    new = list(rows)
    plays = {row.play for row in new}
    kept = [*(row for row in read(file) if row.play not in plays), *new]
    plays_in_order = list(order)
    kept.sort(key=lambda row: plays_in_order.index(row.play))
    file.write_text(json.dumps([asdict(row) for row in kept], indent=1) + "\n")
    page.write_text(page_of(kept, plays_in_order))


def page_of(rows: Sequence[Row], order: Iterable[str]) -> str:
    """Return the page, with the plays that have not run yet below the table."""
    have_run = {row.play for row in rows}
    missing = ", ".join(f"`{play}`" for play in order if play not in have_run)
    tail = f"\nNot run yet: {missing}.\n" if missing else ""
    return _HEAD.read_text() + "".join(_line(row) for row in rows) + tail


def _line(row: Row) -> str:
    promised = f"**no**: {row.violation}" if row.violation else "yes"
    return table_line(row.play, row.title, row.seen, promised, f"{row.seconds:.0f}") + "\n"
