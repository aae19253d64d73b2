"""The interface of a system that is measured against plain ORC files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.proofs.bench.spark_compaction import SparkCompaction


class Contender(Protocol):
    """One table of sales. Changes take the workload's Parquet files and return bytes written."""

    @property
    def system(self) -> str:
        """Its name in records."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files that a reader reads."""
        ...

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Its compactions by kind: `minor`, `major`."""
        ...

    def frame(self, columns: Sequence[str] | None = None) -> AbstractContextManager[DataFrame]:
        """Return its rows for a block, with at least these columns; None means all."""
        ...

    def overwrite(self, source: Path) -> int:
        """Replace its rows by these."""
        ...

    def append(self, source: Path) -> int:
        """Add rows."""
        ...

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys."""
        ...

    def update(self) -> int:
        """Run the partial UPDATE of the workload: `RAISE`, where `RAISED`."""
        ...

    def merge(self, source: Path) -> int:
        """Run the MERGE of the workload."""
        ...

    def fork(self, name: str) -> Self:
        """Return a table in the same state, independent of this one's changes."""
        ...

    def drop(self) -> None:
        """Drop it, with its files."""
        ...

    def yardstick(self) -> SparkCompaction | None:
        """Return its compaction as Spark alone would do it; None if that makes no sense."""
        ...

    def last_changes(self, *, pre_images: bool = True) -> AbstractContextManager[DataFrame] | None:
        """Return the changes of its last write for a block; None if it cannot list them.

        Without `pre_images`, removed rows are represented by their keys only.
        """
        ...
