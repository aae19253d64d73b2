"""How a write task finds the old version of a row: by file and identity, with Arrow, exact.

Takes rows that name their old version, file by file and in the order of their identities; gives the
wanted columns in the same order. Each stripe that can hold a wanted row is decoded once, and no
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.acid.identity import Keys
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.read.stripe_bounds import bounds_of
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.table import Column
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile


class OldRows:
    """A cursor over old files. Mutable: it holds the batch it stands in."""

    def __init__(
        self, files: Mapping[int, AcidFile], columns: Sequence[Column], wanted: Sequence[str]
    ) -> None:
        self._files = files
        self._columns = columns
        self._wanted = tuple(wanted)
        self._number: int | None = None
        self._stripes: Stripes | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: pa.RecordBatch | None = None

    def fetch(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The wanted columns of the old versions of these rows.

        Args:
            rows: with `_file` (the number of a file) and the identity columns, sorted by them; each
                call goes on where the last one ended.

        Raises:
            CorruptFileError: a row is not where the snapshot saw it.
        """
        pieces: list[pa.StructArray] = []
        start = 0
        numbers = rows.column("_file")
        while start < rows.num_rows:
            length = _run_length(numbers, start)
            pieces.extend(self._from_file(numbers[start].as_py(), rows.slice(start, length)))
            start += length
        found = pa.concat_arrays(pieces)
        return dict(zip(self._wanted, found.flatten(), strict=True))

    def _from_file(self, number: int, rows: pa.RecordBatch) -> Iterator[pa.StructArray]:
        file = self._files[number]
        if number != self._number:
            self._number = number
            self._stripes = Stripes(file)
            self._batches, self._batch = iter(()), None
        keys = Keys.of(rows)
        while len(keys):
            if self._batch is None:
                self._batch = self._next_batch(file, keys)
            here = Keys.of(self._batch)
            inside = keys.count_up_to(here.at(-1)) if len(here) else 0
            if inside:
                found = here.found_in(keys.part(0, inside))
                if int(found.sum()) != inside:
                    raise CorruptFileError(
                        path=file.path, reason="a row of the snapshot is not in it"
                    )
                yield self._batch.column("row").filter(pa.array(found))
                keys = keys.part(inside, len(keys))
            if len(keys):
                self._batch = None

    def _next_batch(self, file: AcidFile, keys: Keys) -> pa.RecordBatch:
        """The next batch of the stripes that are open, or of those behind them with these rows."""
        batch = next(self._batches, None)
        if batch is None and self._stripes is not None:
            self._batches = read_events(
                file,
                self._columns,
                data_columns=self._wanted,
                stripes=self._stripes.following(keys),
                timestamps=TimestampForm.PAIR,
                matching=Matching.UNAMBIGUOUS,
                tail=self._stripes.tail,
            )
            batch = next(self._batches, None)
        if batch is None:
            raise CorruptFileError(
                path=file.path, reason=f"{len(keys)} row(s) of the snapshot are not in it"
            )
        return batch


class Stripes:
    """Goes through the stripes of one file, ascending. Mutable: it knows the last one it gave."""

    def __init__(self, file: AcidFile) -> None:
        self.tail = file.tail()
        self._bounds = bounds_of(file, self.tail)
        self._next = 0

    def following(self, keys: Keys) -> list[int]:
        """The stripes behind those given before that these rows can be in."""
        found = [s for s in range(self._next, len(self.tail.stripes)) if self._may_hold(s, keys)]
        if found:
            self._next = found[-1] + 1
        return found

    def _may_hold(self, stripe: int, keys: Keys) -> bool:
        """Whether one of the rows lies in a stripe, by its place or by the statistics."""
        inside = np.ones(len(keys), dtype=np.bool_)
        columns = (keys.original, keys.bucket, keys.row)
        for column, bounds in zip(columns, self._bounds[stripe], strict=True):
            if bounds is not None:
                inside &= (column >= bounds[0]) & (column <= bounds[1])
        return bool(inside.any())


def _run_length(numbers: pa.Array, start: int) -> int:
    rest = numbers.slice(start)
    other = pc.index(pc.not_equal(rest, rest[0]), pa.scalar(True)).as_py()
    return len(rest) if other < 0 else int(other)
