"""A local file system that notes what is asked of it: files opened, bytes read, directories listed.

Shared by the tests of how often a footer is read, and in how few pieces a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import fs as pafs

LOCAL = pafs.LocalFileSystem()


@dataclass
class Asked:
    """What was asked: paths of files opened and directories listed, (offset, bytes) of reads."""

    opened: list[str] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    reads: list[tuple[int, int]] = field(default_factory=list)

    @property
    def bytes_read(self) -> int:
        return sum(size for _, size in self.reads)


class File:
    """A file as `pa.PythonFile` wants it."""

    def __init__(self, source: pa.NativeFile, asked: Asked) -> None:
        self._source, self._asked = source, asked
        self.closed = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._source.tell())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._source.seek(offset, whence))

    def read(self, size: int = -1) -> bytes:
        at = self.tell()
        content: bytes = self._source.read(None if size < 0 else size)
        self._asked.reads.append((at, len(content)))
        return content

    def close(self) -> None:
        self.closed = True
        self._source.close()


class CountingHandler(pafs.FSSpecHandler):  # type: ignore[misc] # pyarrow has no types
    def __init__(self, asked: Asked) -> None:
        super().__init__(LOCAL)
        self._asked = asked

    def get_type_name(self) -> str:
        return "counting"

    def open_input_file(self, path: str) -> pa.PythonFile:
        self._asked.opened.append(path)
        return pa.PythonFile(File(LOCAL.open_input_file(path), self._asked), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return LOCAL.open_input_stream(path)

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return list(LOCAL.get_file_info(paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        self._asked.listed.append(selector.base_dir)
        return list(LOCAL.get_file_info(selector))


def counting() -> tuple[pafs.FileSystem, Asked]:
    """A file system, and what is asked of it from now on."""
    asked = Asked()
    return pafs.PyFileSystem(CountingHandler(asked)), asked
