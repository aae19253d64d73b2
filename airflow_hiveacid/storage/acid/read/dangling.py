"""Delete events whose rows were lost: visible, and of a bucket that no file is of.

Takes what a snapshot reads of one root, and its delete files with their facts. Must not know how
files are chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_hiveacid.format.bucket_codec import decode
from airflow_hiveacid.format.errors import DanglingDeleteError
from airflow_hiveacid.format.ids import BucketId, BucketProperty
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidWriteIdList
from airflow_hiveacid.storage.acid.identity import Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_events, visible_mask
from airflow_hiveacid.storage.acid.read.reader import read_identity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
    from airflow_hiveacid.storage.acid.read.footer_facts import FooterFacts


def require_rows(
    state: AcidState,
    present: AbstractSet[BucketId],
    deletes: Sequence[tuple[AcidFile, FooterFacts]],
    write_ids: ValidWriteIdList | None,
) -> None:
    """Object to visible delete events for rows of a bucket that has no file: it was lost.

    Events for rows of their own write ID are let pass, since a compactor may have dropped the
    pair's other half, and events for rows that the reader could not see anyway.

    Raises:
        DanglingDeleteError: there are such events.
    """
    resolved = {d.text for d in state.delete_deltas if d.visibility is RangeVisibility.ALL}
    for file, facts in deletes:
        if facts.buckets is not None and facts.buckets <= present:
            continue
        if write_ids is None and file.key.partition("/")[0] not in resolved:
            continue
        missing = _buckets_hit(file, write_ids) - present
        if missing:
            raise DanglingDeleteError(
                path=file.path,
                reason="no file of the snapshot is of bucket "
                + ", ".join(map(str, sorted(missing))),
            )


def _buckets_hit(file: AcidFile, write_ids: ValidWriteIdList | None) -> set[BucketId]:
    """The buckets of the rows that visible events of a delete file must have found there."""
    found: set[BucketId] = set()
    events = read_identity(file)
    for batch in events if write_ids is None else visible_events(events, write_ids):
        keys = Keys.of(batch)
        others = keys.original != current_write_ids(batch)
        if write_ids is not None:
            others &= visible_mask(keys.original, write_ids)
        properties = np.unique(keys.bucket[others]).tolist()
        found.update(decode(BucketProperty(p)).bucket_id for p in properties)
    return found
