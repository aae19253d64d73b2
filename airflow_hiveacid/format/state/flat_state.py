"""Choose the files of a table without transactions: all files except hidden files.

Input is a listing of one root. Output is an `AcidState` with these files as original files. Like
Hive on Tez, this module includes files of subdirectories at any depth, because UNION ALL and LIST
BUCKETING write files there.

Example:
    >>> from airflow_hiveacid.format.state.directories import FileEntry, Listing
    >>> files = (FileEntry(path="a/000000_0", size_bytes=9), FileEntry(path="_tmp/x", size_bytes=9))
    >>> [file.path for file in flat_state(Listing(location="/t", files=files)).originals]
    ['a/000000_0']
"""

from __future__ import annotations

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.names import (
    is_below_hidden,
    looks_like_directory_name,
    parse_directory_name,
)
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.format.state.directories import Listing


def flat_state(listing: Listing) -> AcidState:
    """Return the visible files of one root as original files.

    Raises:
        UnsupportedFileError: a directory is named like a base or delta, so the table is
            transactional. Some files of a transactional table are not visible.
    """
    originals = []
    for file in sorted(listing.files, key=lambda f: f.path):
        if is_below_hidden(file.path):
            continue
        for name in file.path.split("/")[:-1]:
            if parse_directory_name(name) is not None or looks_like_directory_name(name):
                raise UnsupportedFileError(
                    path=f"{listing.location}/{file.path}",
                    reason=f"{name} is a directory of a transactional table, but this table is"
                    " not transactional: rows of aborted and replaced writes would be read. Use the"
                    " transactional table, or copy its rows",
                )
        if file.size_bytes:
            originals.append(file)
    return AcidState(location=listing.location, originals=tuple(originals))
