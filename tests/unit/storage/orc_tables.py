"""Small ORC files and directories, made with Arrow's own writer so that nothing of ours made them.

`event(...)` is one row of an ACID file, `write_acid` and `write_plain` make files. Each `stripe`
becomes a stripe of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from airflow_hiveacid.format.ids import BucketId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.storage.acid.events import delete_events
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.orc.compression import compress
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import stripe_footer
from airflow_hiveacid.storage.orc.tail import parse_tail, serialize_tail
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE
from tests.unit.storage.writing import write_events

B0: Final = 536870912
B1: Final = 536936448
MAX: Final = "9223372036854775807"
ROOT: Final = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
COLUMNS: Final = (Column(name="id", type="int"), Column(name="name", type="string"))
SMALL_STRIPES: Final = WriterOptions(stripe_size_bytes=1)
ROW: Final = pa.struct([("id", pa.int32()), ("name", pa.string())])

Event = tuple[int, int, int, int, int, Any]


def event(original: int, row: int, value: object = None, **other: Any) -> Event:  # noqa: ANN401
    """An insert event; `bucket`, `current` and `operation` have the usual values unless given."""
    return (
        other.get("operation", 0),
        original,
        other.get("bucket", B0),
        row,
        other.get("current", original),
        value,
    )


def tombstone(original: int, row: int, current: int, bucket: int = B0) -> Event:
    """A delete event."""
    return (2, original, bucket, row, current, None)


def insert(original: int, row: int, identifier: int, **other: Any) -> Event:  # noqa: ANN401
    """An insert event of the table of `COLUMNS`."""
    return event(original, row, {"id": identifier, "name": f"n{identifier}"}, **other)


def write_acid(
    path: Path,
    *stripes: list[Event],
    row: pa.DataType = ROW,
    names: tuple[str, ...] = ROOT,
    **options: Any,  # noqa: ANN401
) -> Path:
    """A file with the six ACID columns."""
    types = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), row]
    schema = pa.schema(list(zip(names, types, strict=True)))
    tables = [
        pa.table(
            [_spelt_out(pa.array([e[at] for e in events], t)) for at, t in enumerate(types)],
            schema=schema,
        )
        for events in stripes
    ]
    return write_tables(path, tables, schema, **options)


def _spelt_out(array: pa.Array) -> pa.Array:
    """The same values, with every child of a NULL struct NULL: Arrow's writer shifts others."""
    if pa.types.is_struct(array.type):
        children = [
            _spelt_out(pc.if_else(array.is_valid(), array.field(i), None))
            for i in range(array.type.num_fields)
        ]
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=array.is_null())
    if pa.types.is_list(array.type):
        values = _spelt_out(array.values)
        return pa.ListArray.from_arrays(array.offsets, values, array.type, mask=array.is_null())
    return array


def write_plain(path: Path, *stripes: list[Any], row: pa.DataType = ROW, **options: Any) -> Path:  # noqa: ANN401
    """A file without ACID columns; rows are objects."""
    schema = pa.schema(list(row))
    tables = [pa.Table.from_pylist(rows, schema) for rows in stripes]
    return write_tables(path, tables, schema, **options)


def write_last_second_before_1970(path: Path) -> Path:
    """A file with 1969-12-31 23:59:59.5, which files of ours cannot store.

    In Paris, ORC stores other seconds for the last second before 1970, so it can be read.
    """
    epoch = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
    times = [{"t": epoch}, {"t": epoch - dt.timedelta(milliseconds=500)}]
    write_plain(path, times, row=pa.struct([("t", pa.timestamp("ns"))]))
    with_zones(path, "Europe/Paris")
    return with_tail(path, _state_calendar)


def _state_calendar(footer: Any, postscript: Any) -> None:  # noqa: ANN401 - of protobuf
    footer.writer, footer.calendar, postscript.writer_version = 0, 2, 9


def write_tables(path: Path, tables: list[pa.Table], schema: pa.Schema, **options: Any) -> Path:  # noqa: ANN401
    """A file with a stripe a table. With several, the footer holds no statistics."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [_file(table, options) for table in tables or [schema.empty_table()]]
    path.write_bytes(files[0] if len(files) == 1 else _joined(files))
    return path


def _file(table: pa.Table, options: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    with orc.ORCWriter(sink, **{"compression": "zlib", **options}) as writer:
        writer.write(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _joined(files: list[bytes]) -> bytes:
    """The stripes of several files in one: Arrow's writer ends a stripe when it likes."""
    content = b"ORC"
    tails = [parse_tail("part", file, len(file)) for file in files]
    footer = pb.Footer()
    footer.CopyFrom(tails[0].footer)
    del footer.stripes[:]
    del footer.statistics[:]
    for file, tail in zip(files, tails, strict=True):
        for stripe, info in zip(tail.footer.stripes, tail.stripes, strict=True):
            stripe.offset = len(content)
            footer.stripes.append(stripe)
            content += file[info.offset : info.offset + info.length]
    footer.rows = sum(tail.rows for tail in tails)
    whole = replace(tails[0], footer=footer, metadata=pb.Metadata(), file_length=len(content))
    return content + serialize_tail(whole)


