"""A table of hundreds of partitions, each a world, with the same writes.

Readers treat each of its columns' types in a different way, and any value may be NULL.

Example:
    life = WideLife(folder, seed=7, partitions=320)
    life.live()
    expected(life, 3, 7)
    # [(12, 4, True, (4, 536870912, 0), (400000, "t400000 é", None, None)), ...]
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import settled
from airflow_hiveacid.format.table import Column
from tests.proofs.histories import changes
from tests.proofs.histories.world import Fate, Identity, World, text_of

Told = tuple[int, int, bool, "Identity", tuple[object, ...]]
"""Partition, version, True if the row was born, its row ID, its columns."""

_NANOS: Final = 1_234_567_891
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


class TypedWorld(World):
    columns: ClassVar[tuple[Column, ...]] = (
        Column(name="v", type="bigint"),
        Column(name="s", type="string"),
        Column(name="c", type="char(6)"),
        Column(name="t", type="timestamp"),
    )

    @staticmethod
    def batch(values: list[int]) -> pa.RecordBatch:
        """Return values as in files: a char with its padding, a timestamp with its nanoseconds."""
        chars = [_char(value) for value in values]
        return pa.record_batch(
            {
                "v": pa.array([_number(value) for value in values], pa.int64()),
                "s": pa.array([text_of(value) for value in values], pa.string()),
                "c": pa.array([c if c is None else c.ljust(6) for c in chars], pa.string()),
                "t": pa.array([_nanos(value) for value in values], pa.timestamp("ns")),
            }
        )


def row_of(value: int) -> tuple[object, ...]:
    """Return the columns of a row as a reader sees them: no padding, microseconds."""
    nanos = _nanos(value)
    time = None if nanos is None else _EPOCH + timedelta(microseconds=nanos // 1000)
    return _number(value), text_of(value), _char(value), time


def _number(value: int) -> int | None:
    return None if value % 4 == 0 else value


def _char(value: int) -> str | None:
    return None if value % 5 == 0 else f"c{value % 89}"


def _nanos(value: int) -> int | None:
    return None if value % 3 == 0 else value * _NANOS


class WideLife:
    """One history. Most partitions take no part in most writes."""

    def __init__(self, folder: Path, seed: int, *, partitions: int) -> None:
        self._dice = random.Random(seed)
        self.worlds = [TypedWorld(folder / f"p={n}") for n in range(partitions)]

    def live(self) -> None:
        """Run it: fill all, let compactions remove the history of a few, then go on."""
        write_id = self._begin(Fate.COMMITTED)
        for world in self.worlds:
            rows = self._dice.randint(1, 3)
            world.insert(write_id, rows=rows, bucket=self._bucket(), statement=0)
        self._steps(4)
        for world in self._some(4):
            world.compact(major=True, fate=Fate.COMMITTED, named=False)
        self._steps(8)
        for world in self._some(14):
            world.compact(major=False, fate=Fate.COMMITTED, named=False)
            if self._dice.randrange(2):
                world.clean()
        self._steps(3, overwrites=False)

    @property
    def newest(self) -> int:
        """The highest version that no open write can change."""
        return settled(self.worlds[0].write_ids)

    def _steps(self, count: int, *, overwrites: bool = True) -> None:
        steps = [self._insert, self._update, self._update, self._stream]
        if overwrites:
            steps.append(self._overwrite)
        for _ in range(count):
            self._dice.choice(steps)()

    def _begin(self, fate: Fate | None = None) -> WriteId:
        chosen = fate or self._dice.choice([Fate.COMMITTED, Fate.COMMITTED, Fate.ABORTED])
        (write_id,) = {world.begin(chosen) for world in self.worlds}
        return write_id

    def _insert(self) -> None:
        write_id = self._begin()
        for world in self._some(9):
            self._add(world, write_id)

    def _update(self) -> None:
        write_id = self._begin()
        for world in self._some(9):
            live = sorted(world.expected())
            world.delete(write_id, self._dice.sample(live, min(len(live), 3)), statement=0)
            self._add(world, write_id)

    def _stream(self) -> None:
        """Make several writes in one file; the one in the middle is aborted."""
        write_ids = [self._begin(fate) for fate in (Fate.COMMITTED, Fate.ABORTED, Fate.COMMITTED)]
        for world in self._some(6):
            world.stream(write_ids, rows=self._dice.randint(1, 3), bucket=self._bucket())

    def _overwrite(self) -> None:
        write_id = self._begin(Fate.COMMITTED)
        for world in self._some(2):
            world.overwrite(write_id, rows=self._dice.randint(0, 3), bucket=self._bucket())

    def _add(self, world: World, write_id: WriteId) -> None:
        for bucket in self._dice.sample(range(3), 2):
            world.insert(write_id, rows=self._dice.randint(1, 3), bucket=bucket, statement=0)

    def _some(self, most: int) -> list[TypedWorld]:
        return self._dice.sample(self.worlds, min(most, len(self.worlds)))

    def _bucket(self) -> int:
        return self._dice.randrange(3)


def expected(life: WideLife, since: int, until: int, *, is_net: bool = False) -> list[Told]:
    """Return the expected changes of a range."""
    return sorted(
        (place, one.version, one.what == changes.BORN, one.row, row_of(one.value))
        for place, world in enumerate(life.worlds)
        for one in changes.expected(world, since, until, is_net=is_net)
    )
