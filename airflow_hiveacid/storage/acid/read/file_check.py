"""Check the events of one file while it is read: order, write IDs and operations.

Before version 3, Hive wrote an update or a delete as a single event into the delta with the
inserts. Such a delta is refused, but a base is not: compaction kept only the last event of each
live row, so its update event is the row's current version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.acid import (
    CURRENT_WRITE_ID,
    OPERATION,
    OPERATION_COLUMN_ID,
    ORIGINAL_WRITE_ID,
    Operation,
)
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, has_acid_columns
from airflow_hiveacid.storage.orc.footer import OrcTail

_EXPECTED: Final[Mapping[FileKind, Operation]] = {
    FileKind.DATA: Operation.INSERT,
    FileKind.ORIGINAL: Operation.INSERT,
    FileKind.DELETE: Operation.DELETE,
}
_GIVE_NEW_ROW_IDS: Final = (
    "Give the rows new row IDs: in Hive, INSERT OVERWRITE the table or partition with its own rows"
)
_OF_OLD_HIVE: Final = frozenset({Operation.UPDATE, Operation.DELETE})


def needs_new_row_ids(path: str, why: object) -> UnsupportedFileError:
    """Return the error for a file that can be read once its rows have new row IDs."""
    return UnsupportedFileError(path=path, reason=f"{why}. {_GIVE_NEW_ROW_IDS}")


def require_new_rows(file: AcidFile, tail: OrcTail) -> None:
    """Raise UnsupportedFileError if the footer shows old Hive's deletes, or updates in a delta."""
    if file.kind is not FileKind.DATA or not has_acid_columns(tail):
        return
    _, greatest = tail.integer_range(OPERATION_COLUMN_ID) or (None, Operation.INSERT)
    is_row = file.is_of_base and greatest == Operation.UPDATE
    if greatest in _OF_OLD_HIVE and not is_row:
        raise _of_old_hive(file)


def as_new_rows(file: AcidFile, root: pa.RecordBatch) -> pa.RecordBatch:
    """Return a base's update events as insert events; return all other events unchanged."""
    if not file.is_of_base or not (root.column(OPERATION).to_numpy() == Operation.UPDATE).any():
        return root
    inserts = pa.repeat(pa.scalar(int(Operation.INSERT), pa.int32()), root.num_rows)
    fields = dict(zip(root.schema.names, root.columns, strict=True))
    # Since Hive 3, an updated row has the same original and current write ID.
    fields |= {OPERATION: inserts, CURRENT_WRITE_ID: root.column(ORIGINAL_WRITE_ID)}
    return pa.RecordBatch.from_arrays(list(fields.values()), schema=root.schema)


def _of_old_hive(file: AcidFile) -> UnsupportedFileError:
    return UnsupportedFileError(
        path=file.path,
        reason="it contains update or delete events in the format used before Hive 3. Compact the"
        " table or partition in Hive: ALTER TABLE ... COMPACT 'major'",
    )


class FileCheck:
    """A check of one file's events, batch by batch. Mutable: it stores the last row."""

    def __init__(self, file: AcidFile) -> None:
        self._file = file
        self._last: Key = file.least_key

    def see(self, root: pa.RecordBatch) -> None:
        """Check the next batch of the file.

        Raises CorruptFileError for an event that is invalid in this file, UnsupportedFileError for
        a wrong order, write IDs outside of the directory's range, or changes from before Hive 3.
        """
        keys = Keys.of(root)
        if not len(keys):
            return
        self._see_operations(root.column(OPERATION).to_numpy())
        if keys.at(0) < self._last or not keys.is_sorted():
            raise needs_new_row_ids(
                self._file.path,
                "its rows are not in the order of row IDs, or have lower write IDs than its"
                " directory",
            )
        self._last = keys.at(-1)
        greatest = self._file.greatest_write_id
        if greatest is not None and self._last[0] > greatest:
            why = f"it contains rows with a write ID above {greatest}"
            raise needs_new_row_ids(self._file.path, why)

    def _see_operations(self, operations: npt.NDArray[np.int32]) -> None:
        expected = _EXPECTED[self._file.kind]
        fits = operations == expected
        if self._file.is_of_base:
            fits |= operations == Operation.UPDATE
        if fits.all():
            return
        other_operations = set(operations[~fits].tolist())
        if self._file.kind is FileKind.DATA and other_operations <= _OF_OLD_HIVE:
            raise _of_old_hive(self._file)
        raise CorruptFileError(
            path=self._file.path, reason=f"it contains events other than {expected.name}"
        )
