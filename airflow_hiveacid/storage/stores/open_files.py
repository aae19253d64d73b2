"""What open files of every store have in common, as `pyarrow.PythonFile` wants them.

A reader has a place and a length; a writer knows its failure, and is never finished after one.
"""

from __future__ import annotations

import errno
import io
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class FileReader(ABC):
    """One file that is read. Mutable: it has a place."""

    def __init__(self, size_bytes: int) -> None:
        self._at, self._size_bytes = 0, size_bytes
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
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
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
        left = max(0, self._size_bytes - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        found = self._take(wanted, left)
        self._at += wanted
        return found

    def close(self) -> None:
        """Read no more."""
        self.closed = True

    @abstractmethod
    def _take(self, wanted: int, left: int) -> bytes:
        """So many bytes from the place on, of those that are left. Raises OSError."""


class FileWriter(ABC):
    """One file that is written. Mutable: it gathers what is to be sent, and knows its failure."""

    def __init__(self, path: str) -> None:
        self._path = path
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

    def flush(self) -> None:  # noqa: B027 - no writer has to do anything
        """Nothing: a file counts once it is closed."""

    def close(self) -> None:
        """Send what is left and finish the file; nothing the second time.

        Raises:
            OSError: it is not finished, and never will be.
        """
        if self.closed:
            return
        self.closed = True
        self._check()
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """Send what is left and finish the file. Raises OSError."""

    def _check(self) -> None:
        if self._failure is not None:
            text = f"it was not written to its end before: {self._failure.strerror}"
            raise OSError(self._failure.errno, text, self._path)

    def _do(self, call: Callable[[], object]) -> None:
        """Make a call that sends something; no other is made once one has failed."""
        self._check()
        try:
            call()
        except BaseException as error:
            self._failure = (
                error if isinstance(error, OSError) else OSError(errno.EINTR, repr(error))
            )
            raise
