"""The parts of a large bucket: their ranges, and that they make the file that one task would."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, WriteId
from airflow_hiveacid.format.names import BaseName
from airflow_hiveacid.format.snapshot import CompactorWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.identity import EVERY_KEY, LONG_MIN, Key, KeyRange
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind, KeyBounds, end_keys
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.write import whole_stripes
from airflow_hiveacid.storage.acid.write.bucket_merge import (
    BucketCompaction,
    SplitCompaction,
    compact_bucket,
    compact_part,
    split_compaction,
    stripes_to_copy,
)
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.staging import Staging
from tests.unit.storage.compacting import compact
from tests.unit.storage.orc_tables import (
    B0,
    acid_file,
    delta_file,
    ids,
    rewrite_tail,
    write_deletes,
)
from tests.unit.storage.writing import write_events

FS: Final = LocalFileSystem()
COLUMNS: Final = (Column(name="id", type="bigint"), Column(name="noise", type="string"))
STRIPE_ROWS: Final = 4096
MAX: Final = 9223372036854775807
SMALL: Final = WriterOptions(stripe_size_bytes=1)
BASE: Final = "base_0000001/bucket_00000"


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_stripes, "LEAST_BYTES", 1)


def put(path: Path, write_id: int, count: int) -> None:
    """A file of insert events with a stripe for each `STRIPE_ROWS` rows."""
    ids = pa.array(np.arange(write_id << 20, (write_id << 20) + count))
    noise = pa.array([hashlib.sha256(f"{n}".encode()).hexdigest() for n in range(count)])
    rows = pa.record_batch({"id": ids, "noise": noise})
    events = insert_events(rows, WriteId(write_id), BucketProperty(B0), RowId(0))
    write_events(path, COLUMNS, events, options=SMALL)


def compaction(
    root: Path, high: int, inserts: Sequence[AcidFile], deletes: Sequence[AcidFile] = ()
) -> BucketCompaction:
    return BucketCompaction(
        table=TableRef("default", "t"),
        columns=COLUMNS,
        bucket_id=BucketId(0),
        inserts=tuple(inserts),
        deletes=tuple(deletes),
        write_ids=CompactorWriteIdList.of(ids(high)),
        outputs=(BaseName(write_id=WriteId(high)),),
        staging=Staging(location=str(root), token="t"),
        options=SMALL,
    )


def split(root: Path, high: int, part_bytes: int) -> SplitCompaction:
    """The major compaction of a directory's bucket in parts."""
    write_ids = CompactorWriteIdList.of(ids(high))
    (bucket,) = bucket_files(resolve(list_table(str(root)), write_ids, None), write_ids)
    found = split_compaction(compaction(root, high, bucket.inserts, bucket.deletes), part_bytes)
    assert found is not None
    return found


def table(root: Path, file: str) -> pa.Table:
    return orc.ORCFile(str(root / file)).read()


def bodies(path: Path) -> set[bytes]:
    """The bytes of each stripe without its footer."""
    content = path.read_bytes()
    return {
        content[s.offset : s.offset + s.index_length + s.data_length]
        for s in read_tail(FS, str(path)).stripes
    }


def a_table(root: Path) -> None:
    """A base of four stripes, three deltas, and deletes in the second stripe and a delta."""
    put(root / BASE, 1, 4 * STRIPE_ROWS)
    for write_id in (2, 3, 4):
        put(root / delta_file(write_id), write_id, STRIPE_ROWS + 10)
    gone = [(1, STRIPE_ROWS + 7), (1, 2 * STRIPE_ROWS - 1), (3, 5)]
    write_deletes(root / delta_file(5, "delete_delta"), COLUMNS, 5, *gone)


@pytest.mark.parametrize("forgets", [False, True], ids=["statistics", "none"])
@pytest.mark.parametrize("part_bytes", [1, 30_000, 60_000])
@pytest.mark.long_cases("60000-*")
def test_the_parts_of_a_bucket_make_the_rows_that_one_task_makes(
    tmp_path: Path, part_bytes: int, *, forgets: bool
) -> None:
    a_table(tmp_path / "whole")
    if forgets:
        rewrite_tail(tmp_path / "whole" / BASE, lambda tail: tail.metadata.ClearField("stripes"))
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    compact(tmp_path / "whole", COLUMNS, ids(5), major=True)
    compact(tmp_path / "parts", COLUMNS, ids(5), major=True, part_bytes=part_bytes)
    result = "base_0000005/bucket_00000"
    expected = table(tmp_path / "whole", result)
    assert table(tmp_path / "parts", result).equals(expected)
    assert expected.num_rows == 4 * STRIPE_ROWS + 3 * (STRIPE_ROWS + 10) - 3


