"""Flat files become a bucket file: the same rows as if our own writer had written them."""

from __future__ import annotations

import datetime as dt
import itertools
import zoneinfo
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write import flat_copy
from airflow_hiveacid.storage.acid.write.flat_copy import (
    CopiedFile,
    FlatCopy,
    FlatIdentity,
    FlatPart,
    can_be_flat,
    copy_flat,
)
from airflow_hiveacid.storage.orc.compression import decompress
from airflow_hiveacid.storage.orc.footer import ACID_STATS, ACID_VERSION, KEY_INDEX, OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.stripe_copy import ROW_INDEX, StripeContent, stripe_content
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from tests.support.writer_cases import (
    CASES,
    DATES,
    DEEP,
    DEEP_EARLY,
    LISTS_AND_STRUCTS,
    NESTED,
    NESTED_EARLY_FRACTIONS,
    NUMBERS,
    WriterCase,
    flat_table,
)
from tests.unit.storage.orc_tables import acid_file, plain_file, told
from tests.unit.storage.writing import write_events, write_rows

FS = LocalFileSystem()
BUCKET = encode(BucketId(3))
ID = (Column(name="id", type="bigint"),)
WIDE = (Column(name="id", type="bigint"), Column(name="t", type="string"))
# Pairs are what Arrow's writer cannot store, so no flat file of them can be made here.
FLAT_CASES = [
    c
    for c in (*CASES, LISTS_AND_STRUCTS)
    if can_be_flat(c.columns) and not c.name.startswith(("fract", "pair", "nano", "micro"))
]


def copying(columns: Sequence[Column], sources: Sequence[str]) -> FlatCopy:
    """The order to make one bucket file of these flat files."""
    return FlatCopy(
        columns=tuple(columns),
        sources=tuple(FlatPart(uri=uri) for uri in sources),
        identity=FlatIdentity(write_id=WriteId(7), bucket_property=BUCKET),
        row_index_stride=10_000,
        has_key=False,
    )


def copied(
    folder: Path,
    tables: Sequence[pa.Table],
    columns: Sequence[Column],
    *,
    has_key: bool = False,
    stride: int = 10_000,
    compression: str = "zlib",
    stripe_bytes: int = 64 << 20,
    block_bytes: int = 64 << 10,
) -> tuple[str, CopiedFile | None]:
    """One bucket file of these tables, each a flat file of its own."""
    sources = []
    for number, table in enumerate(tables):
        path = folder / f"flat-{number}.orc"
        orc.write_table(
            table,
            str(path),
            compression=compression,
            row_index_stride=10_000,
            stripe_size=stripe_bytes,
            compression_block_size=block_bytes,
            batch_size=1024,
        )
        sources.append(str(path))
    work = replace(copying(columns, sources), row_index_stride=stride, has_key=has_key)
    target = str(folder / "bucket_00003")
    return target, copy_flat(work, lambda _key: target)


def numbers(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"c0": pa.array(ids), "c1": pa.array([f"row {i}" for i in ids], pa.string())})


def read(path: str, columns: Sequence[Column]) -> pa.Table:
    file = acid_file(path, bucket_id=BucketId(3))
    return pa.Table.from_batches(list(read_events(file, columns)))


def ours(folder: Path, batch: pa.RecordBatch, columns: Sequence[Column]) -> str:
    """The same rows by the writer that encodes them."""
    path = str(folder / "ours" / "bucket_00003")
    write_events(path, columns, insert_events(batch, WriteId(7), BUCKET, RowId(0)))
    return path


def said(tail: OrcTail) -> dict[str, Any]:
    """All that a tail says but where things lie."""
    return {
        "types": tail.types,
        "metadata": tail.user_metadata,
        "statistics": list(map(told, tail.footer.statistics)),
        "stripes": [list(map(told, stripe.columns)) for stripe in tail.metadata.stripes],
        "calendar": tail.calendar,
        "stride": tail.row_index_stride,
    }


@pytest.mark.parametrize("case", FLAT_CASES, ids=lambda case: case.name)
def test_a_copied_file_has_the_same_rows_and_statistics_as_a_written_file(
    case: WriterCase, tmp_path: Path
) -> None:
    batch = case.batch()
    path, file = copied(tmp_path, [flat_table(batch.to_struct_array(), case.columns)], case.columns)
    assert file is not None
    assert file.rows == batch.num_rows
    assert file.size_bytes == FS.get_file_info(path).size
    expected = ours(tmp_path, batch, case.columns)
    # As text, in which NaN equals itself and -0.0 no 0.0.
    assert repr(read(path, case.columns).to_pylist()) == repr(
        read(expected, case.columns).to_pylist()
    )
    assert said(read_tail(FS, path)) == said(read_tail(FS, expected))


