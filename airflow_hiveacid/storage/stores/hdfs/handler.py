"""A pyarrow file system that uses hdfs-native, and its files, without a JVM in the process.

A rename never moves a directory into an existing directory. Every call has a time limit. Every
failure is an OSError with an errno, and its message names the store.

Deleted files do not go to HDFS's trash.

Small writes are buffered, because each call enters Rust code and takes a lock; a large one is sent
in pieces, because it is copied. After a failed write, the file is never completed: the name node
would accept the blocks without the failed one as the whole file.
"""

from __future__ import annotations

import errno
import io
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.storage.stores.hdfs import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs.deadlines import within
from airflow_hiveacid.storage.stores.open_files import FileReader, FileWriter, StoreHandler

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


HDFS_NATIVE: Final = "hdfs-native"
"""The type name of this file system; pyarrow adds the prefix `py::`."""

_T = TypeVar("_T")

ANSWER_S: Final = 150.0
"""The time limit for a name node's answer.

If the machine of a name node is off, Linux gives up after 127 s.
"""

_ANY_DIRECTORY: Final = 0o777
_ANY_FILE: Final = 0o666
_NS_PER_MS: Final = 1_000_000


class HdfsHandler(StoreHandler):
    """pyarrow's handler for one client. Mutable: it records whether ACLs are enabled.

    `root` is the URI of its file system. New files and directories do not get the bits of `umask`.
    `options` is `hdfs_native.WriteOptions`. `answer_s` is the time limit for a name node's answer.
    """

    def __init__(
        self,
        root: str,
        client: HdfsClient,
        umask: int,
        options: Callable[..., object],
        answer_s: float = ANSWER_S,
    ) -> None:
        super().__init__(root)
        self._client, self._umask, self._options = client, umask, options
        self._answer_s = answer_s
        self._has_lists = True

    def get_type_name(self) -> str:
        """Return `HDFS_NATIVE`."""
        return HDFS_NATIVE

    def _ask(self, path: str, call: Callable[[], _T]) -> _T:
        with hdfs_errors(self._where(path)):
            return within(self._answer_s, call)

    def _where(self, path: str) -> str:
        return f"{self._root.rstrip('/')}{path}"

    # ---- looking ---------------------------------------------------------------------------------

    def _look(self, path: str) -> pafs.FileInfo:
        try:
            return _info(self._ask(path, partial(self._client.get_file_info, path)))
        except (FileNotFoundError, NotADirectoryError):  # the second error if a parent is a file
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Return the file information of everything in a directory.

        Raises FileNotFoundError if the directory is required but missing, or a directory below it
        was removed during the listing. Raises NotADirectoryError if the path is a file.
        """
        top = selector.base_dir.rstrip("/") or "/"
        infos = self._children(top, is_optional=selector.allow_not_found)
        if selector.recursive:
            # If it must exist, a subdirectory that vanishes meanwhile is an error, too.
            for info in infos:  # `infos` grows
                if info.type == pafs.FileType.Directory:
                    infos += self._children(info.path, is_optional=selector.allow_not_found)
        return infos

    def _children(self, top: str, *, is_optional: bool) -> list[pafs.FileInfo]:
        def ask() -> list[FileStatus]:
            return list(self._client.list_status(top, False))  # noqa: FBT003 - not recursive

        try:
            statuses = self._ask(top, ask)
        except FileNotFoundError:
            if is_optional:
                return []
            raise
        if len(statuses) == 1 and statuses[0].path == top:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", self._where(top))
        return [_info(status) for status in statuses]

    # ---- directories -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's
        """Create a directory, unless it exists."""
        permission = self._permission(path, _ANY_DIRECTORY)
        self._ask(path, partial(self._client.mkdirs, path, permission, recursive))

    def delete_dir(self, path: str) -> None:
        """Delete a directory and its content in one step."""
        self._delete(path, is_directory=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete everything in a directory."""
        for info in self.get_file_info_selector(
            pafs.FileSelector(path, allow_not_found=missing_dir_ok)
        ):
            self._delete(info.path, is_directory=info.type == pafs.FileType.Directory)

    # ---- files -----------------------------------------------------------------------------------

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        if self._look(path).type == pafs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, "it is a directory", self._where(path))
        self._delete(path, is_directory=False)

    def _delete(self, path: str, *, is_directory: bool) -> None:
        if not self._ask(path, partial(self._client.delete, path, is_directory)):
            raise FileNotFoundError(errno.ENOENT, "it does not exist", self._where(path))

    def move(self, src: str, dest: str) -> None:
        """Rename a file or directory; only a file may replace an existing file.

        The name node itself enforces this. Raises FileNotFoundError if the source or the target's
        parent is missing, and FileExistsError if the source is a directory, and the target exists.
        """
        is_file = not self._ask(src, partial(self._client.get_file_info, src)).isdir
        self._ask(src, partial(self._client.rename, src, dest, is_file))

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file, piece by piece through this process."""
        source = HdfsReader(self._read(src), self._where(src))
        sink = HdfsWriter(self._create(dest), self._where(dest))
        while piece := source.read(PIECE_BYTES):
            sink.write(piece)
        sink.close()

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        return pa.PythonFile(HdfsReader(self._read(path), self._where(path)), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for writing; replace an existing file."""
        return pa.PythonFile(HdfsWriter(self._create(path), self._where(path)), mode="w")

    def _read(self, path: str) -> FileSource:
        look = partial(self._client.get_file_info, path)
        status = self._ask(path, look)
        source = self._ask(path, partial(self._client.read, path))
        # A shorter file may have replaced this file meanwhile, so check the length.
        if status.length > len(source) and self._ask(path, look).length > len(source):
            # A reader would mistake the end of closed blocks for the end of the file.
            raise OSError(
                errno.EAGAIN,
                f"{len(source)} of its {status.length} bytes can be read: {OPEN_FILE}",
                self._where(path),
            )
        return source

    def _create(self, path: str) -> FileSink:
        options = self._options(
            permission=self._permission(path, _ANY_FILE), overwrite=True, create_parent=True
        )
        sink = self._ask(path, partial(self._client.create, path, options))
        if isinstance(sink, io.IOBase):
            # Python's collector of garbage closes each file that does not count as closed. That
            # would complete the file of a failed write, and wait for the name node without a limit.
            io.IOBase.close(sink)
        return sink

    # ---- permissions -----------------------------------------------------------------------------

    def _permission(self, path: str, widest: int) -> int:
        # As Java's client: if the parent has a default access control list, this list determines
        # the rights, and all bits are set. A cleared bit would remove a right of every user in the
        # list.
        return widest if self._inherits_list(path) else widest & ~self._umask

    def _inherits_list(self, path: str) -> bool:
        parent = posixpath.dirname(path)
        while self._has_lists:
            try:
                entries = self._ask(parent, partial(self._client.get_acl_status, parent)).entries
            except FileNotFoundError:
                if parent in ("", "/"):
                    return False
                parent = posixpath.dirname(parent)
            except PermissionError:
                return False  # the name node will then also refuse the write
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise  # if the list were ignored, its users could lose access
                # On this name node, lists are disabled; others of a mount table may have them.
                self._has_lists = self._root.startswith("viewfs:")
                return False
            else:
                return any(entry.scope == "default" for entry in entries)
        return False


def _info(status: FileStatus) -> pafs.FileInfo:
    return pafs.FileInfo(
        status.path,
        pafs.FileType.Directory if status.isdir else pafs.FileType.File,
        size=None if status.isdir else status.length,
        mtime_ns=status.modification_time * _NS_PER_MS,
    )
