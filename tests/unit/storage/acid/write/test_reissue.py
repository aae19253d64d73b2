"""A file under another write ID is the file that would have been written under that one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import ROW_COLUMN_ID
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.splice import Stretch
from airflow_hiveacid.storage.orc.stripe_copy import stripe_content
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.support.writer_cases import CASES, WriterCase
from tests.unit.storage.orc_tables import identities, told
from tests.unit.storage.writing import write_events

FS: Final = LocalFileSystem()
B0: Final = encode(BucketId(0))
OLD, NEW = WriteId(7), WriteId(300)
ID: Final = (Column(name="id", type="bigint"),)
SMALL_STRIPES: Final = WriterOptions(compression="none", stripe_size_bytes=1)


def places(folder: Path) -> tuple[Path, Path, Path]:
    """A file, the one that is made of it, and one as that has to be."""
    source, target, wanted = (folder / n / "bucket_00000" for n in ("from", "into", "wanted"))
    return source, target, wanted


def write_rows(
    path: Path, case: WriterCase, write_id: WriteId, options: WriterOptions | None = None
) -> None:
    events = insert_events(case.batch(), write_id, B0, RowId(0))
    write_events(path, case.columns, events, options=options)


def write_numbers(path: Path, write_id: WriteId, count: int = 9000) -> None:
    rows = pa.record_batch({"id": pa.array(range(count), pa.int64())})
    pieces = [
        insert_events(rows.slice(start, 3000), write_id, B0, RowId(start))
        for start in range(0, count, 3000)
    ]
    write_events(path, ID, *pieces, options=SMALL_STRIPES)


def write_deletes(path: Path, write_id: WriteId, originals: list[int]) -> None:
    keys = identities([(original, B0, row) for row, original in enumerate(originals)])
    write_events(path, ID, delete_events(keys, write_id, ID), is_delete=True)


def again(source: Path, target: Path, *, old: WriteId = OLD) -> int:
    return reissue(Reissue(source=str(source), target=str(target), old=old, new=NEW))


def tail_of(path: Path) -> OrcTail:
    return read_tail(FS, str(path))


def values_of(path: Path) -> list[list[tuple[int, int, bytes]]]:
    """All streams of a file but those of the five columns before `row`: kind, column, bytes."""
    tail, found = tail_of(path), []
    with FS.open_input_file(str(path)) as source:
        for number in range(len(tail.stripes)):
            streams = stripe_content(source, tail, number).streams
            found.append(
                [
                    (s.kind, s.column, source.read_at(s.content.length, s.content.offset))
                    for s in streams
                    if isinstance(s.content, Stretch) and not 0 < s.column < ROW_COLUMN_ID
                ]
            )
    return found


def identities_of(path: Path) -> list[dict[str, int]]:
    names = ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
    return orc.ORCFile(str(path)).read(columns=names).to_pylist()


def assert_same(found: Path, wanted: Path) -> None:
    """See that two files hold the same, and say the same of it."""
    ours, theirs = tail_of(found), tail_of(wanted)
    assert values_of(found) == values_of(wanted)
    assert identities_of(found) == identities_of(wanted)
    assert ours.footer.statistics == theirs.footer.statistics
    for one, other in zip(ours.metadata.stripes, theirs.metadata.stripes, strict=True):
        assert list(map(told, one.columns)) == list(map(told, other.columns))
    assert ours.user_metadata == theirs.user_metadata
    assert list(ours.footer.types) == list(theirs.footer.types)
    assert [s.rows for s in ours.stripes] == [s.rows for s in theirs.stripes]
    assert ours.footer.content_length == sum(s.length for s in ours.stripes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reissued_file_equals_a_file_written_under_the_new_write_id(
    tmp_path: Path, case: WriterCase
) -> None:
    source, target, wanted = places(tmp_path)
    write_rows(source, case, OLD)
    write_rows(wanted, case, NEW)
    if not tail_of(source).row_index_stride:
        # Texts that statistics cannot tell: then nobody knows what the two columns hold.
        with pytest.raises(UnsupportedFileError):
            again(source, target)
        assert not target.exists()
        return
    assert again(source, target) == target.stat().st_size
    assert_same(target, wanted)


@pytest.mark.parametrize("compression", ["none", "zlib", "snappy", "zstd"])
def test_a_reissue_keeps_the_compression(tmp_path: Path, compression: str) -> None:
    source, target, wanted = places(tmp_path)
    options = WriterOptions(compression=compression)
    write_rows(source, CASES[0], OLD, options)
    write_rows(wanted, CASES[0], NEW, options)
    again(source, target)
    assert_same(target, wanted)
    assert tail_of(target).compression is tail_of(source).compression


def test_a_reissue_updates_the_key_index_of_every_stripe(tmp_path: Path) -> None:
    source, target, wanted = places(tmp_path)
    write_numbers(source, OLD)
    write_numbers(wanted, NEW)
    again(source, target)
    assert len(tail_of(target).stripes) > 1
    assert_same(target, wanted)


@pytest.mark.parametrize("originals", [[1, 2, 6], [int(OLD)] * 3])
def test_a_reissue_of_delete_events_is_refused(tmp_path: Path, originals: list[int]) -> None:
    source, target, _ = places(tmp_path)
    write_deletes(source, OLD, originals)
    with pytest.raises(UnsupportedFileError, match="inserts of write ID 7"):
        again(source, target)
    assert not target.exists()


def test_a_reissue_of_a_file_without_rows_has_no_rows(tmp_path: Path) -> None:
    source, target, _ = places(tmp_path)
    write_events(source, ID)
    again(source, target)
    assert tail_of(target).rows == 0
    assert orc.ORCFile(str(target)).read().num_rows == 0


def test_a_reissue_of_rows_with_a_different_write_id_is_refused(tmp_path: Path) -> None:
    source, target, _ = places(tmp_path)
    write_numbers(source, OLD, count=10)
    with pytest.raises(UnsupportedFileError):
        again(source, target, old=WriteId(6))
    assert not target.exists()


def test_a_reissue_of_a_damaged_file_leaves_no_file(tmp_path: Path) -> None:
    source, target, _ = places(tmp_path)
    write_numbers(source, OLD, count=10)
    data = bytearray(source.read_bytes())
    start = tail_of(source).stripes[0].offset
    length = tail_of(source).stripes[0].length
    data[start : start + length] = bytes(length)
    source.write_bytes(data)
    with pytest.raises(CorruptFileError):
        again(source, target)
    assert not target.exists()