def plainly(
    folder: Path, tables: Sequence[pa.Table], columns: Sequence[Column], *, has_key: bool
) -> PlainFile:
    """One file of an insert-only table, of flat files."""
    sources = []
    for number, table in enumerate(tables):
        sources.append(str(folder / f"flat-{number}.orc"))
        orc.write_table(table, sources[-1], compression="zlib", row_index_stride=10_000)
    path = str(folder / "000003_0")
    work = replace(copying(columns, sources), identity=None, has_key=has_key)
    made = copy_flat(work, lambda _key: path)
    assert made is not None
    return plain_file(path, FileFormat.ORC, key="000003_0")


@pytest.mark.parametrize("case", FLAT_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("key", [None, "here"])
def test_rows_of_insert_only_tables_are_copied_without_identity(
    case: WriterCase, key: str | None, tmp_path: Path
) -> None:
    rows = case.batch().to_struct_array()
    table = flat_table(rows, case.columns, key)
    file = plainly(tmp_path, [table, table], case.columns, has_key=key is not None)
    expected = str(tmp_path / "ours")
    write_rows(expected, FileFormat.ORC, case.columns, rows)
    found = pa.Table.from_batches(read_rows(file, case.columns))
    ours_read = read_rows(
        replace(file, path=expected, length=FS.get_file_info(expected).size), case.columns
    )
    once = pa.Table.from_batches(ours_read).to_pylist()
    assert repr(found.to_pylist()) == repr([*once, *once])
    told, wanted = said(read_tail(FS, file.path)), said(read_tail(FS, expected))
    assert {k: told[k] for k in ("types", "metadata", "calendar", "stride")} == {
        k: wanted[k] for k in ("types", "metadata", "calendar", "stride")
    }
    assert told["stripes"] == [*wanted["stripes"], *wanted["stripes"]]


def test_maps_and_nested_chars_varchars_dates_and_timestamps_cannot_be_flat() -> None:
    assert {c.name for c in CASES if not can_be_flat(c.columns)} == {
        NESTED.name,
        NESTED_EARLY_FRACTIONS.name,
        DEEP.name,
        DEEP_EARLY.name,
    }
    for text, fits in (
        ("array<struct<x:int,y:array<decimal(5,2)>>>", True),
        ("map<string,int>", False),
        ("array<char(3)>", False),
        ("struct<x:array<varchar(3)>>", False),
        ("array<date>", False),
        ("struct<x:timestamp>", False),
    ):
        assert can_be_flat([Column(name="c", type=text)]) is fits, text


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_row_ids_continue_over_the_stripes_of_all_files(compression: str, tmp_path: Path) -> None:
    counts = [25_000, 1, 0, 12_345]
    starts = [sum(counts[:i]) for i in range(len(counts))]
    tables = [numbers(first, count) for first, count in zip(starts, counts, strict=True)]
    path, file = copied(tmp_path, tables, WIDE, compression=compression, stripe_bytes=1)
    assert file is not None
    assert len(read_tail(FS, path).stripes) > len(counts)
    events = read(path, WIDE)
    total = sum(counts)
    assert events["rowId"].to_pylist() == list(range(total))
    assert {
        v
        for name in ("originalTransaction", "currentTransaction")
        for v in events[name].to_pylist()
    } == {7}
    assert set(events["bucket"].to_pylist()) == {BUCKET}
    assert set(events["operation"].to_pylist()) == {0}
    rows = events["row"].combine_chunks()
    assert rows.field("id").to_pylist() == list(range(total))
    assert rows.field("t").to_pylist() == [f"row {i}" for i in range(total)]
    tail = read_tail(FS, path)
    ends = list(itertools.accumulate(stripe.rows for stripe in tail.stripes))
    assert tail.user_metadata == {
        KEY_INDEX: "".join(f"7,{BUCKET},{end - 1};" for end in ends),
        ACID_STATS: f"{total},0,0",
        ACID_VERSION: "2",
    }
    assert tail.integer_range(4) == (0, total - 1)
    assert tail.integer_range(4, 1) == (ends[0], ends[1] - 1)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib"])
def test_the_row_index_locates_every_stride_of_every_column(
    compression: str, tmp_path: Path
) -> None:
    # So many that the row IDs of a stripe take several compression blocks.
    count = 5_000_000
    ids = pa.table({"c0": pa.array(np.arange(count))})
    path, _ = copied(tmp_path, [ids], ID, compression=compression)
    with open(path, "rb") as file:  # noqa: PTH123 - pyorc wants a file
        reader = pyorc.Reader(file)
        for row in (0, 9_999, 10_000, 10_001, 1_234_567, 4_999_999):
            reader.seek(row)
            assert next(reader) == (0, 7, BUCKET, row, 7, (row,)), row


def test_statistics_of_a_date_column_are_date_statistics(tmp_path: Path) -> None:
    path, _ = copied(
        tmp_path, [flat_table(DATES.batch().to_struct_array(), DATES.columns)], DATES.columns
    )
    tail = read_tail(FS, path)
    with FS.open_input_file(path) as source:
        content = stripe_content(source, tail, 0)
        (index,) = [s.content for s in content.streams if s.column == 7 and s.kind == 6]
        stored = source.read_at(index.length, index.offset)
    plain = decompress(stored, tail.compression, tail.compression_block_bytes)
    (entry,) = pb.RowIndex.FromString(plain).entries
    for statistics in (tail.statistics(7), tail.statistics(7, 0), entry.statistics):
        assert statistics is not None
        assert not statistics.HasField("integers")
        assert statistics.dates.minimum < -141_427 < statistics.dates.maximum


def test_the_key_column_becomes_the_key_of_the_file_and_is_not_copied(tmp_path: Path) -> None:
    tables = [flat_table(NUMBERS.batch().to_struct_array(), NUMBERS.columns, '["a"]')] * 2
    path, file = copied(tmp_path, tables, NUMBERS.columns, has_key=True)
    assert file is not None
    assert file.key == '["a"]'
    tail = read_tail(FS, path)
    assert len(tail.types) == 7 + len(NUMBERS.columns)
    with FS.open_input_file(path) as source:
        streams = stripe_content(source, tail, 0).streams
    # An index for every column, `row` too, and nothing of the one that is left out.
    indexes = [s.column for s in streams if s.kind == ROW_INDEX]
    assert indexes == list(range(len(tail.types)))
    assert max(s.column for s in streams) < len(tail.types)
    rows = read(path, NUMBERS.columns)["row"].to_pylist()
    assert repr(rows) == repr(NUMBERS.batch().to_pylist() * 2)


def test_flat_files_with_different_or_missing_keys_are_refused(tmp_path: Path) -> None:
    rows = NUMBERS.batch().to_struct_array()
    one, two = (flat_table(rows, NUMBERS.columns, key) for key in ("a", "b"))
    long = flat_table(rows, NUMBERS.columns).append_column("k", pa.nulls(len(rows), pa.string()))
    some = pa.concat_tables([one, long.rename_columns(one.column_names)])
    for tables in ([one, two], [pa.concat_tables([one, two])], [long], [some]):
        refused = r"its key (or compression differs|column is not known to be)"
        with pytest.raises(UnsupportedFileError, match=refused):
            copied(tmp_path, tables, NUMBERS.columns, has_key=True)
        assert not (tmp_path / "bucket_00003").exists()


def test_the_file_declares_the_largest_compression_block_size_of_its_sources(
    tmp_path: Path,
) -> None:
    for number, block_bytes in enumerate([64 << 10, 256 << 10, 128 << 10]):
        orc.write_table(
            numbers(number * 50_000, 50_000),
            str(tmp_path / f"flat-{number}.orc"),
            compression="zlib",
            compression_block_size=block_bytes,
        )
    work = copying(WIDE, [str(tmp_path / f"flat-{number}.orc") for number in range(3)])
    path = str(tmp_path / "bucket_00003")
    copy_flat(work, lambda _key: path)
    assert read_tail(FS, path).compression_block_bytes == 256 << 10
    rows = read(path, WIDE)["row"].combine_chunks()
    assert rows.field("id").to_pylist() == list(range(150_000))


def test_files_with_different_compressions_are_refused(tmp_path: Path) -> None:
    for number, compression in enumerate(["zlib", "zstd"]):
        path = str(tmp_path / f"flat-{number}.orc")
        orc.write_table(numbers(number, 10), path, compression=compression)
    work = copying(WIDE, [str(tmp_path / f"flat-{number}.orc") for number in range(2)])
    with pytest.raises(UnsupportedFileError, match="its key or compression differs"):
        copy_flat(work, lambda _key: str(tmp_path / "bucket_00003"))


def test_parts_of_a_file_contain_each_of_its_stripes_once(tmp_path: Path) -> None:
    copied(tmp_path, [numbers(0, 50_000)], WIDE, stripe_bytes=1)
    uri = str(tmp_path / "flat-0.orc")
    stripes = read_tail(FS, uri).stripes
    assert len(stripes) > 4
    # At the first byte of a stripe, beside it, and so that a part has none.
    cuts = [0, stripes[1].offset, stripes[3].offset + 1, stripes[3].offset + 2, None]
    found: list[int] = []
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        part = FlatPart(uri=uri, start=start or 0, stop=stop)
        path = str(tmp_path / f"part-{number}")
        file = copy_flat(replace(copying(WIDE, []), sources=(part,)), lambda _key, path=path: path)
        if number == 2:
            assert file is None
            continue
        assert file is not None
        events = read(path, WIDE)
        assert events["rowId"].to_pylist() == list(range(file.rows))
        found += events["row"].combine_chunks().field("id").to_pylist()
    assert found == list(range(50_000))


def test_without_rows_no_file_is_written(tmp_path: Path) -> None:
    path, file = copied(tmp_path, [numbers(0, 0)], WIDE)
    assert file is None
    assert FS.get_file_info(path).type.name == "NotFound"


def test_files_with_wrong_types_row_index_stride_or_time_zone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFileError, match="types"):
        copied(tmp_path, [numbers(0, 3)], ID)
    with pytest.raises(UnsupportedFileError, match="types"):
        copied(tmp_path, [pa.table({"c0": pa.array([1], pa.int32())})], ID)
    with pytest.raises(UnsupportedFileError, match="stride"):
        copied(tmp_path, [numbers(0, 3)], WIDE, stride=5_000)
    when = (Column(name="t", type="timestamp"),)
    path = tmp_path / "flat.orc"
    with (
        path.open("wb") as file,
        pyorc.Writer(
            file, "struct<c0:timestamp>", timezone=zoneinfo.ZoneInfo("America/New_York")
        ) as writer,
    ):
        writer.write((dt.datetime(2020, 1, 1, tzinfo=dt.UTC),))
    work = copying(when, (str(path),))
    with pytest.raises(UnsupportedFileError, match="zone"):
        copy_flat(work, lambda _key: str(tmp_path / "bucket_00003"))
    assert not (tmp_path / "bucket_00003").exists()


