"""Knows what a system must be able to do to be measured against plain ORC files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.spark_compaction import SparkCompaction


class Contender(Protocol):
    """One table of sales. Changes take the workload's Parquet files and tell the bytes written."""

    @property
    def system(self) -> str:
        """What records call it."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files that a reader reads."""
        ...

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """What it calls compaction, by kind: `minor`, `major`."""
        ...

    def frame(self, columns: Sequence[str] | None = None) -> AbstractContextManager[DataFrame]:
        """Its rows, for as long as the block lasts, with at least these columns; None means all."""
        ...

    def overwrite(self, source: Path) -> int:
        """Let it hold these rows and no others."""
        ...

    def append(self, source: Path) -> int:
        """Add rows."""
        ...

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys."""
        ...

    def update(self) -> int:
        """The partial UPDATE of the workload: `RAISE`, where `RAISED`."""
        ...

    def merge(self, source: Path) -> int:
        """The MERGE of the workload."""
        ...

    def fork(self, name: str) -> Self:
        """A table in the same state whose changes leave this one alone."""
        ...

    def drop(self) -> None:
        """Forget it, with its files."""
        ...

    def yardstick(self) -> SparkCompaction | None:
        """Its compaction done by Spark alone, where that makes sense."""
        ...

    def last_changes(self, *, pre_images: bool = True) -> AbstractContextManager[DataFrame] | None:
        """What its last write has changed, for as long as the block lasts, where it can tell.

        Without `pre_images` rows that have gone are told by their keys alone.
        """
        ...
