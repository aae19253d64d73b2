"""Files copied as they are, byte by byte, and looked at once more where they have arrived.

Takes a file and a place; gives what arrived. Must not know what the file is for.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import SourceUnreadableError
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.stores.filesystem import delete_file, file_errors, make_directory
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
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
    from_fs, path = open_location(source.uri)
    to_fs, target = open_location(place)
    make_directory(to_fs, posixpath.dirname(target))
    copied = 0
    try:
        with (
            file_errors("read", path),
            from_fs.open_input_stream(path, compression=None) as input_,
            to_fs.open_output_stream(target, compression=None) as output,
        ):
            while block := input_.read(_BLOCK_BYTES):
                output.write(block)
                copied += len(block)
        rows = rows_of(format_)(to_fs, target, copied) if copied == source.length else None
        if rows != source.rows:
            raise SourceUnreadableError(
                source=source.uri, reason="it was changed while it was loaded; load it again"
            )
    except BaseException:
        delete_file(to_fs, target)
        raise
