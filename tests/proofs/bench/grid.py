"""The form of figures: tables of texts for a terminal and the docs, and the rounding of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table

from tests.proofs.bench.lab import Setting
from tests.proofs.bench.records import Finding, Pair, Record
from tests.support.documents import put_between

_MEBI: Final = 1 << 20
_WRITER: Final = "written by `python -m tests.proofs.bench report`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table of texts; the first column is words, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rich(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(self.header):
            table.add_column(name, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        rule = ("---", *["---:"] * (len(self.header) - 1))
        lines = [" | ".join(row) for row in (self.header, rule, *self.rows)]
        return "\n".join([f"### {self.title}", "", *[f"| {line} |" for line in lines]])


def ratio_text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def seconds_text(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def mebi_text(size: int) -> str:
    """Return bytes as MiB."""
    mebi = size / _MEBI
    return f"{mebi:.0f}" if mebi >= 10 else f"{mebi:.1f}"


def page(
    text: str,
    mark: str,
    grids: Sequence[Grid],
    figures: Sequence[Pair | Finding],
    setting: Setting,
) -> str:
    """Return a page with the setting and these tables between the two lines of a mark."""
    blocks = [setting_text(setting, figures), *(grid.markdown() for grid in grids)]
    return put_between(text, f"{mark}: {_WRITER}", "\n\n".join(blocks))


def setting_text(setting: Setting, figures: Sequence[Pair | Finding | Record]) -> str:
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


def _share_of_others(figures: Sequence[Pair | Finding | Record]) -> float:
    others = sum(figure.other_cpu_seconds for figure in figures)
    own = sum(figure.cpu_seconds for figure in figures)
    return others / (own + others) if own + others else 0.0
