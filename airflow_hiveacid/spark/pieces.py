"""Pieces of work, packed into tasks; a task takes up its own and no other.

A task costs more to start than a small file to read, so small pieces go together: so many as make
a task worth its start, and few enough that every core has some.

All tasks of a frame get the same function, and it holds every piece. As objects they would all be
made anew for each task: the square of their number. As bytes they wait until one is asked for. What
several pieces have in common (a table's columns, a snapshot's write IDs, the delete files of a
bucket) is held once, and a worker that has it keeps it for its next task. Files name their store;
no client of one is in here.

Takes and gives plain frozen dataclasses. Must not know Spark.

Example:
    >>> from airflow_hiveacid.format.table import PartitionName
    >>> columns = ("year", "month")
    >>> days = [PartitionName(columns, ("2024", str(month))) for month in (1, 2, 3)]
    >>> packed = Packed.of([days[:2], days[2:]])
    >>> len(packed), len(packed.common), [str(day) for day in packed[0]]
    (2, 1, ['year=2024/month=1', 'year=2024/month=2'])
"""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.plain.files import PlainFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_T = TypeVar("_T")

# Naming these takes as much room as they do.
_SMALL: Final = (str, int, float, bool, bytes, type(None))
# The largest there are, a snapshot's write IDs and a table's columns, are the same for all tasks.
_KEPT: Final = 8

TASK_BYTES: Final = 64 << 20
"""How much a task reads: about a second's work, several times what it costs to start."""

# What opening one file is worth in bytes read, its footer and a way to a store included.
_OPEN_BYTES: Final = 1 << 20
# Below this, to start a task in Python costs more than what it does.
_LEAST_BYTES: Final = 8 << 20
_TASKS_PER_CORE: Final = 3


def work_of(piece: object) -> int:
    """What a piece costs, in bytes: those of the table's files in its fields, and opening each.

    A piece without such files is a task of its own.
    """
    sizes = [
        sum(map(work_of_file, _files(getattr(piece, field.name))))
        for field in dataclasses.fields(piece)  # type: ignore[arg-type] # all pieces are dataclasses
    ]
    return sum(sizes) or TASK_BYTES


def work_of_file(file: AcidFile | PlainFile) -> int:
    """What a file costs, in bytes: its own, and opening it."""
    return file.length + _OPEN_BYTES


def _files(value: object) -> Iterator[AcidFile | PlainFile]:
    if isinstance(value, AcidFile | PlainFile):
        yield value
    elif isinstance(value, tuple) and value and isinstance(value[0], AcidFile | PlainFile):
        yield from value


def into_tasks(
    pieces: Sequence[_T],
    cores: int,
    work: Callable[[_T], int] = work_of,
    kind: Callable[[_T], object] = lambda _: None,
) -> list[tuple[_T, ...]]:
    """The pieces of each task, in their order, all of one kind; a piece is never cut.

    A task has no more than `TASK_BYTES` of work unless one piece has; and no more than leaves a few
    tasks for each core, so that they end together, where that is worth their start.
    """
    sizes = [work(piece) for piece in pieces]
    even = sum(sizes) // max(1, _TASKS_PER_CORE * cores)
    most = min(TASK_BYTES, max(even, _LEAST_BYTES))
    tasks: list[list[_T]] = []
    size = most
    for piece, own in zip(pieces, sizes, strict=True):
        if not tasks or size + own > most or kind(piece) != kind(tasks[-1][-1]):
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += own
    return [tuple(task) for task in tasks]


@dataclass(frozen=True, slots=True)
class Packed(Generic[_T]):
    """The pieces of each task, by its number.

    `common` are the values that stand in several.
    """

    tasks: tuple[bytes, ...]
    common: tuple[bytes, ...]

    @classmethod
    def of(cls, tasks: Sequence[Sequence[_T]]) -> Packed[_T]:
        """Pack dataclass instances; everything in them must be importable and plain."""
        values = [value for task in tasks for piece in task for value in _values(piece)]
        times = Counter(map(id, values))
        common = {id(value): value for value in values if times[id(value)] > 1}
        numbers = {identity: number for number, identity in enumerate(common)}
        return cls(
            tasks=tuple(_dumped(tuple(task), numbers) for task in tasks),
            common=tuple(_dumped(value, {}) for value in common.values()),
        )

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, index: int) -> tuple[_T, ...]:
        pieces: tuple[_T, ...] = _Unpickler(self.tasks[index], self.common).load()
        return pieces


def _values(piece: Any) -> Iterator[object]:  # noqa: ANN401 - any dataclass
    for field in dataclasses.fields(piece):
        value = getattr(piece, field.name)
        if not isinstance(value, _SMALL):
            yield value


_Numbers = Mapping[int, int]


def _dumped(value: object, numbers: _Numbers) -> bytes:
    file = io.BytesIO()
    _Pickler(file, numbers).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Writes what a value is called in place of what is held once."""

    def __init__(self, file: io.BytesIO, numbers: _Numbers) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, obj: object) -> int | None:
        return self._numbers.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, common: tuple[bytes, ...]) -> None:
        super().__init__(io.BytesIO(content))
        self._common = common

    def persistent_load(self, number: int) -> object:
        return _loaded(self._common[number])


@functools.lru_cache(maxsize=_KEPT)
def _loaded(content: bytes) -> object:
    return pickle.loads(content)  # noqa: S301 - the driver's own
