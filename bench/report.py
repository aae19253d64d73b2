"""Knows how figures are shown: as tables on a terminal, and on the page of figures in the docs.

One `Grid` a table, whatever shows it. The page's prose is written by people; only what stands
between two markers is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

from bench.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.figures import Figure, Pair
    from bench.machine import Setting

BEGIN: Final = "<!-- figures: written by `python -m bench report` -->"
END: Final = "<!-- end of figures -->"

_MEBI: Final = 1 << 20
_SCAN: Final = "scan."
_STEPS: Final = {
    "create": "write the base",
    "append": "append one batch",
    "delete": "delete one batch by key",
    "merge": "MERGE",
    "compact.minor": "minor compaction",
    "compact.major": "major compaction",
}
_STATES: Final = {
    "base": "base only",
    "changed": "base, 10 deltas, 1 % deleted",
    "merged": "the same and a MERGE",
    "compacted": "after major compaction",
}
_QUERIES: Final = {
    "count": "count(*)",
    "sum": "one column",
    "filter": "filter",
    "all": "all columns",
    "join": "join",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts; the first column is words, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        """For a terminal."""
        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(self.header):
            table.add_column(name, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For the docs."""
        rule = ("---", *["---:"] * (len(self.header) - 1))
        lines = [" | ".join(row) for row in (self.header, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *[f"| {line} |" for line in lines]])


def grids(found: Sequence[Pair]) -> tuple[Grid, ...]:
    """All tables, system by system."""
    tables = []
    for system in dict.fromkeys(pair.figure.system for pair in found):
        own = [pair for pair in found if pair.figure.system == system]
        scans = {p.figure.case: p for p in own if p.figure.case.startswith(_SCAN)}
        tables += [
            _steps(system, [pair for pair in own if pair.figure.case not in scans]),
            _scans(f"{system}: CPU seconds of scans / flat ORC's (own seconds)", scans, _cpu),
            _scans(f"{system}: wall seconds of scans / flat ORC's (own seconds)", scans, _wall),
            _memory(system, own),
        ]
    return tuple(tables)


def page(text: str, found: Sequence[Pair], setting: Setting) -> str:
    """The page with these figures between its markers.

    Raises:
        ValueError: It lacks a marker.
    """
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    blocks = [_described(setting), _noise(found), *(grid.markdown() for grid in grids(found))]
    return f"{head}{BEGIN}\n\n" + "\n\n".join(blocks) + f"\n\n{END}{tail}"


def _steps(system: str, own: Iterable[Pair]) -> Grid:
    return Grid(
        title=f"{system}: steps / flat ORC written anew, or Spark decoding and encoding",
        header=("step", "CPU ratio", "CPU s", "its", "wall ratio", "s", "its", "MiB", "its"),
        rows=tuple(
            (
                _STEPS.get(pair.figure.case, pair.figure.case),
                _ratio(pair.cpu_ratio),
                *_beside(pair, lambda figure: _seconds(figure.cpu_seconds)),
                _ratio(pair.wall_ratio),
                *_beside(pair, lambda figure: _seconds(figure.seconds)),
                *_beside(pair, lambda figure: _mebi(figure.bytes)),
            )
            for pair in own
        ),
    )


def _scans(title: str, scans: Mapping[str, Pair], cell: Callable[[Pair], str]) -> Grid:
    return Grid(
        title=title,
        header=("state", *(_QUERIES[name] for name in QUERIES)),
        rows=tuple(
            (words, *(cell(scans[f"{_SCAN}{state}.{name}"]) for name in QUERIES))
            for state, words in _STATES.items()
            if f"{_SCAN}{state}.count" in scans
        ),
    )


def _cpu(pair: Pair) -> str:
    return f"{_ratio(pair.cpu_ratio)} ({_seconds(pair.figure.cpu_seconds)})"


def _wall(pair: Pair) -> str:
    return f"{_ratio(pair.wall_ratio)} ({_seconds(pair.figure.seconds)})"


def _memory(system: str, own: Iterable[Pair]) -> Grid:
    return Grid(
        title=f"{system}: peak resident memory, MiB",
        header=("step", "driver's JVM", "yardstick's", "largest Python worker"),
        rows=tuple(
            (
                _memory_step(pair.figure.case),
                *_beside(pair, lambda figure: _mebi(figure.jvm_peak_bytes)),
                _mebi(pair.figure.worker_peak_bytes),
            )
            for pair in own
        ),
    )


def _beside(pair: Pair, show: Callable[[Figure], str]) -> tuple[str, str]:
    return show(pair.figure), show(pair.yardstick) if pair.yardstick else ""


def _memory_step(case: str) -> str:
    if not case.startswith(_SCAN):
        return _STEPS.get(case, case)
    _, state, query = case.split(".")
    return f"scan {_STATES[state]}: {_QUERIES[query]}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004 - three digits tell enough


def _mebi(size: int) -> str:
    mebi = size / _MEBI
    return f"{mebi:.0f}" if mebi >= 10 else f"{mebi:.1f}"  # noqa: PLR2004 - as above


def _described(setting: Setting) -> str:
    return (
        f"Measured on {setting.cores} cores and {setting.memory_gib} GiB, {setting.kernel}, local "
        f"disk; Spark {setting.spark} with {setting.threads} threads and a heap of "
        f"{setting.driver_memory}, Java {setting.java}, Python {setting.python}, "
        f"PyArrow {setting.pyarrow}, Hive metastore "
        f"{setting.metastore}; a base of {setting.rows:,} rows with 23 columns, medians of "
        f"{setting.repeats} runs."
    )


def _noise(found: Sequence[Pair]) -> str:
    others = sum(pair.figure.other_cpu_seconds for pair in found)
    own = sum(pair.figure.cpu_seconds for pair in found)
    share = others / (own + others) if own + others else 0.0
    return (
        f"While these figures were taken, other programs used {share:.0%} of the CPU time that was "
        "used at all."
    )
