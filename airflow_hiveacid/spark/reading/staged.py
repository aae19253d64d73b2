"""What a transaction has written and not yet published, as its own later statements read it.

Plain values; must not know Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.directories import FileEntry
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What a transaction has staged in one table, under the table's write ID.

    `files` are those of each of `partitions`, under the names that they will be published by; some
    partitions may come with the commit only.
    """

    write_id: WriteId
    partitions: tuple[PartitionInfo, ...]
    files: Mapping[PartitionName, tuple[FileEntry, ...]]
