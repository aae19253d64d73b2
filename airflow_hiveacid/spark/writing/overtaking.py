"""Whether a change that committed since hides what a write is about to publish.

Between the moment a write gets its write ID and the moment it has its locks, somebody else may get
a higher one, lock, and commit. Rows are read from the highest base on: what a lower write ID adds
below it is committed and never seen. An overwrite loses against every later row, which would stand
beside what was to replace it. Appends overtake appends harmlessly. See docs/adr/0011.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.storage.stores.filesystem import exists
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.snapshot import Snapshot
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo

_PARALLEL: Final = 16


def hiding_directory(
    table: TableInfo,
    partitions: Sequence[PartitionInfo],
    newest: Snapshot,
    own: WriteId,
    *,
    replaces: bool,
) -> str | None:
    """The URI of a directory that hides what write ID `own` adds to these partitions, or None.

    Args:
        table: the table written.
        partitions: those that are about to change, where they exist.
        newest: what is committed now.
        own: the write ID of what is about to be published.
        replaces: whether it is an overwrite, beside which no newer row may stay.

    Raises:
        StorageError: a partition cannot be listed.
    """
    write_ids = newest.write_ids(table.ref)
    above = range(own + 1, write_ids.high_watermark + 1)
    if not any(write_ids.is_visible(WriteId(w)) for w in above):
        return None

    def look(partition: PartitionInfo) -> str | None:
        if not exists(*open_location(partition.location)):
            return None
        state = resolve(list_table(partition.location), write_ids, newest.txns)
        base = (state.base,) if state.base else ()
        later = [d for d in (state.live if replaces else base) if d.high > own]
        return f"{partition.location.rstrip('/')}/{later[0].text}" if later else None

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return next((path for path in pool.map(look, partitions) if path is not None), None)
