"""Single files and directories: read, written, moved, removed, every failure an error of our tree.

Takes a pyarrow file system and a path on it (`locations` finds both). Must not know what a file
holds.
"""

from __future__ import annotations

import errno
import posixpath
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    DirectoryExistsError,
    LocationNotFoundError,
    LocationPermissionError,
    StorageError,
    StoreUnavailableError,
)
from airflow_hiveacid.format.names import staging_directory
from airflow_hiveacid.storage.stores.hdfs_errors import NO_KEY
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ASIDE_PREFIX: Final = "_tmp_"
"""Start of the names under which `write_new` writes; one is left where the writer was killed."""

_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
# What may be otherwise in a minute, by the numbers that systems, and our own clients, give it.
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
    """Turn what pyarrow raises inside the block into errors of our tree.

    A missing file passes as it is: what it means is the caller's to say.

    Args:
        action: what is being done, as a verb: "read", "write", "list".
        path: on what, for the message.

    Raises:
        ConfigurationError: it is encrypted, and nobody has told us who has the keys.
        LocationPermissionError: the file system denied it.
        StoreUnavailableError: it could not be reached, or takes no changes now.
        StorageError: it failed otherwise.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno in _DENIED:
            raise LocationPermissionError(
                location=path, action=action, reason=str(error)
            ) from error
        if error.errno == NO_KEY:
            raise ConfigurationError(f"cannot {action} {path}: {error}") from error
        if error.errno in _PASSING:
            raise StoreUnavailableError(location=path, action=action, reason=str(error)) from error
        raise StorageError(f"cannot {action} {path}: {error}") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter of a name there
        raise StorageError(f"cannot {action} {path}: {error}") from error


@contextmanager
def file_errors(action: str, path: str) -> Iterator[None]:
    """Like `storage_errors`, for a file that must be there: a missing one is an error, too.

    Raises:
        LocationPermissionError: the file system denied it.
        StorageError: the file is missing, or it failed otherwise.
    """
    with storage_errors(action, path):
        try:
            yield
        except FileNotFoundError as error:
            raise StorageError(
                f"cannot {action} {path}: it is not there; was it cleaned away after it was listed?"
            ) from error


def require_directory(fs: pafs.FileSystem, root: str, location: str) -> None:
    """See that a location is a directory; where none is kept without files, it may be empty.

    Raises:
        LocationNotFoundError: it does not exist.
        ConfigurationError: it is none.
    """
    kind = fs.get_file_info(root).type
    if kind == pafs.FileType.NotFound and traits_of(fs).keeps_directories:
        raise LocationNotFoundError(location=location)
    if kind == pafs.FileType.File:
        raise ConfigurationError(f"location {location} is a file, not a directory")


def read_bytes(fs: pafs.FileSystem, path: str) -> bytes:
    """Read a small file whole.

    Raises:
        FileNotFoundError: it is not there.
        LocationPermissionError: it may not be read.
        StorageError: reading failed otherwise.
    """
    with storage_errors("read", path), fs.open_input_stream(path, compression=None) as stream:
        content: bytes = stream.read()
        return content


def write_bytes(fs: pafs.FileSystem, path: str, content: bytes) -> None:
    """Write a small file, replacing one that is there; missing parent directories are made.

    Raises:
        LocationPermissionError: it may not be written.
        StorageError: writing failed otherwise.
    """
    with storage_errors("write", path):
        fs.create_dir(posixpath.dirname(path), recursive=True)
        with fs.open_output_stream(path, compression=None) as stream:
            stream.write(content)


def write_new(fs: pafs.FileSystem, path: str, content: bytes) -> None:
    """Write a small file so that it is there whole or not at all.

    It is written beside its place, under a hidden name, and renamed; where nothing is renamed, a
    file appears whole by itself.

    Raises:
        LocationPermissionError: it may not be written.
        StorageError: writing failed otherwise.
    """
    if not traits_of(fs).renames:
        write_bytes(fs, path, content)
        return
    aside = posixpath.join(posixpath.dirname(path), f"{ASIDE_PREFIX}{uuid.uuid4().hex}")
    try:
        write_bytes(fs, aside, content)
        move(fs, aside, path)
    except BaseException:
        delete_file(fs, aside)
        raise


def make_directory(fs: pafs.FileSystem, path: str) -> None:
    """Make a directory and its missing parents; one that is there is no error.

    Raises:
        LocationPermissionError: it may not be made.
        StorageError: making it failed otherwise.
    """
    with storage_errors("write", path):
        fs.create_dir(path, recursive=True)


def exists(fs: pafs.FileSystem, path: str) -> bool:
    """Whether there is a file or directory at the path.

    Raises:
        LocationPermissionError: nobody may look.
        StorageError: the file system did not answer.
    """
    with storage_errors("look at", path):
        found: bool = fs.get_file_info(path).type != pafs.FileType.NotFound
        return found


def move(fs: pafs.FileSystem, source: str, target: str) -> None:
    """Rename a file, replacing one that is there; missing parents of the target are made.

    Raises:
        LocationPermissionError: the directories may not be changed.
        StorageError: the source is missing, or renaming failed otherwise.
    """
    with file_errors("rename", source):
        fs.create_dir(posixpath.dirname(target), recursive=True)
        fs.move(source, target)


def rename_directory(fs: pafs.FileSystem, source: str, target: str) -> None:
    """Publish a directory under its final name in one step; its parent must be there.

    A rename onto a directory that exists replaces an empty one on a local disk and lands inside it
    on HDFS through libhdfs (HIVE-25600), so the target is looked for before and, where the store
    does not refuse it, after.

    Raises:
        DirectoryExistsError: the target is there; neither was changed.
        LocationPermissionError: the parent may not be changed.
        StorageError: the source is missing, or renaming failed otherwise.
    """
    if exists(fs, target):
        raise DirectoryExistsError(path=target)
    with file_errors("rename", source):
        try:
            fs.move(source, target)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                raise DirectoryExistsError(path=target) from error
            raise
        nested = posixpath.join(target, posixpath.basename(source))
        if not traits_of(fs).refuses_taken_names and exists(fs, nested):
            fs.move(nested, source)
            raise DirectoryExistsError(path=target)


def delete_directory(fs: pafs.FileSystem, path: str) -> None:
    """Remove a directory and all in it; one that is gone already is no error.

    It goes in one step: a local disk removes file by file, and half a directory could be read, or
    renamed into place by a process that had been taken for dead. So it gets a hidden name first.
    Where nothing is renamed it goes file by file: only what no reader counts is ever removed.

    Raises:
        LocationPermissionError: it may not be removed.
        StorageError: removing failed otherwise.
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
    """Remove a file; one that is gone already is no error.

    Raises:
        LocationPermissionError: it may not be removed.
        StorageError: removing failed otherwise.
    """
    with storage_errors("delete", path):
        try:
            fs.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            # libhdfs does not say whether it failed or there was none.
            if fs.get_file_info(path).type != pafs.FileType.NotFound:
                raise


def check_writable(location: str) -> None:
    """Find out whether directories can be made at a location, by making and removing a hidden one.

    Permission bits do not tell: the answer may lie with an ACL, a mount option or a server.

    Raises:
        LocationNotFoundError: the location does not exist.
        ConfigurationError: it is no directory, or in an encryption zone for which we lack the KMS.
        LocationPermissionError: it may not be written.
        StorageError: writing failed otherwise.
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
