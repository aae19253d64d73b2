"""Where a location lives, and how its files are listed, read, written and moved.

Takes locations as the metastore writes them (`file:/warehouse/t`, `hdfs://host/t`, plain paths);
gives a pyarrow file system and the path on it, listings for `format.acid_state`, and every failure
as an error of our tree. Must not know what a data file holds.

Example:
    >>> open_location("file:/warehouse/t/p=a%2Fb")[1]
    '/warehouse/t/p=a%2Fb'
"""

from __future__ import annotations

import errno
import functools
import json
import posixpath
import re
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs as pafs

from airflow_hiveacid.format.acid_state import FileEntry, Listing
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    CorruptFileError,
    DirectoryExistsError,
    LocationPermissionError,
    StorageError,
)
from airflow_hiveacid.format.names import METADATA_FILE, is_hidden, staging_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)\Z", re.DOTALL)
_LISTING_ATTEMPTS: Final = 5
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_METADATA_VERSION: Final = "0"
# Hadoop's names of stores whose own clients pyarrow brings.
_OBJECT_STORES: Final[Mapping[str, str]] = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
}


def open_location(location: str) -> tuple[pafs.FileSystem, str]:
    """Find the file system of a location and the path on it, without a trailing slash.

    The path is taken as it stands: the metastore does not escape what a URI would (Hadoop's Path),
    and partition directories carry `%2F` literally.

    Raises:
        ConfigurationError: the location is empty or relative, its scheme is unknown, or its client
            is missing.
    """
    scheme, authority, path = _split(location)
    if scheme == "file":
        return _local(), path
    if scheme in ("hdfs", "viewfs"):
        return _hadoop(scheme, authority), path
    if scheme in _OBJECT_STORES:
        return _object_store(_OBJECT_STORES[scheme], authority), f"{authority}{path}".rstrip("/")
    raise ConfigurationError(
        f"location {location!r}: no file system for {scheme}://; use file, hdfs or s3"
    )


def _split(location: str) -> tuple[str, str, str]:
    match = _SCHEME.match(location)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", location)
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = f"{slash}{path}"
    if not rest.startswith("/") or (scheme == "file" and authority not in ("", "localhost")):
        raise ConfigurationError(f"location {location!r} is not an absolute path or URI")
    return scheme, authority, re.sub("/{2,}", "/", rest).rstrip("/") or "/"


@functools.lru_cache(maxsize=1)
def _local() -> pafs.FileSystem:
    return pafs.LocalFileSystem()


@functools.lru_cache(maxsize=16)
def _hadoop(scheme: str, authority: str) -> pafs.FileSystem:
    host, _, port = authority.partition(":")
    try:
        # Port 0 lets libhdfs read a name service from the Hadoop configuration.
        return pafs.HadoopFileSystem(f"{scheme}://{host}" if host else "default", int(port or 0))
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(
            f"no {scheme} client for {authority or 'the default file system'}: {error}."
            " Set JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop classpath --glob)"
        ) from error


@functools.lru_cache(maxsize=16)
def _object_store(scheme: str, bucket: str) -> pafs.FileSystem:
    try:
        return pafs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]
    except (ImportError, OSError, ValueError, pa.ArrowException) as error:
        raise ConfigurationError(f"no client for {scheme}://{bucket}: {error}") from error


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn what pyarrow raises inside the block into errors of our tree.

    A missing file passes as it is: what it means is the caller's to say.

    Args:
        action: what is being done, as a verb: "read", "write", "list".
        path: on what, for the message.

    Raises:
        LocationPermissionError: the file system denied it.
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
        raise StorageError(f"cannot {action} {path}: {error}") from error
    except pa.ArrowException as error:
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


# ---- listing -------------------------------------------------------------------------------------


def list_table(location: str) -> Listing:
    """List everything below one table or partition directory, with the text of compactors' markers.

    Hidden directories are named but not entered: no reader looks inside. A directory that vanishes
    while it is read means that a cleaner or a publisher is at work; the listing is then taken anew,
    since a half-old listing could miss rows.

    Raises:
        ConfigurationError: the location does not exist or is no directory.
        LocationPermissionError: it may not be read.
        CorruptFileError: a marker file is not what Hive writes.
        StorageError: it kept changing.
    """
    fs, root = open_location(location)
    for _ in range(_LISTING_ATTEMPTS):
        with storage_errors("list", location):
            _require_directory(fs, root, location)
            try:
                return _list_once(fs, root, location)
            except FileNotFoundError:
                continue
    raise StorageError(
        f"{location} kept changing while it was listed {_LISTING_ATTEMPTS} times; try again later"
    )


