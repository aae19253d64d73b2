"""Detection of commits with a higher write ID than this write; such commits would hide its files.

A write gets its write ID before it has its locks. Meanwhile, another transaction may get a higher
write ID, lock the table, and commit. Readers start at the highest base. So rows with a lower write
ID would be committed, but never visible. Any row with a higher write ID overtakes an overwrite,
because the row would remain visible after the overwrite. An append that overtakes an append does no
harm. See docs/decisions/restarts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
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

    A write ID that is not known to be open or aborted is treated as committed. If this assumption
    is wrong, the only cost is a restart. The restart gets a write ID above all existing write IDs.
    `partitions` are the existing partitions that the write will change, and `write_ids` is the
    table's newest list. After an overwrite (`replaces`), no newer row may remain.
    """

    def look(partition: PartitionInfo, names: Sequence[str]) -> str | None:
        for text in names:
            name = parse_directory_name(text)
            if name is None or not (replaces or isinstance(name, BaseName)):
                continue
            low, high = (
                (name.write_id, name.write_id)
                if isinstance(name, BaseName)
                else (name.low, name.high)
            )
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
