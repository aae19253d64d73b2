"""Files of HDFS, open, as `pyarrow.PythonFile` wants them.

Takes hdfs-native's readers and writers. Each call of these crosses into Rust and takes a lock, so
small writes are gathered; a large one goes piece by piece, since each is copied.

A file that could not be written to its end is never finished: hdfs-native forgets the block that
failed, and the name node would take what is left for the whole.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_waits import within
from airflow_hiveacid.storage.stores.open_files import FileReader, FileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.storage.stores.hdfs_client import FileSink, FileSource

OPEN_FILE: Final = (
    "somebody is streaming into it, and hdfs-native reads closed blocks only. Try again when the"
    " writer has closed it; or remove hdfs-native, so that libhdfs reads it, which asks data nodes"
)
"""What there is to do about a file of which more bytes count than can be read."""

PIECE_BYTES: Final = 1 << 20
"""How much is gathered before it is sent."""

# Data nodes have bounds of their own (dfs.client.socket-timeout, a minute by default), and each
# copy of a block is tried: this is for a name node that falls silent meanwhile.
_DATA_S: Final = 600.0
_SLOWEST_BYTES_PER_S: Final = 1 << 20


class HdfsReader(FileReader):
    """One file that is read."""

    def __init__(self, source: FileSource, path: str) -> None:
        super().__init__(len(source))
        self._source, self._path = source, path

    def _take(self, wanted: int, left: int) -> bytes:  # noqa: ARG002 - no more than is wanted
        with hdfs_errors(self._path):
            found = within(
                _DATA_S + wanted / _SLOWEST_BYTES_PER_S,
                partial(self._source.read_range, self._at, wanted),
            )
        if len(found) != wanted:
            raise OSError(
                errno.EIO, f"{len(found)} bytes came of {wanted} at {self._at}", self._path
            )
        return found


class HdfsWriter(FileWriter):
    """One file that is written."""

    def __init__(self, sink: FileSink, path: str) -> None:
        super().__init__(path)
        self._sink = sink

    def write(self, data: bytes) -> int:
        """Take bytes (or what has them, as Arrow's buffers), and send them once there are enough.

        Raises:
            OSError: sending failed, or somebody deleted the file.
        """
        with memoryview(data) as view:
            for start in range(0, view.nbytes, PIECE_BYTES):
                self._waiting += view[start : start + PIECE_BYTES]
                if len(self._waiting) >= PIECE_BYTES:
                    self._send()
            self._at += view.nbytes
            return view.nbytes

    def _end(self) -> None:
        self._send()
        self._do(partial(self._ask, self._sink.close))

    def _send(self) -> None:
        content, self._waiting = bytes(self._waiting), bytearray()
        if content:
            self._do(partial(self._ask, partial(self._sink.write, content)))

    def _ask(self, call: Callable[[], object]) -> None:
        with _still_there(self._path):
            within(_DATA_S, call)


@contextmanager
def _still_there(path: str) -> Iterator[None]:
    """As `hdfs_errors`; but a file that is missing is one that somebody has deleted meanwhile.

    To whoever reads errors, a FileNotFoundError says that there was nothing to begin with.
    """
    try:
        with hdfs_errors(path):
            yield
    except FileNotFoundError as error:
        raise OSError(
            errno.ESTALE, f"it was deleted while it was written: {error.strerror}", path
        ) from error