def ids(high: int, *, opened: str = "", aborted: str = "") -> ValidWriteIdList:
    """A reader's list: everything up to `high`, less what is open or aborted."""
    minimum = opened.split(",", maxsplit=1)[0] or MAX
    return ValidWriteIdList.parse(f"db.t:{high}:{minimum}:{opened}:{aborted}")


def with_zones(path: Path, *zones: str | None) -> Path:
    """The same file with another writer time zone in each stripe's footer; None states none."""

    def stating(zone: str | None) -> Callable[[pb.StripeFooter], None]:
        def change(inside: pb.StripeFooter) -> None:
            inside.ClearField("writer_time_zone")
            if zone is not None:
                inside.writer_time_zone = zone

        return change

    return with_stripe_footers(path, [stating(zone) for zone in zones])


def with_stripe_footers(path: Path, changes: Sequence[Callable[[pb.StripeFooter], None]]) -> Path:
    """The same file with another footer of each stripe."""
    content = path.read_bytes()
    tail = parse_tail(str(path), content, len(content))
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    source, changed = pa.BufferReader(content), b"ORC"
    for stripe, change in zip(footer.stripes, changes, strict=True):
        inside = stripe_footer(source, tail, stripe)
        change(inside)
        end = compress(inside.SerializeToString(), tail.compression, tail.compression_block_bytes)
        data = content[stripe.offset : stripe.offset + stripe.index_length + stripe.data_length]
        stripe.offset, stripe.footer_length = len(changed), len(end)
        changed += data + end
    path.write_bytes(changed + serialize_tail(replace(tail, footer=footer)))
    return path


def rewrite_tail(path: Path, change: Callable[[OrcTail], object]) -> Path:
    """The same file with another footer, postscript or metadata."""
    content = path.read_bytes()
    tail = parse_tail(str(path), content, len(content))
    change(tail)
    end = max((stripe.offset + stripe.length for stripe in tail.stripes), default=3)
    path.write_bytes(content[:end] + serialize_tail(tail))
    return path


def with_tail(path: Path, change: Callable[[pb.Footer, pb.PostScript], object]) -> Path:
    """The same file with another footer and postscript."""
    return rewrite_tail(path, lambda tail: change(tail.footer, tail.postscript))


def delta_file(write_id: int, kind: str = "delta") -> str:
    """The path below a table of the first bucket of a write."""
    return f"{kind}_{write_id:07d}_{write_id:07d}_0000/bucket_00000"


def acid_file(path: Path | str, kind: FileKind = FileKind.DATA, **other: Any) -> AcidFile:  # noqa: ANN401
    """The description of a file on this machine; its directory and name are its key."""
    facts: dict[str, Any] = {
        "key": f"{Path(path).parent.name}/{Path(path).name}",
        "length": Path(path).stat().st_size,
        "bucket_id": BucketId(0),
    }
    return AcidFile(store=LOCAL_STORE, path=str(path), kind=kind, **{**facts, **other})


def plain_file(path: Path | str, format_: FileFormat, **other: Any) -> PlainFile:  # noqa: ANN401
    """The description of a file of an insert-only table on this machine."""
    facts: dict[str, Any] = {"key": "k", "length": Path(path).stat().st_size}
    return PlainFile(store=LOCAL_STORE, path=str(path), format=format_, **{**facts, **other})


def told(column: pb.ColumnStatistics) -> str:
    """What is said of values; how many bytes they take depends on who made the runs."""
    rest = pb.ColumnStatistics()
    rest.CopyFrom(column)
    rest.ClearField("bytes_on_disk")
    return str(rest)


def identities(keys: Sequence[tuple[int, int, int]]) -> pa.RecordBatch:
    """The identity columns of rows given as (write ID, bucket property, row ID)."""
    types = {"originalTransaction": pa.int64(), "bucket": pa.int32(), "rowId": pa.int64()}
    columns = zip(types.items(), list(zip(*keys, strict=True)) or [()] * 3, strict=True)
    return pa.record_batch({name: pa.array(values, type_) for (name, type_), values in columns})


def write_deletes(
    path: Path, columns: Sequence[Column], write_id: int, *gone: tuple[int, int]
) -> None:
    """A file of delete events, of rows given as (write ID, row ID)."""
    keys = identities([(original, B0, row) for original, row in gone])
    events = delete_events(keys, WriteId(write_id), columns)
    write_events(path, columns, events, options=SMALL_STRIPES, is_delete=True)


def keys_in(file: AcidFile) -> list[tuple[int, int, int]]:
    """The identities of a file's events as (write ID, bucket property, row ID)."""
    return [
        (row["originalTransaction"], row["bucket"], row["rowId"])
        for batch in read_identity(file)
        for row in batch.to_pylist()
    ]
