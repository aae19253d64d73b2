from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableRef
from airflow_hiveacid.writing.overtaking import hiding_directory, is_overtaken

OWN = WriteId(4)


def newest(
    high_watermark: int, *, aborted: tuple[int, ...] = (), opened: tuple[int, ...] = ()
) -> ValidWriteIdList:
    return ValidWriteIdList(
        table=TableRef("d", "t"),
        high_watermark=WriteId(high_watermark),
        open=(OWN, *map(WriteId, opened)),
        aborted=tuple(map(WriteId, aborted)),
    )


def days(root: Path, *directories: str | None) -> list[PartitionInfo]:
    """Partitions with one directory each; None for one that has no place yet."""
    found = []
    for day, directory in enumerate(directories):
        location = root / f"day={day}"
        if directory is not None:
            (location / directory).mkdir(parents=True)
            (location / directory / "bucket_00000").write_text("rows")
        name = PartitionName(("day",), (str(day),))
        found.append(PartitionInfo(name=name, location=f"file:{location}"))
    return found


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_base_that_hides_the_write_is_found_in_any_partition(tmp_path: Path, place: int) -> None:
    found: list[str | None] = ["base_0000003", None, "delta_0000003_0000003_0000"]
    found[place] = "base_0000005"
    hiding = hiding_directory(days(tmp_path, *found), newest(5), OWN, replaces=False)
    assert hiding == f"file:{tmp_path}/day={place}/base_0000005"


@pytest.mark.parametrize("replaces", [False, True])
def test_directories_with_lower_open_or_aborted_write_ids_hide_nothing(
    tmp_path: Path, replaces: bool
) -> None:
    names = ("base_0000003", "base_0000005", "base_0000006", "delta_0000003_0000003_0000", None)
    there, write_ids = days(tmp_path, *names), newest(6, aborted=(5,), opened=(6,))
    assert hiding_directory(there, write_ids, OWN, replaces=replaces) is None


def test_a_base_above_the_high_watermark_counts_as_committed_and_hides_the_write(
    tmp_path: Path,
) -> None:
    there = days(tmp_path, "base_0000005")
    assert hiding_directory(there, newest(4), OWN, replaces=False) is not None


def test_a_compacted_delta_overtakes_only_with_committed_writes_above_the_overwrite(
    tmp_path: Path,
) -> None:
    there, write_ids = days(tmp_path, "delta_0000001_0000005"), newest(6, aborted=(5,))
    assert hiding_directory(there, write_ids, OWN, replaces=True) is None
    assert hiding_directory(there, newest(6), OWN, replaces=True) is not None


@pytest.mark.parametrize(
    ("write_ids", "is_late"),
    [(newest(4), False), (newest(5), True), (newest(5, aborted=(5,)), False)],
)
def test_a_write_is_overtaken_if_the_list_shows_a_committed_higher_write_id(
    write_ids: ValidWriteIdList, is_late: bool
) -> None:
    assert is_overtaken(write_ids, OWN) is is_late


@pytest.mark.parametrize(("replaces", "is_hidden"), [(False, False), (True, True)])
def test_a_delta_with_a_higher_write_id_overtakes_only_an_overwrite(
    tmp_path: Path, replaces: bool, is_hidden: bool
) -> None:
    there = days(tmp_path, None, "delta_0000005_0000005_0000")
    found = hiding_directory(there, newest(5), OWN, replaces=replaces)
    assert (found is not None) is is_hidden
