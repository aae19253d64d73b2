"""HDFS without a JVM in the process: hdfs-native, as a file system of pyarrow.

Takes the scheme and authority of a location, and the settings of Hadoop's client where they lie
(name services and mount tables are hdfs-native's own business); gives a file system on which a
directory is never renamed into another one, and every failure is an OSError with a number.

Deletes go past the trash. A client stays in its process: it has connections and a login.
"""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.storage.stores.hadoop_settings import (
    read_settings,
    settings_folder,
    umask_of,
)
from airflow_hiveacid.storage.stores.hdfs_client import place_of
from airflow_hiveacid.storage.stores.hdfs_errors import hdfs_errors
from airflow_hiveacid.storage.stores.hdfs_streams import (
    OPEN_FILE,
    PIECE_BYTES,
    HdfsReader,
    HdfsWriter,
)

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

_ANY_DIRECTORY: Final = 0o777
_ANY_FILE: Final = 0o666
_NS_PER_MS: Final = 1_000_000


def open_hdfs(scheme: str, authority: str) -> pafs.FileSystem:
    """The file system of a name node, a name service, a mount table; without authority the default.

    Nobody is asked anything yet, so a name node that is down is found out later.

    Raises:
        ConfigurationError: hdfs-native is missing, or the settings lack what it needs.
    """
    settings = read_settings()
    place = place_of(scheme, authority, settings)
    try:
        import hdfs_native  # noqa: PLC0415 - where no table lies on HDFS, it need not be there

        with hdfs_errors(place):
            client = hdfs_native.Client(place)
    except (ImportError, OSError) as error:
        folder = settings_folder()
        raise ConfigurationError(
            f"no client for {place}: {error}. It is the package hdfs-native; name services, mount"
            " tables and the default file system it takes from core-site.xml and hdfs-site.xml in"
            f" HADOOP_CONF_DIR, which is {folder or 'not set'}"
        ) from error
    return pafs.PyFileSystem(
        HdfsHandler(place, client, umask_of(settings), hdfs_native.WriteOptions)
    )


class HdfsHandler(pafs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """What pyarrow asks of one client. Mutable: it learns whether there are access control lists.

    Args:
        place: what it is a client of, as a URI.
        client: `hdfs_native.Client`.
        umask: bits that files and directories are made without.
        options: `hdfs_native.WriteOptions`.
    """

    def __init__(
        self, place: str, client: HdfsClient, umask: int, options: Callable[..., object]
    ) -> None:
        self._place, self._client, self._umask, self._options = place, client, umask, options
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

    # ---- looking ---------------------------------------------------------------------------------

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """What is at each path.

        Raises:
            OSError: nobody may look, or the name node did not answer.
        """
        return [self._look(path) for path in paths]

    def _look(self, path: str) -> pafs.FileInfo:
        try:
            with hdfs_errors(path):
                return _info(self._client.get_file_info(path))
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
        try:
            with hdfs_errors(top):
                found = list(self._client.list_status(top, selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found and self._look(top).type == pafs.FileType.NotFound:
                return []
            raise
        if len(found) == 1 and found[0].path == top:
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", top)
        return [_info(one) for one in found]

    # ---- directories -----------------------------------------------------------------------------

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's
        """Make a directory; one that is there is no error.

        Raises:
            OSError: it cannot be made.
        """
        permission = self._permission(path, _ANY_DIRECTORY)
        with hdfs_errors(path):
            self._client.mkdirs(path, permission, recursive)

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
            raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        self._delete(path, is_directory=False)

    def _delete(self, path: str, *, is_directory: bool) -> None:
        with hdfs_errors(path):
            was_there = self._client.delete(path, is_directory)
        if not was_there:
            raise FileNotFoundError(errno.ENOENT, "it is not there", path)

    def move(self, src: str, dest: str) -> None:
        """Rename: a file takes another's place, a directory nobody's, not even an empty one's.

        The name node itself sees to that, so no other process can come between.

        Raises:
            FileNotFoundError: the source is missing, or the target's parent.
            FileExistsError: it is a directory, and something has its new name.
            OSError: it cannot be renamed.
        """
        with hdfs_errors(src):
            is_file = not self._client.get_file_info(src).isdir
            self._client.rename(src, dest, is_file)

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file, piece by piece through this process.

        Raises:
            OSError: reading or writing failed.
        """
        source = HdfsReader(self._read(src), src)
        sink = HdfsWriter(self._create(dest), dest)
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
        return pa.PythonFile(HdfsReader(self._read(path), path), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:  # noqa: ARG002
        """Open a file for writing, in place of one that is there.

        Raises:
            OSError: it cannot be made.
        """
        return pa.PythonFile(HdfsWriter(self._create(path), path), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        """Nobody here appends.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"{path} is not appended to")

    def _read(self, path: str) -> FileSource:
        with hdfs_errors(path):
            known = self._client.get_file_info(path)
            source = self._client.read(path)
        if known.length > len(source):
            # A reader would take the end of the closed blocks for that of the file.
            raise OSError(
                errno.EAGAIN,
                f"{len(source)} of its {known.length} bytes can be read: {OPEN_FILE}",
                path,
            )
        return source

    def _create(self, path: str) -> FileSink:
        permission = self._permission(path, _ANY_FILE)
        with hdfs_errors(path):
            return self._client.create(
                path, self._options(permission=permission, overwrite=True, create_parent=True)
            )

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
                with hdfs_errors(parent):
                    entries = self._client.get_acl_status(parent).entries
            except FileNotFoundError:
                if parent in ("", "/"):
                    return False
                parent = posixpath.dirname(parent)
            except OSError as error:
                # A name node may be told to know none. Who may not look will hear of it soon.
                self._has_lists = error.errno != errno.ENOTSUP
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
