"""What a reader relies on in the events of one file: their order, and that all are of one kind.

Takes the root columns batch by batch. Must not know where they come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.acid.identity import Key, Keys
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind
from airflow_hiveacid.storage.acid.row_schema import OPERATION, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_EXPECTED: Final[Mapping[FileKind, Operation]] = {
    FileKind.DATA: Operation.INSERT,
    FileKind.ORIGINAL: Operation.INSERT,
    FileKind.DELETE: Operation.DELETE,
}


class FileCheck:
    """Sees the events of one file go by, and objects to those that no reader could rely on.

    Mutable: it remembers the last row.
    """

    def __init__(self, file: AcidFile) -> None:
        self._file = file
        self._last: Key = file.least_key

    def see(self, root: pa.RecordBatch) -> None:
        """Check one batch.

        Raises:
            CorruptFileError: it is out of order, or holds an event that does not belong here.
            UnsupportedFileError: it holds update events, which only Hive before 3 writes.
        """
        keys = Keys.of(root)
        if not len(keys):
            return
        if keys.at(0) < self._last or not keys.is_sorted():
            raise CorruptFileError(
                path=self._file.path,
                reason="its rows are not in the order of row identity, or older than its directory",
            )
        self._last = keys.at(-1)
        greatest = self._file.greatest_write_id
        if greatest is not None and self._last[0] > greatest:
            raise CorruptFileError(
                path=self._file.path, reason=f"it holds rows of write IDs above {greatest}"
            )
        self._see_operations(root.column(OPERATION).to_numpy())

    def _see_operations(self, operations: npt.NDArray[np.int32]) -> None:
        expected = _EXPECTED[self._file.kind]
        if (operations == expected).all():
            return
        if (operations == Operation.UPDATE).any():
            raise UnsupportedFileError(
                path=self._file.path,
                reason="it holds update events of Hive before 3; compact the table there first",
            )
        raise CorruptFileError(
            path=self._file.path, reason=f"it holds events other than operation {expected.value}"
        )
