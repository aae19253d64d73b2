"""Open HDFS files for `pyarrow.PythonFile`, and the protocols of hdfs-native's client.

Small writes are buffered, because each call enters Rust code and takes a lock; a large one is sent
in pieces, because it is copied. After a failed write, the file is never completed: the name node
would accept the blocks without the failed one as the whole file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

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

# This limit is for a name node that stops answering; hdfs-native has its own time limit for data
# nodes (dfs.client.socket-timeout, one minute by default), and tries each replica.
_DATA_S: Final = 600.0
_SLOWEST_BYTES_PER_S: Final = 1 << 20


# ---- the part of hdfs-native's client that we use ------------------------------------------------
# The contract suite's in-memory client implements the same protocols. hdfs-native is not imported,
# because it need not be installed if no table is on HDFS.


class FileStatus(Protocol):
    """hdfs-native's status of a file or directory; times are in milliseconds since 1970."""

    path: str
    isdir: bool
    length: int
    modification_time: int


class AclEntry(Protocol):
    """One entry of an access control list; its scope is `access` or `default`."""

    scope: str


class AclStatus(Protocol):
    """The access control list of a file or directory."""

    entries: Sequence[AclEntry]


class HdfsClient(Protocol):
    """The methods of `hdfs_native.Client` that we call."""

    def get_file_info(self, path: str) -> FileStatus: ...  # noqa: D102 - as hdfs-native says
    def list_status(self, path: str, recursive: bool) -> Iterable[FileStatus]: ...  # noqa: D102, FBT001
    def read(self, path: str) -> FileSource: ...  # noqa: D102
    def create(self, path: str, write_options: object) -> FileSink: ...  # noqa: D102
    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None: ...  # noqa: D102, FBT001
    def rename(self, src: str, dst: str, overwrite: bool) -> None: ...  # noqa: D102, FBT001
    def delete(self, path: str, recursive: bool) -> bool: ...  # noqa: D102, FBT001
    def get_acl_status(self, path: str) -> AclStatus: ...  # noqa: D102


class FileSource(Protocol):
    """The methods of hdfs-native's file reader that we call."""

    def __len__(self) -> int:
        """Return the total bytes of the blocks that were closed when the file was opened."""

    def read_range(self, offset: int, len: int, /) -> bytes:  # noqa: A002 - hdfs-native's name
        """Return `len` bytes from the offset on; the range must be inside the file."""


class FileSink(Protocol):
    """The methods of hdfs-native's file writer that we call."""

    def write(self, buf: bytes, /) -> int:
        """Write all bytes of `buf`."""

    def close(self) -> None:
        """Send the buffered bytes, and tell the name node to complete the file."""


# ---- files ---------------------------------------------------------------------------------------


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
    # A FileNotFoundError would suggest that the file never existed.
    try:
        with hdfs_errors(path):
            yield
    except FileNotFoundError as error:
        raise OSError(
            errno.ESTALE, f"it was deleted while being written: {error.strerror}", path
        ) from error