def test_the_parts_decode_only_stripes_that_change_and_the_others_are_copied(
    tmp_path: Path,
) -> None:
    a_table(tmp_path)
    large = split(tmp_path, 5, 1)
    done = [compact_part(part, f"{number}") for number, part in enumerate(large.parts)]
    written = [part.file.rows for part in done if part.file is not None]
    assert sorted(written) == [STRIPE_ROWS - 2, STRIPE_ROWS - 1]
    assert sum(len(found) for part in done for found in part.whole.values()) == 8
    before = bodies(tmp_path / BASE)
    compact(tmp_path, COLUMNS, ids(5), major=True, part_bytes=1)
    after = bodies(tmp_path / "base_0000005/bucket_00000")
    assert len(before & after) == 3


def test_a_stripe_between_two_stripes_that_change_is_copied_into_the_joined_file(
    tmp_path: Path,
) -> None:
    put(tmp_path / BASE, 1, 4 * STRIPE_ROWS)
    gone = [(1, 5), (1, 2 * STRIPE_ROWS + 5)]
    write_deletes(tmp_path / delta_file(2, "delete_delta"), COLUMNS, 2, *gone)
    stripes = read_tail(FS, str(tmp_path / BASE)).stripes
    part_bytes = sum(stripe.length for stripe in stripes[:3])
    assert len(split(tmp_path, 2, part_bytes).parts) == 2
    before = bodies(tmp_path / BASE)
    compact(tmp_path, COLUMNS, ids(2), major=True, part_bytes=part_bytes)
    assert len(before & bodies(tmp_path / "base_0000002/bucket_00000")) == 2


def test_the_limit_of_small_stripes_holds_for_the_whole_bucket_and_not_for_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_stripes, "MOST_SMALL", 3)
    put(tmp_path / BASE, 1, 4 * STRIPE_ROWS)
    large = split(tmp_path, 1, 1)
    assert len(large.parts) == 4
    assert not any(compact_part(part, f"{n}").whole for n, part in enumerate(large.parts))


@pytest.mark.parametrize("more", [-1, 1])
def test_a_compaction_fails_if_its_parts_have_read_too_few_or_too_many_rows(
    tmp_path: Path, more: int
) -> None:
    a_table(tmp_path)
    large = split(tmp_path, 5, 1)
    first, *others = [compact_part(part, f"{number}") for number, part in enumerate(large.parts)]
    with pytest.raises(CorruptFileError, match="statistics are wrong in at least one file"):
        large.rest([replace(first, rows_read=first.rows_read + more), *others])


def test_every_identity_is_in_one_part_and_parts_have_about_the_requested_size(
    tmp_path: Path,
) -> None:
    a_table(tmp_path)
    lengths = [s.length for s in read_tail(FS, str(tmp_path / BASE)).stripes]
    parts = split(tmp_path, 5, 2 * max(lengths)).parts
    ends = [part.keys.up_to for part in parts]
    assert [part.keys.after for part in parts] == [None, *ends[:-1]]
    assert ends[-1] is None
    assert ends[:-1] == sorted(end for end in ends if end is not None)
    # Seven stripes of this length, and three short ones.
    assert len(parts) in {3, 4}


def test_a_part_reads_only_the_stripes_of_its_range(tmp_path: Path) -> None:
    a_table(tmp_path)
    parts = split(tmp_path, 5, 1).parts
    assert parts[0].stripes == {BASE: (0,)}
    assert [file.key for file in parts[-1].inserts] == ["delta_0000004_0000004_0000/bucket_00000"]


def test_wrong_statistics_fail_the_compaction_before_rows_are_lost(tmp_path: Path) -> None:
    a_table(tmp_path)

    def shorten(tail: OrcTail) -> None:
        row_ids = tail.metadata.stripes[3].columns[4].integers
        row_ids.maximum = row_ids.minimum

    rewrite_tail(tmp_path / BASE, shorten)
    with pytest.raises(CorruptFileError, match="statistics are wrong in at least one file"):
        compact(tmp_path, COLUMNS, ids(5), major=True, part_bytes=1)
    assert not (tmp_path / "base_0000005").exists()


