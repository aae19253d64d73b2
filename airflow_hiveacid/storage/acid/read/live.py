"""Which rows live: the visible insert events of some files, less those with a visible delete event.

Takes files, a reader's write IDs and a way to read a file; gives events sorted by row identity.
Must not know which files belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.storage.acid.merge import merge_sorted, subtract_deletes, visible_events
from airflow_hiveacid.storage.acid.read.reader import read_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.storage.acid.merge import Batches
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile

    Read = Callable[[AcidFile], Batches]


def visible_in(
    files: Sequence[AcidFile], write_ids: ValidWriteIdList, read: Read = read_identity
) -> Batches:
    """The visible events of files, merged; each file is opened when the merge has come to it."""
    streams = [visible_events(read(file), write_ids) for file in files]
    return merge_sorted(streams, [file.least_key for file in files])


def live_in(
    inserts: Sequence[AcidFile],
    deletes: Sequence[AcidFile],
    write_ids: ValidWriteIdList,
    read: Read,
    read_deletes: Read = read_identity,
) -> Batches:
    """The visible insert events of some files without those that a visible delete event is for.

    Args:
        inserts: files with rows.
        deletes: files with delete events, also of other rows.
        write_ids: which events count.
        read: how rows are read.
        read_deletes: how delete events are read; their identity will do.
    """
    return subtract_deletes(
        visible_in(inserts, write_ids, read), visible_in(deletes, write_ids, read_deletes)
    )
