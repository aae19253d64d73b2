"""How a write task finds the old version of a row: by file and identity, with Arrow, exact.

Takes rows that name their old version, file by file and in the order of their identities; gives the
wanted columns in the same order. Each stripe that holds a wanted row is decoded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.identity import Keys
from airflow_hiveacid.storage.orc_convert import Matching
from airflow_hiveacid.storage.orc_reader import AcidFile, read_events
from airflow_hiveacid.storage.orc_timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.format.table import Column


class OldRows:
    """A cursor over old files. Mutable: it holds the batch it stands in."""

    def __init__(
        self, files: Mapping[str, AcidFile], columns: Sequence[Column], wanted: Sequence[str]
    ) -> None:
        self._files = files
        self._columns = columns
        self._wanted = tuple(wanted)
        self._path: str | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._batch: pa.RecordBatch | None = None

    def fetch(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The wanted columns of the old versions of these rows.

        Args:
            rows: with `_file` and the identity columns, sorted by them; each call goes on where
            the last
                one ended.

        Raises:
            CorruptFileError: a row is not where the snapshot saw it.
        """
        pieces: list[pa.StructArray] = []
        start = 0
        paths = rows.column("_file")
        while start < rows.num_rows:
            path = paths[start].as_py()
            length = _run_length(paths, start)
            pieces.extend(self._from_file(path, rows.slice(start, length)))
            start += length
        found = pa.concat_arrays(pieces)
        return {name: pc.struct_field(found, name) for name in self._wanted}

    def _from_file(self, path: str, rows: pa.RecordBatch) -> Iterator[pa.StructArray]:
        if path != self._path:
            self._path = path
            self._batches = read_events(
                self._files[path],
                self._columns,
                data_columns=self._wanted,
                timestamps=TimestampForm.PAIR,
                matching=Matching.UNAMBIGUOUS,
            )
            self._batch = None
        keys = Keys.of(rows)
        while len(keys):
            if self._batch is None:
                self._batch = next(self._batches, None)
            if self._batch is None:
                raise CorruptFileError(
                    path=path, reason=f"{len(keys)} row(s) of the snapshot are not in it"
                )
            here = Keys.of(self._batch)
            inside = keys.count_up_to(here.at(-1)) if len(here) else 0
            if inside:
                found = here.found_in(keys.part(0, inside))
                if int(found.sum()) != inside:
                    raise CorruptFileError(path=path, reason="a row of the snapshot is not in it")
                yield self._batch.column("row").filter(pa.array(found))
                keys = keys.part(inside, len(keys))
            if len(keys):
                self._batch = None


def _run_length(paths: pa.Array, start: int) -> int:
    rest = paths.slice(start)
    other = pc.index(pc.not_equal(rest, rest[0]), pa.scalar(True)).as_py()
    return len(rest) if other < 0 else int(other)
