"""List locations and directories in the form that `format.acid_state` takes.

The module also lists and aborts incomplete uploads, which no file listing shows.

Example:
    >>> metadata_text("compacted")
    b'{"thisFileVersion":"0","dataFormat":"compacted"}'
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Sequence
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.errors import CorruptFileError, StorageError
from airflow_hiveacid.format.names import METADATA_FILE, is_below_hidden, is_hidden
from airflow_hiveacid.format.records import LeftUpload
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.storage.stores.filesystem import read_bytes, require_directory, storage_errors
from airflow_hiveacid.storage.stores.locations import (
    open_location,
    publishes_files,
    scheme_of,
    traits_of,
)
from airflow_hiveacid.storage.stores.threads import each_in_threads

_LISTING_ATTEMPTS: Final = 5
# Up to this many directories are listed without threads: partitions already are, in parallel.
_FEW: Final = 32
_METADATA_VERSION: Final = "0"


def list_table(location: str) -> Listing:
    """List everything below a table or partition directory, and read compactors' marker files.

    Hidden directories are listed without their content. If a directory vanishes meanwhile, the
    listing is repeated, because a partly outdated one could lack rows.
    """
    fs, root = open_location(location)
    is_kept = traits_of(fs).keeps_directories
    for _ in range(_LISTING_ATTEMPTS):
        with storage_errors("list", location):
            if is_kept:
                require_directory(fs, root, location)
            try:
                listing = _list_once(fs, root, location)
            except FileNotFoundError:
                continue
            if not is_kept and not listing.files:
                # A location with files below it is a directory, so check only empty listings.
                require_directory(fs, root, location)
            return listing
    raise _kept_changing(location)


def _kept_changing(location: str) -> StorageError:
    return StorageError(
        f"{location} kept changing while it was listed {_LISTING_ATTEMPTS} times; try again later"
    )


def list_roots(roots: Sequence[PartitionInfo]) -> list[Listing]:
    """Return the listing of each root of a table, in the same order."""
    return each_in_threads(lambda root: list_table(root.location), roots)


def files_below(location: str, path: str) -> tuple[FileEntry, ...]:
    """Return the files that `list_table` would list at or below a path; none if it is missing."""
    fs, root = open_location(location)
    with storage_errors("list", f"{location}/{path}"):
        try:
            info = fs.get_file_info(posixpath.join(root, path))
            if info.type == pafs.FileType.Directory:
                return tuple(sorted(_walk(fs, root, path)[0], key=lambda f: f.path))
        except FileNotFoundError:
            return ()
    return (_entry(path, info),) if info.type == pafs.FileType.File else ()


def _list_once(fs: pafs.FileSystem, root: str, location: str) -> Listing:
    files, directories = _walk(fs, root, "")
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


def _walk(fs: pafs.FileSystem, root: str, start: str) -> tuple[list[FileEntry], list[str]]:
    """Return the files and directories below `start`, relative to the root; skip hidden content."""
    if traits_of(fs).lists_trees:
        return _tree(fs, root, start)
    files: list[FileEntry] = []
    directories: list[str] = []
    level = [start]
    while level:
        parents, level = level, []
        for parent, infos in zip(parents, _children(fs, root, parents), strict=True):
            for info in infos:
                path = f"{parent}/{info.base_name}" if parent else info.base_name
                if info.type == pafs.FileType.Directory:
                    directories.append(path)
                    if not is_hidden(info.base_name):
                        level.append(path)
                elif info.type == pafs.FileType.NotFound:
                    raise FileNotFoundError(info.path)
                else:
                    files.append(_entry(path, info))
    return files, directories


def _tree(fs: pafs.FileSystem, root: str, start: str) -> tuple[list[FileEntry], list[str]]:
    """Act like `_walk` on a store that lists a whole tree in one call, including hidden content."""
    top = posixpath.join(root, start).rstrip("/")
    files: list[FileEntry] = []
    directories: list[str] = []
    for info in fs.get_file_info(pafs.FileSelector(top, recursive=True, allow_not_found=True)):
        path = info.path[len(root.rstrip("/")) + 1 :]
        if is_below_hidden(posixpath.dirname(info.path[len(top) + 1 :])):
            continue
        if info.type == pafs.FileType.Directory:
            directories.append(path)
        else:
            files.append(_entry(path, info))
    return files, directories


def _children(
    fs: pafs.FileSystem, root: str, directories: Sequence[str]
) -> Iterable[list[pafs.FileInfo]]:
    def look(directory: str) -> list[pafs.FileInfo]:
        return list(fs.get_file_info(pafs.FileSelector(posixpath.join(root, directory))))

    if len(directories) <= _FEW:
        return map(look, directories)
    return each_in_threads(look, directories)


def _entry(path: str, info: pafs.FileInfo) -> FileEntry:
    modified = info.mtime
    return FileEntry(
        path=path,
        size_bytes=info.size,
        modified_s=None if modified is None else modified.timestamp(),
    )


def _data_format(fs: pafs.FileSystem, path: str) -> str:
    """Read `dataFormat` from a `_metadata_acid` file (Hive's AcidMetaDataFile)."""
    text = read_bytes(fs, path)
    try:
        marker = json.loads(text)
        version, data_format = marker["thisFileVersion"], marker["dataFormat"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(path=path, reason=f"not a marker file of Hive: {error!r}") from error
    if version != _METADATA_VERSION or not isinstance(data_format, str):
        raise CorruptFileError(path=path, reason=f"a marker of version {version!r} instead of 0")
    return data_format


def metadata_text(data_format: str) -> bytes:
    """Return the content of `_metadata_acid` for a data format, as Hive writes it."""
    marker = {"thisFileVersion": _METADATA_VERSION, "dataFormat": data_format}
    return json.dumps(marker, separators=(",", ":")).encode()


def list_files(fs: pafs.FileSystem, directory: str, prefix: str = "") -> tuple[FileEntry, ...]:
    """Return the files with this name prefix, sorted by name; none if the directory is missing."""
    files = (i for i in children(fs, directory) if i.type == pafs.FileType.File)
    entries = (_entry(i.base_name, i) for i in files if i.base_name.startswith(prefix))
    return tuple(sorted(entries, key=lambda f: f.path))


def every_file(location: str) -> tuple[FileEntry, ...]:
    """Return all files below a location, also hidden and staged ones; none if it is missing.

    If a directory vanishes meanwhile, the listing is repeated, as its files may have moved.
    """
    fs, root = open_location(location)
    top = f"{root.rstrip('/')}/"
    for _ in range(_LISTING_ATTEMPTS):
        with storage_errors("list", location):
            try:
                if fs.get_file_info(root).type == pafs.FileType.NotFound:
                    return ()
                infos = fs.get_file_info(pafs.FileSelector(root, recursive=True))
            except FileNotFoundError:
                continue
            files = (info for info in infos if info.type != pafs.FileType.Directory)
            entries = (_entry(info.path.removeprefix(top), info) for info in files)
            return tuple(sorted(entries, key=lambda f: f.path))
    raise _kept_changing(location)


def list_directories(fs: pafs.FileSystem, directory: str) -> tuple[str, ...]:
    """Return the sorted names of a directory's direct subdirectories; none if it is missing."""
    infos = children(fs, directory)
    return tuple(sorted(i.base_name for i in infos if i.type == pafs.FileType.Directory))


def children(fs: pafs.FileSystem, directory: str) -> list[pafs.FileInfo]:
    """Return the direct entries of a directory, in no order; none if it is missing."""
    with storage_errors("list", directory):
        return list(fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True)))


