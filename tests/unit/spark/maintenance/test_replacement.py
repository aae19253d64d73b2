"""What a compaction removes before it publishes, and what it removes after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.ids import BucketId, TxnId
from airflow_hiveacid.format.names import METADATA_FILE, bucket_file
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.compaction import CompactionPlan, plan_compaction
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import Replacement, StagedDirectory, StagedFile, assemble

MAX: Final = 9223372036854775807
WRITE_IDS: Final = CompactorWriteIdList.of(ValidWriteIdList.parse(f"d.t:3:{MAX}::"))
OWN: Final = TxnId(15)
TXNS: Final = ValidTxnList(high_watermark=OWN, open=(OWN,), aborted=(TxnId(12),))
"""Ours is open; 12 was a compactor's that died."""


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir()
        (root / name / "bucket_00000").write_text("rows")


def there(root: Path) -> set[str]:
    return {p.name for p in root.iterdir() if not p.name.startswith("_")}


def look(root: Path) -> AcidState:
    return resolve(list_table(f"file:{root}"), WRITE_IDS, TXNS)


def staged(root: Path, plan: CompactionPlan) -> tuple[StagedDirectory, ...]:
    staging = Staging(location=f"file:{root}", token="15-a")
    files = []
    for name in plan.outputs(None if plan.is_major and not plan.hides else OWN):
        path = staging.attempt_path(name, bucket_file(BucketId(0)), "a0").removeprefix("file:")
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text("rows")
        files.append(
            StagedFile(
                partition=PartitionName(),
                directory=str(name),
                bucket=BucketId(0),
                attempt="a0",
                rows=1,
                updated=0,
                size_bytes=4,
            )
        )
    return assemble(files, {PartitionName(): staging}, is_compacted=plan.is_major)


def replacement(root: Path, choice: CompactionChoice) -> Replacement:
    """The staged result of a compaction of what is there."""
    plan = plan_compaction(look(root), choice, CompactionPolicy(), can_hide_until_commit=True)
    assert isinstance(plan, CompactionPlan)
    return Replacement(plan=plan, directories=staged(root, plan), look=lambda: look(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def singles(low: int, high: int) -> list[str]:
    return [f"delta_{w:07d}_{w:07d}_0000" for w in range(low, high + 1)]


def test_only_the_result_of_a_dead_compactor_with_the_same_range_is_removed(
    root: Path,
) -> None:
    put(root, *singles(1, 3), "delta_0000001_0000003_v0000012", "delta_0000001_0000002_v0000012")
    replacement(root, CompactionChoice.MINOR).remove_dead_siblings()
    assert there(root) == {*singles(1, 3), "delta_0000001_0000002_v0000012"}


def test_the_result_of_a_later_compactor_with_the_same_range_is_kept(root: Path) -> None:
    put(root, *singles(1, 3))
    found = replacement(root, CompactionChoice.MINOR)
    put(root, "delta_0000001_0000003_v0000016")
    found.remove_dead_siblings()
    assert there(root) == {*singles(1, 3), "delta_0000001_0000003_v0000016"}


@pytest.mark.parametrize(
    ("choice", "published", "beside", "is_kept"),
    [
        (CompactionChoice.MINOR, "delta_0000001_0000003_v0000015", [], False),
        (CompactionChoice.MAJOR, "base_0000003", [], True),
        # The base would double the rows of a wider delta.
        (CompactionChoice.MAJOR, "base_0000003", ["delta_0000001_0000005"], False),
    ],
)
def test_the_result_of_a_failed_transaction_is_removed_unless_it_is_a_base_that_doubles_no_row(
    root: Path, choice: CompactionChoice, published: str, beside: list[str], *, is_kept: bool
) -> None:
    put(root, *singles(1, 3))
    found = replacement(root, choice)
    put(root, *beside)
    found.publish()
    assert there(root) == {*singles(1, 3), *beside, published}
    found.take_back()
    assert there(root) == {*singles(1, 3), *beside, *([published] if is_kept else [])}


def test_a_published_base_is_kept_if_the_deltas_that_it_replaces_are_gone(root: Path) -> None:
    put(root, *singles(1, 3))
    found = replacement(root, CompactionChoice.MAJOR)
    for name in singles(1, 2):
        (root / name).rename(root / f"_{name}")
    put(root, "delta_0000003_0000005")
    found.publish()
    found.take_back()
    assert "base_0000003" in there(root)


@pytest.mark.parametrize(
    ("choice", "directory"),
    [
        (CompactionChoice.MAJOR, "base_0000003"),
        (CompactionChoice.MINOR, "delta_0000001_0000003_v0000015"),
    ],
)
def test_a_compacted_base_is_marked_as_compacted_and_a_compacted_delta_is_not(
    root: Path, choice: CompactionChoice, directory: str
) -> None:
    put(root, *singles(1, 3))
    replacement(root, choice).publish()
    is_marked = (root / directory / METADATA_FILE).exists()
    assert is_marked is (choice is CompactionChoice.MAJOR)
