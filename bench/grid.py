"""Knows how figures look: tables of texts, for a terminal and the docs, and how a number is cut.

Takes numbers that are known already; computes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.figures import Figure
    from bench.machine import Setting

_MEBI: Final = 1 << 20


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


def ratio_text(value: float | None) -> str:
    """A ratio, or nothing."""
    return "" if value is None else f"{value:.2f}"


def seconds_text(value: float) -> str:
    """Seconds."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004 - three digits tell enough


def mebi_text(size: int) -> str:
    """Bytes as MiB."""
    mebi = size / _MEBI
    return f"{mebi:.0f}" if mebi >= 10 else f"{mebi:.1f}"  # noqa: PLR2004 - as above


def described(setting: Setting) -> str:
    """What figures were taken on."""
    return (
        f"Measured on {setting.cores} cores and {setting.memory_gib} GiB, {setting.kernel}, local "
        f"disk; Spark {setting.spark} with {setting.threads} threads and a heap of "
        f"{setting.driver_memory}, Java {setting.java}, Python {setting.python}, "
        f"PyArrow {setting.pyarrow}, Hive metastore "
        f"{setting.metastore}; {setting.workload}, medians of "
        f"{setting.repeats} runs."
    )


def noise(figures: Sequence[Figure]) -> str:
    """How much of the machine was others' meanwhile."""
    others = sum(figure.other_cpu_seconds for figure in figures)
    own = sum(figure.cpu_seconds for figure in figures)
    share = others / (own + others) if own + others else 0.0
    return (
        f"While these figures were taken, other programs used {share:.0%} of the CPU time that was "
        "used at all."
    )


def replaced(text: str, begin: str, end: str, blocks: Sequence[str]) -> str:
    """A page with these blocks between two markers.

    Raises:
        ValueError: It lacks a marker.
    """
    head, found, rest = text.partition(begin)
    _, last, tail = rest.partition(end)
    if not found or not last:
        raise ValueError(f"the page needs the lines {begin} and {end}")
    return f"{head}{begin}\n\n" + "\n\n".join(blocks) + f"\n\n{end}{tail}"
