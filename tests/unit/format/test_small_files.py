from __future__ import annotations

import pytest

from airflow_hiveacid.format.directories import COMBINED_FILE_BYTES, FileEntry, combined, mergeable
from airflow_hiveacid.format.table import TransactionalKind

_SMALL, _LARGE = 9, 10


def _mergeable(files: dict[str, int], kind: TransactionalKind) -> int:
    entries = [FileEntry(path=path, size_bytes=size) for path, size in files.items()]
    return mergeable(entries, kind, small_file_bytes=_LARGE)


@pytest.mark.parametrize(
    ("files", "number"),
    [
        ({}, 0),
        ({"base_1/bucket_00000": _SMALL}, 0),
        ({"base_1/bucket_00000": _LARGE, "delta_2_2/bucket_00000": _LARGE}, 0),
        ({"base_1/bucket_00000": _LARGE, "delta_2_2/bucket_00000": _SMALL}, 1),
        ({"base_1/bucket_00000": _SMALL, "delta_2_2/bucket_00000": _SMALL}, 1),
        ({"base_1/bucket_00000": _LARGE, "delta_2_2/bucket_00001": _SMALL}, 0),
        ({"000000_0": _SMALL, "000000_0_copy_1": _SMALL, "000001_0": _SMALL}, 1),
        ({"base_1/strange": _SMALL, "base_1/stranger": _SMALL}, 0),
    ],
)
def test_a_full_acid_compaction_merges_the_files_of_each_bucket(
    files: dict[str, int], number: int
) -> None:
    assert _mergeable(files, TransactionalKind.FULL_ACID) == number


def test_files_that_a_compaction_has_written_are_not_merged_again() -> None:
    files = {f"base_1/bucket_{bucket:05d}": _SMALL for bucket in range(500)}
    assert _mergeable(files, TransactionalKind.FULL_ACID) == 0
    # A large file whose rows go to one file, and a small file that fits into no other.
    sizes = [COMBINED_FILE_BYTES * 2 - _SMALL, _SMALL] * 100
    plain = {f"base_1/{number:06d}_0": size for number, size in enumerate(sizes)}
    assert sorted(set(combined(sizes))) == combined(sizes)
    assert _mergeable(plain, TransactionalKind.INSERT_ONLY) == 0


def test_an_insert_only_compaction_merges_consecutive_files_of_any_name() -> None:
    files = {f"delta_{w}_{w}/part-{w}": _SMALL for w in range(1, 6)}
    assert _mergeable(files, TransactionalKind.INSERT_ONLY) == 4
    large = {"base_1/000000_0": COMBINED_FILE_BYTES}
    assert _mergeable(large | files, TransactionalKind.INSERT_ONLY) == 4
