"""Knows what one combination came to, and how all of them become docs/clusters.md.

An area is a module of this package with a function `cells`: it starts its servers, tries its
combinations one after another, and gives a cell for each. Cells of other areas, and those of
combinations that were not asked for, stay as the last run left them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
JSON: Final = _DOCS / "clusters.json"
PAGE: Final = _DOCS / "clusters.md"
RAN: Final = "ran"
FAILED: Final = "failed"

_HEAD: Final = """# Clusters: what ran where

Written by `make clusters`, which starts real servers on one machine. Nothing stands here unrun.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: what was tried, with which versions, and what it came to."""

    area: str
    combination: str
    version: str
    outcome: str
    note: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it this cell."""
        return self.area, self.combination, self.version


def keep(cells: Iterable[Cell], json_file: Path = JSON, page: Path = PAGE) -> None:
    """Put cells among those of earlier runs, in both files."""
    known: dict[tuple[str, str, str], Cell] = {}
    if json_file.exists():
        known = {cell.key: cell for cell in (Cell(**c) for c in json.loads(json_file.read_text()))}
    known |= {cell.key: cell for cell in cells}
    ordered = [known[key] for key in sorted(known)]
    json_file.write_text(json.dumps([asdict(cell) for cell in ordered], indent=1) + "\n")
    page.write_text(page_of(ordered))


def page_of(cells: Iterable[Cell]) -> str:
    """The page, with a table for each area."""
    lines, area = [_HEAD], None
    for cell in cells:
        if cell.area != area:
            area = cell.area
            lines.append(f"\n## {area}\n\n| combination | version | outcome | |\n")
            lines.append("|---|---|---|---|\n")
        texts = (cell.combination, cell.version, cell.outcome, cell.note)
        lines.append("| " + " | ".join(t.replace("|", "\\|").replace("\n", " ") for t in texts))
        lines.append(" |\n")
    return "".join(lines)
