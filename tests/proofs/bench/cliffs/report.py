"""The tables of the cliffs: each case beside its yardstick, and the growth of costs with size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.proofs.bench.cliffs.ground import part_of
from tests.proofs.bench.grid import (
    Grid,
    mebi_text,
    ratio_text,
    replaced,
    seconds_text,
    setting_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proofs.bench.figures import Figure, Pair
    from tests.proofs.bench.machine import Setting

CLIFFS_BEGIN: Final = "<!-- cliffs: written by `python -m tests.proofs.bench report` -->"
CLIFFS_END: Final = "<!-- end of cliffs -->"

_PARTS: Final = {
    "partitions": "{size:,} partitions",
    "merge": "MERGE into 3 of {size:,} partitions",
    "deltas": "{size:,} deltas",
    "columns": "{size:,} columns",
    "texts": "texts of {size:,} bytes",
    "aborted": "{size:,} aborted write IDs",
    "planning": "planning {size:,}",
    "past": "as of the newest version, {size:,} rows",
}
_TITLES: Final = {
    "partitions": "Many partitions",
    "merge": "A MERGE that touches three partitions",
    "deltas": "Many deltas",
    "columns": "Many columns",
    "texts": "Long texts",
    "aborted": "Many aborted write IDs",
    "planning": "The driver's planning",
    "past": "An earlier version, beside the present of the same files (in place of flat ones)",
}
_WHATS: Final = {
    "count": "count(*)",
    "sum": "one column",
    "all": "all columns",
    "one": "one partition of them",
    "deleted-count": "count(*), 1 % deleted",
    "deleted-sum": "one column, 1 % deleted",
    "deleted-all": "all columns, after deletes",
    "deleted-one": "one partition of them, 1 % deleted",
    "merge": "",
    "delete": "delete by key",
    "create": "write the base",
    "update": "UPDATE one column of 1 %",
    "updated-all": "all columns, after the UPDATE",
    "base-count": "count(*) of one compacted base",
    "base-sum": "one column of one compacted base",
    "base-all": "all columns of one compacted base",
}


def cliff_grids(found: Sequence[Pair]) -> tuple[Grid, ...]:
    """Return all tables: one for each part, then the growth of cases measured in two sizes."""
    parts: dict[str, list[Pair]] = {}
    for pair in found:
        parts.setdefault(part_of(pair.figure.case), []).append(pair)
    growth = _growth([pair.figure for pair in found])
    return (*(_cases(_TITLES[part], pairs) for part, pairs in parts.items()), growth)


def cliff_page(text: str, found: Sequence[Pair], setting: Setting) -> str:
    """Return the page with these figures between its markers.

    Raises:
        ValueError: A marker is missing.
    """
    figures = [pair.figure for pair in found]
    blocks = [setting_text(setting, figures), *(g.markdown() for g in cliff_grids(found))]
    return replaced(text, CLIFFS_BEGIN, CLIFFS_END, blocks)


def _cases(title: str, found: Sequence[Pair]) -> Grid:
    return Grid(
        title=title,
        header=(
            *("case", "CPU / flat", "CPU s", "of flat ORC", "wall s", "of flat ORC"),
            *("JVM MiB", "driver's Python MiB", "largest worker MiB"),
        ),
        rows=tuple(
            (
                _words(pair.figure.case),
                ratio_text(pair.cpu_ratio),
                seconds_text(pair.figure.cpu_seconds),
                seconds_text(pair.yardstick.cpu_seconds) if pair.yardstick else "",
                seconds_text(pair.figure.seconds),
                seconds_text(pair.yardstick.seconds) if pair.yardstick else "",
                mebi_text(pair.figure.jvm_peak_bytes),
                mebi_text(pair.figure.driver_peak_bytes),
                mebi_text(pair.figure.worker_peak_bytes),
            )
            for pair in found
        ),
    )


def _growth(found: Sequence[Figure]) -> Grid:
    by_what: dict[tuple[str, str], dict[int, Figure]] = {}
    for figure in found:
        _, part, size, what = figure.case.split(".")
        by_what.setdefault((part, what), {})[int(size)] = figure
    rows = []
    for sizes in by_what.values():
        least, most = sizes[min(sizes)], sizes[max(sizes)]
        if len(sizes) > 1:
            rows.append(
                (
                    _words(most.case),
                    f"{min(sizes):,}",
                    ratio_text(most.cpu_over(least)),
                    f"{seconds_text(most.cpu_seconds)} / {seconds_text(least.cpu_seconds)}",
                )
            )
    header = ("case", "small case", "CPU ratio", "CPU s")
    return Grid(
        title="Growth: ratio of each large case to its small case", header=header, rows=(*rows,)
    )


def _words(case: str) -> str:
    _, part, size, what = case.split(".")
    title = _PARTS[part].format(size=int(size))
    if part == "planning":
        return f"{title} {what}"
    return f"{title}: {_WHATS[what]}" if _WHATS[what] else title
