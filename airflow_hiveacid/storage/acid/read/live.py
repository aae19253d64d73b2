"""Find live rows: visible insert events without a visible delete event.

Input is files, a reader's write ID list and a function that reads a file. Output is events sorted
by row identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.storage.acid.merge import (
    Batches,
    merge_sorted,
    subtract_deletes,
    visible_events,
)
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.acid.read.reader import read_identity

ReadFile = Callable[[AcidFile], Batches]


def visible_in(
    files: Sequence[AcidFile], write_ids: ValidWriteIdList, read: ReadFile = read_identity
) -> Batches:
    """Return the merged visible events of the files; a file is opened when the merge reaches it."""
    streams = [visible_events(read(file), write_ids) for file in files]
    return merge_sorted(streams, [file.least_key for file in files])


def live_in(
    inserts: Sequence[AcidFile],
    deletes: Sequence[AcidFile],
    write_ids: ValidWriteIdList,
    read: ReadFile,
    read_deletes: ReadFile = read_identity,
) -> Batches:
    """Return the visible insert events that have no visible delete event.

    `deletes` may include events for rows of other files. `read_deletes` may omit the column `row`.
    """
    return subtract_deletes(
        visible_in(inserts, write_ids, read), visible_in(deletes, write_ids, read_deletes)
    )
