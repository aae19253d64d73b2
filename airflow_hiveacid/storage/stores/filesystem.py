"""Operations on single files and directories; failures are raised as typed errors."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.names import staging_directory
from airflow_hiveacid.storage.stores.hdfs import NO_KEY
from airflow_hiveacid.storage.stores.locations import open_location, traits_of

ASIDE_PREFIX: Final = "_tmp_"
"""The name prefix of temporary files that `write_new` creates; a killed writer leaves its file
behind."""

_LOCAL_TYPE: Final = "local"
_RIGHTS_OF_FILE: Final = 0o666
_RIGHTS_OF_DIRECTORY: Final = 0o2777  # with the bit by which new files inherit the group
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL: Final = frozenset({errno.EDQUOT, errno.ENOSPC})
# Error numbers of temporary failures.
_PASSING: Final = frozenset(
    {
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn pyarrow's exceptions inside the block into our error classes.

    FileNotFoundError is not converted, because the caller decides what a missing file means.

    `action` is a verb for the message, such as "read", "write" or "list". Raises ConfigurationError
    without a key provider for an encrypted file, LocationPermissionError, StoreFullError (also for
    a quota), StoreUnavailableError if the store could not be reached or temporarily refuses
    changes, or else StorageError.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno in _DENIED:
            raise errors.LocationPermissionError(
                location=path, action=action, reason=str(error)
            ) from error
        if error.errno == NO_KEY:
            raise errors.ConfigurationError(f"cannot {action} {path}: {error}") from error
        if error.errno in _FULL:
            raise errors.StoreFullError(location=path, action=action, reason=str(error)) from error
        if error.errno in _PASSING:
            raise errors.StoreUnavailableError(
                location=path, action=action, reason=str(error)
            ) from error
        raise errors.StorageError(f"cannot {action} {path}: {error}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:  # UnicodeDecodeError: a file name
        raise errors.StorageError(f"cannot {action} {path}: {error}") from error


@contextmanager
def file_errors(action: str, path: str) -> Iterator[None]:
    """Act like `storage_errors`, and also turn FileNotFoundError into a StorageError."""
    with storage_errors(action, path):
        try:
            yield
        except FileNotFoundError as error:
            raise errors.StorageError(
                f"cannot {action} {path}: it does not exist; a cleaning may have removed it"
            ) from error


def require_directory(fs: pafs.FileSystem, root: str, location: str) -> None:
    """Require that a location is a directory.

    On a store without empty directories, the location may be missing. Raises LocationNotFoundError
    if the location does not exist. Raises ConfigurationError if the location is a file.
    """
    kind = fs.get_file_info(root).type
    if kind == pafs.FileType.NotFound and traits_of(fs).keeps_directories:
        raise errors.LocationNotFoundError(location=location)
    if kind == pafs.FileType.File:
        raise errors.ConfigurationError(f"location {location} is a file, not a directory")


def read_bytes(fs: pafs.FileSystem, path: str) -> bytes:
    """Return the content of a small file; raise FileNotFoundError if it does not exist."""
    with storage_errors("read", path), fs.open_input_stream(path, compression=None) as stream:
        content: bytes = stream.read()
        return content


def write_bytes(fs: pafs.FileSystem, path: str, content: bytes, *, like: str | None = None) -> None:
    """Write a small file, or replace it; create parent directories; `like` is as in `open_up`."""
    make_directory(fs, posixpath.dirname(path), like=like)
    with storage_errors("write", path):
        with fs.open_output_stream(path, compression=None) as stream:
            stream.write(content)
        if like is not None:
            open_up(fs, path, like)


def write_new(fs: pafs.FileSystem, path: str, content: bytes, *, like: str | None = None) -> None:
    """Write a small file so that it appears whole, by a rename; `like` is as in `open_up`."""
    if not traits_of(fs).renames:
        write_bytes(fs, path, content, like=like)
        return
    aside = posixpath.join(posixpath.dirname(path), f"{ASIDE_PREFIX}{uuid.uuid4().hex}")
    try:
        write_bytes(fs, aside, content, like=like)
        move(fs, aside, path)
    except BaseException:
        delete_file(fs, aside)
        raise


@contextmanager
def new_file(fs: pafs.FileSystem, path: str) -> Iterator[pa.NativeFile]:
    """Open a new file for the block, and create its parents; delete the file if the block fails."""
    make_directory(fs, posixpath.dirname(path))
    with storage_errors("write", path):
        out = fs.open_output_stream(path, compression=None)
    try:
        with storage_errors("write", path), out:
            yield out
    except BaseException:
        with suppress(errors.HiveAcidError):
            delete_file(fs, path)
        raise


def make_directory(fs: pafs.FileSystem, path: str, *, like: str | None = None) -> None:
    """Create a directory and its missing parents, unless it exists; `like` is as in `open_up`."""
    missing = []
    if like is not None and fs.type_name == _LOCAL_TYPE:
        ancestors = (path, *map(str, PurePosixPath(path).parents))
        missing = [directory for directory in ancestors if not os.path.lexists(directory)]
    with storage_errors("write", path):
        fs.create_dir(path, recursive=True)
        for directory in reversed(missing):
            open_up(fs, directory, str(like))


def open_up(fs: pafs.FileSystem, path: str, like: str) -> None:
    """Give a new file, or directory with content, the rights and the group of a directory.

    On a local disk, a process's umask would decide, but a table's files belong to all users of its
    directory. On HDFS, the name node, an access control list or fs.permissions.umask-mode decides.

    `like` is the path of the table's directory. A right that `path` already has, stays.
    """
    if fs.type_name != _LOCAL_TYPE:
        return
    with suppress(FileNotFoundError):  # another process has removed it meanwhile
        model = os.stat(like)  # noqa: PTH116 - paths are texts here
        _open_up(path, model)
        for top, directories, files in os.walk(path):
            for name in (*directories, *files):
                _open_up(posixpath.join(top, name), model)


def _open_up(path: str, model: os.stat_result) -> None:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return
    if status.st_gid != model.st_gid:
        with suppress(PermissionError):  # the user is not a member of that group
            os.chown(path, -1, model.st_gid)
    rights = _RIGHTS_OF_DIRECTORY if stat.S_ISDIR(status.st_mode) else _RIGHTS_OF_FILE
    mode = stat.S_IMODE(status.st_mode)
    if mode | (model.st_mode & rights) != mode:
        os.chmod(path, mode | (model.st_mode & rights))  # noqa: PTH101


def exists(fs: pafs.FileSystem, path: str) -> bool:
    """Return True if there is a file or directory at the path."""
    with storage_errors("look at", path):
        is_present: bool = fs.get_file_info(path).type != pafs.FileType.NotFound
        return is_present


def move(fs: pafs.FileSystem, source: str, target: str) -> None:
    """Rename a file and replace an existing target; create missing parents of the target."""
    with file_errors("rename", source):
        fs.create_dir(posixpath.dirname(target), recursive=True)
        fs.move(source, target)


def rename_directory(fs: pafs.FileSystem, source: str, target: str) -> None:
    """Publish a directory under its final name in one step; the parent must exist.

    On a local disk, a rename replaces an empty directory; libhdfs moves the source into an existing
    one (HIVE-25600). So the target is checked before the rename and, on such a store, also after
    it. Raises DirectoryExistsError if the target exists; source and target were not changed.
    """
    if exists(fs, target):
        raise errors.DirectoryExistsError(path=target)
    with file_errors("rename", source):
        try:
            fs.move(source, target)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise errors.DirectoryExistsError(path=target) from error
            raise
        nested = posixpath.join(target, posixpath.basename(source))
        if not traits_of(fs).refuses_taken_names and exists(fs, nested):
            fs.move(nested, source)
            raise errors.DirectoryExistsError(path=target)


def delete_directory(fs: pafs.FileSystem, path: str) -> None:
    """Remove a directory and its content; do nothing if it is missing.

    It is first renamed to a hidden name, so that no reader sees, and no process publishes, half of
    it. A store without renames deletes one file at a time, but only files that no reader uses.
    """
    with storage_errors("delete", path):
        try:
            traits = traits_of(fs)
            if not traits.deletes_at_once and traits.renames:
                hidden = staging_directory(f"removed_{uuid.uuid4().hex}")
                aside = posixpath.join(posixpath.dirname(path), hidden)
                fs.move(path, aside)
                path = aside
            fs.delete_dir(path)
        except FileNotFoundError:
            return


def delete_file(fs: pafs.FileSystem, path: str) -> None:
    """Remove a file; do nothing if it is missing."""
    with storage_errors("delete", path):
        try:
            fs.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            # libhdfs does not report whether the deletion failed or the file was missing.
            if fs.get_file_info(path).type != pafs.FileType.NotFound:
                raise


def check_writable(location: str) -> None:
    """Check that directories can be created at a location; create and remove a hidden directory.

    Permission bits do not suffice. Raises ConfigurationError if the location is a file, or in an
    encryption zone, and no KMS is configured.
    """
    fs, root = open_location(location)
    with storage_errors("write", location):
        require_directory(fs, root, location)
        probe = posixpath.join(root, staging_directory(f"probe_{uuid.uuid4().hex}"))
        if not traits_of(fs).keeps_directories:
            write_bytes(fs, probe, b"")
            fs.delete_file(probe)
            return
        fs.create_dir(probe, recursive=False)
        try:
            if traits_of(fs).may_want_keys:
                fs.open_output_stream(posixpath.join(probe, "empty")).close()
        finally:
            fs.delete_dir(probe)
