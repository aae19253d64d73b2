"""A job's entry is believed only where its write is committed, and is never lost silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import CorruptFileError, StorageError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.storage import ledger
from airflow_hiveacid.storage.filesystem import list_table
from airflow_hiveacid.storage.ledger import LedgerEntry
from unit.storage.orc_tables import ids

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = pafs.LocalFileSystem()


def entry(write_id: int, *, key: str = "dag/run/task", recorded_s: float = 100.0) -> LedgerEntry:
    return LedgerEntry(
        job_key=key,
        table="db.t",
        write_id=WriteId(write_id),
        result=f'{{"rows": {write_id}}}',
        recorded_s=recorded_s,
    )


def put(root: Path, directory: str, *entries: LedgerEntry) -> None:
    (root / directory).mkdir(exist_ok=True)
    ledger.write(LOCAL, str(root / directory), entries)


def found(
    root: Path, *, key: str = "dag/run/task", txns: str | None = None, **lists: str
) -> object:
    return ledger.find(
        [list_table(str(root))],
        job_key=key,
        write_ids=ids(9, **lists),
        txns=None if txns is None else ValidTxnList.parse(txns),
    )


def test_a_committed_entry_is_found_by_its_job_key(tmp_path: Path) -> None:
    put(tmp_path, "delta_0000003_0000003_0000", entry(3), entry(3, key="other"))
    assert found(tmp_path) == entry(3)
    assert found(tmp_path, key="other") == entry(3, key="other")
    assert found(tmp_path, key="dag/run") is None


@pytest.mark.promise("T13")
def test_an_entry_of_an_open_or_aborted_write_is_not_believed(tmp_path: Path) -> None:
    put(tmp_path, "delta_0000003_0000003_0000", entry(3))
    assert found(tmp_path, opened="3") is None
    assert found(tmp_path, aborted="3") is None
    assert found(tmp_path, aborted="4") == entry(3)


def test_an_entry_counts_only_within_the_range_of_its_directory(tmp_path: Path) -> None:
    put(tmp_path, "delta_0000004_0000005", entry(3))
    put(tmp_path, "base_0000002", entry(3))
    assert found(tmp_path) is None
    put(tmp_path, "base_0000005", entry(3))
    assert found(tmp_path) == entry(3)


def test_an_entry_in_an_uncommitted_compaction_is_not_believed(tmp_path: Path) -> None:
    put(tmp_path, "base_0000005_v0000017", entry(3))
    assert found(tmp_path, txns="20:17:17:") is None
    assert found(tmp_path, txns="20:9223372036854775807::17") is None
    assert found(tmp_path, txns="20:9223372036854775807::") == entry(3)


def test_an_entry_survives_in_a_directory_that_another_compactor_covered(tmp_path: Path) -> None:
    put(tmp_path, "delta_0000003_0000003_0000", entry(3))
    (tmp_path / "base_0000005").mkdir()
    assert found(tmp_path) == entry(3)


def test_a_file_of_that_name_elsewhere_is_no_ledger(tmp_path: Path) -> None:
    put(tmp_path, "_tmp_hiveacid_x", entry(3))
    put(tmp_path, "part", entry(3))
    ledger.write(LOCAL, str(tmp_path), [entry(3)])
    assert found(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b'{"version": 2, "entries": []}', b'{"version": 1, "entries": [{}]}'],
)
def test_an_unreadable_ledger_is_an_error_since_the_work_may_be_done(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / "base_0000001").mkdir()
    (tmp_path / "base_0000001" / "_hiveacid.json").write_bytes(text)
    with pytest.raises(CorruptFileError, match=r"_hiveacid\.json"):
        found(tmp_path)


def test_a_ledger_that_vanished_since_the_listing_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, "base_0000001", entry(1))
    listing = list_table(str(tmp_path))
    (tmp_path / "base_0000001" / "_hiveacid.json").unlink()
    with pytest.raises(StorageError, match="vanished"):
        ledger.find([listing], job_key="x", write_ids=ids(9), txns=None)


def test_compaction_carries_entries_forward_for_the_retention_time(tmp_path: Path) -> None:
    put(tmp_path, "base_0000002", entry(1, recorded_s=10), entry(2, recorded_s=90))
    put(tmp_path, "delta_0000003_0000003_0000", entry(3, key="a"), entry(3, key="b"))
    put(tmp_path, "delete_delta_0000003_0000003_0000", entry(3, key="a"), entry(3, key="b"))
    put(tmp_path, "delta_0000004_0000004_0000", entry(4))
    inputs = ["base_0000002", "delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0000"]
    carried = ledger.carried_forward(list_table(str(tmp_path)), inputs, newer_than_s=50)
    assert carried == (entry(2, recorded_s=90), entry(3, key="a"), entry(3, key="b"))
    put(tmp_path, "base_0000003", *carried)
    assert found(tmp_path, key="b") == entry(3, key="b")


def test_a_result_is_kept_as_the_text_it_was(tmp_path: Path) -> None:
    odd = LedgerEntry(
        job_key='k"\n', table="db.t", write_id=WriteId(1), result="ä\u2028\x00", recorded_s=0.5
    )
    put(tmp_path, "base_0000001", odd)
    assert found(tmp_path, key='k"\n') == odd
