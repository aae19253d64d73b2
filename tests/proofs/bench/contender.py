"""The interfaces of what is measured: a side that answers questions, and a table that changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self

from pyspark.sql import DataFrame

from tests.proofs.bench.yardsticks import SparkCompaction


class Readable(Protocol):
    """A side that answers questions."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files that a reader reads."""
        ...

    def frame(self, columns: Sequence[str] | None = None) -> AbstractContextManager[DataFrame]:
        """Return its rows for a block, with at least these columns; None means all."""
        ...


class Contender(Readable, Protocol):
    """One table of sales. Changes take the workload's Parquet files and return bytes written."""

    @property
    def system(self) -> str:
        """Its name in records."""
        ...

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Its compactions by kind: `minor`, `major`."""
        ...

    def overwrite(self, source: Path) -> int: ...
    def append(self, source: Path) -> int: ...
    def delete(self, keys: Path) -> int: ...

    def update(self) -> int:
        """Run the partial UPDATE of the workload: `RAISE`, where `RAISED`."""
        ...

    def merge(self, source: Path) -> int:
        """Run the MERGE of the workload."""
        ...

    def fork(self, name: str) -> Self:
        """Return a table in the same state, independent of this one's changes."""
        ...

    def drop(self) -> None: ...

    def yardstick(self) -> SparkCompaction | None:
        """Return its compaction as Spark alone would do it; None if that makes no sense."""
        ...

    def last_changes(self, *, pre_images: bool = True) -> AbstractContextManager[DataFrame] | None:
        """Return the changes of its last write for a block; None if it cannot list them.

        Without `pre_images`, removed rows are represented by their keys only.
        """
        ...
