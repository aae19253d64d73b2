"""The record of a campaign: a line of JSON for every event, and the counts at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that must not occur and that the oracle cannot see."""

    what: str
    detail: str


@dataclass(kw_only=True)
class Record:
    """Events of one metastore's part of a campaign. Mutable: it grows."""

    version: str
    file: Path
    say: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    kills_at: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    troubles: list[Trouble] = field(default_factory=list)
    full_disks: list[tuple[float, float | None]] = field(default_factory=list)
    cancels: list[float] = field(default_factory=list)
    """The times when the campaign cancelled compactions, or tried to."""
    clock: Callable[[], float] = time.monotonic
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def now_s(self) -> float:
        """Seconds since this part began."""
        return self.clock() - self.began

    def note(self, event: str, **facts: object) -> None:
        """Write an event and count it."""
        self.counts[event] += 1
        line = {"at": round(self.now_s, 3), "version": self.version, "event": event, **facts}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def trouble(self, what: str, detail: str) -> None:
        """Record something that must not occur."""
        self.troubles.append(Trouble(what=what, detail=detail))
        self.note("trouble", what=what, detail=detail)
        self.say(f"TROUBLE: {what}: {detail}")

    def was_disk_full(self, since_s: float) -> bool:
        """Return True if the disk was full at any time since then."""
        return any(end is None or end >= since_s for _begin, end in self.full_disks)

    def was_cancelled(self, since_s: float) -> bool:
        """Return True if the campaign cancelled compactions at any time since then."""
        return any(at >= since_s for at in self.cancels)
