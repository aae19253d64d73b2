"""The course of a history: dice choose the operations on a world, and the end of each write.

The same seed always gives the same history.

Example:
    life = Life(folder, seed=7)
    for done in life.steps():
        ...
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.ids import WriteId
from tests.proofs.histories.world import Fate, Identity, World

_MOST_STEPS: Final = 9
_BUCKETS: Final = 3
_FATES: Final = (Fate.COMMITTED, Fate.COMMITTED, Fate.COMMITTED, Fate.ABORTED, Fate.OPEN)


class Life:
    def __init__(self, folder: Path, seed: int) -> None:
        self._dice = random.Random(seed)
        self.world = World(folder)
        self.names_compactions = self._dice.choice([True, False])

    def steps(self) -> Iterator[str]:
        """Do one operation after another, and yield its name."""
        if self._dice.randrange(5) == 0:
            self._come_from_flat_files()
            yield "originals"
        steps: list[Callable[[], None]] = [
            *[self._insert] * 4,
            *[self._delete] * 2,
            *[self._update] * 2,
            self._merge,
            self._stream,
            self._overwrite,
            self._end_an_open_write,
            *[self._compact] * 3,
            self._clean,
        ]
        for _ in range(self._dice.randint(2, _MOST_STEPS)):
            step = self._dice.choice(steps)
            step()
            yield step.__name__

    def _come_from_flat_files(self) -> None:
        files = {
            (self._bucket(), self._dice.randint(0, 2)) for _ in range(self._dice.randint(1, 4))
        }
        self.world.originals((b, c, self._dice.randint(1, 5)) for b, c in sorted(files))

    def _insert(self) -> None:
        self._add(self._begin(), statement=0)

    def _delete(self) -> None:
        self.world.delete(self._begin(), self._some_rows(), statement=0)

    def _update(self) -> None:
        write_id = self._begin()
        statement = self._dice.randint(0, 1)
        self.world.delete(write_id, self._some_rows(), statement=statement)
        self._add(write_id, statement=statement)

    def _merge(self) -> None:
        """Run several statements of one transaction; a later one deletes rows of an earlier one."""
        write_id = self._begin()
        self._add(write_id, statement=0)
        before = set(self.world.writes[write_id].inserts)
        self._add(write_id, statement=1)
        own = sorted(before)[: self._dice.randint(0, 2)]
        self.world.delete(write_id, {*self._some_rows(), *own}, statement=2)

    def _stream(self) -> None:
        write_ids = [self._begin() for _ in range(self._dice.randint(2, 4))]
        self.world.stream(write_ids, rows=self._dice.randint(1, 4), bucket=self._bucket())

    def _overwrite(self) -> None:
        if any(write.fate is Fate.OPEN for write in self.world.writes.values()):
            return  # they hold locks that it waits for, and wait for its own: it cannot stay open
        write_id = self.world.begin(self._dice.choice([Fate.COMMITTED, Fate.ABORTED]))
        self.world.overwrite(write_id, rows=self._dice.randint(0, 4), bucket=self._bucket())

    def _end_an_open_write(self) -> None:
        still = [write for write in self.world.writes.values() if write.fate is Fate.OPEN]
        if still:
            self._dice.choice(still).fate = self._dice.choice([Fate.COMMITTED, Fate.ABORTED])

    def _compact(self) -> None:
        """Compact; Hive 4 publishes before it commits, under its transaction's name."""
        fate = self._dice.choice(_FATES) if self.names_compactions else Fate.COMMITTED
        self.world.compact(
            major=self._dice.choice([True, False]), fate=fate, named=self.names_compactions
        )

    def _clean(self) -> None:
        self.world.clean()

    def _begin(self) -> WriteId:
        return self.world.begin(self._dice.choice(_FATES))

    def _bucket(self) -> int:
        return self._dice.randrange(_BUCKETS)

    def _add(self, write_id: WriteId, *, statement: int) -> None:
        for bucket in self._dice.sample(range(_BUCKETS), self._dice.randint(1, _BUCKETS)):
            rows = self._dice.randint(1, 6)
            self.world.insert(write_id, rows=rows, bucket=bucket, statement=statement)

    def _some_rows(self) -> list[Identity]:
        """Return rows that a writer sees and no open write deletes: the later one would fail."""
        taken = {
            row
            for write in self.world.writes.values()
            if write.fate is Fate.OPEN
            for row in write.deletes
        }
        free = sorted(set(self.world.expected()) - taken)
        return self._dice.sample(free, min(len(free), self._dice.randint(0, 5)))
