"""Tables of the results in docs/interop.md and docs/reference/support.md, between two marks each.

A cell of the page says after how many steps a reader had every row right; notes below describe the
rest. support.md has a line for each kind, with equal kinds in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.proofs.matrix import explanations, kinds, records
from tests.support.documents import DOCS, numbered_note, put_between

PAGE: Final = DOCS / "interop.md"
SUPPORT: Final = DOCS / "reference" / "support.md"
MARK: Final = "matrix: written by `make judge`"
_OTHERS: Final = tuple(name for name in kinds.READERS if name not in {kinds.NATIVE, kinds.ARROW})


def write(record: records.Record, *, page: Path = PAGE, support: Path = SUPPORT) -> None:
    """Put tables and notes into both pages."""
    for file, lines in ((page, page_lines(record)), (support, support_lines(record))):
        file.write_text(put_between(file.read_text(), MARK, "\n".join(lines)))


def page_lines(record: records.Record) -> Iterator[str]:
    """Yield every life with every reader, and the notes."""
    notes = _Notes()
    yield f"Versions: {', '.join(record.versions)}."
    yield ""
    yield f"| table | written by | {' | '.join(kinds.READERS)} |"
    yield f"| --- | --- |{' --- |' * len(kinds.READERS)}"
    for life in record.all_lives():
        cells = [_cell(life, name, notes) for name in kinds.READERS]
        by = life.writer + notes.mark(_told_of(life))
        yield f"| {life.kind} | {by} | {' | '.join(cells)} |"
    yield ""
    yield from notes.lines()


def support_lines(record: records.Record) -> Iterator[str]:
    """Yield, for each kind, who reads our tables, and whose tables we read and change."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for kind in dict.fromkeys(life.kind for life in record.lives):
        lives = {life.writer: life for life in record.lives if life.kind == kind}
        group, _, name = kind.partition(", ")
        key = (group, _readers_of(lives), _writers_of(lives))
        alike.setdefault(key, []).append(name or "plain")
    yield (
        "| tables | engines that read this provider's tables after each statement"
        " | engines whose tables this provider reads, changes and compacts |"
    )
    yield "| --- | --- | --- |"
    for (group, readers, writers), names in sorted(alike.items(), key=lambda one: one[0][0]):
        yield f"| {group}: {'; '.join(names)} | {readers} | {writers} |"


def _readers_of(lives: Mapping[str, records.Life]) -> str:
    life = lives.get(kinds.OURS)
    if life is not None and not any(one.done_by == kinds.OURS for one in life.taken):
        return "(not written here)"
    found = [] if life is None else [_reader(life, n) for n in _OTHERS if n in life.answers]
    return ", ".join(told for told in found if told) or "-"


def _reader(life: records.Life, name: str) -> str | None:
    answers = life.answers[name]
    engine = kinds.HIVE_3 if name == kinds.HIVE_3_READER else name
    asked = len(life.taken) - sum(map(len, answers.unread.values()))
    if not asked:
        return None
    return engine if answers.right == asked else f"{engine} ({answers.right} of {asked})"


def _writers_of(lives: Mapping[str, records.Life]) -> str:
    found = [
        name
        for name, life in lives.items()
        if name not in {kinds.OURS, kinds.ALTERNATING}
        and life.not_led is None
        and _is_ours_right(life)
    ]
    together = lives.get(kinds.ALTERNATING)
    if together is not None and _is_ours_right(together):
        found.append("all in turns")
    return ", ".join(found) or "-"


def _is_ours_right(life: records.Life) -> bool:
    cells = [life.answers[name] for name in (kinds.NATIVE, kinds.ARROW) if name in life.answers]
    return life.broke_off is None and bool(cells) and not any(cell.wrong for cell in cells)


def _told_of(life: records.Life) -> Iterable[str]:
    if life.not_led is not None:
        yield f"Not run: {life.not_led}."
    by: dict[str, list[str]] = {}
    for one in life.taken:
        if one.done_by != one.asked:
            by.setdefault(one.done_by, []).append(one.step)
        for writer, text in one.failures.items():
            known = explanations.failure(writer, life, text)
            yield known or f"**Not explained**: {one.step} by {writer}: {text}"
    for name, steps in by.items():
        who = "this provider's jobs" if name == kinds.OURS else name
        yield f"Steps that {who} ran instead: {', '.join(steps)}."
    yield from _told_of_its_end(life)


def _told_of_its_end(life: records.Life) -> Iterable[str]:
    if life.misplaced:
        seen = life.misplaced[0]
        yield explanations.misplacement(life) or f"**Not explained**: {seen.step}: {seen.text}"
    if life.ended is not None:
        name, text = life.ended.done_by, life.ended.failures[life.ended.done_by]
        known = explanations.failure(name, life, text) or f"**Not explained**: {text}"
        yield (
            f"The run ended at {life.ended.step}: {name} failed and left the table half changed."
            f" {known}"
        )
    if life.broke_off is not None:
        yield f"**Stopped** at {life.broke_off}"


def _cell(life: records.Life, reader: str, notes: _Notes) -> str:
    if life.not_led is not None:
        return "-"
    answers = life.answers.get(reader)
    if answers is None:
        return f"not run: no {reader}"
    mark = notes.mark(_said(life, reader, answers))
    unread, steps = sum(map(len, answers.unread.values())), len(life.taken)
    return f"-{mark}" if unread == steps else f"{answers.right} of {steps}{mark}"


def _said(life: records.Life, reader: str, answers: records.Answers) -> Iterable[str]:
    for why in answers.unread:
        yield f"Not asked: {why}."
    for seen in answers.wrong:
        known = explanations.explanation(reader, life, seen)
        yield known or f"**Not explained**: {seen.step}: {seen.text}"


class _Notes:
    """Notes below the table, each once. Mutable: it numbers them in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, texts: Iterable[str]) -> str:
        """Return the marks after a cell."""
        found = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in texts]
        return "".join(f" [{number}]" for number in dict.fromkeys(found))

    def lines(self) -> Iterator[str]:
        for text, number in self._numbers.items():
            yield from numbered_note(number, text)
