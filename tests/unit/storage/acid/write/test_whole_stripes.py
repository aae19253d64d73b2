"""Stripes that a compaction copies: which ones, where they end up, and that nothing is lost."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.write import whole_stripes as module
from airflow_hiveacid.storage.acid.write.tail import acid_types
from airflow_hiveacid.storage.acid.write.whole_stripes import (
    WholeStripe,
    between,
    whole_stripes,
    without,
)
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import KEY_INDEX, OrcCalendar
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.compacting import compact
from tests.unit.storage.orc_tables import (
    B0,
    B1,
    COLUMNS as PLAIN,
    Event,
    acid_file,
    delta_file,
    ids,
    insert,
    rewrite_tail,
    write_acid,
    write_deletes,
)
from tests.unit.storage.writing import columns_of, write_events

FS: Final = LocalFileSystem()
COLUMNS: Final = columns_of({"id": "bigint", "at": "timestamp", "noise": "string"})
STRIPE_ROWS: Final = 4096
MAX: Final = 9223372036854775807
SMALL: Final = WriterOptions(stripe_size_bytes=1)


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 1)


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = pa.array(np.arange(first, first + count))
    noise = pa.array([hashlib.sha256(f"{n}".encode()).hexdigest() for n in range(count)])
    return pa.record_batch({"id": ids, "at": ids.cast(pa.timestamp("ns")), "noise": noise})


def put(
    path: Path,
    write_id: int,
    count: int,
    *,
    first_row: int = 0,
    options: WriterOptions = SMALL,
    columns: tuple[Column, ...] = COLUMNS,
) -> Path:
    """A file of insert events; with small stripes, one for each `STRIPE_ROWS` rows."""
    events = insert_events(
        rows(write_id << 20, count), WriteId(write_id), BucketProperty(B0), RowId(first_row)
    )
    write_events(path, columns, events, options=options)
    return path


def found(
    root: Path,
    write_ids: ValidWriteIdList,
    columns: tuple[Column, ...] = COLUMNS,
    options: WriterOptions = SMALL,
) -> list[tuple[str, int]]:
    """Which stripes of a directory are copied: file and number."""
    state = resolve(list_table(str(root)), write_ids, None)
    return [
        (one.file.key, one.number)
        for bucket in bucket_files(state, write_ids)
        for one in whole_stripes(
            bucket.inserts,
            bucket.deletes,
            write_ids,
            bucket_id=bucket.bucket_id,
            columns=columns,
            options=options,
        )
    ]


BASE: Final = "base_0000001/bucket_00000"


def test_an_unchanged_stripe_is_copied_byte_for_byte_and_other_rows_are_merged(
    tmp_path: Path,
) -> None:
    source = put(tmp_path / BASE, 1, 2 * STRIPE_ROWS).read_bytes()
    put(tmp_path / delta_file(2), 2, 10)
    gone = [(1, STRIPE_ROWS), (2, 5)]
    write_deletes(tmp_path / delta_file(3, "delete_delta"), COLUMNS, 3, *gone)
    old = read_tail(FS, str(tmp_path / BASE))
    assert compact(tmp_path, COLUMNS, ids(3), major=True) == ("base_0000003",)
    path = tmp_path / "base_0000003/bucket_00000"
    new, content = read_tail(FS, str(path)), path.read_bytes()
    first = old.stripes[0]
    assert (new.stripes[0].offset, new.stripes[0].rows) == (3, STRIPE_ROWS)
    body = first.index_length + first.data_length
    assert content[3 : 3 + body] == source[first.offset : first.offset + body]
    table = orc.ORCFile(str(path)).read()
    expected = [(1, r) for r in range(2 * STRIPE_ROWS) if r != STRIPE_ROWS]
    expected += [(2, r) for r in range(10) if r != 5]
    keys = zip(table["originalTransaction"].to_pylist(), table["rowId"].to_pylist(), strict=True)
    assert list(keys) == expected
    values = [row["id"] for row in table["row"].to_pylist()]
    assert values == [(w << 20) + r for w, r in expected]
    ends = np.cumsum([stripe.rows for stripe in new.stripes]) - 1
    index = "".join(f"{expected[end][0]},{B0},{expected[end][1]};" for end in ends)
    assert new.user_metadata[KEY_INDEX] == index
    assert new.rows == len(expected)
    assert new.integer_range(7) == (min(values), max(values))
    assert new.integer_range(4) == (0, 2 * STRIPE_ROWS - 1)


def test_copied_stripes_are_copied_again_by_the_next_compaction(tmp_path: Path) -> None:
    put(tmp_path / BASE, 1, 2 * STRIPE_ROWS)
    for write_id in (2, 3):
        put(tmp_path / delta_file(write_id), write_id, 9)
        compact(tmp_path, COLUMNS, ids(write_id), major=True)
    copied = found(tmp_path, ids(3))
    assert copied == [("base_0000003/bucket_00000", n) for n in range(4)]
    assert orc.ORCFile(str(tmp_path / "base_0000003/bucket_00000")).read().num_rows == (
        2 * STRIPE_ROWS + 18
    )


def test_a_minor_compaction_copies_stripes(tmp_path: Path) -> None:
    for write_id in (1, 2):
        put(tmp_path / delta_file(write_id), write_id, 50)
    compact(tmp_path, COLUMNS, ids(2), major=False)
    tail = read_tail(FS, str(tmp_path / "delta_0000001_0000002/bucket_00000"))
    assert [stripe.rows for stripe in tail.stripes] == [50, 50]
    assert tail.user_metadata[KEY_INDEX] == f"1,{B0},49;2,{B0},49;"


def test_stripes_below_the_least_length_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 8 << 20)
    put(tmp_path / BASE, 1, 2 * STRIPE_ROWS)
    assert found(tmp_path, ids(1)) == []


def test_small_stripes_are_copied_until_one_file_would_have_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SMALL", 3)
    sizes = [
        put(tmp_path / delta_file(write_id), write_id, STRIPE_ROWS).stat().st_size
        for write_id in (1, 2, 3, 4)
    ]
    monkeypatch.setattr(module, "LEAST_BYTES", min(sizes) // 2)
    monkeypatch.setattr(module, "LARGE_BYTES", max(sizes) * 2)
    assert len(found(tmp_path, ids(3))) == 3
    assert found(tmp_path, ids(4)) == []
    compact(tmp_path, COLUMNS, ids(4), major=False)
    merged = read_tail(FS, str(tmp_path / "delta_0000001_0000004/bucket_00000"))
    assert [stripe.rows for stripe in merged.stripes] == [4 * STRIPE_ROWS]


def test_large_stripes_are_copied_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SMALL", 1)
    size = put(tmp_path / BASE, 1, 3 * STRIPE_ROWS).stat().st_size
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    monkeypatch.setattr(module, "LARGE_BYTES", size // 8)
    assert len(found(tmp_path, ids(1))) == 3


@pytest.mark.parametrize("lengths", [[], [1] * 10_000, [8 << 20] * 10_000, [300_000] * 256])
def test_few_or_large_stripes_do_not_raise_the_least_length(lengths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_BYTES", 256 << 10)
        assert module.least_length(lengths) == 256 << 10


def test_stripes_of_exactly_the_least_length_count_as_copied() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LEAST_BYTES", 256 << 10)
        assert module.least_length([256 << 10] * 257) == 512 << 10
        assert module.least_length([512 << 10] * 257) == 1 << 20


def test_a_short_last_stripe_does_not_prevent_copies_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / BASE, 1, 2 * STRIPE_ROWS + 1)
    lengths = [stripe.length for stripe in read_tail(FS, str(path)).stripes]
    assert lengths[2] < min(lengths[:2])
    monkeypatch.setattr(module, "LEAST_BYTES", min(lengths[:2]))
    assert found(tmp_path, ids(1)) == [(BASE, 0), (BASE, 1)]


def test_repeated_compactions_keep_the_number_of_small_stripes_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 256 << 10)
    stripes: list[int] = []
    decoded = 0
    for _ in range(2_000):
        stripes.append(300_000)
        least = module.least_length(stripes)
        merged = sum(length for length in stripes if length < least)
        full, rest = divmod(merged, 64 << 20)
        stripes = [s for s in stripes if s >= least] + [64 << 20] * full + [rest] * (rest > 0)
        decoded += merged
        assert sum(s < module.LARGE_BYTES for s in stripes) <= module.MOST_SMALL + 1
    assert decoded < 3 * 2_000 * 300_000


def test_a_stripe_with_a_deleted_row_is_not_copied(tmp_path: Path) -> None:
    put(tmp_path / BASE, 1, 3 * STRIPE_ROWS)
    last_of_first, first_of_last = (1, STRIPE_ROWS - 1), (1, 2 * STRIPE_ROWS)
    write_deletes(tmp_path / delta_file(2, "delete_delta"), COLUMNS, 2, last_of_first)
    assert found(tmp_path, ids(2)) == [(BASE, 1), (BASE, 2)]
    write_deletes(tmp_path / delta_file(3, "delete_delta"), COLUMNS, 3, first_of_last)
    assert found(tmp_path, ids(3)) == [(BASE, 1)]
    # Whose deletion was aborted, stays.
    assert found(tmp_path, ids(3, aborted="3")) == [(BASE, 1), (BASE, 2)]


def test_a_stripe_with_an_aborted_row_is_not_copied(tmp_path: Path) -> None:
    for write_id in (1, 2):
        put(tmp_path / delta_file(write_id), write_id, 50)
    compact(tmp_path, COLUMNS, ids(2), major=False)
    name = "delta_0000001_0000002/bucket_00000"
    assert found(tmp_path, ids(2)) == [(name, 0), (name, 1)]
    assert found(tmp_path, ids(2, aborted="2")) == [(name, 0)]


@pytest.mark.parametrize(
    "options",
    [
        WriterOptions(compression="snappy"),
        WriterOptions(row_index_stride=5000),
    ],
    ids=str,
)
def test_a_file_with_a_different_compression_or_row_index_stride_is_not_copied(
    tmp_path: Path, options: WriterOptions
) -> None:
    put(tmp_path / BASE, 1, STRIPE_ROWS, options=options)
    assert found(tmp_path, ids(1), options=options) == [(BASE, 0)]
    assert found(tmp_path, ids(1)) == []


@pytest.mark.parametrize(
    "columns",
    [
        (*COLUMNS, Column(name="added", type="int")),
        (Column(name="ID", type="bigint"), *COLUMNS[1:]),
        (Column(name="id", type="decimal(20,0)"), *COLUMNS[1:]),
    ],
    ids=["added", "spelled otherwise", "widened"],
)
def test_a_file_with_a_different_schema_is_not_copied(
    tmp_path: Path, columns: tuple[Column, ...]
) -> None:
    put(tmp_path / BASE, 1, STRIPE_ROWS)
    assert found(tmp_path, ids(1), columns) == []


def with_tail(path: Path, change: Callable[[pb.Footer, pb.PostScript, pb.Metadata], None]) -> None:
    """Say something else at the end of a file."""
    rewrite_tail(path, lambda tail: change(tail.footer, tail.postscript, tail.metadata))


def set_to(message: int, name: str, value: Any) -> Callable[..., None]:  # noqa: ANN401
    return lambda *messages: setattr(messages[message], name, value)


@pytest.mark.parametrize(
    ("change", "is_copied"),
    [
        (set_to(0, "calendar", 1), False),
        (set_to(0, "calendar", 0), False),
        (set_to(0, "writer", 2), False),
        (set_to(1, "writer_version", 5), False),
        (set_to(0, "writer", 0), False),
        (
            lambda *said: (set_to(0, "writer", 0)(*said), set_to(1, "writer_version", 9)(*said)),
            True,
        ),
        (lambda _footer, post, _: post.version.__setitem__(1, 11), False),
        (lambda _footer, _post, metadata: metadata.ClearField("stripes"), False),
        (lambda _footer, _post, metadata: metadata.stripes[0].columns.pop(), False),
    ],
    ids=["julian", "unknown", "trino", "old", "java", "java 14", "version", "none", "short"],
)
def test_only_files_of_compatible_writers_and_calendars_are_copied(
    tmp_path: Path, change: Callable[..., None], *, is_copied: bool
) -> None:
    with_tail(put(tmp_path / BASE, 1, STRIPE_ROWS), change)
    assert found(tmp_path, ids(1)) == ([(BASE, 0)] if is_copied else [])


def test_a_stripe_with_a_different_writer_time_zone_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / BASE, 1, STRIPE_ROWS)
    real = module.stripe_content
    monkeypatch.setattr(
        module,
        "stripe_content",
        lambda *place: dataclasses.replace(real(*place), writer_time_zone="Europe/Berlin"),
    )
    assert found(tmp_path, ids(1)) == []


def as_ours(footer: pb.Footer, _postscript: pb.PostScript, _metadata: pb.Metadata) -> None:
    """Say what our writer says."""
    footer.calendar = OrcCalendar.PROLEPTIC_GREGORIAN
    del footer.types[:]
    footer.types.extend(acid_types(PLAIN))


@pytest.mark.parametrize("rows_per_check", [1, 64])
@pytest.mark.parametrize(
    "odd",
    [
        insert(1, 7, 7, bucket=B1),
        insert(1, 7, 7, current=2),
        insert(1, 6, 7),
        insert(1, 7, 7, bucket=-5),
    ],
    ids=["another bucket's", "another write's", "twice", "nobody's"],
)
def test_a_stripe_with_an_unexpected_row_identity_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: Event, rows_per_check: int
) -> None:
    monkeypatch.setattr(module, "_ROWS_PER_CHECK", rows_per_check)
    for write_id, events in ((1, [insert(1, 6, 6), odd]), (3, [insert(3, 0, 0), insert(3, 1, 1)])):
        path = tmp_path / f"delta_000000{write_id}_000000{write_id}/bucket_00000"
        with_tail(write_acid(path, sorted(events, key=lambda one: one[:4])), as_ours)
    only = "delta_0000003_0000003/bucket_00000"
    assert found(tmp_path, ids(3), columns=PLAIN) == [(only, 0)]


def test_a_stripe_with_unknown_streams_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / BASE, 1, STRIPE_ROWS)

    def refuse(*_place: object) -> None:
        raise UnsupportedFileError(path="f", reason="it has streams of the kind 12")

    monkeypatch.setattr(module, "stripe_content", refuse)
    assert found(tmp_path, ids(1)) == []


def test_a_stripe_is_not_copied_if_a_small_file_may_have_rows_of_the_same_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = put(tmp_path / BASE, 1, STRIPE_ROWS).stat().st_size
    path = put(tmp_path / delta_file(2), 2, 9)
    monkeypatch.setattr(module, "LEAST_BYTES", large // 2)
    state = resolve(list_table(str(tmp_path)), ids(2), None)
    ((base, small),) = (bucket.inserts for bucket in bucket_files(state, ids(2)))
    other = put(tmp_path / "other/bucket_00000", 1, 9, first_row=STRIPE_ROWS - 5)
    length = other.stat().st_size
    same_write = dataclasses.replace(small, path=str(other), length=length)

    def copied(file: AcidFile = small, **bounds: int | None) -> int:
        files = [base, dataclasses.replace(file, **bounds)]
        return len(
            whole_stripes(files, (), ids(2), bucket_id=BucketId(0), columns=COLUMNS, options=SMALL)
        )

    assert copied() == 1
    assert copied(least_write_id=1) == 0
    assert copied(least_write_id=0, greatest_write_id=1) == 0
    assert copied(least_write_id=0, greatest_write_id=0) == 1
    # Without an upper limit, the statistics of the file decide.
    assert copied(least_write_id=0, greatest_write_id=None) == 1
    assert copied(same_write, least_write_id=0, greatest_write_id=None) == 0
    with_tail(path, lambda _footer, _postscript, metadata: metadata.ClearField("stripes"))
    unknown = dataclasses.replace(small, length=path.stat().st_size)
    assert copied(unknown, least_write_id=0, greatest_write_id=None) == 0


@pytest.mark.parametrize(("first_row", "copied"), [(1, 0), (STRIPE_ROWS + 1, 0), (MAX >> 1, 1)])
def test_a_file_that_cannot_be_copied_covers_the_ranges_of_all_its_stripes(
    tmp_path: Path, first_row: int, copied: int
) -> None:
    other = WriterOptions(stripe_size_bytes=1, row_index_stride=5000)
    put(tmp_path / "a/bucket_00000", 1, 2 * STRIPE_ROWS, options=other)
    put(tmp_path / "b/bucket_00000", 1, STRIPE_ROWS - 2, first_row=first_row)
    files = [acid_file(tmp_path / key) for key in ("a/bucket_00000", "b/bucket_00000")]
    found = whole_stripes(files, (), ids(1), bucket_id=BucketId(0), columns=COLUMNS, options=SMALL)
    assert len(found) == copied


def test_a_large_file_of_small_stripes_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = put(tmp_path / BASE, 1, 2 * STRIPE_ROWS).stat().st_size
    monkeypatch.setattr(module, "LEAST_BYTES", size * 2 // 3)
    assert found(tmp_path, ids(1)) == []


def test_a_copied_stripe_keeps_its_own_statistics(tmp_path: Path) -> None:
    put(tmp_path / BASE, 1, STRIPE_ROWS + 2)
    gone = [(1, STRIPE_ROWS), (1, STRIPE_ROWS + 1)]
    write_deletes(tmp_path / delta_file(2, "delete_delta"), COLUMNS, 2, *gone)
    compact(tmp_path, COLUMNS, ids(2), major=True)
    tail = read_tail(FS, str(tmp_path / "base_0000002/bucket_00000"))
    assert tail.integer_range(4) == (0, STRIPE_ROWS - 1)
    assert tail.statistics(0).values == tail.rows == STRIPE_ROWS


def test_the_file_declares_the_largest_compression_block_size_of_its_stripes(
    tmp_path: Path,
) -> None:
    wide = WriterOptions(stripe_size_bytes=1, compression_block_bytes=256 << 10)
    put(tmp_path / delta_file(1), 1, 9, options=SMALL)
    put(tmp_path / delta_file(2), 2, STRIPE_ROWS, options=wide)
    compact(tmp_path, COLUMNS, ids(2), major=True)
    path = str(tmp_path / "base_0000002/bucket_00000")
    assert read_tail(FS, path).compression_block_bytes == 256 << 10
    assert orc.ORCFile(path).read().num_rows == STRIPE_ROWS + 9


def test_a_writer_refuses_stripes_in_wrong_order(tmp_path: Path) -> None:
    put(tmp_path / BASE, 1, 2 * STRIPE_ROWS)
    state = resolve(list_table(str(tmp_path)), ids(1), None)
    (bucket,) = bucket_files(state, ids(1))
    first, second = whole_stripes(
        bucket.inserts, (), ids(1), bucket_id=BucketId(0), columns=COLUMNS, options=SMALL
    )
    path = str(tmp_path / "bucket_00000")
    with AcidFileWriter(FS, path, COLUMNS, SMALL, is_delete=False) as writer:
        writer.copy(second)
        with pytest.raises(CorruptFileError, match="do not rise"):
            writer.copy(first)
    with AcidFileWriter(FS, path, COLUMNS, SMALL, is_delete=False) as writer:
        writer.copy(first)
        writer.copy(second)
        written = writer.close()
    assert (written.first_key, written.last_key) == (first.first, second.last)
    assert (written.rows, written.stripes) == (2 * STRIPE_ROWS, 2)
    assert without([first], bucket.inserts) == {BASE: (1,)}
    assert without([first, second], bucket.inserts) == {}


def test_stripes_with_overlapping_row_ids_are_not_copied(tmp_path: Path) -> None:
    # As if two writers had numbered the rows of one bucket: their stretches meet.
    put(tmp_path / delta_file(1), 1, 100)
    put(tmp_path / "delta_0000001_0000001_0001/bucket_00000", 1, 100, first_row=99)
    assert found(tmp_path, ids(1)) == []
    put(tmp_path / "delta_0000001_0000001_0001/bucket_00000", 1, 100, first_row=100)
    assert len(found(tmp_path, ids(1))) == 2


def test_stripes_within_the_row_id_range_of_a_longer_stripe_are_not_copied(tmp_path: Path) -> None:
    put(tmp_path / delta_file(1), 1, 100)
    put(tmp_path / "delta_0000001_0000001_0001/bucket_00000", 1, 10, first_row=10)
    put(tmp_path / "delta_0000001_0000001_0002/bucket_00000", 1, 10, first_row=50)
    assert found(tmp_path, ids(1)) == []


def test_a_stripe_is_not_copied_if_a_stripe_below_the_least_length_has_rows_in_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (f"delta_0000001_0000001_000{n}/bucket_00000" for n in (0, 1))
    one = put(tmp_path / first, 1, STRIPE_ROWS + 10)
    other = put(tmp_path / second, 1, STRIPE_ROWS, first_row=STRIPE_ROWS + 5)
    large, small = (stripe.length for stripe in read_tail(FS, str(one)).stripes)
    (also,) = (stripe.length for stripe in read_tail(FS, str(other)).stripes)
    monkeypatch.setattr(module, "LEAST_BYTES", min(large, also))
    assert small < min(large, also)
    assert found(tmp_path, ids(1)) == [(first, 0)]
    put(other, 1, STRIPE_ROWS, first_row=STRIPE_ROWS + 10)
    assert found(tmp_path, ids(1)) == [(first, 0), (second, 0)]


def test_batches_are_split_where_a_copied_stripe_belongs() -> None:
    def at(first: int, last: int) -> Any:  # noqa: ANN401
        key = lambda row: (1, B0, row)  # noqa: E731
        return WholeStripe(
            file=None, tail=None, number=0, content=None, first=key(first), last=key(last)
        )  # type: ignore[arg-type]

    whole = [at(0, 4), at(10, 19), at(20, 29), at(50, 59)]
    events = insert_events(rows(0, 100), WriteId(1), BucketProperty(B0), RowId(0))
    inserts = iter([events.slice(5, 5), events.slice(30, 10), events.slice(40, 10)])

    def parted(batches: Iterator[pa.RecordBatch], around: list[WholeStripe]) -> list[object]:
        return [
            part if isinstance(part, WholeStripe) else part["rowId"].to_pylist()
            for part in between(batches, around)
        ]

    parts = parted(inserts, whole)
    five, ten = list(range(5, 10)), list(range(30, 40))
    assert parts == [whole[0], five, whole[1], whole[2], ten, list(range(40, 50)), whole[3]]
    both = iter([pa.concat_batches([events.slice(5, 5), events.slice(30, 5)])])
    assert parted(both, whole[1:3]) == [five, whole[1], whole[2], ten[:5]]
