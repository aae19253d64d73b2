"""The form of figures: tables of texts for a terminal and the docs, and the rounding of numbers.

It takes given numbers and computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proofs.bench.compaction.findings import Finding
    from tests.proofs.bench.figures import Figure
    from tests.proofs.bench.machine import Setting

_MEBI: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts; the first column is words, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(self.header):
            table.add_column(name, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the table for the docs."""
        rule = ("---", *["---:"] * (len(self.header) - 1))
        lines = [" | ".join(row) for row in (self.header, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *[f"| {line} |" for line in lines]])


def ratio_text(value: float | None) -> str:
    """Return a ratio as text; empty for None."""
    return "" if value is None else f"{value:.2f}"


def seconds_text(value: float) -> str:
    """Return seconds as text."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def mebi_text(size: int) -> str:
    """Return bytes as MiB."""
    mebi = size / _MEBI
    return f"{mebi:.0f}" if mebi >= 10 else f"{mebi:.1f}"


def setting_text(setting: Setting, figures: Sequence[Figure | Finding]) -> str:
    """Return a list of what the figures were measured on, and what else ran meanwhile."""
    lines = (
        f"{setting.cores} cores and {setting.memory_gib} GiB, {setting.kernel}, local disk.",
        f"Spark: {setting.spark}, {setting.threads} threads, a heap of {setting.driver_memory}.",
        f"Java {setting.java}, Python {setting.python}, PyArrow {setting.pyarrow}.",
        f"Hive metastore {setting.metastore}.",
        f"Runs: {setting.workload}, medians of {setting.repeats} runs.",
        f"Other programs used {_share_of_others(figures):.0%} of all CPU time meanwhile.",
    )
    return "\n".join(f"- {line}" for line in lines)


def _share_of_others(figures: Sequence[Figure | Finding]) -> float:
    others = sum(figure.other_cpu_seconds for figure in figures)
    own = sum(figure.cpu_seconds for figure in figures)
    return others / (own + others) if own + others else 0.0


def replaced(text: str, begin: str, end: str, blocks: Sequence[str]) -> str:
    """Return a page with these blocks between two markers.

    Raises:
        ValueError: A marker is missing.
    """
    head, found, rest = text.partition(begin)
    _, last, tail = rest.partition(end)
    if not found or not last:
        raise ValueError(f"the page needs the lines {begin} and {end}")
    return f"{head}{begin}\n\n" + "\n\n".join(blocks) + f"\n\n{end}{tail}"
