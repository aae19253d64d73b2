"""Whether a change that committed since hides what a write is about to publish.

Between the moment a write gets its write ID and the moment it has its locks, somebody else may get
a higher one, lock, and commit. Rows are read from the highest base on: what a lower write ID adds
below it is committed and never seen. An overwrite loses against every later row, which would stand
beside what was to replace it. Appends overtake appends harmlessly. See docs/adr/0011.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import PartitionInfo

_Found = TypeVar("_Found")

_PARALLEL: Final = 16


def is_overtaken(write_ids: ValidWriteIdList, own: WriteId) -> bool:
    """Whether somebody is known to have committed under a higher write ID than `own`."""
    above = range(own + 1, write_ids.high_watermark + 1)
    return any(write_ids.is_visible(WriteId(w)) for w in above)


def hiding_directory(
    partitions: Sequence[PartitionInfo],
    write_ids: ValidWriteIdList,
    own: WriteId,
    *,
    replaces: bool,
) -> str | None:
    """The URI of a directory that hides what write ID `own` adds to these partitions, or None.

    What is not known to be open or aborted counts as committed: beginning anew costs little, and
    gives a write ID above all that is there.

    Args:
        partitions: those that are about to change, where they exist.
        write_ids: the table's newest list.
        own: the write ID of what is about to be published.
        replaces: whether it is an overwrite, beside which no newer row may stay.

    Raises:
        StorageError: a partition cannot be listed.
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

    found = found_in(partitions, look)
    return None if found is None else found[1]


def found_in(
    partitions: Sequence[PartitionInfo],
    look: Callable[[PartitionInfo, Sequence[str]], _Found | None],
) -> tuple[PartitionInfo, _Found] | None:
    """List partitions; the first of which something is found in the names, and what.

    Raises:
        StorageError: a partition cannot be listed.
    """

    def one(partition: PartitionInfo) -> _Found | None:
        return look(partition, list_directories(*open_location(partition.location)))

    with ThreadPoolExecutor(_PARALLEL) as pool:
        answers = zip(partitions, pool.map(one, partitions), strict=True)
        return next(((place, found) for place, found in answers if found is not None), None)
