"""Files of HDFS, open, as `pyarrow.PythonFile` wants them.

Takes hdfs-native's readers and writers. Each call of these crosses into Rust and takes a lock, so
small writes are gathered; a large one goes piece by piece, since each is copied.

A file that could not be written to its end is never finished: hdfs-native forgets the block that
failed, and the name node would take what is left for the whole.
"""

from __future__ import annotations

import errno
import io
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_waits import within

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


class HdfsReader:
    """One file that is read. Mutable: it has a place."""

    def __init__(self, source: FileSource, path: str) -> None:
        self._source, self._path = source, path
        self._at, self._size = 0, len(source)
        self.closed = False

    def readable(self) -> bool:
        """It is."""
        return True

    def writable(self) -> bool:
        """It is not."""
        return False

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which may lie behind the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or up to the end; fewer only there.

        Raises:
            OSError: reading failed, or gave fewer.
        """
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        with hdfs_errors(self._path):
            found = within(
                _DATA_S + wanted / _SLOWEST_BYTES_PER_S,
                partial(self._source.read_range, self._at, wanted),
            )
        if len(found) != wanted:
            raise OSError(
                errno.EIO, f"{len(found)} bytes came of {wanted} at {self._at}", self._path
            )
        self._at += wanted
        return found

    def close(self) -> None:
        """Read no more."""
        self.closed = True


class HdfsWriter:
    """One file that is written. Mutable: it gathers what is to be sent, and knows its failure."""

    def __init__(self, sink: FileSink, path: str) -> None:
        self._sink, self._path = sink, path
        self._waiting = bytearray()
        self._failure: OSError | None = None
        self._at = 0
        self.closed = False

    def readable(self) -> bool:
        """It is not."""
        return False

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is not."""
        return False

    def tell(self) -> int:
        """How many bytes were written."""
        return self._at

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

    def flush(self) -> None:
        """Nothing: a file counts once it is closed."""

    def close(self) -> None:
        """Send what is left and finish the file; nothing the second time.

        Raises:
            OSError: it is not finished, and never will be.
        """
        if self.closed:
            return
        self.closed = True
        self._send()
        self._do(self._sink.close)

    def _send(self) -> None:
        content, self._waiting = bytes(self._waiting), bytearray()
        if content:
            self._do(partial(self._sink.write, content))

    def _do(self, call: Callable[[], object]) -> None:
        if self._failure is not None:
            text = f"it was not written to its end before: {self._failure.strerror}"
            raise OSError(self._failure.errno, text, self._path)
        try:
            with _still_there(self._path):
                within(_DATA_S, call)
        except BaseException as error:
            self._failure = (
                error if isinstance(error, OSError) else OSError(errno.EINTR, repr(error))
            )
            raise


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
