"""Files as a job writes them, and the tables that they are of, shared by the tests of this room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WrittenFile
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.write import WrittenRows, rows_writer
from airflow_hiveacid.storage.values.hive_text import json_lines

FS: Final = LocalFileSystem()


def columns_of(types: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name=name, type=type_) for name, type_ in types.items())


def table_of(
    types: Mapping[str, str],
    format_: FileFormat,
    parameters: Mapping[str, str] | None = None,
    serde: Mapping[str, str] | None = None,
    **other: Any,  # noqa: ANN401
) -> TableInfo:
    facts: dict[str, Any] = {"ref": TableRef("d", "t"), "location": "/d/t", **other}
    storage = Storage(format=format_, parameters=tuple((serde or {}).items()))
    return TableInfo(
        columns=columns_of(types), storage=storage, parameters=parameters or {}, **facts
    )


def partition_of(
    format_: FileFormat, types: Mapping[str, str] | None = None, **serde: str
) -> PartitionInfo:
    return PartitionInfo(
        name=PartitionName(("p",), ("x",)),
        location="/d/t/p=x",
        storage=Storage(format=format_, parameters=tuple(serde.items())),
        columns=None if types is None else columns_of(types),
    )


def write_rows(
    path: Path | str,
    format_: FileFormat,
    columns: Sequence[Column],
    *batches: pa.StructArray,
    **how: Any,  # noqa: ANN401
) -> WrittenRows:
    """Write a file of an insert-only table; `how` is what else its writer takes."""
    with rows_writer(format_, FS, str(path), columns, WriterOptions(), **how) as writer:
        for rows in batches:
            writer.write(rows)
        return writer.close()


def write_events(
    path: Path | str,
    columns: Sequence[Column],
    *batches: pa.RecordBatch,
    options: WriterOptions | None = None,
    is_delete: bool = False,
) -> WrittenFile:
    """Write a file of a full-ACID table."""
    used = options or WriterOptions()
    with AcidFileWriter(FS, str(path), columns, used, is_delete=is_delete) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def lines_of(batches: Iterable[pa.RecordBatch], columns: Sequence[Column]) -> list[str]:
    """Return the rows of batches as Hive prints them; timestamps are pairs."""
    types = [parse_type(column.type) for column in columns]
    return [line for batch in batches for line in json_lines(batch, types)]
