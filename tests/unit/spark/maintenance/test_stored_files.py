"""Every file that a table has, with its partition, and why it is still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.maintenance import stored_files as stored_files_module
from airflow_hiveacid.maintenance.stored_files import LIVE, StillThere, stored_files
from tests.contract.fake_client import FakeClient
from tests.support.tables import id_table

DAY_1 = PartitionName(("day",), ("1",))


@pytest.fixture
def parts(client: FakeClient, tmp_path: Path) -> TableInfo:
    """A table with partition day=1, and files at all kinds of places."""
    table = id_table(client, "parts", tmp_path / "parts", by="day int")
    client.add_partitions(table, [DAY_1])
    for path in (
        "day=1/delta_0000001_0000001_0000/bucket_00000",
        "day=1/.hidden/a",
        "Day=2/delta_0000001_0000001_0000/bucket_00000",
        "_tmp_hiveacid_1-x/day=3/b",
        "lost",
    ):
        file = tmp_path / "parts" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"rows")
    return table


@pytest.mark.promise("K10")
def test_every_file_is_listed_with_the_partition_that_the_metastore_or_its_path_shows(
    client: FakeClient, parts: TableInfo, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "f").write_bytes(b"rows")
    locations = [f"file:{tmp_path}/feed", f"file:{tmp_path}/nowhere", parts.location]
    found = stored_files(parts, client.list_partitions(parts), locations)
    shown = {
        Path(file.uri).relative_to(f"file:{tmp_path}").as_posix(): (
            file.below,
            str(file.name or ""),
            file.partition is not None,
            file.is_outside,
        )
        for file in found
    }
    bucket = "delta_0000001_0000001_0000/bucket_00000"
    assert shown == {
        f"parts/day=1/{bucket}": (bucket, "day=1", True, False),
        "parts/day=1/.hidden/a": (".hidden/a", "day=1", True, False),
        f"parts/Day=2/{bucket}": (f"Day=2/{bucket}", "day=2", False, False),
        "parts/_tmp_hiveacid_1-x/day=3/b": ("_tmp_hiveacid_1-x/day=3/b", "day=3", False, False),
        "parts/lost": ("lost", "", False, False),
        "feed/f": ("f", "", False, True),
    }


def test_directories_above_a_table_do_not_name_its_partitions(
    client: FakeClient, tmp_path: Path
) -> None:
    """A proof skips files of other partitions, so a wrong name would hide rows."""
    top = tmp_path / "day=3/t"
    table = id_table(client, "below", top, by="day int")
    (top / "day=4").mkdir(parents=True)
    for path in ("lost", "day=4/dropped"):
        (top / path).write_bytes(b"rows")
    names = {file.entry.path: str(file.name or "") for file in stored_files(table, (), ())}
    assert names == {"lost": "", "day=4/dropped": "day=4"}


@pytest.mark.promise("K10")
def test_a_location_that_may_not_be_listed_is_listed_as_not_readable(
    client: FakeClient, parts: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(location: str) -> None:
        raise LocationPermissionError(location=location, action="list", reason="no")

    monkeypatch.setattr(stored_files_module, "every_file", denied)
    found = stored_files(parts, client.list_partitions(parts), [])
    assert [file.why_not for file in found if file.root == parts.location] == [
        f"no permission to list {parts.location}: no"
    ]


def test_each_file_has_a_reason(client: FakeClient, parts: TableInfo) -> None:
    reasons = StillThere.of(client, parts, lambda _: None)
    (day_1,) = client.list_partitions(parts)
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, parts.ref)
    bucket = "delta_0000001_0000001_0000/bucket_00000"
    assert "it is invisible" in StillThere.of(client, parts, lambda _: None).why(day_1, bucket)
    client.commit_txn(txn_id)
    assert reasons.why(day_1, bucket) == LIVE
    assert "staged or hidden" in reasons.why(day_1, ".hidden/a")
    assert "changed less than" in reasons.why(None, "_tmp_hiveacid_1-x/day=3/b")
    assert "no state" in reasons.why(None, "lost")
