"""One bucket's compaction: which delete events it takes, and where they end up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedFileError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.files import RootFiles
from airflow_hiveacid.storage.stores.listing import list_table
from tests.unit.storage.compacting import compact
from tests.unit.storage.orc_tables import (
    B0,
    B1,
    COLUMNS,
    Event,
    event,
    ids,
    insert,
    keys_in,
    tombstone,
    with_tail,
    write_acid,
)


def identities(files: Iterable[AcidFile]) -> dict[str, list[tuple[int, int, int]]]:
    """The identities of the events of each file."""
    return {file.key: keys_in(file) for file in files}


def test_a_minor_compaction_drops_a_row_that_its_own_write_deleted(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(3)])
    write_acid(tmp_path / "delete_delta_1_1_1/bucket_00000", [tombstone(1, 1, 1)])
    write_acid(tmp_path / "delete_delta_2_2_0/bucket_00000", [tombstone(1, 2, 2)])
    assert sorted(compact(tmp_path, COLUMNS, ids(2), major=False)) == [
        "delete_delta_0000001_0000002",
        "delta_0000001_0000002",
    ]
    state = resolve(list_table(str(tmp_path)), ids(2), None)
    assert identities(RootFiles.of(state).delta_files()) == {
        "delta_0000001_0000002/bucket_00000": [(1, B0, 0), (1, B0, 2)]
    }
    assert identities(RootFiles.of(state).delete_files()) == {
        "delete_delta_0000001_0000002/bucket_00000": [(1, B0, 2)]
    }


def test_a_minor_compaction_moves_each_delete_event_to_the_bucket_of_its_row(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, i, i) for i in range(2)])
    write_acid(
        tmp_path / "delta_1_1_0/bucket_00001", [insert(1, i, i, bucket=B1) for i in range(2)]
    )
    # As a minor compaction of Hive 3.1 leaves them: every file holds the events of all buckets.
    everyones = [tombstone(1, 0, 2), tombstone(1, 1, 2, B1)]
    for bucket in (0, 1):
        write_acid(tmp_path / f"delete_delta_2_2/bucket_0000{bucket}", everyones)
    compact(tmp_path, COLUMNS, ids(2), major=False)
    state = resolve(list_table(str(tmp_path)), ids(2), None)
    assert identities(RootFiles.of(state).delete_files()) == {
        "delete_delta_0000001_0000002/bucket_00000": [(1, B0, 0)],
        "delete_delta_0000001_0000002/bucket_00001": [(1, B1, 1)],
    }


MIXED = "delta_1_2_v9/bucket_00000"


@pytest.mark.parametrize("major", [False, True])
@pytest.mark.parametrize("part_bytes", [None, 1])
def test_a_compaction_moves_each_row_to_a_file_of_its_bucket(
    tmp_path: Path, *, major: bool, part_bytes: int | None
) -> None:
    """Some compactions of Hive 4 wrote rows of several buckets into one file (HIVE-23763)."""
    rows = [
        insert(1, 0, 1),
        insert(1, 1, 2, bucket=B1),
        insert(2, 0, 3),
        insert(2, 0, 4, bucket=B1),
    ]
    write_acid(tmp_path / MIXED, rows[:2], rows[2:])
    write_acid(tmp_path / "delta_3_3_0/bucket_00000", [insert(3, 0, 5)])
    write_acid(tmp_path / "delete_delta_4_4_0/bucket_00001", [tombstone(2, 0, 4, B1)])
    (output, *_) = sorted(
        compact(tmp_path, COLUMNS, ids(4), major=major, part_bytes=part_bytes), key=len
    )
    state = resolve(list_table(str(tmp_path)), ids(4), None)
    files = RootFiles.of(state)
    assert identities(files.first_files() if major else files.delta_files()) == {
        f"{output}/bucket_00000": [(1, B0, 0), (2, B0, 0), (3, B0, 0)],
        f"{output}/bucket_00001": [(1, B1, 1)] if major else [(1, B1, 1), (2, B1, 0)],
    }
    assert identities(files.delete_files()) == (
        {} if major else {"delete_delta_0000001_0000004/bucket_00001": [(2, B1, 0)]}
    )


def test_a_delete_event_for_a_row_in_a_file_of_another_bucket_is_not_dangling(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / MIXED, [insert(1, 0, 1), insert(1, 1, 2, bucket=B1)])
    write_acid(tmp_path / "delete_delta_3_3_0/bucket_00001", [tombstone(1, 1, 3, B1)])
    found = bucket_files(resolve(list_table(str(tmp_path)), ids(3), None), ids(3))
    assert [(one.bucket_id, len(one.inserts), len(one.deletes)) for one in found] == [
        (0, 1, 1),
        (1, 0, 1),
    ]


@pytest.mark.parametrize("major", [False, True])
@pytest.mark.parametrize(
    ("files", "named", "what"),
    [
        (
            {MIXED: [insert(1, 0, 1), insert(1, 0, 2)]},
            [MIXED],
            "two rows have the same row ID",
        ),
        (
            {MIXED: [insert(1, 0, 1)], "delta_1_2_v9/bucket_00000_1": [insert(1, 0, 1)]},
            [MIXED, "delta_1_2_v9/bucket_00000_1"],
            "two rows have the same row ID",
        ),
        ({MIXED: [insert(2, 0, 1), insert(1, 0, 2)]}, [MIXED], "order of row IDs"),
        ({MIXED: [insert(7, 0, 1)]}, [MIXED], "write ID above 2"),
        ({MIXED: [insert(1, 0, 1, current=2)]}, [MIXED], "another current write ID"),
        ({MIXED: [insert(1, 0, 1, bucket=-5)]}, [MIXED], "'-5' is not a valid bucket property"),
    ],
)
def test_a_file_that_cannot_be_compacted_is_named_with_the_way_out(
    tmp_path: Path, files: dict[str, list[Event]], named: list[str], what: str, *, major: bool
) -> None:
    for path, events in files.items():
        write_acid(tmp_path / path, events)
    write_acid(tmp_path / "delta_3_3_0/bucket_00000", [insert(3, 0, 5)])
    with pytest.raises(UnsupportedFileError, match=f"{what}.*INSERT OVERWRITE") as caught:
        compact(tmp_path, COLUMNS, ids(9), major=major)
    assert all(f"{tmp_path}/{name}" in str(caught.value) for name in named)
    assert "_tmp_hiveacid" not in str(caught.value)


def test_a_value_that_cannot_be_written_again_is_refused_by_the_name_of_its_table(
    tmp_path: Path,
) -> None:
    write_acid(
        tmp_path / MIXED,
        [event(1, 0, {"at": "1969-12-31 23:59:59.5"})],
        row=pa.struct([("at", pa.string())]),
    )
    with pytest.raises(TypeMismatchError, match=r"^table default\.t: column 'at' is timestamp"):
        compact(tmp_path, [Column(name="at", type="timestamp")], ids(9), major=True)


@pytest.mark.parametrize("major", [False, True])
def test_a_row_of_a_bucket_that_statistics_deny_is_not_lost(tmp_path: Path, *, major: bool) -> None:
    path = write_acid(tmp_path / MIXED, [insert(1, 0, 1), insert(1, 0, 2, bucket=B1)])
    bucket = IDENTITY_COLUMN_IDS[1]
    with_tail(path, lambda footer, _: setattr(footer.statistics[bucket].integers, "maximum", B0))
    with pytest.raises(UnsupportedFileError, match="other buckets than its statistics say"):
        compact(tmp_path, COLUMNS, ids(9), major=major)
