"""What every directory is to a reader, with rows, bytes and the reason."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import LocationNotFoundError, NotEnoughHistoryError
from airflow_hiveacid.format.snapshot import ValidTxnList
from airflow_hiveacid.storage.acid.read.inspect import InspectedEntry, inspect
from tests.unit.storage.orc_tables import ids, insert, tombstone, write_acid, write_plain


def entries(root: Path, high: int = 9, **lists: str) -> dict[str, InspectedEntry]:
    txns = ValidTxnList.parse("20:17:17:18")
    return {e.name: e for e in inspect(str(root), ids(high, **lists), txns)}


@pytest.mark.promise("R16")
def test_inspect_reports_each_directory_with_its_state_and_the_reason(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "base_2/bucket_00000", [insert(1, 0, 1), insert(2, 0, 2)])
    write_acid(tmp_path / "base_2/bucket_00001")
    write_acid(tmp_path / "delta_3_3_7/bucket_00000_1", [insert(3, 0, 3)])
    write_acid(tmp_path / "delete_delta_4_4_0/bucket_00000", [tombstone(1, 0, 4)])
    write_acid(tmp_path / "delta_5_5_0/bucket_00000", [insert(5, 0, 5)])
    write_acid(tmp_path / "delta_6_6_0/bucket_00000", [insert(6, 0, 6)])
    write_acid(tmp_path / "base_4_v17/bucket_00000", [insert(1, 0, 1)])
    write_acid(tmp_path / "base_4_v18/bucket_00000", [insert(1, 0, 1)])
    found = entries(tmp_path, opened="6", aborted="5")
    told = [(e.name, e.type, e.state, e.files, e.rows, e.why) for e in found.values()]
    assert [t[:5] for t in told] == [
        ("base_2", "base", "live", 2, 2),
        ("base_4_v17", "base", "invisible", 1, 1),
        ("base_4_v18", "base", "aborted", 1, 1),
        ("delete_delta_4_4_0", "delete_delta", "live", 1, 1),
        ("delta_1_1_0", "delta", "obsolete", 1, 1),
        ("delta_3_3_7", "delta", "live", 1, 1),
        ("delta_5_5_0", "delta", "aborted", 1, 1),
        ("delta_6_6_0", "delta", "invisible", 1, 1),
    ]
    whys = {t[0]: t[5] for t in told}
    assert "base_2" in whys["delta_1_1_0"]
    assert "6 is open" in whys["delta_6_6_0"]
    assert "17" in whys["base_4_v17"]
    delta = found["delta_3_3_7"]
    assert (delta.least_write_id, delta.greatest_write_id, delta.statement_id) == (3, 3, 7)
    assert found["base_4_v17"].visibility_txn_id == 17
    assert found["base_2"].least_write_id is None
    size = (tmp_path / "delta_3_3_7" / "bucket_00000_1").stat().st_size
    assert delta.size_bytes == size


def test_inspect_reports_original_files_and_unknown_files_individually(tmp_path: Path) -> None:
    write_plain(tmp_path / "000000_0", [{"id": 1, "name": "x"}] * 3)
    (tmp_path / "000001_0").write_bytes(b"")
    (tmp_path / "delta_1_1_0").mkdir()
    (tmp_path / "delta_1_1_0" / "notes.txt").write_text("hello")
    found = entries(tmp_path)
    assert [(e.name, e.type, e.state, e.rows) for e in found.values()] == [
        ("000000_0", "original", "live", 3),
        ("000001_0", "other", "ignored", None),
        ("delta_1_1_0", "delta", "live", 0),
        ("delta_1_1_0/notes.txt", "other", "ignored", None),
    ]
    write_acid(tmp_path / "base_1/bucket_00000", [insert(0, 0, 1)])
    covered = entries(tmp_path)["000000_0"]
    assert (covered.state, covered.rows) == ("obsolete", 3)


def test_inspect_reports_files_below_a_partitioned_table_as_refused(tmp_path: Path) -> None:
    write_acid(tmp_path / "p=1/base_2/bucket_00000", [insert(1, 0, 1)])
    (entry,) = entries(tmp_path).values()
    assert (entry.name, entry.state) == ("p=1/base_2/bucket_00000", "refused")
    assert "give the location of one partition" in entry.why


def test_inspect_counts_only_the_committed_rows_of_a_streaming_file(tmp_path: Path) -> None:
    path = write_acid(tmp_path / "delta_1_4/bucket_00000", [insert(1, 0, 1)])
    length = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"open")
    path.with_name("bucket_00000_flush_length").write_bytes(struct.pack(">qq", 0, length))
    assert entries(tmp_path)["delta_1_4"].rows == 1


def test_inspect_reports_a_damaged_file_instead_of_raising_an_error(tmp_path: Path) -> None:
    write_acid(tmp_path / "delta_1_1_0/bucket_00000", [insert(1, 0, 1)])
    (tmp_path / "delta_1_1_0" / "bucket_00001").write_bytes(b"damaged beyond any footer")
    entry = entries(tmp_path)["delta_1_1_0"]
    assert (entry.state, entry.files, entry.rows) == ("live", 2, None)
    assert "bucket_00001 is damaged" in entry.why


def test_inspect_raises_an_error_for_a_snapshot_that_is_too_old_or_a_missing_location(
    tmp_path: Path,
) -> None:
    write_acid(tmp_path / "base_5_v3/bucket_00000", [insert(1, 0, 1)])
    with pytest.raises(NotEnoughHistoryError):
        entries(tmp_path, 4)
    with pytest.raises(LocationNotFoundError):
        entries(tmp_path / "nothing")