@pytest.mark.parametrize(
    ("after", "up_to", "expected"),
    [
        (None, None, [0, 1, 2, 3]),
        ((1, B0, 1), None, [2, 3]),
        (None, (1, B0, 1), [0, 1]),
        ((1, B0, 0), (1, B0, 2), [1, 2]),
        ((1, B0, 3), None, []),
        ((0, B0, 9), (2, B0, 0), [0, 1, 2, 3]),
    ],
)
def test_a_range_excludes_its_lower_limit_and_includes_its_upper_limit(
    after: Key | None, up_to: Key | None, expected: list[int]
) -> None:
    rows = pa.record_batch({"id": pa.array(range(4), pa.int64())})
    events = insert_events(rows, WriteId(1), BucketProperty(B0), RowId(0))
    found = KeyRange(after=after, up_to=up_to).cut(events)
    assert found.column("rowId").to_pylist() == expected


def test_parts_that_must_be_decoded_again_are_read_one_after_the_other(
    tmp_path: Path,
) -> None:
    a_table(tmp_path)
    large = split(tmp_path, 5, 1)
    done = [compact_part(part, f"{number}") for number, part in enumerate(large.parts)]
    (joined,) = large.rest(done)
    parts = [file for file in joined.inserts if file.keys != EVERY_KEY]
    for file in parts:  # as if it had text with NUL, so that it has no bounds
        rewrite_tail(Path(file.path), lambda tail: setattr(tail.footer, "row_index_stride", 0))
    joined = replace(
        joined,
        inserts=tuple(
            replace(file, length=Path(file.path).stat().st_size) if file in parts else file
            for file in joined.inserts
        ),
    )
    assert [(file.keys.after, file.keys.up_to) for file in parts] == [
        (part.keys.after, part.keys.up_to)
        for part, one in zip(large.parts, done, strict=True)
        if one.file is not None
    ]
    assert [file.least_key for file in parts] == [file.keys.after for file in parts]
    # Only the stripe that ends at the lower limit of such a file cannot be copied.
    assert len(stripes_to_copy(joined)) == 6
    (file,) = compact_bucket(joined, "joined")
    assert file.rows == 4 * STRIPE_ROWS + 3 * (STRIPE_ROWS + 10) - 3


def test_a_join_that_cannot_copy_reads_only_the_stripes_that_the_parts_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_table(tmp_path)
    large = split(tmp_path, 5, 1)
    done = [compact_part(part, f"{number}") for number, part in enumerate(large.parts)]
    (joined,) = large.rest(done)
    assert joined.deletes == ()  # the parts have applied them
    monkeypatch.setattr(whole_stripes, "LEAST_BYTES", 1 << 30)
    assert not stripes_to_copy(joined)
    (file,) = compact_bucket(joined, "joined")
    assert file.rows == 4 * STRIPE_ROWS + 3 * (STRIPE_ROWS + 10) - 3


def test_the_limits_of_parts_ascend_if_stripes_have_nested_ranges(tmp_path: Path) -> None:
    wide = insert_events(pa.record_batch({"id": [1]}), WriteId(1), BucketProperty(B0), RowId(0))
    last = insert_events(pa.record_batch({"id": [9]}), WriteId(9), BucketProperty(B0), RowId(0))
    path = tmp_path / "delta_0000001_0000009/bucket_00000"
    write_events(path, COLUMNS[:1], wide, last, options=SMALL)
    for write_id in (2, 3):
        put(tmp_path / f"delta_{write_id:07d}_{write_id:07d}/bucket_00000", write_id, 10)
    files = [acid_file(file) for file in sorted(tmp_path.glob("delta_*/bucket_00000"))]
    found = split_compaction(compaction(tmp_path, 9, files), 1)
    assert found is not None
    assert [part.keys.up_to for part in found.parts] == [(2, B0, 9), (3, B0, 9), None]
    assert [len(part.inserts) for part in found.parts] == [2, 2, 1]


def test_the_ends_of_a_stripe_are_those_of_each_column_or_any_value_of_its_file() -> None:
    known: KeyBounds = ((4, 5), (1, 2), (8, 9))
    file = AcidFile(
        store="file://",
        path="/f",
        key="f",
        length=1,
        kind=FileKind.DATA,
        bucket_id=BucketId(0),
        least_write_id=WriteId(3),
        greatest_write_id=WriteId(7),
    )
    assert list(end_keys(file, [known, (None, None, None), (None, (1, 2), None)])) == [
        ((4, 1, 8), (5, 2, 9)),
        ((3, LONG_MIN, LONG_MIN), (7, MAX, MAX)),
        ((3, 1, LONG_MIN), (7, 2, MAX)),
    ]
    assert list(end_keys(replace(file, greatest_write_id=None), [(None, *known[1:])])) == [
        ((3, 1, 8), (MAX, 2, 9))
    ]
