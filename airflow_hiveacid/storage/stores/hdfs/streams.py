"""Open HDFS files for `pyarrow.PythonFile`.

The module wraps hdfs-native's readers and writers. Each call to a reader or writer enters Rust code
and takes a lock. So small writes are buffered. A large write is sent in pieces, because each piece
is copied.

After a failed write, the file is never completed. hdfs-native drops the failed block, and the name
node would accept the remaining blocks as the whole file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from airflow_hiveacid.storage.stores.hdfs.client import FileSink, FileSource
from airflow_hiveacid.storage.stores.hdfs.deadlines import within
from airflow_hiveacid.storage.stores.hdfs.errors import hdfs_errors
from airflow_hiveacid.storage.stores.open_files import FileReader, FileWriter

OPEN_FILE: Final = (
    "a writer is still writing to it, and hdfs-native reads only closed blocks. Try again when the"
    " writer has closed the file, or uninstall hdfs-native: libhdfs then reads the file by asking"
    " data nodes"
)
"""The remedy for a file that cannot be read completely."""

PIECE_BYTES: Final = 1 << 20
"""The number of bytes to buffer before sending them."""

# hdfs-native has its own time limit for data nodes (dfs.client.socket-timeout, one minute by
# default). hdfs-native tries each replica of a block. This limit is for a name node that stops
# answering.
_DATA_S: Final = 600.0
_SLOWEST_BYTES_PER_S: Final = 1 << 20


class HdfsReader(FileReader):
    """An HDFS file open for reading."""

    def __init__(self, source: FileSource, path: str) -> None:
        super().__init__(len(source))
        self._source, self._path = source, path

    def _take(self, wanted: int, left: int) -> bytes:  # noqa: ARG002 - it reads nothing ahead
        with hdfs_errors(self._path):
            content = within(
                _DATA_S + wanted / _SLOWEST_BYTES_PER_S,
                partial(self._source.read_range, self._at, wanted),
            )
        if len(content) != wanted:
            raise OSError(
                errno.EIO, f"received {len(content)} of {wanted} bytes at {self._at}", self._path
            )
        return content


class HdfsWriter(FileWriter):
    """An HDFS file open for writing."""

    def __init__(self, sink: FileSink, path: str) -> None:
        super().__init__(path)
        self._sink = sink

    def write(self, data: bytes) -> int:
        """Buffer `data` (bytes or an Arrow buffer), and send full pieces."""
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
    """Act like `hdfs_errors`, but report that a missing file was deleted during the write.

    A FileNotFoundError would suggest that the file never existed.
    """
    try:
        with hdfs_errors(path):
            yield
    except FileNotFoundError as error:
        raise OSError(
            errno.ESTALE, f"it was deleted while being written: {error.strerror}", path
        ) from error
