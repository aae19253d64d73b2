"""Writes what was found as a page: docs/interop.md, between two marks.

A cell says after how many steps a reader had every row right; what it had not is a note below.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matrix.course import Cell, Course

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "interop.md"
_BEGIN: Final = "<!-- matrix: written by `make judge` -->"
_END: Final = "<!-- end of matrix -->"


def write(courses: Sequence[Course], versions: Sequence[str], *, page: Path = PAGE) -> None:
    """Put the table and its notes into the page."""
    text = page.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    body = "\n".join(_lines(courses, versions))
    page.write_text(f"{before}{_BEGIN}\n\n{body}\n{_END}{after}")


def _lines(courses: Sequence[Course], versions: Sequence[str]) -> Iterator[str]:
    notes = _Notes()
    readers = list(dict.fromkeys(name for course in courses for name in course.cells))
    yield f"Versions: {', '.join(versions)}."
    yield ""
    yield f"| table | written by | {' | '.join(readers)} |"
    yield f"| --- | --- |{' --- |' * len(readers)}"
    for course in courses:
        cells = [
            _said(course.cells[name], course.steps, notes) if name in course.cells else ""
            for name in readers
        ]
        broken = [] if course.broke_off is None else [f"**Broke off** at {course.broke_off}"]
        by = course.writers + notes.mark([*_others(course), *broken])
        yield f"| {course.kind.name} | {by} | {' | '.join(cells)} |"
    yield ""
    yield from notes.lines()


def _others(course: Course) -> list[str]:
    by: dict[str, list[str]] = {}
    for one in course.taken:
        if one.done_by != one.asked:
            by.setdefault(one.done_by, []).append(one.step.name)
    failures = dict.fromkeys(why for one in course.taken for why in one.failures)
    return [*(f"By {name}: {', '.join(steps)}." for name, steps in by.items()), *failures]


def _said(cell: Cell, steps: int, notes: _Notes) -> str:
    unread = sum(len(found) for found in cell.unread.values())
    told = [f"Not asked: {why}." for why in cell.unread]
    by: dict[str | None, list[str]] = {}
    for step, _, why in cell.wrong:
        by.setdefault(why, []).append(step)
    told += [why or f"**Not explained**: {', '.join(found)}." for why, found in by.items()]
    if unread == steps:
        return f"-{notes.mark(told)}"
    return f"{cell.read} of {steps}{notes.mark(told)}"


class _Notes:
    """Notes below the table, each once. Mutable: it numbers them as they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, texts: Sequence[str]) -> str:
        """What is put behind a cell."""
        found = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in texts]
        return "".join(f" [{number}]" for number in found)

    def lines(self) -> Iterator[str]:
        """All of them."""
        for text, number in self._numbers.items():
            yield f"{number}. {text}"
