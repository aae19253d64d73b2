"""What must not lie in the tables after they were compacted and cleaned."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.jobs.results import JobResult, JobStatus
from tests.proofs.campaign.errands import litter, proves, stored_rows


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


def test_the_proofs_look_for_earlier_versions_of_rows_and_count_the_kept_ones() -> None:
    row = "concat_ws('|', id, v, job)"
    assert stored_rows([(1, 5, "a", 1), (2, 6, "b", 2)]) == {
        f"{row} NOT IN ('1|5|a', '2|6|b')": 0,
        f"{row} IN ('1|5|a', '2|6|b')": 2,
    }
    assert stored_rows([]) == {"true": 0}


@pytest.mark.parametrize(
    ("proved", "rows", "stored", "expected"),
    [
        (True, 0, 0, True),
        (False, 0, 0, False),  # a file could not be read
        (False, 1, 0, False),
        (False, 2, 2, True),
        (False, 1, 2, False),
        (False, 3, 2, False),
        (True, 2, 2, False),
    ],
)
def test_a_proof_must_find_exactly_the_stored_rows(
    proved: bool, rows: int, stored: int, expected: bool
) -> None:
    result = JobResult(
        kind="prove_erasure",
        job_key="campaign/tidy-up/9",
        status=JobStatus.NOTHING_TO_DO,
        table="db.bucketed",
        details={"erasure": {"proved": proved, "rows": rows}},
    )
    assert proves(result, stored) is expected
