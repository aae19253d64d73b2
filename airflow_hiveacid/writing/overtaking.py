"""Detection of commits of other transactions: overtaking a write, or in conflict with a compaction.

A write gets its write ID before its locks. Meanwhile, another transaction may get a higher one,
lock the table, and commit: its base would hide rows of the lower write ID. Any row with a higher
write ID overtakes an overwrite, because it would remain visible; an append does no harm to an
append. See docs/decisions/restarts.md.

The metastore does not check compactions for conflicts, so the time of a `Compactor`'s check counts
as the compaction's commit time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import Winner, WriteConflictError
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.format.rivals import ForeignWrite
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import results_in_order

_Result = TypeVar("_Result")


def is_overtaken(write_ids: ValidWriteIdList, own: WriteId) -> bool:
    """Return True if a write ID above `own` is known to be committed."""
    later_ids = range(own + 1, write_ids.high_watermark + 1)
    return any(write_ids.is_visible(WriteId(w)) for w in later_ids)


def hiding_directory(
    partitions: Sequence[PartitionInfo],
    write_ids: ValidWriteIdList,
    own: WriteId,
    *,
    replaces: bool,
) -> str | None:
    """Return the URI of a directory that would hide rows of the write ID `own`, or None.

    A write ID that is not known to be open or aborted counts as committed, at the cost of a
    restart. `partitions` are the existing partitions that the write will change, and `write_ids` is
    the table's newest list. After an overwrite (`replaces`), no newer row may remain.
    """

    def look(partition: PartitionInfo, names: Sequence[str]) -> str | None:
        for text in names:
            name = parse_directory_name(text)
            if name is None or not (replaces or isinstance(name, BaseName)):
                continue
            low = name.write_id if isinstance(name, BaseName) else name.low
            high = name.write_id if isinstance(name, BaseName) else name.high
            if high > own and write_ids.may_hold_commit(WriteId(max(low, own + 1)), high):
                return f"{partition.location.rstrip('/')}/{text}"
        return None

    conflict = found_in(partitions, look)
    return None if conflict is None else conflict[1]


def found_in(
    partitions: Sequence[PartitionInfo],
    look: Callable[[PartitionInfo, Sequence[str]], _Result | None],
) -> tuple[PartitionInfo, _Result] | None:
    """List partitions until `look` returns a result; return that partition and the result."""

    def result_of(partition: PartitionInfo) -> _Result | None:
        return look(partition, list_directories(*open_location(partition.location)))

    # Even if a listing fails, return the result of an earlier partition.
    answers = zip(partitions, results_in_order(result_of, partitions), strict=True)
    return next(((root, result) for root, result in answers if result is not None), None)


def rival_error(
    rival: ForeignWrite,
    location: str,
    policy: ConflictPolicy,
    txn_id: TxnId,
    *,
    loser: str = "job",
) -> WriteConflictError:
    """Return the error about a conflicting write that another transaction committed first."""
    return WriteConflictError(
        txn_id=txn_id,
        reason=f"{location.rstrip('/')}/{rival.directory} was committed while this {loser} was"
        f" running, and the policy {policy.value} allows only the first of the two commits",
        winner=Winner(write_id=rival.write_id, did=rival.doing.value, directory=rival.directory),
    )
