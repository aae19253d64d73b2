"""Knows what one combination came to, and how all of them become docs/clusters.md.

An area is a module of this package with a function `cells`: it starts its servers, tries its
combinations one after another, and gives a cell for each. Cells of other areas, and those of
combinations that were not asked for, stay as the last run left them; a whole run of an area leaves
none that it has not tried (`drop_others`).
"""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusters.overview import Place, overview_of, put_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT: Final = Path(__file__).resolve().parents[1]
JSON: Final = _ROOT / "docs" / "clusters.json"
PAGE: Final = _ROOT / "docs" / "clusters.md"
README: Final = _ROOT / "README.md"
RAN: Final = "ran"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"

_NOTHING_MORE: Final = "-"
_HEAD: Final = """# Clusters: what ran where

Written by `make clusters`, which starts real servers on one machine. Nothing stands here unrun.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: what was tried, with which versions, and what it came to.

    `place` says of a job of Spark's where it ran.
    """

    area: str
    combination: str
    version: str
    outcome: str
    note: str = ""
    place: Place | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it this cell."""
        return self.area, self.combination, self.version

    def to_json(self) -> dict[str, Any]:
        """What stands in the file."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read(json_file: Path = JSON) -> list[Cell]:
    """The cells of earlier runs."""
    text = json_file.read_text() if json_file.exists() else ""
    if not text:
        return []
    return [
        Cell(**{**one, "place": Place(*one["place"]) if "place" in one else None})
        for one in json.loads(text)
    ]


def keep(
    cells: Iterable[Cell], json_file: Path = JSON, page: Path = PAGE, readme: Path | None = None
) -> None:
    """Put cells among those of earlier runs, in all files."""
    with _alone(json_file):
        known = {cell.key: cell for cell in (*read(json_file), *cells)}
        _write([known[key] for key in sorted(known)], json_file, page, readme)


def drop_others(
    cells: Iterable[Cell], json_file: Path = JSON, page: Path = PAGE, readme: Path | None = None
) -> None:
    """Drop what an older run left in the areas of these cells, which are all that there are now."""
    tried = {cell.key for cell in cells}
    areas = {area for area, _, _ in tried}
    with _alone(json_file):
        kept = [cell for cell in read(json_file) if cell.area not in areas or cell.key in tried]
        _write(kept, json_file, page, readme)


@contextmanager
def _alone(json_file: Path) -> Iterator[None]:
    """Keep out others while the block reads and writes: areas may be run side by side."""
    with json_file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _write(cells: list[Cell], json_file: Path, page: Path, readme: Path | None) -> None:
    json_file.write_text(json.dumps([cell.to_json() for cell in cells], indent=1) + "\n")
    page.write_text(page_of(cells))
    if readme is not None:
        readme.write_text(put_between(readme.read_text(), overview(cells)))


def overview(cells: Iterable[Cell]) -> str:
    """The README's table."""
    return overview_of(
        (cell.place, cell.outcome != FAILED)
        for cell in cells
        if cell.place and cell.outcome != NOT_RUN
    )


def page_of(cells: Iterable[Cell]) -> str:
    """The page, with a table for each area."""
    lines, area = [_HEAD], None
    for cell in cells:
        if cell.area != area:
            area = cell.area
            lines.append(f"\n## {area}\n\n| combination | version | outcome | |\n")
            lines.append("|---|---|---|---|\n")
        texts = (cell.combination, cell.version, cell.outcome, cell.note or _NOTHING_MORE)
        lines.append("| " + " | ".join(t.replace("|", "\\|").replace("\n", " ") for t in texts))
        lines.append(" |\n")
    return "".join(lines)
