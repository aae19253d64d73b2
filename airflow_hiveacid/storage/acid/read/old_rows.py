"""Look up the old versions of rows for a write task, and return them as exact Arrow values.

The rows are sorted by file and identity. A stripe is decoded at most once, and only if it can
contain a wanted row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.identity import Keys
from airflow_hiveacid.storage.acid.read import AcidFile, bounds_of
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.timestamps import TimestampForm


class OldRows:
    """A cursor over the files with old row versions. Mutable: it stores the current batch."""

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
        """Return the wanted columns of the old row versions.

        `rows` has `_file` (a file's number) and the identity columns, sorted, after the rows of the
        previous call. Raises CorruptFileError if a visible row is missing in its file.
        """
        pieces: list[pa.StructArray] = []
        start = 0
        numbers = rows.column("_file")
        while start < rows.num_rows:
            length = _run_length(numbers, start)
            pieces.extend(self._from_file(numbers[start].as_py(), rows.slice(start, length)))
            start += length
        old_rows = pa.concat_arrays(pieces)
        return dict(zip(self._wanted, old_rows.flatten(), strict=True))

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
            batch_keys = Keys.of(self._batch)
            inside = keys.count_up_to(batch_keys.at(-1)) if len(batch_keys) else 0
            if inside:
                mask = batch_keys.found_in(keys.part(0, inside))
                if int(mask.sum()) != inside:
                    raise CorruptFileError(
                        path=file.path, reason="the file lacks a row of the snapshot"
                    )
                yield self._batch.column("row").filter(pa.array(mask))
                keys = keys.part(inside, len(keys))
            # If no row is left to find, keep the batch: the next call may need it.
            if len(keys):
                self._batch = None

    def _next_batch(self, file: AcidFile, keys: Keys) -> pa.RecordBatch:
        """Return the next batch of the open stripes, or of later stripes that may hold `keys`."""
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
                path=file.path, reason=f"the file lacks {len(keys)} row(s) of the snapshot"
            )
        return batch


class Stripes:
    """One file's stripes, and a cursor over them in ascending order. Mutable: the cursor moves."""

    def __init__(self, file: AcidFile) -> None:
        self.tail = file.tail()
        self._bounds = bounds_of(file, self.tail)
        self._next = 0

    def holding(self, keys: Keys) -> list[int]:
        """Return the stripes that may hold one of these rows."""
        return [s for s in range(len(self.tail.stripes)) if self._may_hold(s, keys)]

    def following(self, keys: Keys) -> list[int]:
        """Return the next stripe that may hold one of these rows, and move behind it.

        Not more than one: a stripe with several write IDs may hold every row by its statistics, and
        later keys may be in the stripes before it.
        """
        for stripe in range(self._next, len(self.tail.stripes)):
            if self._may_hold(stripe, keys):
                self._next = stripe + 1
                return [stripe]
        return []

    def _may_hold(self, stripe: int, keys: Keys) -> bool:
        inside = np.ones(len(keys), dtype=np.bool_)
        columns = (keys.original, keys.bucket, keys.row)
        for column, bounds in zip(columns, self._bounds[stripe], strict=True):
            if bounds is not None:
                inside &= (column >= bounds[0]) & (column <= bounds[1])
        return bool(inside.any())


def _run_length(numbers: pa.Array, start: int) -> int:
    rest = numbers.slice(start)
    end = pc.index(pc.not_equal(rest, rest[0]), pa.scalar(True)).as_py()
    return len(rest) if end < 0 else int(end)
