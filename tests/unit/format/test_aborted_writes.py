from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AbortedWrites, resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidTxnList, ValidWriteIdList

MAX = 9223372036854775807


def _aborted(directories: dict[str, float | None], aborted: str) -> AbortedWrites:
    """The aborted writes among directories with the modification times of their one file."""
    files = tuple(
        FileEntry(path=f"{name}/bucket_00000", size_bytes=9, modified_s=at)
        for name, at in directories.items()
    )
    write_ids = CompactorWriteIdList.of(ValidWriteIdList.parse(f"d.t:200:{MAX}::{aborted}"))
    metadata = {name: "compacted" for name in directories if name.startswith("base_")}
    listing = Listing(location="/t", files=files, metadata=metadata)
    return resolve(listing, write_ids, ValidTxnList.parse(f"9:{MAX}::8")).aborted_writes


@pytest.mark.parametrize(
    ("directories", "aborted", "number"),
    [
        (["delta_0000001_0000100"], "3,50,99", 3),
        (["delta_0000001_0000100", "delete_delta_0000001_0000100"], "3,50,99", 3),
        (["delta_0000001_0000010", "delta_0000011_0000020"], "3,12,13", 3),
        (["delta_0000001_0000010", "delta_0000051_0000060"], "3,30,55,70", 2),
        (["base_0000010", "delta_0000011_0000020"], "3,12", 1),
        (["base_0000020", "delta_0000011_0000020"], "3,12", 0),
        (["delta_0000001_0000001", "delta_0000002_0000002", "delta_0000003_0000003"], "2", 1),
        (["delta_0000001_0000001", "delta_0000002_0000002"], "2", 0),
        (["delta_0000002_0000002", "delta_0000003_0000003"], "2,3", 0),
        (["delta_0000001_0000010_v0000007"], "3,4", 0),
        (["delta_0000001_0000001", "delta_0000001_0000009_v0000008"], "3,4", 0),
        (["delta_0000002_0000002_0000", "delta_0000002_0000002_0001", "delta_3_3"], "2", 1),
    ],
)
def test_only_aborted_writes_that_a_major_compaction_would_cover_count(
    directories: list[str], aborted: str, number: int
) -> None:
    found = _aborted(dict.fromkeys(directories), aborted)
    assert found == AbortedWrites(number=number, since_s=None)


def test_the_oldest_directory_of_an_aborted_write_dates_it() -> None:
    found = _aborted(
        {
            "delta_0000001_0000001": 10.0,  # committed
            "delta_0000002_0000002": 30.0,  # aborted
            "delta_0000003_0000009": 20.0,  # with an aborted write
            "delta_0000010_0000010": 40.0,
        },
        "2,5",
    )
    assert found == AbortedWrites(number=2, since_s=20.0)
