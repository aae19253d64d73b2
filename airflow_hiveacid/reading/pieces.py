"""Pieces of work, packed into tasks; a task unpacks only its own pieces.

A task gets enough small pieces to be worth starting, and few enough that every core gets work.

All tasks of a frame get the same function, with every piece. As bytes, a piece is unpickled only in
its own task; otherwise the total cost would be quadratic. Values that several pieces share (a
table's columns, write IDs, the delete files of a bucket) are stored once, and a worker keeps them
for its next task.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.plain.files import PlainFile

_T = TypeVar("_T")

# For a value of these types, a reference would not be smaller than the value.
_SMALL: Final = (str, int, float, bool, bytes, type(None))
# The largest shared values, write IDs and a table's columns, are the same for all tasks.
_KEPT: Final = 8

TASK_BYTES: Final = 64 << 20
"""The bytes that a task reads: about a second of work, several times the cost of its start."""

# The cost of opening a file, for its footer and the round trip to the store, in bytes.
_OPEN_BYTES: Final = 1 << 20
# If a Python task has less work than this, starting the task costs more than its work.
_LEAST_BYTES: Final = 8 << 20
_TASKS_PER_CORE: Final = 3
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}


def arrow_schema(columns: str) -> pa.Schema:
    """Return the Arrow schema of reports, given their columns in Spark's DDL syntax."""
    return pa.schema([(name, _TYPES[type_]) for name, type_ in map(str.split, columns.split(","))])


def work_of(piece: object) -> int:
    """Return a piece's cost in bytes, with that of opening its files; without files, a task's."""
    sizes = [
        sum(map(work_of_file, _files(getattr(piece, field.name))))
        for field in dataclasses.fields(piece)  # type: ignore[arg-type] # all pieces are dataclasses
    ]
    return sum(sizes) or TASK_BYTES


def work_of_file(file: AcidFile | PlainFile) -> int:
    """Return a file's cost in bytes: its length plus the cost of opening it."""
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
    """Group pieces into tasks, in order; all pieces of a task have the same kind.

    A task reads at most `TASK_BYTES`, except if a single piece is larger. Tasks are smaller, within
    reason, if each core would otherwise get fewer than `_TASKS_PER_CORE` tasks: so all finish at
    about the same time.
    """
    sizes = [work(piece) for piece in pieces]
    even = sum(sizes) // max(1, _TASKS_PER_CORE * cores)
    limit = min(TASK_BYTES, max(even, _LEAST_BYTES))
    tasks: list[list[_T]] = []
    size = limit
    for piece, own in zip(pieces, sizes, strict=True):
        if not tasks or size + own > limit or kind(piece) != kind(tasks[-1][-1]):
            tasks.append([])
            size = 0
        tasks[-1].append(piece)
        size += own
    return [tuple(task) for task in tasks]


@dataclass(frozen=True, slots=True)
class Packed(Generic[_T]):
    """Pickled pieces, indexed by task number; `common` has the values that several pieces share."""

    tasks: tuple[bytes, ...]
    common: tuple[bytes, ...]

    @classmethod
    def of(cls, tasks: Sequence[Sequence[_T]]) -> Packed[_T]:
        """Pack instances of importable dataclasses that contain plain values."""
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
    """A pickler that writes a shared value's number instead of the value."""

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
    return pickle.loads(content)  # noqa: S301 - the driver wrote it