def test_only_one_tail_of_many_flat_files_is_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []

    def tail_of(fs: LocalFileSystem, path: str) -> OrcTail:
        done.append(("tail", path[-len("0.orc") :]))
        return read_tail(fs, path)

    def content_of(source: pa.NativeFile, tail: OrcTail, number: int) -> StripeContent:
        done.append(("rows", tail.path[-len("0.orc") :]))
        return stripe_content(source, tail, number)

    monkeypatch.setattr(flat_copy, "read_tail", tail_of)
    monkeypatch.setattr(flat_copy, "stripe_content", content_of)
    copied(tmp_path, [numbers(first, 10) for first in (0, 10, 20)], WIDE)
    files = ("0.orc", "1.orc", "2.orc")
    assert done == [(what, file) for file in files for what in ("tail", "rows")]


def test_a_file_with_too_many_statistics_is_refused_and_removed(tmp_path: Path) -> None:
    """Long texts that are all the same leave tiny files, whose statistics add up all the same."""
    texts = tuple(Column(name=f"t{i}", type="string") for i in range(100))
    one = pa.table({f"c{i}": ["a" * 1000] for i in range(len(texts))})
    path = tmp_path / "flat.orc"
    orc.write_table(one, str(path), compression="zlib", row_index_stride=10_000)
    work = copying(texts, (str(path),) * 200)
    with pytest.raises(UnsupportedFileError, match="200 stripes have too many statistics"):
        copy_flat(work, lambda _key: str(tmp_path / "bucket_00003"))
    assert not (tmp_path / "bucket_00003").exists()


@pytest.mark.parametrize("part", ["stripe footer", "row index"])
def test_a_damaged_flat_file_is_reported_as_corrupt(tmp_path: Path, part: str) -> None:
    path = tmp_path / "flat.orc"
    orc.write_table(numbers(0, 10), str(path), compression="uncompressed", row_index_stride=10_000)
    (stripe,) = read_tail(FS, str(path)).stripes
    with FS.open_input_file(str(path)) as source:
        streams = stripe_content(source, read_tail(FS, str(path)), 0).streams
    (index,) = [s.content for s in streams if s.kind == ROW_INDEX and s.column == 2]
    ends = {
        "stripe footer": stripe.offset + stripe.length,
        "row index": index.offset + index.length,
    }
    content = bytearray(path.read_bytes())
    content[ends[part] - 4 : ends[part]] = b"\xff" * 4
    path.write_bytes(content)
    work = copying(WIDE, (str(path),))
    with pytest.raises(CorruptFileError, match=rf"flat\.orc is damaged: a {part} cannot be parsed"):
        copy_flat(work, lambda _key: str(tmp_path / "bucket_00003"))
    assert not (tmp_path / "bucket_00003").exists()
