from __future__ import annotations

import pytest

from airflow_hiveacid.format import rivals
from airflow_hiveacid.format.conflicts import ConflictPolicy, MetastoreGeneration, WriteKind
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from tests.unit.format.listings import ids, txns

V3, V4 = MetastoreGeneration
HIVE, STRICT = ConflictPolicy


@pytest.mark.parametrize(
    ("directory", "doing"),
    [
        ("base_0000005", WriteKind.OVERWRITE),
        ("base_0000005_v0000017", WriteKind.MAJOR),
        ("delta_0000005_0000005_0000", WriteKind.INSERT),
        ("delete_delta_0000005_0000005_0001", WriteKind.CHANGE),
        ("delta_0000003_0000005", WriteKind.MINOR),
        ("delete_delta_0000005_0000005_v0000017", WriteKind.MINOR),
    ],
)
def test_a_directory_name_shows_the_operation_and_the_write_id(
    directory: str, doing: WriteKind
) -> None:
    foreign_write = rivals.foreign_write_of(directory)
    assert foreign_write is not None
    assert (foreign_write.doing, foreign_write.write_id) == (doing, 5)


@pytest.mark.parametrize("name", ["_hiveacid", "month=1", "delta_x_y", ".hive-staging_1"])
def test_a_name_that_is_not_a_base_or_delta_shows_no_operation(name: str) -> None:
    assert rivals.foreign_write_of(name) is None


def test_only_writes_that_committed_since_the_start_are_found() -> None:
    began, now = ids("5:3:3,5:"), ids("7:5:5:7")
    names = [f"delta_{w:07d}_{w:07d}_0000" for w in range(1, 9)]
    assert [d.write_id for d in rivals.committed_since(names, began, began, now)] == [3, 6]


COMPACTED = ["delta_0000001_0000006", "base_0000006_v0000009"]


def test_compactions_of_old_writes_are_not_new_writes() -> None:
    assert rivals.committed_since(COMPACTED, ids("6:MAX::"), ids("6:MAX::"), ids("6:MAX::")) == ()


@pytest.mark.parametrize("directory", COMPACTED)
@pytest.mark.parametrize("began", [ids("5:MAX::"), ids("6:2:2:"), ids("6:6:6:")])
def test_a_compaction_that_contains_a_new_write_counts_as_that_write(
    directory: str, began: ValidWriteIdList
) -> None:
    (foreign_write,) = rivals.committed_since([directory], began, ids("7:MAX::"), ids("7:MAX::"))
    assert (foreign_write.doing, foreign_write.directory) == (WriteKind.INSERT, directory)
    assert foreign_write.write_id == (2 if 2 in began.open else 6)


@pytest.mark.parametrize(
    "seen", [ids("5:MAX::"), ids("6:6:6:"), ids("6:MAX::6")], ids=["later", "open", "aborted"]
)
def test_a_compaction_without_new_writes_does_not_count_as_a_write(
    seen: ValidWriteIdList,
) -> None:
    """What is committed later keeps its own directory while this transaction lasts."""
    assert rivals.committed_since(COMPACTED, ids("5:MAX::"), seen, ids("6:MAX::")) == ()
    assert (
        rivals.committed_since(
            ["delta_0000004_0000006"], ids("6:2:2:"), ids("6:MAX::"), ids("6:MAX::")
        )
        == ()
    )


def test_directories_that_are_new_or_had_an_open_write_count_as_new() -> None:
    there = {"delta_0000001_0000001_0000", "delta_0000003_0000003_0000"}
    names = [*there, "delta_0000004_0000004_0000", "delta_0000001_0000003"]
    began, now = ids("3:3:3:"), (ids("4:MAX::"), txns("20:MAX::"))
    assert {d.directory for d in rivals.come_since(names, there, began, now)} == {
        "delta_0000003_0000003_0000",
        "delta_0000004_0000004_0000",
        "delta_0000001_0000003",
    }


def test_a_delta_seen_at_the_start_is_not_new_even_if_the_first_list_omitted_it() -> None:
    # 4.0.1 may end its list below what is committed; now it is whole.
    there = {"delta_0000003_0000003_0000"}
    assert rivals.come_since(there, there, ids("1:MAX::"), (ids("4:MAX::"), txns("20:MAX::"))) == ()


def test_the_base_of_a_compaction_is_new_only_after_its_commit() -> None:
    names, now = ["base_0000003_v0000019"], (ids("3:MAX::"), txns("20:19:19:"))
    assert rivals.come_since(names, (), ids("3:MAX::"), now) == ()
    (foreign_write,) = rivals.come_since(
        names, (), ids("3:MAX::"), (ids("3:MAX::"), txns("20:MAX::"))
    )
    assert foreign_write.doing is WriteKind.MAJOR


def test_the_reported_rival_is_the_first_write_that_conflicts_under_the_policy() -> None:
    names = ["delta_0000007_0000007_0000", "delta_0000006_0000006_0000", "delta_0000001_0000004"]
    foreign_writes = [d for d in map(rivals.foreign_write_of, names) if d is not None]
    found = rivals.first_rival(foreign_writes, STRICT, V4, WriteKind.INSERT)
    assert found is not None
    assert found.write_id == 6
    assert rivals.first_rival(foreign_writes, STRICT, V4, WriteKind.OVERWRITE) is None
    assert rivals.first_rival(foreign_writes, HIVE, V4, WriteKind.INSERT) is None
    minor = rivals.first_rival(foreign_writes, STRICT, V3, WriteKind.MINOR)
    assert minor is not None
    assert minor.doing is WriteKind.MINOR
