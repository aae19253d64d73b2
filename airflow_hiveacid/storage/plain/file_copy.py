"""Files copied as they are, byte by byte, and looked at once more where they have arrived.

Takes a file and a place; gives what arrived. Must not know what the file is for.
"""

from __future__ import annotations

import posixpath
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import SourceUnreadableError
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.stores.filesystem import delete_file, file_errors, make_directory
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.traits import traits_of

if TYPE_CHECKING:
    from pyarrow import fs as pafs

    from airflow_hiveacid.format.table import FileFormat
    from airflow_hiveacid.storage.plain.loadable import LoadableFile

_BLOCK_BYTES: Final = 8 << 20


def copy_file(source: LoadableFile, place: str, format_: FileFormat) -> None:
    """Copy a file to a place where nothing is; its directory is made.

    Raises:
        SourceUnreadableError: it is not the file any more that was looked at.
        LocationPermissionError: it may not be read, or the place not be written.
        StorageError: reading or writing failed otherwise.
    """
    fs, target = open_location(place)
    if not traits_of(fs).renames:
        # What is staged there cannot be read, so it is looked at before it is sent.
        with tempfile.TemporaryDirectory(prefix="hiveacid_load_") as folder:
            copy = replace(source, uri=f"file:{folder}/copy")
            copy_file(source, copy.uri, format_)
            try:
                _copy(copy, fs, target)
            except BaseException:
                delete_file(fs, target)
                raise
        return
    make_directory(fs, posixpath.dirname(target))
    try:
        _copy(source, fs, target)
        _require_same(source, fs, target, format_)
    except BaseException:
        delete_file(fs, target)
        raise


def _copy(source: LoadableFile, fs: pafs.FileSystem, target: str) -> None:
    from_fs, path = open_location(source.uri)
    with (
        file_errors("read", path),
        from_fs.open_input_stream(path, compression=None) as found,
        fs.open_output_stream(target, compression=None) as copy,
    ):
        while block := found.read(_BLOCK_BYTES):
            copy.write(block)


def _require_same(
    source: LoadableFile, fs: pafs.FileSystem, target: str, format_: FileFormat
) -> None:
    with file_errors("read", target):
        length = fs.get_file_info(target).size
    if length != source.length or rows_of(format_)(fs, target, length) != source.rows:
        raise SourceUnreadableError(
            source=source.uri, reason="it was changed while it was loaded; load it again"
        )
