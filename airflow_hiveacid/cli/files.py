"""The commands that read a table's files: `scan` and `inspect`.

With `--location`, they read a directory without a metastore.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from airflow_hiveacid.cli import view as cli_view
from airflow_hiveacid.cli.arguments import METASTORE_NAMES, option_name
from airflow_hiveacid.cli.output import Answer, Column, Record, count, few, field, partition, shown
from airflow_hiveacid.cli.view import ROW_ID, records
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.words import several
from airflow_hiveacid.storage.acid.read.inspect import inspect
from airflow_hiveacid.storage.plain.rows import rows_of

_DEFAULT_LIMIT: Final = 50
_MOST_IDS: Final = 10
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
_ONLY_WITH_TABLE: Final = (*METASTORE_NAMES, "conn_id", "partition", "version", "timestamp", "tag")
_ONLY_WITH_LOCATION: Final = ("write_ids", "txns", "schema", "insert_only")


def scan(options: argparse.Namespace) -> Iterator[str]:
    """Yield the visible rows: JSON and YAML in batches, the other forms as one text."""
    _check(options, needed=("write_ids", "schema"))
    default = _DEFAULT_LIMIT if options.output == "table" else 0
    limit = default if options.limit is None else options.limit
    with cli_view.looking(options, holds_files=True) as view:
        # One row beyond a table shows whether there are more.
        beyond = 1 if limit and options.output == "table" else 0
        batches = records(view, with_identity=options.row_ids, limit=limit + beyond)
        if options.output in _BY_BATCH:
            yield from _BY_BATCH[options.output](batches)
            return
        rows = [row for batch in batches for row in batch]
        identity = [Column(head="row ID", text=lambda row: _identity(row[ROW_ID]))]
        columns = [
            Column(
                head=c.name,
                text=_cell(c.name),
                is_number=c.type.startswith(_NUMBERS),
                wraps=True,
            )
            for c in (*view.table.columns, *view.table.partition_columns)
        ]
        words = f"{view.title}: {several(len(rows), 'row')}"
        if beyond and len(rows) > limit:
            rows = rows[:limit]
            words = f"{view.title}: the first {limit} rows; --limit N shows more, --limit 0 all"
        answer = Answer(
            records=rows, columns=[*(identity if options.row_ids else ()), *columns], foot=words
        )
        yield shown(answer, options.output)


def inspect_directories(options: argparse.Namespace) -> Iterator[str]:
    """Yield the type and state of every directory."""
    _check(options, needed=("write_ids",))
    with cli_view.looking(options, holds_files=False) as view:
        records = [
            {"partition": str(info.name), "location": info.location, **asdict(entry)}
            for info, state in view.roots
            for entry in inspect(
                info.location,
                view.write_ids,
                view.txns,
                kind=view.table.kind,
                with_originals=view.table.reads_originals,
                rows_of=rows_of(view.storage_of(info).format),
                state=state,
            )
        ]
    columns: tuple[Column, ...] = (
        field("directory", "name"),
        count("files"),
        count("rows"),
        count("bytes", "size_bytes"),
        Column(head="state", text=_state, wraps=True),
    )
    head = f"{view.title}: a reader sees {_seen(view.write_ids)}"
    if len(view.partitions) == 1:
        head = f"{head}\n{view.partitions[0].location}"
    else:
        columns = (partition(), *columns)
    yield shown(Answer(records=records, columns=columns, head=head), options.output)


def _json(batches: Iterable[Sequence[Record]]) -> Iterator[str]:
    separator = "[\n"
    for batch in batches:
        if batch:
            yield separator + ",\n".join(map(json.dumps, batch))
            separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _yaml(batches: Iterable[Sequence[Record]]) -> Iterator[str]:
    is_empty = True
    for batch in batches:
        if batch:
            yield shown(Answer(records=batch), "yaml")
            is_empty = False
    if is_empty:
        yield "[]\n"


_BY_BATCH: Final = {"json": _json, "yaml": _yaml}


def _cell(name: str) -> Callable[[Record], str]:
    def text(row: Record) -> str:
        value = row[name]
        if value is None or isinstance(value, bool):
            return {None: "NULL", True: "true", False: "false"}[value]
        return str(value)

    return text


def _identity(row_id: Record) -> str:
    return f"{row_id['writeid']}/{row_id['bucketid']}/{row_id['rowid']}"


def _state(entry: Record) -> str:
    """Return a directory's state with the reason; do not repeat the state if the reason has it."""
    state, why = entry["state"], entry["why"]
    return str(why) if why.startswith(state) else f"{state}: {why}"


def _seen(write_ids: ValidWriteIdList) -> str:
    exceptions = [
        f"{state} {few(ids, _MOST_IDS)}"
        for state, ids in (("open", write_ids.open), ("aborted", write_ids.aborted))
        if ids
    ]
    text = f"writes up to {write_ids.high_watermark}"
    return f"{text}, without {' and '.join(exceptions)}" if exceptions else text


def _check(options: argparse.Namespace, needed: Sequence[str]) -> None:
    """Check that the options fit a table or `--location`, which needs the options in `needed`."""
    by_table = options.table is not None
    if by_table == (options.location is not None):
        raise ConfigurationError("give either TABLE, such as demo.orders, or --location")
    source, strange = (
        ("a table", _ONLY_WITH_LOCATION) if by_table else ("--location", _ONLY_WITH_TABLE)
    )
    for name in strange:
        if getattr(options, name, None) is not None:
            raise ConfigurationError(f"{option_name(name)} cannot be used with {source}")
    for name in () if by_table else needed:
        if getattr(options, name) is None:
            raise ConfigurationError(
                f"--location needs {option_name(name)}, which the metastore knows of a table"
            )
