"""Knows what one combination came to, and the table of all of them.

An area that is run replaces its cells in docs/clusters.json and leaves those of the others alone.

Example:
    >>> cell = Cell(area="HDFS", combination="a", version="3.4.2", outcome="ran", note="1 s")
    >>> print(table([cell]).splitlines()[-1])
    | HDFS | a | 3.4.2 | ran | 1 s |
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEAD: Final = """# What runs where

Written by `make clusters`, which runs each line against real servers on one machine; figures are of
that machine and say only how stores compare.

| area | combination | version | outcome | note |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination; `outcome` is `ran`, `refused` (as it should be), or `failed`."""

    area: str
    combination: str
    version: str
    outcome: str
    note: str = ""


def table(cells: Sequence[Cell]) -> str:
    """The page."""
    lines = (
        f"| {c.area} | {c.combination} | {c.version} | {c.outcome} | {c.note} |\n" for c in cells
    )
    return _HEAD + "".join(lines)


def keep(found: Sequence[Cell], docs: Path) -> None:
    """Write the cells of the areas that were run beside those of the others."""
    file = docs / "clusters.json"
    before = [Cell(**c) for c in json.loads(file.read_text())] if file.is_file() else []
    areas = {c.area for c in found}
    cells = sorted(
        [*(c for c in before if c.area not in areas), *found],
        key=lambda c: c.area,
    )
    file.write_text(json.dumps([asdict(c) for c in cells], indent=2) + "\n")
    (docs / "clusters.md").write_text(table(cells))
