"""Copy a file and change its write ID, without decoding values.

In a file of inserted rows, only the tail and two columns, runs of a single value, contain the write
ID. A file with a layout that our writers do not write is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.storage.acid import (
    IDENTITY_COLUMN_IDS,
    OPERATION_COLUMN_ID,
    ROW_COLUMN_ID,
    Operation,
)
from airflow_hiveacid.storage.orc import stripe_copy
from airflow_hiveacid.storage.orc.encoders import RunColumn, RunLayout, Series, column_of_runs
from airflow_hiveacid.storage.orc.footer import KEY_INDEX, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.splice import DIRECT_V2
from airflow_hiveacid.storage.orc.tail import read_tail, serialize_tail
from airflow_hiveacid.storage.stores.filesystem import file_errors, new_file
from airflow_hiveacid.storage.stores.locations import open_location

# The columns of the original and the current write ID.
_CHANGED: Final = (IDENTITY_COLUMN_IDS[0], ROW_COLUMN_ID - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reissue:
    """The plan to copy a file, changing the write ID of its rows from `old` to `new`."""

    source: str
    target: str
    old: WriteId
    new: WriteId


def reissue(work: Reissue) -> int:
    """Copy the file with the new write ID; return the copy's size in bytes.

    Raises UnsupportedFileError if the source does not have the layout of our writers, or contains
    events other than inserts of write ID `old`. No target is left then.
    """
    fs, source = open_location(work.source)
    tail = read_tail(fs, source)
    _check_ours(tail, work.old)
    target_fs, target = open_location(work.target)
    with (
        new_file(target_fs, target) as out,
        file_errors("read", source),
        fs.open_input_file(source) as content,
    ):
        return _copy(content, tail, work.new, stripe_copy.StripeWriter(out.write, tail.compression))


def _check_ours(tail: OrcTail, write_id: WriteId) -> None:
    constants = {OPERATION_COLUMN_ID: Operation.INSERT, **dict.fromkeys(_CHANGED, write_id)}
    is_ours = all(
        tail.integer_range(column) == (value, value) for column, value in constants.items()
    ) and len(tail.metadata.stripes) == len(tail.stripes)
    if tail.rows and not is_ours:
        raise UnsupportedFileError(
            path=tail.path, reason=f"not all of its events are inserts of write ID {write_id}"
        )


def _copy(
    source: pa.NativeFile, tail: OrcTail, write_id: WriteId, writer: stripe_copy.StripeWriter
) -> int:
    footer, metadata = pb.Footer(), pb.Metadata()
    footer.CopyFrom(tail.footer)
    metadata.CopyFrom(tail.metadata)
    footer.ClearField("stripes")
    for number in range(len(tail.stripes)):
        content = stripe_copy.stripe_content(source, tail, number)
        # Build the runs once: both columns are equal, and a million rows need many runs.
        runs = column_of_runs(Series(first=write_id, step=0, rows=content.rows), RunLayout.of(tail))
        for column in _CHANGED:
            metadata.stripes[number].columns[column].CopyFrom(runs.statistics)
        footer.stripes.append(writer.add(source, tail, _changed(content, runs)))
    if tail.rows:
        whole = Series(first=write_id, step=0, rows=tail.rows).statistics(0, tail.rows)
        for column in _CHANGED:
            footer.statistics[column].CopyFrom(whole)
    _rename_keys(footer, write_id)
    footer.content_length = sum(
        s.index_length + s.data_length + s.footer_length for s in footer.stripes
    )
    edited = replace(tail, footer=footer, metadata=metadata, content=None)
    return writer.finish(serialize_tail(edited))


def _changed(content: stripe_copy.StripeContent, runs: RunColumn) -> stripe_copy.StripeContent:
    streams = [stream for stream in content.streams if stream.column not in _CHANGED]
    for column in _CHANGED:
        streams += (
            stripe_copy.StripeStream(
                kind=stripe_copy.ROW_INDEX, column=column, content=runs.row_index
            ),
            stripe_copy.StripeStream(kind=stripe_copy.DATA, column=column, content=runs.data),
        )
    # A stable sort keeps the order of a column's streams.
    streams.sort(key=lambda stream: stream.column)
    encodings = [
        pb.ColumnEncoding(kind=DIRECT_V2) if column in _CHANGED else encoding
        for column, encoding in enumerate(content.encodings)
    ]
    return replace(content, streams=tuple(streams), encodings=tuple(encodings))


def _rename_keys(footer: pb.Footer, write_id: int) -> None:
    """Change the write ID in `hive.acid.key.index` (OrcRecordUpdater.KeyIndexBuilder)."""
    for item in footer.metadata:
        if item.name == KEY_INDEX:
            keys = item.value.decode().split(";")
            renamed = [f"{write_id},{key.partition(',')[2]}" if key else "" for key in keys]
            item.value = ";".join(renamed).encode()
