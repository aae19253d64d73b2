"""Knows what is kept of each life: docs/interop.json, from which both pages are made.

What was seen is kept, never why: an explanation that is found later needs no new run. A run
replaces the lives that it leads and leaves the others, so that kinds can be run one by one.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matrix.kinds import KINDS
from matrix.names import WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE: Final = Path(__file__).resolve().parent.parent / "docs" / "interop.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A wrong answer after a step: in words, and whether rows lack, and whether there are others.

    Neither of both means that the reader failed, or that something beside the rows is wrong.
    """

    step: str
    text: str
    lacks: bool = False
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step, who should have taken it and who did; `failures` are what others said, by name."""

    step: str
    asked: str
    done_by: str
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Answers:
    """What one reader said in one life; `unread` are steps by why it was not asked.

    Mutable: a life adds to it step by step.
    """

    right: int = 0
    unread: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Life:
    """One life: of which kind, whose, and what became of it. Mutable, as its answers are.

    Attributes:
        misplaced: Steps after which rows lay in another bucket than their hash says.
        ended: The step that an engine failed at and left half done, which ended the life; nobody
            has taken it.
        broke_off: Where and how it stopped otherwise.
        not_led: Why there is nothing of it.
    """

    kind: str
    writer: str
    answers: dict[str, Answers] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    misplaced: list[Wrong] = field(default_factory=list)
    ended: Taken | None = None
    broke_off: str | None = None
    not_led: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything that is kept: the versions of the last run, and all lives."""

    versions: tuple[str, ...] = ()
    lives: tuple[Life, ...] = ()

    def with_life(self, life: Life) -> Record:
        """The record with this life in the place of an earlier one, in the order of the page."""
        kinds = [kind.name for kind in KINDS]
        others = [one for one in self.lives if (one.kind, one.writer) != (life.kind, life.writer)]
        known = [one for one in (*others, life) if one.kind in kinds and one.writer in WRITERS]
        known.sort(key=lambda one: (kinds.index(one.kind), WRITERS.index(one.writer)))
        return replace(self, lives=tuple(known))

    def all_lives(self) -> Iterator[Life]:
        """Every life that there is; those that no run has led say so."""
        led = {(life.kind, life.writer): life for life in self.lives}
        for kind, writer in itertools.product((kind.name for kind in KINDS), WRITERS):
            missing = Life(kind=kind, writer=writer, not_led="no run had it yet")
            yield led.get((kind, writer), missing)


def read(file: Path = FILE) -> Record:
    """What earlier runs found; nothing if there were none."""
    if not file.exists():
        return Record()
    found = json.loads(file.read_text())
    lives = tuple(_life(one) for one in found["lives"])
    return Record(versions=tuple(found["versions"]), lives=lives)


def write(record: Record, file: Path = FILE) -> None:
    """Keep it, a line for each life."""
    lives = ",\n".join(json.dumps(asdict(life), ensure_ascii=False) for life in record.lives)
    versions = json.dumps(record.versions)
    file.write_text(f'{{"versions": {versions},\n"lives": [\n{lives}\n]}}\n')


def _life(found: Mapping[str, Any]) -> Life:
    answers = {name: _answers(told) for name, told in found["answers"].items()}
    taken = [Taken(**told) for told in found["taken"]]
    ended = Taken(**found["ended"]) if found.get("ended") else None
    misplaced = [Wrong(**told) for told in found["misplaced"]]
    read = {"answers": answers, "taken": taken, "ended": ended, "misplaced": misplaced}
    return Life(**{**found, **read})


def _answers(found: Mapping[str, Any]) -> Answers:
    return Answers(**{**found, "wrong": [Wrong(**told) for told in found["wrong"]]})
