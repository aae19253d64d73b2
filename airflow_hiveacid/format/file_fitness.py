"""Checks of the files of tables without full ACID, by the metastore's description alone.

Example:
    >>> check_format("db.t", Storage(format=FileFormat.ORC), {})
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
)

_READ: Final = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO, FileFormat.TEXT})
# If this table parameter is true, Hive matches Parquet columns by position.
_BY_POSITION: Final = "parquet.column.index.access"


def check_format(table: object, storage: Storage, parameters: Mapping[str, str]) -> None:
    """Raise UnsupportedTableError for an unsupported format, or columns matched by position."""
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
    column that the partition's definition (`own`) lacks, even if the files contain it. Raises
    UnsupportedTableError if its names are not those of the table's first columns, in their order.
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
    """Raise UnsupportedTableError unless all partitions have the table's file format."""
    for partition in partitions:
        if partition.storage is not None and partition.storage.format is not table.storage.format:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is stored as {table.storage}, but its partition {partition.name} is"
                f" stored as {partition.storage}; only Hive can write such a table",
            )
