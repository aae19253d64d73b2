"""Find visible delete events for lost rows: rows in a bucket that has no file.

A writer that does not check for conflicts can delete a row twice. If a major compaction removes the
row in between, its bucket may have no file, although no row was lost. A base covers all writes up
to its write ID; a row of a later write is in a delta that no compaction has read, so its file must
exist.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from airflow_hiveacid.format.bucket_codec import decode
from airflow_hiveacid.format.errors import DanglingDeleteError, InvalidNameError
from airflow_hiveacid.format.ids import BucketId, BucketProperty
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import RangeVisibility, ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.storage.acid.identity import Keys, current_write_ids
from airflow_hiveacid.storage.acid.merge import visible_events, visible_mask
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile
from airflow_hiveacid.storage.acid.read.files import FooterFacts
from airflow_hiveacid.storage.acid.read.reader import read_identity

_log = logging.getLogger(__name__)


def require_rows(
    state: AcidState,
    present: AbstractSet[BucketId],
    deletes: Sequence[tuple[AcidFile, FooterFacts]],
    write_ids: ValidWriteIdList | None,
    stored: Callable[[], AbstractSet[BucketId]] = frozenset,
) -> None:
    """Raise an error if a visible delete event shows that the files of its bucket were lost.

    A row may be inserted and deleted at the same write ID. Its delete event is accepted, because a
    compactor may have dropped the insert event, and so is that of a row that the reader does not
    see. If the base covers the write that inserted a row, its delete event is only logged; the next
    major compaction drops it.

    `present` are the buckets of the names of the files with rows. `stored` returns the buckets of
    the rows in these files. It is called only if a bucket is not in `present`. Raises
    DanglingDeleteError if a bucket without a file has any other visible delete event.
    """
    resolved = {d.text for d in state.delete_deltas if d.visibility is RangeVisibility.ALL}
    for file, facts in deletes:
        if facts.buckets is not None and facts.buckets <= present:
            continue
        if write_ids is None and file.key.partition("/")[0] not in resolved:
            continue
        hit = _buckets_hit(file, write_ids, state)
        missing = hit.must_be_there - present
        # A file may contain rows of other buckets than that of its name (HIVE-23763).
        missing -= stored() if missing else set()
        if missing:
            raise DanglingDeleteError(
                path=file.path,
                reason="the snapshot has no file for bucket "
                + ", ".join(map(str, sorted(missing))),
            )
        compacted = hit.in_base - present
        if compacted and state.base is not None:
            _log.warning(
                "delete events without rows: %s no longer has these rows; a major compaction drops"
                " the events file=%s buckets=%s",
                state.base.text,
                file.path,
                sorted(compacted),
            )


class _Hit(NamedTuple):
    must_be_there: set[BucketId]
    in_base: set[BucketId]
    """Buckets of rows that the base covers; a compaction or an overwrite may have removed these
    rows."""


def _buckets_hit(file: AcidFile, write_ids: ValidWriteIdList | None, state: AcidState) -> _Hit:
    hit = _Hit(set(), set())
    events = read_identity(file)
    for batch in events if write_ids is None else visible_events(events, write_ids):
        keys = Keys.of(batch)
        is_foreign = keys.original != current_write_ids(batch)
        if write_ids is not None:
            is_foreign &= visible_mask(keys.original, write_ids)
        covered = _is_in_base(keys.original, state)
        hit.must_be_there.update(_buckets(keys.bucket[is_foreign & ~covered]))
        hit.in_base.update(_buckets(keys.bucket[is_foreign & covered]))
    return hit


def buckets_read(file: AcidFile) -> set[BucketId]:
    """Return the buckets of the rows in a file; ignore bucket properties that are invalid."""
    buckets: set[BucketId] = set()
    for batch in read_identity(file):
        for bucket_property in np.unique(Keys.of(batch).bucket).tolist():
            with contextlib.suppress(InvalidNameError):
                buckets.add(decode(BucketProperty(bucket_property)).bucket_id)
    return buckets


def _buckets(properties: npt.NDArray[np.integer[Any]]) -> set[BucketId]:
    return {decode(BucketProperty(p)).bucket_id for p in np.unique(properties).tolist()}


def _is_in_base(original: npt.NDArray[np.integer[Any]], state: AcidState) -> npt.NDArray[np.bool_]:
    # Mask the write IDs that the base covers, but no live delta. The base of an overwrite does not
    # cover its own write ID, because no compaction has removed rows of this write.
    if state.base is None:
        return np.zeros(len(original), dtype=bool)
    covered: npt.NDArray[np.bool_] = (
        original <= state.base.high if state.base.is_compacted else original < state.base.high
    )
    for delta in state.deltas:
        if isinstance(delta.name, DeltaName):
            covered &= (original < delta.name.low) | (original > delta.name.high)
    return covered
