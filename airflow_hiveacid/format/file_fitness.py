"""Check the files of tables without full ACID, using only the metastore's description.

Input is a table, a partition and their storage. Each check raises an error or returns nothing. The
checks never open a file; `storage.plain.fitness` adds the checks of single formats.

Example:
    >>> check_format("db.t", Storage(format=FileFormat.ORC), {})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import FileFormat, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hiveacid.format.table import Column, PartitionInfo, PartitionName, TableInfo

_READ: Final = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO, FileFormat.TEXT})
# If this table parameter is true, Hive matches Parquet columns by position.
_BY_POSITION: Final = "parquet.column.index.access"


def check_format(table: object, storage: Storage, parameters: Mapping[str, str]) -> None:
    """Raise an error if files of a table or partition without full ACID are unreadable.

    Args:
        table: the table, for messages.
        storage: the storage of the table or partition.
        parameters: the table's parameters.

    Raises:
        UnsupportedTableError: the format is not supported, or Hive matches columns by position.
    """
    by_position = {**dict(storage.parameters), **parameters}.get(_BY_POSITION, "")
    if storage.format is FileFormat.PARQUET and by_position.lower() == "true":
        raise UnsupportedTableError(
            table=table,
            detail=f"has {_BY_POSITION}=true, but columns of Parquet are matched by name",
        )
    if storage.format not in _READ:
        raise UnsupportedTableError(
            table=table,
            detail=f"is stored as {storage}; without full ACID only ORC, Parquet, Avro and text"
            " are supported. Copy it with Hive into a table of such a format",
        )


def own_columns(
    table: object,
    columns: Sequence[Column],
    partition: PartitionName,
    own: tuple[Column, ...] | None,
    format_: FileFormat,
) -> tuple[Column, ...] | None:
    """Return the columns that Hive uses for a partition's files; None means the table's columns.

    Hive reads ORC files with the table's columns. In other formats, Hive returns NULL for each
    column that the partition's definition lacks, even if the files contain the column.

    Args:
        table: the table, for messages.
        columns: the table's columns.
        partition: the partition's name.
        own: the partition's columns (`PartitionInfo.columns`).
        format_: the format of the partition's files.

    Raises:
        UnsupportedTableError: the partition's column names differ from the names of the table's
            first columns, or have a different order.
    """
    if own is None or format_ is FileFormat.ORC:
        return None
    if any(a.name != b.name for a, b in zip(own, columns, strict=False)):
        raise UnsupportedTableError(
            table=table,
            detail=f"has other column names in partition {partition}; give the partition the"
            " table's columns with ALTER TABLE ... PARTITION (...) REPLACE COLUMNS",
        )
    return own


def check_alike(table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
    """Raise an error unless all partitions of an insert-only table have the table's file format.

    Raises:
        UnsupportedTableError: a partition's format differs from the table's.
    """
    for partition in partitions:
        if partition.storage is not None and partition.storage.format is not table.storage.format:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is stored as {table.storage}, but its partition {partition.name} is"
                f" stored as {partition.storage}; only Hive can write such a table",
            )
