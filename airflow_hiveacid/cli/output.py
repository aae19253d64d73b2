"""Rows and directories as text for the command line: tables for people, JSON for programs.

Input is a `TableView` and the rows, directories or versions to print. Output is text. A table is as
wide as the terminal. Without a terminal, a table is as wide as its contents.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.file_fitness import own_columns
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.types import HiveType, PrimitiveType, StructType, parse_type
from airflow_hiveacid.storage.acid.read.scan import IDENTITY, scan
from airflow_hiveacid.storage.plain.fitness import check_files_readable
from airflow_hiveacid.storage.plain.scan import scan_plain
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.json_rows import json_lines
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.storage.values.timestamps import TimestampForm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from airflow_hiveacid.cli.view import ShownRoot, TableView
    from airflow_hiveacid.storage.acid.read.inspect import InspectedEntry
    from airflow_hiveacid.versions.history import TableHistory

_WIDE: Final = 200
_MOST_NAMED: Final = 3
_IDENTITY: Final = StructType(
    (
        ("writeid", PrimitiveType("bigint")),
        ("bucketid", PrimitiveType("int")),
        ("rowid", PrimitiveType("bigint")),
    )
)
_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def json_rows(view: TableView, *, with_identity: bool, limit: int) -> Iterator[list[str]]:
    """Yield visible rows as JSON arrays of row identity (if requested), data and partition columns.

    Args:
        view: the roots and columns to read.
        with_identity: whether each row's identity comes first.
        limit: the maximum number of rows; 0 means all.

    Yields:
        The rows of one batch, one string for each row.

    Raises:
        HiveAcidError: the files cannot be read.
    """
    types: list[HiveType] = [parse_type(column.type) for column in view.columns]
    types += [_partition_type(column.type) for column in view.partition_columns]
    left = limit or None
    for root in view.roots:
        for batch in _rows(view, root, with_identity=with_identity):
            whole = _with_partition(batch.slice(0, left), view, root)
            yield list(json_lines(whole, [_IDENTITY, *types] if with_identity else types))
            if left is not None:
                left -= whole.num_rows
                if left <= 0:
                    return


def rows_by_write(view: TableView, root: ShownRoot) -> Counter[int]:
    """Count a root's visible rows by write ID; rows without identity are counted under 0.

    Raises:
        HiveAcidError: the files cannot be read.
    """
    found: Counter[int] = Counter()
    if view.kind is not TransactionalKind.FULL_ACID:
        found[0] = sum(batch.num_rows for batch in _rows(view, root, with_identity=False))
        return found
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
        for one in counts.to_pylist():
            found[one["values"]] += one["counts"]
    return found


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


def rows_table(
    view: TableView, rows: Sequence[Sequence[Any]], *, with_identity: bool, limit: int
) -> str:
    """Return rows as a table; the last line shows their number, or how to show more."""
    columns = (*view.columns, *view.partition_columns)
    table = _table(*(["row ID"] if with_identity else []), *(c.name for c in columns))
    for column, drawn in zip(reversed(columns), reversed(table.columns), strict=False):
        if _is_number(column.type):
            drawn.justify = "right"
    for row in rows:
        table.add_row(*map(_cell, row))
    words = f"{view.title}: {len(rows)} rows"
    if limit and len(rows) >= limit:
        words = f"{view.title}: the first {limit} rows; --limit N shows more, --limit 0 all"
    return f"{_drawn(table)}{words}\n"


def entries_table(root: ShownRoot, entries: Sequence[InspectedEntry]) -> str:
    """Return the directories of one root as a table."""
    table = _table("directory", "type", "write IDs", "state", "files", "rows", "bytes", "why")
    for column in table.columns[4:7]:
        column.justify = "right"
    for entry in entries:
        table.add_row(
            entry.name,
            entry.type,
            _range(entry),
            entry.state,
            str(entry.files),
            "?" if entry.rows is None else f"{entry.rows:,}",
            f"{entry.size_bytes:,}",
            entry.why,
        )
    title = f"{root.partition}  " if root.partition.columns else ""
    return f"{title}{root.location}\n{_drawn(table)}"


def history_table(history: TableHistory) -> str:
    """Return a table's versions, newest first, and a summary line."""
    table = _table(
        "version", "committed", "by", "operation", "inserted", "updated", "deleted", "partitions",
        "bytes", "readable",
    )  # fmt: skip
    for at in (0, 4, 5, 6, 8):
        table.columns[at].justify = "right"
    for one in history.versions:
        counts = [
            "" if count is None else f"{count:,}"
            for count in (one.inserted, one.updated, one.deleted)
        ]
        table.add_row(
            str(one.number) + "".join(f" {tag}" for tag in one.tags),
            str(one.committed),
            one.by,
            one.operation,
            *counts,
            _few(one.partitions),
            "" if one.size_bytes is None else f"{one.size_bytes:,}",
            "yes" if one.is_readable else "by tag" if one.tags else "no",
        )
    kept = "; earlier versions are kept" if history.is_kept else ""
    oldest = f"the oldest readable version is {history.oldest}"
    if not history.oldest:
        oldest = "no version can be read by its number, because a partition was dropped"
    return (
        f"{_drawn(table)}{history.table}: {oldest}, the newest {history.newest}{kept};"
        f" {len(history.compactions)} compactions in the queue\n"
    )


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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


def _partition_type(type_text: str) -> HiveType:
    """Return bigint for an integer type, else string, as in Hive's partition names."""
    return PrimitiveType("bigint" if type_text in _WHOLE_NUMBERS else "string")


def _is_number(type_text: str) -> bool:
    return type_text in _WHOLE_NUMBERS or type_text.startswith(("decimal", "float", "double"))


def _cell(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case {"writeid": write_id, "bucketid": bucket_id, "rowid": row_id}:
            return f"{write_id}/{bucket_id}/{row_id}"
        case _:
            return str(value)


def _table(*names: str) -> Table:
    from rich import box  # noqa: PLC0415 - only tables need it
    from rich.table import Table  # noqa: PLC0415 - as above

    return Table(*names, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _drawn(table: Table) -> str:
    from rich.console import Console  # noqa: PLC0415 - only tables need it

    text = io.StringIO()
    terminal = sys.stdout.isatty()
    console = Console(
        file=text, force_terminal=terminal, width=None if terminal else _WIDE, markup=False
    )
    console.print(table)
    return text.getvalue()


def _range(entry: InspectedEntry) -> str:
    low, high = entry.least_write_id, entry.greatest_write_id
    text = "" if high is None else f"..{high}" if low is None else f"{low}..{high}"
    statement = "" if entry.statement_id is None else f" statement {entry.statement_id}"
    return f"{text}{statement}"
