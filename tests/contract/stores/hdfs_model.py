"""hdfs-native's client over a tree in memory: what it says, and in which form it fails.

The contract suite holds it to the real one. Errors of the name node that the real client does not
know come as RuntimeErrors that print a value of Rust, with a line of Java's stack.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

_OTHERS_WRITE = 0o002
_clock = itertools.count(1_700_000_000_000)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an access control list, as `hdfs_native.AclEntry` takes it."""

    type: str
    scope: str
    permissions: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Lists:
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`hdfs_native.WriteOptions`, as far as it is asked for."""

    permission: int
    overwrite: bool
    create_parent: bool


@dataclass(slots=True, kw_only=True)
class Node:
    """A file or directory; `length` is what is listed, `closed` what a reader finds. Mutable."""

    isdir: bool
    owner: str
    permission: int
    content: bytes = b""
    length: int = 0
    closed: int = 0
    modification_time: int = field(default_factory=lambda: next(_clock))
    entries: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    path: str
    isdir: bool
    length: int
    permission: int
    owner: str
    modification_time: int


def rpc_error(java_class: str, message: str) -> RuntimeError:
    stack = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.call(FSNamesystem.java:1)"
    return RuntimeError(f'RPCError("{java_class}", "{message}{stack}")')


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"{path} is not there\n\tat org.apache.hadoop.hdfs.StateChange")


class Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def read_range(self, offset: int, len: int) -> bytes:  # noqa: A002 - its name there
        # The real one panics, which is no Exception.
        assert offset + len <= self.__len__(), "Cannot read past end of the file"
        return self._content[offset : offset + len]


class Writer:
    def __init__(self, tree: dict[str, Node], path: str, full_at: int | None) -> None:
        self._tree, self._path, self._node = tree, path, tree[path]
        self._full_at = full_at

    def write(self, buf: bytes) -> int:
        if self._full_at is not None and len(self._node.content) + len(buf) > self._full_at:
            # What came before stays, and the real one would finish the file with it.
            name = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"
            raise rpc_error(name, "The DiskSpace quota of /quota is exceeded")
        self._node.content += bytes(buf)
        return len(buf)

    def hsync(self) -> None:
        """What was written is safe, and listed; no reader finds it."""
        self._node.length = len(self._node.content)

    def close(self) -> None:
        if self._tree.get(self._path) is not self._node:
            raise _missing(self._path)
        self._node.closed = self._node.length = len(self._node.content)


class Model:
    """A client of the tree for one user. Mutable. The user `root` may do everything."""

    def __init__(self, tree: dict[str, Node] | None = None, user: str = "root") -> None:
        made = {"/": Node(isdir=True, owner="root", permission=0o755)}
        self.tree = made if tree is None else tree
        self._user = user
        self.knows_lists = True
        self.full_at: int | None = None

    def get_file_info(self, path: str) -> Status:
        return _status(path, self._node(path))

    def list_status(self, path: str, recursive: bool) -> Iterator[Status]:
        node = self._node(path)
        if not node.isdir:
            yield _status(path, node)
            return
        for other in sorted(self.tree):
            is_child = posixpath.dirname(other) == path and other != path
            if is_child or (recursive and other != path and _is_below(other, path)):
                yield _status(other, self.tree[other])

    def read(self, path: str) -> Reader:
        node = self._node(path)
        if node.isdir:
            raise _missing(path)  # "Path is not a file"
        return Reader(node.content[: node.closed])

    def create(self, path: str, write_options: Options) -> Writer:
        node = self.tree.get(path)
        if node is not None and (node.isdir or not write_options.overwrite):
            raise FileExistsError(f"{path} already exists")
        if write_options.create_parent:
            self._parents(path, write_options.permission | 0o300)
        self._may_change(path)
        self.tree[path] = self._made(path, write_options.permission, is_directory=False)
        return Writer(self.tree, path, self.full_at)

    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        node = self.tree.get(path)
        if node is not None:
            if not node.isdir:
                raise FileExistsError(f"Path is not a directory: {path}")
            return
        if create_parent:
            self._parents(path, permission)
        self._may_change(path)
        self.tree[path] = self._made(path, permission, is_directory=True)

    def rename(self, src: str, dst: str, overwrite: bool) -> None:
        node = self._node(src)
        taken = self.tree.get(dst)
        self._may_change(src)
        if taken is not None:
            if not overwrite:
                raise FileExistsError(f"rename destination {dst} already exists")
            if taken.isdir != node.isdir:
                raise rpc_error("java.io.IOException", f"Source {src} and {dst} must both be files")
            del self.tree[dst]
        self._may_change(dst)
        for path in [p for p in self.tree if p == src or _is_below(p, src)]:
            self.tree[dst + path[len(src) :]] = self.tree.pop(path)

    def delete(self, path: str, recursive: bool) -> bool:
        if path not in self.tree:
            return False
        self._may_change(path)
        below = [p for p in self.tree if _is_below(p, path)]
        if below and not recursive:
            name = "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
            raise rpc_error(name, f"`{path} is non empty': Directory is not empty")
        for one in (path, *below):
            del self.tree[one]
        return True

    def modify_acl_entries(self, path: str, entries: list[Entry]) -> None:
        self.tree[path].entries += tuple(entries)

    def get_acl_status(self, path: str) -> Lists:
        if not self.knows_lists:
            name = "org.apache.hadoop.hdfs.protocol.AclException"
            raise rpc_error(name, "The ACL operation has been rejected.")
        return Lists(self._node(path).entries)

    def _node(self, path: str) -> Node:
        if path not in self.tree:
            for parent in _parents_of(path):
                if parent in self.tree and not self.tree[parent].isdir:
                    name = "org.apache.hadoop.fs.ParentNotDirectoryException"
                    raise rpc_error(name, f"{parent} (is not a directory)")
            raise _missing(path)
        return self.tree[path]

    def _parents(self, path: str, permission: int) -> None:
        for parent in reversed(_parents_of(path)):
            if parent not in self.tree:
                self._may_change(parent)
                self.tree[parent] = self._made(parent, permission, is_directory=True)

    def _may_change(self, path: str) -> None:
        """Whether names can be made and removed where this path is."""
        if ":" in path:
            raise rpc_error(
                "org.apache.hadoop.fs.InvalidPathException", f"Invalid path name {path}"
            )
        parent = self._node(posixpath.dirname(path))
        if not parent.isdir:
            name = "org.apache.hadoop.fs.ParentNotDirectoryException"
            raise rpc_error(name, f"{posixpath.dirname(path)} (is not a directory)")
        if self._user not in ("root", parent.owner) and not parent.permission & _OTHERS_WRITE:
            name = "org.apache.hadoop.security.AccessControlException"
            raise rpc_error(name, f'Permission denied: user={self._user}, inode=\\"{path}\\"')

    def _made(self, path: str, permission: int, *, is_directory: bool) -> Node:
        inherited = self.tree[posixpath.dirname(path)].entries
        defaults = tuple(e for e in inherited if e.scope == "default")
        return Node(
            isdir=is_directory,
            owner=self._user,
            permission=permission,
            entries=defaults if is_directory else (),
        )


def _status(path: str, node: Node) -> Status:
    return Status(
        path=path,
        isdir=node.isdir,
        length=node.length,
        permission=node.permission,
        owner=node.owner,
        modification_time=node.modification_time,
    )


def _is_below(path: str, parent: str) -> bool:
    return path.startswith(f"{parent.rstrip('/')}/")


def _parents_of(path: str) -> list[str]:
    """From the nearest up."""
    found = []
    while path != "/":
        path = posixpath.dirname(path)
        found.append(path)
    return found
