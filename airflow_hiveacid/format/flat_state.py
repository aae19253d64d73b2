"""Which files of a table without transactions a reader reads: all that are not hidden.

Takes a listing of one root; gives an `AcidState` in which they are originals. Sub-directories are
entered at any depth, as Hive does where Tez runs it: a UNION ALL writes there, and LIST BUCKETING.

Example:
    >>> from airflow_hiveacid.format.directories import FileEntry, Listing
    >>> files = (FileEntry(path="a/000000_0", size_bytes=9), FileEntry(path="_tmp/x", size_bytes=9))
    >>> [file.path for file in flat_state(Listing(location="/t", files=files)).originals]
    ['a/000000_0']
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.names import is_hidden, looks_like_directory_name, parse_directory_name

if TYPE_CHECKING:
    from airflow_hiveacid.format.directories import Listing


def flat_state(listing: Listing) -> AcidState:
    """What is read of one root.

    Raises:
        UnsupportedFileError: a directory is one of a transactional table, of which not every file
            counts.
    """
    found = []
    for file in sorted(listing.files, key=lambda f: f.path):
        parts = file.path.split("/")
        if any(map(is_hidden, parts)):
            continue
        for name in parts[:-1]:
            if parse_directory_name(name) is not None or looks_like_directory_name(name):
                raise UnsupportedFileError(
                    path=f"{listing.location}/{file.path}",
                    reason=f"{name} is a directory of a transactional table, and this table is"
                    " none: rows of aborted and replaced writes would count. Read that table, or"
                    " copy its rows",
                )
        if file.size_bytes:
            found.append(file)
    return AcidState(location=listing.location, originals=tuple(found))