def list_levels(location: str, directories: Sequence[str]) -> list[Listing]:
    """Return the direct entries of directories, hidden ones included; none of missing ones."""
    fs, root = open_location(location)

    def look(directory: str) -> Listing:
        top = posixpath.join(root, directory).rstrip("/")
        infos = fs.get_file_info(pafs.FileSelector(top, allow_not_found=True))
        paths = {posixpath.join(directory, info.base_name): info for info in infos}
        return Listing(
            location=location,
            files=tuple(
                _entry(path, info)
                for path, info in sorted(paths.items())
                if info.type == pafs.FileType.File
            ),
            directories=tuple(
                sorted(p for p, info in paths.items() if info.type == pafs.FileType.Directory)
            ),
        )

    with storage_errors("list", location):
        return each_in_threads(look, directories)


def tree_size(fs: pafs.FileSystem, directory: str) -> tuple[int, float]:
    """Return the bytes of the files below a directory, and its last change, in s since 1970."""
    with storage_errors("list", directory):
        own = fs.get_file_info(directory)
        infos = fs.get_file_info(pafs.FileSelector(directory, recursive=True, allow_not_found=True))
        changes = [i.mtime.timestamp() for i in (own, *infos) if i.mtime is not None]
        size = sum(i.size for i in infos if i.type == pafs.FileType.File)
        return size, max(changes, default=0.0)


def open_uploads(location: str) -> tuple[LeftUpload, ...]:
    """Return all open uploads below a location on a store with uploads (`publishes_files`)."""
    fs, root = open_location(location)
    with storage_errors("list the uploads of", location):
        return tuple(
            LeftUpload(
                path=upload.path.removeprefix(f"{root}/"),
                upload_id=upload.upload_id,
                begun_s=upload.begun_s,
            )
            for upload in fs.handler.open_uploads(root)
        )


def give_up(location: str, uploads: Sequence[LeftUpload]) -> None:
    """Abort these uploads; ignore uploads that no longer exist."""
    fs, root = open_location(location)
    with storage_errors("abort uploads below", location):
        each_in_threads(lambda u: fs.handler.give_up(f"{root}/{u.path}", u.upload_id), uploads)


def give_up_all(location: str) -> None:
    """Abort every upload below a location; do nothing on a store without uploads."""
    if publishes_files(scheme_of(location)):
        give_up(location, open_uploads(location))
