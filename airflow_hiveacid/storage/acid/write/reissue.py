"""A file of one write ID made into the same file of another, without decoding a value.

All that says the write ID in a file of events are two columns, which hold nothing else, and the
tail: of new rows the original and the current write ID, of delete events the current one. These
columns are runs of one value, so they are made anew; every other stream is copied as it lies. What
is not as our writers make it is refused. Must not know why a file is to have another write ID.
"""

from __future__ import annotations

import contextlib
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import HiveAcidError, UnsupportedFileError
from airflow_hiveacid.storage.acid.row_schema import (
    IDENTITY_COLUMN_IDS,
    OPERATION_COLUMN_ID,
    ROW_COLUMN_ID,
    Operation,
)
from airflow_hiveacid.storage.orc.footer import KEY_INDEX, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.runs import RunLayout, Series, column_of_runs
from airflow_hiveacid.storage.orc.stripe_copy import (
    DATA,
    ROW_INDEX,
    StripeContent,
    StripeStream,
    StripeWriter,
    stripe_content,
)
from airflow_hiveacid.storage.orc.tail import read_tail, serialize_tail
from airflow_hiveacid.storage.stores.filesystem import (
    delete_file,
    file_errors,
    make_directory,
    storage_errors,
)
from airflow_hiveacid.storage.stores.locations import open_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.storage.orc.runs import RunColumn

_ORIGINAL: Final = IDENTITY_COLUMN_IDS[0]
_CURRENT: Final = ROW_COLUMN_ID - 1
_DIRECT_V2: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reissue:
    """One file to be made, at `target`, of that at `source`; plain values.

    `old` is the write ID that the source was written under, `new` that of the target.
    """

    source: str
    target: str
    old: WriteId
    new: WriteId
    is_delete: bool


def reissue(work: Reissue) -> int:
    """Make the file; its size in bytes.

    Raises:
        UnsupportedFileError: the source is not as our writers make it; there is no file then.
        CorruptFileError: it is damaged.
        StorageError: reading or writing failed.
    """
    fs, source = open_location(work.source)
    with file_errors("read", source):
        tail = read_tail(fs, source)
    columns = _columns(tail, work)
    there, target = open_location(work.target)
    make_directory(there, posixpath.dirname(target))
    with storage_errors("write", target):
        out = there.open_output_stream(target, compression=None)
    try:
        with (
            storage_errors("write", target),
            out,
            file_errors("read", source),
            fs.open_input_file(source) as content,
        ):
            return _copy(content, tail, columns, StripeWriter(out.write, tail.compression))
    except BaseException:
        with contextlib.suppress(HiveAcidError):
            delete_file(there, target)
        raise


def _columns(tail: OrcTail, work: Reissue) -> Mapping[int, WriteId]:
    """The columns that get another value, with it.

    Raises:
        UnsupportedFileError: they hold something else than they should.
    """
    changed = (
        {_CURRENT: work.new} if work.is_delete else dict.fromkeys((_ORIGINAL, _CURRENT), work.new)
    )
    if not tail.rows:
        return changed
    wanted = Operation.DELETE if work.is_delete else Operation.INSERT
    found = {c: tail.integer_range(c) for c in (OPERATION_COLUMN_ID, _ORIGINAL, _CURRENT)}
    originals = found[_ORIGINAL]
    is_ours = (
        found[OPERATION_COLUMN_ID] == (wanted, wanted)
        and all(found[column] == (work.old, work.old) for column in changed)
        # Deleting what the same transaction has added names its write ID, among others.
        and (not work.is_delete or (originals is not None and originals[1] < work.old))
        and len(tail.metadata.stripes) == len(tail.stripes)
    )
    if not is_ours:
        raise UnsupportedFileError(
            path=tail.path, reason=f"its events are not all of write ID {work.old}"
        )
    return changed


def _copy(
    source: pa.NativeFile,
    tail: OrcTail,
    columns: Mapping[int, WriteId],
    writer: StripeWriter,
) -> int:
    footer, metadata = pb.Footer(), pb.Metadata()
    footer.CopyFrom(tail.footer)
    metadata.CopyFrom(tail.metadata)
    footer.ClearField("stripes")
    for number in range(len(tail.stripes)):
        content = stripe_content(source, tail, number)
        # Both columns of new rows are the same one: a million rows of a run are thousands of runs.
        runs_of = {value: _runs(tail, value, content.rows) for value in set(columns.values())}
        made = {column: runs_of[value] for column, value in columns.items()}
        for column, runs in made.items():
            metadata.stripes[number].columns[column].CopyFrom(runs.statistics)
        footer.stripes.append(writer.add(source, tail, _changed(content, made)))
    for column, value in columns.items():
        if tail.rows:
            whole = Series(first=value, step=0, rows=tail.rows).statistics(0, tail.rows)
            footer.statistics[column].CopyFrom(whole)
    if _ORIGINAL in columns:
        _rename_keys(footer, columns[_ORIGINAL])
    footer.content_length = sum(
        s.index_length + s.data_length + s.footer_length for s in footer.stripes
    )
    edited = replace(tail, footer=footer, metadata=metadata, content=None)
    return writer.finish(serialize_tail(edited))


def _runs(tail: OrcTail, value: int, rows: int) -> RunColumn:
    layout = RunLayout(
        compression=tail.compression,
        block_bytes=tail.compression_block_bytes,
        stride=tail.row_index_stride,
    )
    return column_of_runs(Series(first=value, step=0, rows=rows), layout)


def _changed(content: StripeContent, made: Mapping[int, RunColumn]) -> StripeContent:
    """The stripe with other columns in the place of these."""
    streams = [stream for stream in content.streams if stream.column not in made]
    for column, runs in made.items():
        streams += (
            StripeStream(kind=ROW_INDEX, column=column, content=runs.row_index),
            StripeStream(kind=DATA, column=column, content=runs.data),
        )
    # Stable: the streams of one column keep their order.
    streams.sort(key=lambda stream: stream.column)
    encodings = [
        pb.ColumnEncoding(kind=_DIRECT_V2) if column in made else encoding
        for column, encoding in enumerate(content.encodings)
    ]
    return replace(content, streams=tuple(streams), encodings=tuple(encodings))


def _rename_keys(footer: pb.Footer, write_id: int) -> None:
    """Let `hive.acid.key.index` name the same rows (OrcRecordUpdater.KeyIndexBuilder)."""
    for item in footer.metadata:
        if item.name == KEY_INDEX:
            keys = item.value.decode().split(";")
            renamed = [f"{write_id},{key.partition(',')[2]}" if key else "" for key in keys]
            item.value = ";".join(renamed).encode()
