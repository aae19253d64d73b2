"""The staged files of a transaction; its later statements read them before publication.

Plain values; must not depend on Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.state.directories import FileEntry
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The files that a transaction has staged in one table, under the table's write ID.

    `files` contains the files of each of `partitions`, under their final names. Some partitions may
    exist only after the commit.
    """

    write_id: WriteId
    partitions: tuple[PartitionInfo, ...]
    files: Mapping[PartitionName, tuple[FileEntry, ...]]
