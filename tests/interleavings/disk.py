"""A disk in memory that behaves as pyarrow's file systems do, and tells of each effect.

Only what `storage.stores` calls is here. Two faces: that of a local disk (a directory goes file by
file, an empty target of a rename is replaced) and that of HDFS (it goes at once, a rename onto a
directory lands inside).
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from pyarrow import fs as pafs

_FILE, _DIRECTORY, _NOTHING = (
    pafs.FileType.File,
    pafs.FileType.Directory,
    pafs.FileType.NotFound,
)


@dataclass(slots=True)
class File:
    """A file. Mutable: it is written after it was made."""

    content: bytes
    modified_s: float


Directory = dict[str, "File | Directory"]


class Stamp(float):
    """A time, as a datetime would tell it."""

    __slots__ = ()

    def timestamp(self) -> float:
        return float(self)


@dataclass(frozen=True, slots=True)
class Info:
    """What `pyarrow.fs.FileInfo` tells."""

    path: str
    base_name: str
    type: pafs.FileType
    size: int | None = None
    mtime: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing done to the disk, or one look at it."""

    verb: str
    path: str
    is_change: bool

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class _Written(io.BytesIO):
    """What a new file will hold once it is closed."""

    def __init__(self, keep: Callable[[bytes], None]) -> None:
        super().__init__()
        self._keep = keep

    def __exit__(self, *reason: object) -> None:
        if reason[0] is None:
            self._keep(self.getvalue())

    def __enter__(self) -> Self:
        return self


class Disk:
    """The disk. Mutable. `before` and `after` are told each effect, and may raise."""

    def __init__(
        self,
        *,
        before: Callable[[Effect], None],
        after: Callable[[Effect], None],
        now_s: Callable[[], float],
        is_hdfs: bool,
        is_native: bool,
    ) -> None:
        self.root: Directory = {}
        self._before, self._after, self._now_s = before, after, now_s
        self._is_hdfs, self._is_native = is_hdfs, is_native
        self.type_name = "py::hdfs-native" if is_native else "hdfs" if is_hdfs else "local"

    # For the laboratory itself: no effect is told.

    def find(self, path: str) -> File | Directory | None:
        node: File | Directory | None = self.root
        for part in _parts(path):
            if not isinstance(node, dict):
                return None
            node = node.get(part)
        return node

    def put(self, path: str, content: bytes) -> None:
        *parents, name = _parts(path)
        node = self.root
        for part in parents:
            below = node.setdefault(part, {})
            assert isinstance(below, dict), path
            node = below
        node[name] = File(content, self._now_s())

    def read(self, path: str) -> bytes:
        node = self.find(path)
        if not isinstance(node, File):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node.content

    @contextlib.contextmanager
    def _told(self, verb: str, path: str, *, is_change: bool = True) -> Iterator[None]:
        effect = Effect(verb, path, is_change)
        self._before(effect)
        yield
        self._after(effect)

    # pyarrow's calls

    def get_file_info(self, wanted: str | pafs.FileSelector) -> Info | list[Info]:
        if isinstance(wanted, str):
            with self._told("look at", wanted, is_change=False):
                return _info(wanted, self.find(wanted))
        with self._told("list", wanted.base_dir, is_change=False):
            return self._list(wanted)

    def _list(self, selector: pafs.FileSelector) -> list[Info]:
        base = selector.base_dir.rstrip("/")
        node = self.find(base)
        if not isinstance(node, dict):
            if selector.allow_not_found:
                return []
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), base)
        found: list[Info] = []
        pending = [(base, node)]
        while pending:
            parent, directory = pending.pop()
            for name, child in directory.items():
                path = f"{parent}/{name}"
                found.append(_info(path, child))
                if selector.recursive and isinstance(child, dict):
                    pending.append((path, child))
        return found

    def open_input_stream(self, path: str, compression: object = None) -> io.BytesIO:
        del compression
        with self._told("read", path, is_change=False):
            return io.BytesIO(self.read(path))

    def open_output_stream(self, path: str, compression: object = None) -> _Written:
        del compression
        parent = self.find(posixpath.dirname(path))
        if not isinstance(parent, dict):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with self._told("make", path):
            self.put(path, b"")

        def keep(content: bytes) -> None:
            with self._told("fill", path):
                # It may have been removed under the writer's hands.
                is_there = self.find(path) is not None
                if is_there:
                    self.put(path, content)
            if not is_there and self._is_native:
                raise OSError(errno.ESTALE, "it was deleted while being written", path)

        return _Written(keep)

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        node = self.find(path)
        if isinstance(node, dict):
            return
        *parents, name = _parts(path)
        with self._told("make", path):
            here = self.root
            for part in parents:
                if part not in here and not recursive:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                below = here.setdefault(part, {})
                if not isinstance(below, dict):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                here = below
            here.setdefault(name, {})

    def delete_dir(self, path: str) -> None:
        if not isinstance(self.find(path), dict):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not self._is_hdfs:
            self._empty(path)
        with self._told("remove", path):
            self._take(path)

    def _empty(self, path: str) -> None:
        node = self.find(path)
        for name, child in list(node.items()) if isinstance(node, dict) else ():
            if isinstance(child, dict):
                self._empty(f"{path}/{name}")
            with self._told("remove", f"{path}/{name}"):
                self._take(f"{path}/{name}", must_exist=False)

    def delete_file(self, path: str) -> None:
        with self._told("remove", path):
            if not isinstance(self.find(path), File):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._take(path)

    def move(self, source: str, target: str) -> None:
        with self._told("move", f"{source} {target}"):
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        node = self.find(source)
        parent = self.find(posixpath.dirname(target))
        if node is None or not isinstance(parent, dict):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        there = self.find(target)
        if self._is_native and isinstance(node, dict) and there is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        if isinstance(node, dict) and isinstance(there, dict):
            if self._is_hdfs:
                self._take(source)
                there[posixpath.basename(source)] = node
                return
            if there:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), target)
        self._take(source)
        parent[posixpath.basename(target)] = node

    def _take(self, path: str, *, must_exist: bool = True) -> None:
        parent = self.find(posixpath.dirname(path))
        name = posixpath.basename(path)
        if isinstance(parent, dict) and name in parent:
            del parent[name]
        elif must_exist:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


@lru_cache(maxsize=100_000)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _info(path: str, node: File | Directory | None) -> Info:
    name = path.rpartition("/")[2]
    if node is None:
        return Info(path, name, _NOTHING)
    if isinstance(node, dict):
        return Info(path, name, _DIRECTORY, None, Stamp(0.0))
    return Info(path, name, _FILE, len(node.content), Stamp(node.modified_s))
