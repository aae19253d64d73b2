"""Which files a reader opens, of which bucket, as what, and how much of each."""

from __future__ import annotations

import dataclasses
import io
import os
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.errors import (
    CorruptFileError,
    DanglingDeleteError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import BucketId, encode
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.buckets import BucketFiles, bucket_files, buckets_of
from airflow_hiveacid.storage.acid.read.files import RootFiles, footer_facts
from airflow_hiveacid.storage.acid.read.reader import read_identity
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.counting import Asked, CountingHandler, File, counting
from tests.unit.storage.orc_tables import (
    B0,
    B1,
    event,
    ids,
    insert,
    keys_in,
    tombstone,
    write_acid,
    write_plain,
)

LOCAL = pafs.LocalFileSystem()
B2 = encode(BucketId(2))
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def state(root: Path, high: int = 9, **lists: str) -> AcidState:
    return resolve(list_table(str(root)), ids(high, **lists), None)


def buckets(root: Path, high: int = 9, **lists: str) -> dict[int, BucketFiles]:
    return {b.bucket_id: b for b in bucket_files(state(root, high, **lists), ids(high, **lists))}


def keys(files: tuple[AcidFile, ...]) -> list[str]:
    return [file.key for file in files]


# ---- by bucket -----------------------------------------------------------------------------------


@pytest.mark.promise("R14", "R2")
def test_each_bucket_has_its_own_files_and_no_others(tmp_path: Path) -> None:
    write_acid(tmp_path / "base_2/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "base_2/bucket_00001", [insert(1, 0, 2, bucket=B1)])
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delta_3_3_0/bucket_00001_0", [insert(3, 0, 3, bucket=B1)])
    write_acid(tmp_path / "delete_delta_4_4_0/bucket_00001", [tombstone(1, 0, 4, B1)])
    found = buckets(tmp_path)
    assert list(found) == [0, 1]
    assert keys(found[0].inserts) == ["base_2/bucket_00000"]
    assert found[0].deletes == ()
    assert keys(found[1].base_inserts) == ["base_2/bucket_00001"]
    assert keys(found[1].delta_inserts) == ["delta_3_3_0/bucket_00001_0"]
    assert keys(found[1].deletes) == ["delete_delta_4_4_0/bucket_00001"]


def test_only_insert_deltas_set_a_lowest_write_id_for_their_rows(tmp_path: Path) -> None:
    write_acid(tmp_path / "base_2/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delta_3_5/bucket_00000", [insert(4, 0, 1)])
    write_acid(tmp_path / "delete_delta_3_5/bucket_00000", [tombstone(1, 0, 4)])
    found = state(tmp_path)
    assert [f.least_write_id for f in RootFiles.of(found).first_files()] == [0]
    assert [f.least_write_id for f in RootFiles.of(found).delta_files()] == [3]
    assert [f.least_write_id for f in RootFiles.of(found).delete_files()] == [0]


def test_a_delete_file_with_events_of_two_buckets_is_listed_for_both_buckets(
    tmp_path: Path,
) -> None:
    for bucket, name in ((B0, "bucket_00000"), (B1, "bucket_00001")):
        write_acid(tmp_path / f"delta_1_1_0/{name}", [insert(1, 0, 1, bucket=bucket)])
    both = [tombstone(1, 0, 2), tombstone(1, 0, 2, B1)]
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", both)
    found = buckets(tmp_path)
    assert keys(found[0].deletes) == ["delete_delta_2_2_0/bucket_00000"]
    assert keys(found[1].deletes) == ["delete_delta_2_2_0/bucket_00000"]


def test_a_delete_file_is_read_only_with_files_whose_rows_it_can_delete(tmp_path: Path) -> None:
    write_acid(tmp_path / "base_2/bucket_00000", [insert(1, 0, 1), insert(2, 0, 2)])
    for write_id in (3, 4, 5):
        write_acid(
            tmp_path / f"delta_{write_id}_{write_id}_0/bucket_00000", [insert(write_id, 0, 1)]
        )
    write_acid(
        tmp_path / "delete_delta_6_6_0/bucket_00000", [tombstone(2, 0, 6), tombstone(3, 0, 6)]
    )
    write_acid(tmp_path / "delete_delta_7_7_0/bucket_00000", [tombstone(5, 0, 7)])
    # Two stripes: without statistics of the file.
    write_acid(
        tmp_path / "delete_delta_8_8_0/bucket_00000", [tombstone(1, 0, 8)], [tombstone(4, 0, 8)]
    )
    bucket = buckets(tmp_path)[0]
    found = {
        file.key.partition("/")[0]: [key[13] for key in keys(bucket.deletes_of(file))]
        for file in bucket.inserts
    }
    assert found == {
        "base_2": ["6", "7", "8"],
        "delta_3_3_0": ["6", "8"],
        "delta_4_4_0": ["8"],
        "delta_5_5_0": ["7", "8"],
    }


def test_a_row_with_a_write_id_above_the_range_of_its_delta_is_refused(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_3_3_0/bucket_00000", [insert(4, 0, 1)])
    (file,) = buckets(tmp_path)[0].inserts
    with pytest.raises(UnsupportedFileError, match="above 3"):
        list(read_identity(file))


def test_a_delete_file_without_statistics_is_listed_for_every_bucket(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delta_1_1_0/bucket_00001", [insert(1, 0, 2, bucket=B1)])
    # Two stripes: without statistics of the file.
    events = [tombstone(1, 0, 2)], [tombstone(1, 0, 2, B1)]
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", *events)
    assert {b: keys(f.deletes) for b, f in buckets(tmp_path).items()} == {
        0: ["delete_delta_2_2_0/bucket_00000"],
        1: ["delete_delta_2_2_0/bucket_00000"],
    }


def test_a_delete_file_with_both_bucket_codecs_is_listed_for_every_bucket(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delta_1_1_0/bucket_00003", [insert(1, 0, 2, bucket=3)])
    events = [tombstone(1, 0, 2, 3), tombstone(1, 0, 2, B0)]
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00005", events)
    found = buckets(tmp_path)
    assert [keys(found[b].deletes) for b in (0, 3)] == [["delete_delta_2_2_0/bucket_00005"]] * 2


def test_a_bucket_property_of_codec_version_0_is_decoded(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00003", [insert(1, 0, 1, bucket=3)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00003", [tombstone(1, 0, 2, 3)])
    assert keys(buckets(tmp_path)[3].deletes) == ["delete_delta_2_2_0/bucket_00003"]


def test_a_footer_is_read_again_even_if_size_and_time_of_its_file_are_unchanged(
    tmp_path: Path,
) -> None:
    for bucket in (1, 2):
        write_acid(tmp_path / f"delta_1_1_0/bucket_0000{bucket}", [insert(1, 0, 1, bucket=bucket)])
    file = tmp_path / "delete_delta_2_2_0/bucket_00005"
    found, sizes = [], set()
    for bucket in (1, 2):
        write_acid(file, [tombstone(1, 0, 2, bucket)])
        os.utime(file, (1, 1))
        sizes.add(file.stat().st_size)
        found.append({b for b, f in buckets(tmp_path).items() if f.deletes and b < 5})
    assert len(sizes) == 1
    assert found == [{1}, {2}]


def test_a_bucket_number_that_is_too_large_leaves_the_buckets_of_a_file_unknown(
    tmp_path: Path,
) -> None:
    events = [tombstone(1, 0, 2, 3), tombstone(1, 0, 2, 3_000_000)]
    file = write_acid(tmp_path / "delete_delta_2_2_0/bucket_00003", events)
    found = footer_facts(LOCAL, str(file), file.stat().st_size)
    assert found.buckets is None


def test_the_rows_of_a_base_file_with_an_unusual_name_identify_its_bucket(tmp_path: Path) -> None:
    write_acid(tmp_path / "base_2/odd.orc", [insert(1, 0, 1, bucket=B1)])
    assert keys(buckets(tmp_path)[1].inserts) == ["base_2/odd.orc"]
    write_acid(tmp_path / "base_3/odd.orc", [insert(1, 0, 1), insert(1, 0, 1, bucket=B1)])
    with pytest.raises(UnsupportedFileError, match="identify one bucket"):
        bucket_files(state(tmp_path))


# ---- delete events without rows ------------------------------------------------------------------


@pytest.fixture
def table_without_bucket_1(tmp_path: Path) -> Path:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00001", [tombstone(1, 0, 2, B1)])
    return tmp_path


def test_delete_events_for_a_missing_bucket_raise_an_error(
    table_without_bucket_1: Path,
) -> None:
    with pytest.raises(DanglingDeleteError, match="bucket 1") as caught:
        buckets(table_without_bucket_1)
    assert caught.value.path.endswith("delete_delta_2_2_0/bucket_00001")
    with pytest.raises(DanglingDeleteError):
        bucket_files(state(table_without_bucket_1))


def test_delete_events_do_not_dangle_if_they_or_their_rows_are_invisible(
    table_without_bucket_1: Path,
) -> None:
    assert keys(buckets(table_without_bucket_1, opened="2")[0].deletes) == []
    assert 1 in buckets(table_without_bucket_1, aborted="1")


def test_delete_events_for_rows_within_their_own_write_id_range_do_not_dangle(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "delta_1_3/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "delete_delta_1_3/bucket_00001", [tombstone(2, 0, 2, B1)])
    assert list(buckets(tmp_path)) == [0, 1]


@pytest.mark.parametrize(
    ("base", "row", "is_borne"),
    [
        ("base_0000002_v0000009", 1, True),  # the compaction took the row
        ("base_0000002_v0000009", 2, True),
        ("base_0000002_v0000009", 3, False),  # a delta's row: no compaction has read it
        ("base_0000002", 1, True),  # the overwrite took the row
        ("base_0000002", 2, False),  # a row of the overwrite itself
    ],
)
def test_a_repeated_delete_is_only_a_warning_if_the_base_has_already_removed_the_row(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, base: str, row: int, *, is_borne: bool
) -> None:
    write_acid(tmp_path / base / "bucket_00000", [insert(2, 0, 2)])
    write_acid(tmp_path / "delta_3_3_0/bucket_00000", [insert(3, 0, 3)])
    events = [tombstone(row, 0, 4, B1)]
    write_acid(tmp_path / "delete_delta_4_4_0/bucket_00001", events)
    if not is_borne:
        with pytest.raises(DanglingDeleteError, match="bucket 1"):
            buckets(tmp_path)
        return
    found = buckets(tmp_path)
    assert keys(found[0].inserts) == [f"{base}/bucket_00000", "delta_3_3_0/bucket_00000"]
    assert "delete events without rows" in caplog.text


def test_a_delete_of_a_missing_row_dangles_if_a_live_delta_covers_its_write_id(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "base_0000002_v0000009/bucket_00000", [insert(2, 0, 2)])
    write_acid(tmp_path / "delta_2_3/bucket_00000", [insert(3, 0, 3)])
    write_acid(tmp_path / "delete_delta_4_4_0/bucket_00001", [tombstone(2, 0, 4, B1)])
    with pytest.raises(DanglingDeleteError, match="bucket 1"):
        buckets(tmp_path)


# ---- files without ACID columns ------------------------------------------------------------------


@pytest.mark.promise("D7")
def test_row_ids_continue_over_the_original_files_of_a_bucket_in_path_order(
    tmp_path: Path,
) -> None:
    for name in (
        "000000_0",
        "000000_0_copy_1",
        "000000_0_copy_10",
        "000000_0_copy_2",
        "HIVE_UNION_SUBDIR_1/000000_0",
        "000001_0",
    ):
        write_plain(tmp_path / name, ROWS)
    (tmp_path / "000001_0_copy_1").write_bytes(b"")
    found = buckets(tmp_path)
    assert [(f.key, keys_in(f)[0]) for f in found[0].inserts] == [
        ("000000_0", (0, B0, 0)),
        ("000000_0_copy_1", (0, B0, 2)),
        ("000000_0_copy_10", (0, B0, 4)),
        ("000000_0_copy_2", (0, B0, 6)),
        ("HIVE_UNION_SUBDIR_1/000000_0", (0, B0, 8)),
    ]
    assert [keys_in(f) for f in found[1].inserts] == [[(0, B1, 0), (0, B1, 1)]]


def test_loaded_files_take_write_id_and_statement_id_from_their_directory(tmp_path: Path) -> None:
    write_plain(tmp_path / "delta_3_3_2/000000_0", ROWS)
    write_plain(tmp_path / "delta_3_3_2/000000_0_copy_1", ROWS)
    write_plain(tmp_path / "base_2/000001_0", ROWS)
    found = buckets(tmp_path)
    assert [keys_in(f) for f in found[0].inserts] == [
        [(3, B0 + 2, 0), (3, B0 + 2, 1)],
        [(3, B0 + 2, 2), (3, B0 + 2, 3)],
    ]
    assert [keys_in(f) for f in found[1].inserts] == [[(2, B1, 0), (2, B1, 1)]]
    assert {f.kind for b in found.values() for f in b.inserts} == {FileKind.ORIGINAL}


def test_a_file_without_acid_columns_in_a_compacted_directory_is_corrupt(tmp_path: Path) -> None:
    write_plain(tmp_path / "delta_3_4/000000_0", ROWS)
    with pytest.raises(CorruptFileError, match="compactor"):
        bucket_files(state(tmp_path))


def test_an_original_file_with_an_unknown_name_is_refused(tmp_path: Path) -> None:
    write_plain(tmp_path / "part-00000.orc", ROWS)
    with pytest.raises(UnsupportedFileError, match="000000_0"):
        bucket_files(state(tmp_path))


def test_the_location_of_a_partitioned_table_is_refused(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "p=x/delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    with pytest.raises(UnsupportedFileError, match="one partition"):
        bucket_files(state(tmp_path))


def test_acid_files_outside_base_and_delta_are_corrupt(tmp_path: Path) -> None:
    write_acid(tmp_path / "000000_0", [insert(1, 0, 1)])
    with pytest.raises(CorruptFileError, match="outside"):
        bucket_files(state(tmp_path))


def test_a_bucket_file_that_is_not_orc_is_corrupt(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    (tmp_path / "delete_delta_2_2_0").mkdir()
    (tmp_path / "delete_delta_2_2_0" / "bucket_00000").write_text("no ORC file")
    with pytest.raises(CorruptFileError):
        bucket_files(state(tmp_path))


# ---- streaming -----------------------------------------------------------------------------------


def lengths(path: Path, *values: int, rest: bytes = b"") -> None:
    path.write_bytes(b"".join(struct.pack(">q", v) for v in values) + rest)


@pytest.fixture
def side(tmp_path: Path) -> Path:
    """The side file, not yet there, of a file of 5000 bytes."""
    (tmp_path / "delta_1_10").mkdir()
    (tmp_path / "delta_1_10" / "bucket_00000").write_bytes(b"x" * 5000)
    return tmp_path / "delta_1_10" / "bucket_00000_flush_length"


@pytest.mark.promise("F9")
@pytest.mark.parametrize(
    ("values", "rest", "expected"),
    [
        ((0, 1200, 3100), b"", [3100]),
        ((0, 1200, 3100), b"\x00\x00\x01", [3100]),
        ((0, 1200), b"", [1200]),
        ((5000,), b"", [5000]),
        ((0,), b"", []),  # the file is skipped
    ],
)
def test_the_last_complete_length_in_the_side_file_is_used(
    tmp_path: Path, side: Path, values: tuple[int, ...], rest: bytes, expected: list[int]
) -> None:
    lengths(side, *values, rest=rest)
    assert [f.length for f in RootFiles.of(state(tmp_path)).delta_files()] == expected


def test_without_a_side_file_the_whole_length_of_a_file_is_used(tmp_path: Path, side: Path) -> None:
    lengths(side.with_name("bucket_00001_flush_length"), 1)
    assert [f.length for f in RootFiles.of(state(tmp_path)).delta_files()] == [5000]


@pytest.mark.parametrize(
    ("values", "rest"), [((), b""), ((), b"123"), ((-1,), b""), ((4000, -1), b"")]
)
def test_an_invalid_side_file_is_reported_as_corrupt(
    tmp_path: Path, side: Path, values: tuple[int, ...], rest: bytes
) -> None:
    lengths(side, *values, rest=rest)
    with pytest.raises(CorruptFileError):
        RootFiles.of(state(tmp_path)).delta_files()


def test_a_file_may_grow_between_the_listing_and_the_read_of_its_side_file(
    tmp_path: Path, side: Path
) -> None:
    lengths(side, 5000)
    listed = state(tmp_path)
    (tmp_path / "delta_1_10" / "bucket_00000").write_bytes(b"x" * 6000)
    lengths(side, 5000, 6000)
    assert [f.length for f in RootFiles.of(listed).delta_files()] == [6000]


def test_a_committed_length_beyond_the_end_of_the_file_is_reported_when_it_is_read(
    tmp_path: Path,
) -> None:
    path = write_acid(tmp_path / "delta_1_10/bucket_00000", [insert(1, 0, 1)])
    side = tmp_path / "delta_1_10" / "bucket_00000_flush_length"
    lengths(side, path.stat().st_size + 1)
    (file,) = RootFiles.of(state(tmp_path)).delta_files()
    with pytest.raises(CorruptFileError, match="ends before byte"):
        keys_in(file)


class OpenFile(File):
    """A file as HDFS shows it while a writer is at it: its size is that of the closed blocks."""

    def __init__(self, path: str, closed_bytes: int) -> None:
        super().__init__(LOCAL.open_input_file(path), Asked())
        self._closed_bytes = closed_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            return super().seek(self._closed_bytes + offset)
        return super().seek(offset, whence)


@pytest.mark.promise("F9")
@pytest.mark.parametrize("closed_bytes", [0, 700])
def test_flushed_rows_are_read_even_if_the_listing_shows_a_smaller_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_bytes: int
) -> None:
    path = write_acid(
        tmp_path / "delta_1_10/bucket_00000", [insert(1, i, 10 + i) for i in range(3)]
    )
    lengths(tmp_path / "delta_1_10" / "bucket_00000_flush_length", 3, path.stat().st_size)
    listed = list_table(str(tmp_path))
    stale = tuple(
        dataclasses.replace(f, size_bytes=closed_bytes) if f.name == "bucket_00000" else f
        for f in listed.files
    )
    listing = dataclasses.replace(listed, files=stale)
    with path.open("ab") as file:
        file.write(b"half a stripe of what comes next")

    class Handler(CountingHandler):
        def open_input_file(self, path: str) -> pa.PythonFile:
            return pa.PythonFile(OpenFile(path, closed_bytes), mode="r")

    fs = pafs.PyFileSystem(Handler(Asked()))
    monkeypatch.setattr(locations, "_local", lambda: fs)
    found = resolve(listing, ids(9), None)
    assert not found.unknown
    (bucket,) = bucket_files(found, ids(9))
    assert [n for f in bucket.inserts for n in keys_in(f)] == [(1, B0, i) for i in range(3)]


def test_an_empty_delete_file_for_a_bucket_without_rows_does_not_dangle(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [event(1, 0, {"id": 1, "name": "x"})])
    write_acid(tmp_path / "delete_delta_1_1_0/bucket_00007")
    assert list(buckets(tmp_path)) == [0, 7]


def test_a_plan_of_many_partitions_reads_each_needed_footer_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = []
    for name in ("p=1", "p=2", "p=3"):
        write_acid(tmp_path / name / "delta_3_3_0/bucket_00000", [event(3, 0, ROWS[0])])
        for file in ("000000_0", "000000_0_copy_1", "delta_4_4_0/000000_0"):
            write_plain(tmp_path / name / file, ROWS)
            wanted.append(str(tmp_path / name / file))
        write_acid(tmp_path / name / "delete_delta_5_5_0/bucket_00000", [tombstone(3, 0, 5)])
        wanted.append(str(tmp_path / name / "delete_delta_5_5_0/bucket_00000"))
    alone = [tuple(bucket_files(state(path), ids(9))) for path in sorted(tmp_path.iterdir())]
    fs, asked = counting()
    monkeypatch.setattr(locations, "_local", lambda: fs)
    found = buckets_of([state(path) for path in sorted(tmp_path.iterdir())], ids(9))
    assert sorted(asked.opened) == sorted(wanted)
    places = [
        [(f.key, f.synthetic, f.least_write_id) for b in one for f in b.inserts] for one in found
    ]
    assert places == [
        [(f.key, f.synthetic, f.least_write_id) for b in one for f in b.inserts] for one in alone
    ]
    assert [len(b.deletes) for one in found for b in one] == [1, 1, 1]


@pytest.mark.promise("R2")
def test_a_plan_opens_data_files_only_if_delete_events_of_other_buckets_may_affect_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only their footers show whether they have rows of these buckets (HIVE-23763)."""
    rows = [insert(1, 0, 1), insert(1, 1, 2, bucket=B1)]
    for name in ("no deletes", "of its bucket", "of its bucket and empty", "of an earlier write"):
        write_acid(tmp_path / name / "delta_1_1_0/bucket_00000", rows[:1])
        if "its" in name:
            write_acid(tmp_path / name / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 0, 2)])
    write_acid(tmp_path / "of its bucket and empty/delete_delta_2_2_0/bucket_00001")
    write_acid(tmp_path / "of an earlier write/delta_1_1_0/bucket_00001", rows[1:])
    write_acid(tmp_path / "of an earlier write/delta_3_3_0/bucket_00000", [insert(3, 0, 3)])
    events = [tombstone(1, 1, 2, B1)]
    write_acid(tmp_path / "of an earlier write/delete_delta_2_2_0/bucket_00001", events)
    for name in ("p=1", "p=2"):
        write_acid(tmp_path / name / "delta_1_2/bucket_00000", rows)
        write_acid(tmp_path / name / "delta_3_3_0/bucket_00001", [insert(3, 0, 3, bucket=B1)])
        write_acid(tmp_path / name / "delete_delta_3_3_0/bucket_00001", events)
    fs, asked = counting()
    monkeypatch.setattr(locations, "_local", lambda: fs)
    found = buckets_of([state(path) for path in sorted(tmp_path.iterdir())], ids(9))
    opened = sorted(
        str(Path(path).relative_to(tmp_path)) for path in asked.opened if "/delta_" in path
    )
    assert opened == [
        "of an earlier write/delta_1_1_0/bucket_00000",
        "p=1/delta_1_2/bucket_00000",
        "p=2/delta_1_2/bucket_00000",
    ]
    assert [len(b.deletes_of(file)) for b in found[-1] for file in b.inserts] == [1, 0]


@pytest.mark.promise("R1", "R2")
def test_a_data_file_without_statistics_gets_only_the_delete_files_of_its_rows(
    tmp_path: Path,
) -> None:
    """As a file of ours with a NUL character in a string, or of Hive without a row index."""
    for number, invalid in enumerate((B0, -5)):
        rows = [[insert(1, n, n, bucket=bucket)] for n, bucket in enumerate((B0, B1))]
        base = tmp_path / str(number) / "base_1"
        write_acid(base / "bucket_00000", [insert(1, 0, 0, bucket=invalid)], rows[1])
        write_acid(base / "bucket_00001", rows[1])
        for write_id, bucket in enumerate((0, 1, 2, 2), start=2):
            write_acid(
                tmp_path / f"{number}/delete_delta_{write_id}_{write_id}_0/bucket_0000{bucket}",
                [tombstone(1, 1, write_id, encode(BucketId(bucket)))],
            )
        write_acid(base / "bucket_00002", [insert(1, 1, 1, bucket=B2)])
    found = [buckets(tmp_path / number) for number in "01"]
    assert [[len(b[i].deletes_of(b[i].inserts[0])) for i in range(3)] for b in found] == [
        [2, 1, 2],
        [4, 1, 2],  # any event may be for a row whose bucket is unknown
    ]


def test_files_with_the_same_path_on_two_stores_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host, write_id in (("one", 3), ("two", 4)):
        rows = [event(write_id, 0, ROWS[0])]
        write_acid(tmp_path / host / f"t/delta_{write_id}_{write_id}_0/bucket_00000", rows)
        deleted = [tombstone(write_id, 0, 5)]
        write_acid(tmp_path / host / "t/delete_delta_5_5_0/bucket_00000", deleted)
    stores = {h: pafs.SubTreeFileSystem(str(tmp_path / h), LOCAL) for h in ("one", "two")}
    monkeypatch.setattr(locations, "_hadoop", lambda _, host, *__: stores[host])
    states = [resolve(list_table(f"hdfs://{host}/t"), ids(9), None) for host in stores]
    found = [d.least_write_id for one in buckets_of(states, ids(9)) for b in one for d in b.deletes]
    assert found == [3, 4]