def _require_directory(fs: pafs.FileSystem, root: str, location: str) -> None:
    kind = fs.get_file_info(root).type
    if kind == pafs.FileType.NotFound:
        raise ConfigurationError(f"location {location} does not exist; check the path")
    if kind != pafs.FileType.Directory:
        raise ConfigurationError(f"location {location} is a file, not a directory")


def _list_once(fs: pafs.FileSystem, root: str, location: str) -> Listing:
    files: list[FileEntry] = []
    directories: list[str] = []
    pending = [""]
    while pending:
        parent = pending.pop()
        for info in fs.get_file_info(pafs.FileSelector(posixpath.join(root, parent))):
            path = f"{parent}/{info.base_name}" if parent else info.base_name
            if info.type == pafs.FileType.Directory:
                directories.append(path)
                if not is_hidden(info.base_name):
                    pending.append(path)
            elif info.type == pafs.FileType.NotFound:
                raise FileNotFoundError(info.path)
            else:
                files.append(_entry(path, info))
    return Listing(
        location=location,
        files=tuple(sorted(files, key=lambda f: f.path)),
        directories=tuple(sorted(directories)),
        metadata={
            file.path.partition("/")[0]: _data_format(fs, posixpath.join(root, file.path))
            for file in files
            if file.name == METADATA_FILE and file.path.count("/") == 1
        },
    )


def _entry(path: str, info: pafs.FileInfo) -> FileEntry:
    modified = info.mtime
    return FileEntry(
        path=path,
        size_bytes=info.size,
        modified_s=None if modified is None else modified.timestamp(),
    )


def _data_format(fs: pafs.FileSystem, path: str) -> str:
    """Read `dataFormat` of one `_metadata_acid` (AcidMetaDataFile of Hive)."""
    text = read_bytes(fs, path)
    try:
        marker = json.loads(text)
        version, data_format = marker["thisFileVersion"], marker["dataFormat"]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(path=path, reason=f"not a marker of Hive: {error!r}") from error
    if version != _METADATA_VERSION or not isinstance(data_format, str):
        raise CorruptFileError(path=path, reason=f"a marker of version {version!r}, not 0")
    return data_format


def metadata_text(data_format: str) -> bytes:
    """The text of `_metadata_acid`, as Hive writes it.

    Example:
        >>> metadata_text("compacted")
        b'{"thisFileVersion":"0","dataFormat":"compacted"}'
    """
    marker = {"thisFileVersion": _METADATA_VERSION, "dataFormat": data_format}
    return json.dumps(marker, separators=(",", ":")).encode()


# ---- single files and directories ----------------------------------------------------------------


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
    on HDFS (HIVE-25600), so the target is looked for before and, where a race could nest it,
    after.

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
        if exists(fs, nested):
            fs.move(nested, source)
            raise DirectoryExistsError(path=target)


def delete_directory(fs: pafs.FileSystem, path: str) -> None:
    """Remove a directory and all in it; one that is gone already is no error.

    Raises:
        LocationPermissionError: it may not be removed.
        StorageError: removing failed otherwise.
    """
    with storage_errors("delete", path):
        try:
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


def list_files(fs: pafs.FileSystem, directory: str) -> tuple[FileEntry, ...]:
    """The files directly in a directory, by name; none if it is not there.

    Raises:
        LocationPermissionError: it may not be read.
        StorageError: listing failed otherwise.
    """
    with storage_errors("list", directory):
        found = fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        return tuple(
            sorted(
                (_entry(i.base_name, i) for i in found if i.type == pafs.FileType.File),
                key=lambda f: f.path,
            )
        )


def tree_size(fs: pafs.FileSystem, directory: str) -> tuple[int, float]:
    """Bytes of all files below a directory, and its newest change in seconds since 1970.

    Raises:
        LocationPermissionError: it may not be read.
        StorageError: listing failed otherwise.
    """
    with storage_errors("list", directory):
        own = fs.get_file_info(directory)
        below = fs.get_file_info(pafs.FileSelector(directory, recursive=True, allow_not_found=True))
        changes = [i.mtime.timestamp() for i in (own, *below) if i.mtime is not None]
        size = sum(i.size for i in below if i.type == pafs.FileType.File)
        return size, max(changes, default=0.0)


def check_writable(location: str) -> None:
    """Find out whether directories can be made at a location, by making and removing a hidden one.

    Permission bits do not tell: the answer may lie with an ACL, a mount option or a server.

    Raises:
        ConfigurationError: the location does not exist or is no directory.
        LocationPermissionError: it may not be written.
        StorageError: writing failed otherwise.
    """
    fs, root = open_location(location)
    with storage_errors("write", location):
        _require_directory(fs, root, location)
        probe = posixpath.join(root, staging_directory(f"probe_{uuid.uuid4().hex}"))
        fs.create_dir(probe, recursive=False)
        fs.delete_dir(probe)
