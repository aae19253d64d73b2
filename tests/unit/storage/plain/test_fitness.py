from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import (
    FileFormat,
    PartitionInfo,
    TableInfo,
)
from airflow_hiveacid.storage.plain.files import check_files_readable, check_files_writable
from tests.unit.storage.writing import partition_of, table_of

AVRO, TEXT = FileFormat.AVRO, FileFormat.TEXT
INT = {"a": "int"}


def table(type_: str, format_: FileFormat, **parameters: str) -> TableInfo:
    return table_of({"a": type_}, format_, parameters)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (table("int", FileFormat.OTHER), "only ORC, Parquet, Avro and text"),
        (table("map<int,int>", AVRO), "keys of int"),
    ],
)
def test_tables_that_cannot_be_read_in_their_format_are_refused(found: TableInfo, why: str) -> None:
    with pytest.raises(UnsupportedTableError, match=why):
        check_files_readable(found.ref, found.storage, found.parameters, found.columns)


@pytest.mark.parametrize(
    ("found", "into", "why"),
    [
        (table("map<int,int>", AVRO), [], "keys of int"),
        (table("int", TEXT, **{"skip.header.line.count": "1"}), [], "first rows"),
        (table("int", AVRO), [partition_of(FileFormat.ORC)], "partition p=x is stored as ORC"),
        (
            table("bigint", AVRO),
            [partition_of(AVRO, INT)],
            "has the type int for column a",
        ),
        (table("int", TEXT), [partition_of(TEXT, **{"field.delim": ";"})], "other delimiters"),
    ],
)
def test_tables_and_partitions_that_cannot_be_written_in_their_format_are_refused(
    found: TableInfo, into: list[PartitionInfo], why: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=why):
        check_files_writable(found, into)


def test_files_that_keep_the_delimiters_of_their_partition_may_be_compacted() -> None:
    into = partition_of(TEXT, **{"field.delim": ";"})
    check_files_writable(table("int", TEXT), [into], keeps_text_form=True)
