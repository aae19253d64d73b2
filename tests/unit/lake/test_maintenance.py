"""Maintenance of tables in this process: history, health, cleaning and compaction."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    PartitionsFailedError,
    SparkNeededError,
)
from airflow_hiveacid.format.table import Column, FileFormat, TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.table import Table
from tests.unit.lake.lakes import DAY, T, Warehouse, ids, rows

JAN = dt.date(2026, 1, 1)
FEB = dt.date(2026, 2, 1)


def files(warehouse: Warehouse) -> int:
    return len([*(warehouse.root / "s").rglob("bucket_*")])


def test_a_table_tells_its_history_and_its_health(dated: Table) -> None:
    dated.append(rows(1, 2, day=[JAN, FEB]))
    dated.delete("id = 1")
    versions = dated.history().versions
    assert [version.operation for version in versions] == ["delete", "insert"]
    assert versions[0].by.startswith("python/")
    assert len(dated.history(most=1).versions) == 1
    health = {one.partition: (one.deltas, one.delete_deltas) for one in dated.health()}
    assert health == {"day=2026-01-01": (1, 1), "day=2026-02-01": (1, 0)}


def test_the_history_names_each_statement_as_its_result_does(dated: Table) -> None:
    dated.append(rows(1, 2, day=[JAN, FEB]))
    dated.delete("id = 1")
    dated.overwrite(rows(3, day=[FEB]))
    dated.delete(keys=rows(3).select(["id"]))
    dated.upsert(rows(4, day=[FEB]), keys=["id"])
    operations = [version.operation for version in dated.history().versions]
    assert operations == ["merge", "merge", "overwrite", "delete", "insert"]


@pytest.mark.parametrize("choice", ["minor", "major", "auto"])
def test_a_table_is_compacted_and_cleaned(warehouse: Warehouse, lake: Lake, choice: str) -> None:
    warehouse.create(partition_columns=DAY, bucket_columns=("id",), num_buckets=2)
    table = lake.table(T)
    for start in range(0, 120, 10):
        table.append(rows(*range(start, start + 10), day=[JAN, FEB] * 5))
    table.delete("id < 50")
    scan = table.scan(["id"])
    before = files(warehouse)
    result = table.compact(choice)
    assert result.status is JobStatus.COMMITTED
    assert len(result.details["compactions"]) == 2  # type: ignore[arg-type]
    assert ids(table) == list(range(50, 120))
    assert table.clean(dry_run=True).status is JobStatus.PLANNED
    table.clean()
    assert scan.to_arrow().num_rows == 70
    del scan
    table.close()
    table.refresh().clean()
    assert files(warehouse) < before
    assert ids(table) == list(range(50, 120))


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET])
def test_an_insert_only_table_is_compacted(
    warehouse: Warehouse, lake: Lake, format_: FileFormat
) -> None:
    warehouse.create(kind=TransactionalKind.INSERT_ONLY, format=format_)
    table = lake.table(T)
    for number in range(3):
        table.append(rows(number))
    assert table.compact("major").files == 1
    assert ids(table) == [0, 1, 2]


def test_one_partition_is_compacted(dated: Table) -> None:
    for number in range(3):
        dated.append(rows(number, number + 10, day=[JAN, FEB]))
    assert dated.compact("major", partition="day=2026-01-01").partitions == ("day=2026-01-01",)
    assert {one.partition: one.deltas for one in dated.health()} == {
        "day=2026-01-01": 0,
        "day=2026-02-01": 3,
    }


def test_the_blanks_of_a_partition_value_are_part_of_its_name(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create(partition_columns=(Column(name="p", type="string"),))
    table = lake.table(T)
    for number in range(3):
        table.append(rows(number, number + 10, number + 20, p=["a", "a ", " a"]))
    for name in ("p=a ", "p= a", "p=a"):
        assert table.compact("major", partition=name).partitions == (name,)


def test_each_failed_partition_is_named_with_its_blanks(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create(partition_columns=(Column(name="p", type="string"),))
    table = lake.table(T)
    for number in range(2):
        table.append(rows(number, number + 10, p=["a", "a "]))
    for path in warehouse.root.rglob("bucket_*"):
        path.write_bytes(b"no ORC file")
    with pytest.raises(PartitionsFailedError, match=r"\n  p=a: .*\n  p=a : "):
        table.compact("major")


def test_a_compaction_that_is_too_large_for_this_process_changes_nothing(table: Table) -> None:
    table.append(rows(1))
    table.append(rows(2))
    with pytest.raises(SparkNeededError, match=r"table default\.s.* more than 10\. Compact fewer"):
        table.compact("major", max_bytes=10)
    assert [one.deltas for one in table.health()] == [2]
    with pytest.raises(ConfigurationError, match="choice"):
        table.compact("all")


def test_nothing_is_compacted_if_nothing_is_due(table: Table) -> None:
    table.append(rows(1))
    assert table.compact().status is JobStatus.NOTHING_TO_DO
