"""Base classes of our file systems and their open files, with the methods that pyarrow needs."""

from __future__ import annotations

import errno
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs as pafs


class StoreHandler(pafs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """pyarrow's handler for one store; `root` is the URI of the store."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other._root == self._root

    def __hash__(self) -> int:
        return hash(self._root)

    def normalize_path(self, path: str) -> str:
        """Return the path unchanged, because only `/` is a special character in it."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the file information of each path."""
        return [self._look(path) for path in paths]

    @abstractmethod
    def _look(self, path: str) -> pafs.FileInfo: ...

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for sequential reading."""
        return self.open_input_file(path)

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        """Raise an error, because no caller appends to files."""
        raise NotImplementedError(f"appending is not supported: {path}")

    def delete_root_dir_contents(self) -> None:
        """Raise an error, because no caller needs this method."""
        raise NotImplementedError(f"cannot empty {self._root}")


class OpenFile(ABC):
    """A file open for reading or writing, as pyarrow expects it. Mutable: it has a position."""

    READS: ClassVar[bool]

    def __init__(self) -> None:
        self._at, self.closed = 0, False

    def readable(self) -> bool:
        """Return True for a reader."""
        return self.READS

    def writable(self) -> bool:
        """Return True for a writer."""
        return not self.READS

    def seekable(self) -> bool:
        """Return True for a reader."""
        return self.READS

    def tell(self) -> int:
        """Return the position: the number of bytes before it."""
        return self._at

    def flush(self) -> None:  # noqa: B027 - no file has to do anything
        """Do nothing, because only `close` completes a file."""


class FileReader(OpenFile):
    """A file open for reading."""

    READS = True

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size_bytes = size_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; it may be beyond the end of the file; return the position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read `size` bytes, or fewer at the end; if it is None or negative, read to the end."""
        remainder = max(0, self._size_bytes - self._at)
        length = remainder if size is None or size < 0 else min(size, remainder)
        if not length:
            return b""
        content = self._take(length, remainder)
        self._at += length
        return content

    def close(self) -> None:
        """Close the file."""
        self.closed = True

    @abstractmethod
    def _take(self, wanted: int, left: int) -> bytes:
        """Return the next `wanted` bytes; the file has `left` more bytes. Raises OSError."""


class FileWriter(OpenFile):
    """A file open for writing. It buffers bytes to send, and records a failure."""

    READS = False

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._waiting = bytearray()
        self._failure: OSError | None = None

    def close(self) -> None:
        """Send the buffered bytes and complete the file, once; raise OSError if it cannot be."""
        if self.closed:
            return
        self.closed = True
        self._check()
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """Send the buffered bytes and complete the file. Raises OSError."""

    def _check(self) -> None:
        if self._failure is not None:
            text = f"an earlier write to it failed: {self._failure.strerror}"
            raise OSError(self._failure.errno, text, self._path)

    def _do(self, call: Callable[[], object]) -> None:
        """Make a call that sends bytes, unless an earlier call has failed."""
        self._check()
        try:
            call()
        except BaseException as error:
            self._failure = (
                error if isinstance(error, OSError) else OSError(errno.EINTR, repr(error))
            )
            raise
