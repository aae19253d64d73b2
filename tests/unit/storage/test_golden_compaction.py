"""Every golden directory compacted, minor and major: no row changes, nor its identity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import NotEnoughHistoryError, UnsupportedTableError
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.write import whole_stripes
from tests.judges.golden import GoldenCase, cases
from tests.unit.storage.compacting import compact
from tests.unit.storage.test_golden import rows_at

GOLDEN = cases()
READABLE = [case for case in GOLDEN if "uniontype" not in case.schema]
WITH_UNIONS = [case for case in GOLDEN if "uniontype" in case.schema]


@pytest.fixture(autouse=True)
def _copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stripes of any size are copied, where they are ours; Hive's never are."""
    monkeypatch.setattr(whole_stripes, "LEAST_BYTES", 0)


def roots(case: GoldenCase, folder: Path) -> list[Path]:
    table = case.checkout(folder)
    if not case.partition_columns:
        return [table]
    return [table / partition.location for partition in case.partitions]


def compacted(
    case: GoldenCase, root: Path, *, major: bool, part_bytes: int | None = None
) -> tuple[str, ...]:
    return compact(
        root,
        [Column(name=name, type=text) for name, text in case.columns],
        ValidWriteIdList.parse(case.write_ids),
        ValidTxnList.parse(case.txns),
        major=major,
        part_bytes=part_bytes,
    )


def rows_or_none(case: GoldenCase, root: Path, write_ids: str) -> list[Any] | None:
    try:
        return rows_at(case, root, write_ids)
    except NotEnoughHistoryError:
        return None


def possible_readers(case: GoldenCase) -> list[str]:
    """Its other snapshots, but those in which a write was aborted that the compactor saw commit."""
    aborted = set(ValidWriteIdList.parse(case.write_ids).aborted)
    return [
        snapshot.write_ids
        for snapshot in case.snapshots
        if aborted.issuperset(ValidWriteIdList.parse(snapshot.write_ids).aborted)
    ]


@pytest.mark.promise("C3")
@pytest.mark.parametrize("part_bytes", [None, 1], ids=["whole", "in parts"])
@pytest.mark.parametrize("major", [False, True], ids=["minor", "major"])
@pytest.mark.parametrize("case", READABLE, ids=lambda case: case.id)
@pytest.mark.long_cases("*-minor-in parts", "3.1.3/*-major-in parts", "3.1.3/*-minor-whole")
def test_a_compaction_changes_no_row_that_hive_wrote(
    case: GoldenCase, tmp_path: Path, *, major: bool, part_bytes: int | None
) -> None:
    for root in roots(case, tmp_path):
        readers = possible_readers(case)
        before = [rows_or_none(case, root, reader) for reader in (case.write_ids, *readers)]
        published = compacted(case, root, major=major, part_bytes=part_bytes)
        after = [rows_or_none(case, root, reader) for reader in (case.write_ids, *readers)]
        assert after[0] == before[0], published
        for reader, rows, now in zip(readers, before[1:], after[1:], strict=True):
            # Behind a new base, one that is too old for it may be told so.
            assert now == rows or (major and now is None), reader


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.id)
@pytest.mark.long_cases("4.0.1/*")
def test_a_minor_and_then_a_major_compaction_change_no_row(
    case: GoldenCase, tmp_path: Path
) -> None:
    if case in WITH_UNIONS:
        for root in roots(case, tmp_path):
            with pytest.raises(UnsupportedTableError, match="uniontype"):
                compacted(case, root, major=True)
        return
    for root in roots(case, tmp_path):
        before = rows_at(case, root, case.write_ids)
        compacted(case, root, major=False)
        compacted(case, root, major=True)
        assert rows_at(case, root, case.write_ids) == before
        assert compacted(case, root, major=True) == ()
