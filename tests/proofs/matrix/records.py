"""The record of each life in docs/evidence/interop.json, the source of both pages.

It keeps results, never reasons, so a later explanation needs no new run. A run replaces the lives
that it runs and leaves the others, so kinds can be run one by one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tests.proofs.matrix.kinds import KINDS, WRITERS
from tests.support.documents import EVIDENCE

FILE: Final = EVIDENCE / "interop.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A wrong answer after a step: in words, and whether rows are missing or unexpected.

    Neither means that the reader failed, or that something other than the rows is wrong.
    """

    step: str
    text: str
    lacks: bool = False
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A step, its preferred writer and its actual one; `failures` are other writers' errors."""

    step: str
    asked: str
    done_by: str
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Answers:
    """One reader's answers in one life; `unread` are steps by the reason why it was not asked.

    Mutable: a life adds to it step by step.
    """

    right: int = 0
    unread: dict[str, list[str]] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Life:
    """One life: its kind, its writer and its result. Mutable, like its answers.

    Attributes:
        misplaced: Steps after which rows were in another bucket than their hash selects.
        ended: The step at which an engine failed and left the table half changed, which ended the
            life; no writer has taken it.
        broke_off: Where and how it stopped otherwise.
        not_led: Why it was not run.
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
    """The whole record: the versions of the last run, and all lives."""

    versions: tuple[str, ...] = ()
    lives: tuple[Life, ...] = ()

    def with_life(self, life: Life) -> Record:
        """Return the record with this life instead of its earlier one, in the order of the page."""
        kinds = [kind.name for kind in KINDS]
        others = [one for one in self.lives if (one.kind, one.writer) != (life.kind, life.writer)]
        known = [one for one in (*others, life) if one.kind in kinds and one.writer in WRITERS]
        known.sort(key=lambda one: (kinds.index(one.kind), WRITERS.index(one.writer)))
        return replace(self, lives=tuple(known))

    def all_lives(self) -> Iterator[Life]:
        """Yield every possible life; those without a run say so."""
        led = {(life.kind, life.writer): life for life in self.lives}
        for kind, writer in itertools.product((kind.name for kind in KINDS), WRITERS):
            missing = Life(kind=kind, writer=writer, not_led="no run had it yet")
            yield led.get((kind, writer), missing)


def read(file: Path = FILE) -> Record:
    """Return the record of earlier runs; empty if there were none."""
    if not file.exists():
        return Record()
    found = json.loads(file.read_text())
    lives = tuple(_life(one) for one in found["lives"])
    return Record(versions=tuple(found["versions"]), lives=lives)


def write(record: Record, file: Path = FILE) -> None:
    """Write the record, a line for each life."""
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
