"""The visible rows of a `TableView` with their partition columns, as JSON values in batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.cli.output import Record
from airflow_hiveacid.cli.view import ShownRoot, TableView
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.file_fitness import own_columns
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.types import HiveType, PrimitiveType, StructType, parse_type
from airflow_hiveacid.storage.acid.read.scan import IDENTITY, scan
from airflow_hiveacid.storage.plain.files import check_files_readable
from airflow_hiveacid.storage.plain.rows import scan_plain
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.hive_text import json_lines
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.storage.values.timestamps import TimestampForm

ROW_ID: Final = "row_id"
_IDENTITY: Final = StructType(
    (
        ("writeid", PrimitiveType("bigint")),
        ("bucketid", PrimitiveType("int")),
        ("rowid", PrimitiveType("bigint")),
    )
)
_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def records(view: TableView, *, with_identity: bool, limit: int) -> Iterator[list[Record]]:
    """Yield batches of visible rows with their partition columns, at most `limit` (0: all)."""
    types: list[HiveType] = [parse_type(column.type) for column in view.columns]
    types += [
        PrimitiveType("bigint" if column.type in _WHOLE_NUMBERS else "string")
        for column in view.partition_columns
    ]
    names = [column.name for column in (*view.columns, *view.partition_columns)]
    if with_identity:
        types, names = [_IDENTITY, *types], [ROW_ID, *names]
    remaining = limit or None
    for root in view.roots:
        for batch in _rows(view, root, with_identity=with_identity):
            whole = _with_partition(batch.slice(0, remaining), view, root)
            lines = json_lines(whole, types)
            yield [dict(zip(names, json.loads(line), strict=True)) for line in lines]
            if remaining is not None:
                remaining -= whole.num_rows
                if remaining <= 0:
                    return


def rows_by_write(view: TableView, root: ShownRoot) -> Counter[int]:
    """Count a root's visible rows by write ID; rows without row IDs are counted under 0."""
    rows_per_write: Counter[int] = Counter()
    if view.kind is not TransactionalKind.FULL_ACID:
        rows_per_write[0] = sum(batch.num_rows for batch in _rows(view, root, with_identity=False))
        return rows_per_write
    for batch in scan(
        root.location,
        view.columns,
        view.write_ids,
        view.txns,
        data_columns=(),
        with_identity=True,
        state=root.state,
    ):
        counts = pc.value_counts(pc.struct_field(batch.column(IDENTITY), 0))
        for entry in counts.to_pylist():
            rows_per_write[entry["values"]] += entry["counts"]
    return rows_per_write


def _rows(view: TableView, root: ShownRoot, *, with_identity: bool) -> Iterator[pa.RecordBatch]:
    if view.kind is TransactionalKind.FULL_ACID:
        return scan(
            root.location,
            view.columns,
            view.write_ids,
            view.txns,
            with_identity=with_identity,
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
            state=root.state,
        )
    if with_identity:
        raise ConfigurationError("rows of an insert-only table have no identity; omit --row-ids")
    check_files_readable(view.title, root.storage, view.parameters, view.columns)
    format_ = root.storage.format
    return scan_plain(
        root.location,
        view.columns,
        format_,
        view.write_ids,
        view.txns,
        with_originals=view.with_originals,
        text=text_form(
            view.title,
            view.storage,
            view.parameters,
            root.storage if view.partition_columns else None,
        ),
        own=own_columns(view.title, view.columns, root.partition, root.columns, format_),
        timestamps=TimestampForm.PAIR,
        state=root.state,
    )


def _with_partition(batch: pa.RecordBatch, view: TableView, root: ShownRoot) -> pa.RecordBatch:
    texts = partition_texts(view.partition_columns, root.partition)
    for column, text in zip(view.partition_columns, texts, strict=True):
        is_number = column.type in _WHOLE_NUMBERS
        scalar = (
            pa.scalar(None if text is None else int(text), pa.int64())
            if is_number
            else pa.scalar(text, pa.string())
        )
        batch = batch.append_column(column.name, pa.repeat(scalar, batch.num_rows))
    return batch
