"""What must not lie in the tables once they were compacted and cleaned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.proofs.campaign.errands import litter

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).mkdir(parents=True)


def test_one_directory_per_partition_and_the_ledger_are_not_litter(tmp_path: Path) -> None:
    make(tmp_path, "bucketed/base_0000009", "bucketed/_ledger")
    make(tmp_path, "parted/p=0/base_0000003", "parted/p=1/delta_0000001_0000001_0000")
    make(tmp_path, "parted/p=2")
    assert litter(str(tmp_path)) == []


def test_older_directories_and_temporary_directories_are_litter(tmp_path: Path) -> None:
    make(tmp_path, "bucketed/base_0000009", "bucketed/base_0000010", "bucketed/_tmp_7-1-a")
    make(tmp_path, "parted/_tmp_8-1-b", "parted/p=0/base_0000003", "parted/p=0/_tmp_9-1-c")
    make(tmp_path, "parted/p=0/delta_0000004_0000004_0000")
    assert sorted(litter(str(tmp_path))) == [
        "_tmp_8-1-b",
        "bucketed/_tmp_7-1-a",
        "bucketed/base_0000009",
        "p=0/_tmp_9-1-c",
        "p=0/base_0000003",
    ]
