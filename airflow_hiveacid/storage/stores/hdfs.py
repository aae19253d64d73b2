"""HDFS without a JVM in the process: hdfs-native, as a file system of pyarrow.

Takes a client of hdfs-native (`hdfs_connect` makes them); gives a file system on which a directory
is never renamed into another one, no call lasts for ever, and every failure is an OSError that has
a number and names the store.

Deletes go past the trash.
"""

from __future__ import annotations

import errno
import posixpath
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_streams import (
    OPEN_FILE,
    PIECE_BYTES,
    HdfsReader,
    HdfsWriter,
)
from airflow_hiveacid.storage.stores.hdfs_waits import within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.storage.stores.hdfs_client import (
        FileSink,
        FileSource,
        FileStatus,
        HdfsClient,
    )

HDFS_NATIVE: Final = "hdfs-native"
"""What pyarrow calls the type of this file system, behind `py::`."""

_T = TypeVar("_T")

ANSWER_S: Final = 150.0
"""How long a name node is waited for; Linux takes 127 s to give up a machine that is off."""

_ANY_DIRECTORY: Final = 0o777
_ANY_FILE: Final = 0o666
_NS_PER_MS: Final = 1_000_000


class HdfsHandler(pafs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """What pyarrow asks of one client. Mutable: it learns whether there are access control lists.

    Args:
        place: what it is a client of, as a URI.
        client: `hdfs_native.Client`.
        umask: bits that files and directories are made without.
        options: `hdfs_native.WriteOptions`.
        answer_s: how long a name node is waited for.
    """

    def __init__(
        self,
        place: str,
        client: HdfsClient,
        umask: int,
        options: Callable[..., object],
        answer_s: float = ANSWER_S,
    ) -> None:
        self._place, self._client, self._umask, self._options = place, client, umask, options
        self._answer_s = answer_s
        self._has_lists = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsHandler) and other._place == self._place

    def __hash__(self) -> int:
        return hash(self._place)

    def get_type_name(self) -> str:
        """See `HDFS_NATIVE`."""
        return HDFS_NATIVE

    def normalize_path(self, path: str) -> str:
        """As it is: nothing in it has a meaning but `/`."""
        return path

    def _ask(self, path: str, call: Callable[[], _T]) -> _T:
        """What a name node answers to a call about a path."""
        with hdfs_errors(self._where(path)):
            return within(self._answer_s, call)

    def _where(self, path: str) -> str:
        return f"{self._place.rstrip('/')}{path}"

    # ---- looking ---------------------------------------------------------------------------------

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """What is at each path.

        Raises:
            OSError: nobody may look, or the name node did not answer.
        """
        return [self._look(path) for path in paths]

    def _look(self, path: str) -> pafs.FileInfo:
        try:
            return _info(self._ask(path, partial(self._client.get_file_info, path)))
        except (FileNotFoundError, NotADirectoryError):  # the latter below a file
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """What lies in a directory.

        Raises:
            FileNotFoundError: it is not there, and must be; or one below it went meanwhile.
            NotADirectoryError: it is a file.
            OSError: nobody may look, or the name node did not answer.
        """
        top = selector.base_dir.rstrip("/") or "/"
        found = self._children(top, is_optional=selector.allow_not_found)
        if selector.recursive:
            # Below the top what goes meanwhile is an error where the top may not go, either.
            for one in found:  # which grows
                if one.type == pafs.FileType.Directory:
                    found += self._children(one.path, is_optional=selector.allow_not_found)
        return found

    def _children(self, top: str, *, is_optional: bool) -> list[pafs.FileInfo]:
        def ask() -> list[FileStatus]:
            return list(self._client.list_status(top, False))  # noqa: FBT003 - of this one

        try:
            found = self._ask(top, ask)
        except FileNotFoundError:
            if is_optional:
                return []
            raise
        if len(found) == 1 and found[0].path == top:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", self._where(top))
        return [_info(one) for one in found]

    # ---- directories -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's
        """Make a directory; one that is there is no error.

        Raises:
            OSError: it cannot be made.
        """
        permission = self._permission(path, _ANY_DIRECTORY)
        self._ask(path, partial(self._client.mkdirs, path, permission, recursive))

    def delete_dir(self, path: str) -> None:
        """Delete a directory and all below it, at once.

        Raises:
            FileNotFoundError: there is none.
            OSError: it cannot be deleted.
        """
        self._delete(path, is_directory=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        """Delete what is in a directory.

        Raises:
            OSError: something cannot be deleted.
        """
        for info in self.get_file_info_selector(
            pafs.FileSelector(path, allow_not_found=missing_dir_ok)
        ):
            self._delete(info.path, is_directory=info.type == pafs.FileType.Directory)

    def delete_root_dir_contents(self) -> None:
        """Nobody means this.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"{self._place} is not emptied")

    # ---- files -----------------------------------------------------------------------------------

    def delete_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: there is none.
            OSError: it is a directory, or cannot be deleted.
        """
        if self._look(path).type == pafs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, "it is a directory", self._where(path))
        self._delete(path, is_directory=False)

    def _delete(self, path: str, *, is_directory: bool) -> None:
        if not self._ask(path, partial(self._client.delete, path, is_directory)):
            raise FileNotFoundError(errno.ENOENT, "it is not there", self._where(path))

    def move(self, src: str, dest: str) -> None:
        """Rename: a file takes another's place, a directory nobody's, not even an empty one's.

        The name node itself sees to that, so no other process can come between.

        Raises:
            FileNotFoundError: the source is missing, or the target's parent.
            FileExistsError: it is a directory, and something has its new name.
            OSError: it cannot be renamed.
        """
        is_file = not self._ask(src, partial(self._client.get_file_info, src)).isdir
        self._ask(src, partial(self._client.rename, src, dest, is_file))

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file, piece by piece through this process.

        Raises:
            OSError: reading or writing failed.
        """
        source = HdfsReader(self._read(src), self._where(src))
        sink = HdfsWriter(self._create(dest), self._where(dest))
        while piece := source.read(PIECE_BYTES):
            sink.write(piece)
        sink.close()

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading it in turn.

        Raises:
            OSError: it is not there, or may not be read.
        """
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading it anywhere.

        Raises:
            OSError: it is not there, or may not be read.
        """
        return pa.PythonFile(HdfsReader(self._read(path), self._where(path)), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for writing, in place of one that is there.

        Raises:
            OSError: it cannot be made.
        """
        return pa.PythonFile(HdfsWriter(self._create(path), self._where(path)), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        """Nobody here appends.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"{path} is not appended to")

    def _read(self, path: str) -> FileSource:
        look = partial(self._client.get_file_info, path)
        known = self._ask(path, look)
        source = self._ask(path, partial(self._client.read, path))
        # Who has taken its place since then may be shorter; so it is looked at once more.
        if known.length > len(source) and self._ask(path, look).length > len(source):
            # A reader would take the end of the closed blocks for that of the file.
            raise OSError(
                errno.EAGAIN,
                f"{len(source)} of its {known.length} bytes can be read: {OPEN_FILE}",
                self._where(path),
            )
        return source

    def _create(self, path: str) -> FileSink:
        options = self._options(
            permission=self._permission(path, _ANY_FILE), overwrite=True, create_parent=True
        )
        return self._ask(path, partial(self._client.create, path, options))

    # ---- permissions -----------------------------------------------------------------------------

    def _permission(self, path: str, widest: int) -> int:
        """With what rights something is made, as Java's client does it.

        Below a default access control list that list says who may do what, and bits that are
        missing here would take rights away from everybody it names.
        """
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
                return False  # who may not look will hear of it soon
            except OSError as error:
                if error.errno != errno.ENOTSUP:
                    raise  # a list that nobody saw would lose rights of those whom it names
                # A name node may be told to know none; behind a mount table are several.
                self._has_lists = self._place.startswith("viewfs:")
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
