"""Pieces of work as bytes: a task takes up its own and no other.

All tasks of a frame get the same function, and it holds every piece. As objects they would all be
made anew for each task: the square of their number. As bytes they wait until one is asked for. What
several pieces have in common (a table's columns, a snapshot's write IDs, the delete files of a
bucket) is held once, and a worker that has it keeps it for its next task.

Takes and gives plain frozen dataclasses. Must not know Spark.

Example:
    >>> from airflow_hiveacid.format.table import PartitionName
    >>> columns = ("year", "month")
    >>> days = [PartitionName(columns, ("2024", str(month))) for month in (1, 2)]
    >>> packed = Packed.of(days)
    >>> len(packed), len(packed.common), str(packed[1])
    (2, 1, 'year=2024/month=2')
"""

from __future__ import annotations

import dataclasses
import functools
import io
import pickle
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")

# Naming these takes as much room as they do.
_SMALL: Final = (str, int, float, bool, bytes, type(None))
# The largest there are, a snapshot's write IDs and a table's columns, are the same for all tasks.
_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class Packed(Generic[_T]):
    """Pieces by their number; `common` are the values that stand in several of them."""

    pieces: tuple[bytes, ...]
    common: tuple[bytes, ...]

    @classmethod
    def of(cls, pieces: Sequence[_T]) -> Packed[_T]:
        """Pack dataclass instances; everything in them must be importable and plain."""
        common = _in_common(pieces)
        numbers = {identity: number for number, identity in enumerate(common)}
        return cls(
            pieces=tuple(_dumped(piece, numbers) for piece in pieces),
            common=tuple(pickle.dumps(value) for value in common.values()),
        )

    def __len__(self) -> int:
        return len(self.pieces)

    def __getitem__(self, index: int) -> _T:
        piece: _T = _Unpickler(self.pieces[index], self.common).load()
        return piece


def _in_common(pieces: Sequence[Any]) -> Mapping[int, object]:
    """What is the very same object in a field of several pieces, by its identity."""
    values = [
        value
        for piece in pieces
        for field in dataclasses.fields(piece)
        if not isinstance(value := getattr(piece, field.name), _SMALL)
    ]
    times = Counter(map(id, values))
    return {id(value): value for value in values if times[id(value)] > 1}


def _dumped(piece: object, numbers: Mapping[int, int]) -> bytes:
    file = io.BytesIO()
    _Pickler(file, numbers).dump(piece)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Writes a number in place of what is common."""

    def __init__(self, file: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, obj: object) -> int | None:
        return self._numbers.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, piece: bytes, common: Sequence[bytes]) -> None:
        super().__init__(io.BytesIO(piece))
        self._common = common

    def persistent_load(self, number: int) -> object:
        return _loaded(self._common[number])


@functools.lru_cache(maxsize=_KEPT)
def _loaded(content: bytes) -> object:
    return pickle.loads(content)  # noqa: S301 - our driver made it
