"""Check that this provider can read and write the files of a table, before it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_hiveacid.format.file_fitness import check_alike, check_format
from airflow_hiveacid.format.table import Column, PartitionInfo, Storage, TableInfo
from airflow_hiveacid.storage.plain.avro.schema import check_avro, check_avro_alike
from airflow_hiveacid.storage.plain.text_form import check_text_writable


def check_files_readable(
    table: object, storage: Storage, parameters: Mapping[str, str], columns: Sequence[Column]
) -> None:
    """Raise UnsupportedTableError if the format, or the columns' definition, is unsupported."""
    check_format(table, storage, parameters)
    check_avro(table, storage, parameters, columns)


def check_files_writable(
    table: TableInfo, partitions: Sequence[PartitionInfo] = (), *, keeps_text_form: bool = False
) -> None:
    """Raise UnsupportedTableError if Hive would not read the rows that this provider writes.

    `partitions` are those to which files may be written. If `keeps_text_form`, the files keep the
    delimiters of their partition, as compacted files do. The partitions must have the table's
    storage format, and it must be able to store all columns.
    """
    check_alike(table, partitions)
    check_avro(table.ref, table.storage, table.parameters, table.columns)
    check_avro_alike(table, partitions)
    check_text_writable(table, () if keeps_text_form else partitions)
