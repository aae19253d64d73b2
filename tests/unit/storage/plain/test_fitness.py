from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
)
from airflow_hiveacid.storage.plain.files import check_files_readable, check_files_writable

AVRO, TEXT = FileFormat.AVRO, FileFormat.TEXT


def table(type_: str, format_: FileFormat, **parameters: str) -> TableInfo:
    return TableInfo(
        ref=TableRef("d", "t"),
        location="/d/t",
        columns=(Column(name="a", type=type_),),
        storage=Storage(format=format_),
        parameters=parameters,
    )


def partition(
    format_: FileFormat, type_: str | None = None, **parameters: str
) -> list[PartitionInfo]:
    return [
        PartitionInfo(
            name=PartitionName(("p",), ("x",)),
            location="/d/t/p=x",
            storage=Storage(format=format_, parameters=tuple(parameters.items())),
            columns=None if type_ is None else (Column(name="a", type=type_),),
        )
    ]


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
        (table("int", AVRO), partition(FileFormat.ORC), "partition p=x is stored as ORC"),
        (table("bigint", AVRO), partition(AVRO, "int"), "has the type int for column a"),
        (table("int", TEXT), partition(TEXT, **{"field.delim": ";"}), "other delimiters"),
    ],
)
def test_tables_and_partitions_that_cannot_be_written_in_their_format_are_refused(
    found: TableInfo, into: list[PartitionInfo], why: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=why):
        check_files_writable(found, into)


def test_files_that_keep_the_delimiters_of_their_partition_may_be_compacted() -> None:
    into = partition(TEXT, **{"field.delim": ";"})
    check_files_writable(table("int", TEXT), into, keeps_text_form=True)
