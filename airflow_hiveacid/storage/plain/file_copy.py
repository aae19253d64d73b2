"""Copy files byte by byte, and check the copies."""

from __future__ import annotations

import posixpath
import tempfile
from dataclasses import replace
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import SourceUnreadableError
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.plain.loadable import LoadableFile
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.stores.filesystem import delete_file, file_errors, make_directory
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.traits import traits_of

_BLOCK_BYTES: Final = 8 << 20


def copy_file(source: LoadableFile, uri: str, format_: FileFormat) -> None:
    """Copy a file to a path that does not exist yet; create its directory.

    Raises:
        SourceUnreadableError: the file has changed since the check.
    """
    fs, target = open_location(uri)
    if not traits_of(fs).renames:
        # On a store without renames, a staged file cannot be read. So check a local copy before the
        # upload.
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
        from_fs.open_input_stream(path, compression=None) as stream,
        fs.open_output_stream(target, compression=None) as copy,
    ):
        while block := stream.read(_BLOCK_BYTES):
            copy.write(block)


def _require_same(
    source: LoadableFile, fs: pafs.FileSystem, target: str, format_: FileFormat
) -> None:
    with file_errors("read", target):
        length = fs.get_file_info(target).size
    # Text files do not store the number of rows.
    counts = format_ is not FileFormat.TEXT
    if length != source.length or (counts and rows_of(format_)(fs, target, length) != source.rows):
        raise SourceUnreadableError(
            source=source.uri, reason="it was changed while it was copied; try again"
        )
