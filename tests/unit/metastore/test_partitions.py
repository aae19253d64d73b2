from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import InvalidNameError, PartitionNotFoundError
from airflow_hiveacid.format.table import UNPARTITIONED, PartitionInfo, TableInfo
from airflow_hiveacid.metastore.listed_tables import partitions_of
from tests.contract.bench import month
from tests.contract.fake_client import FakeClient


@pytest.fixture
def months(client: FakeClient, partitioned: TableInfo) -> tuple[PartitionInfo, ...]:
    return client.add_partitions(partitioned, [month("a"), month("b"), month("c")])


def test_without_a_name_all_partitions_are_returned(
    client: FakeClient, partitioned: TableInfo, months: tuple[PartitionInfo, ...]
) -> None:
    assert len(months) == 3
    assert partitions_of(client, partitioned, None) == months


def test_only_the_named_partition_is_returned(
    client: FakeClient, partitioned: TableInfo, months: tuple[PartitionInfo, ...]
) -> None:
    assert partitions_of(client, partitioned, "month=b") == months[1:2]
    assert partitions_of(client, partitioned, "MONTH=b") == months[1:2]


@pytest.mark.usefixtures("months")
@pytest.mark.parametrize("name", ["month=d", "month=B", "day=a", "month=a/day=1", ""])
def test_a_partition_that_the_table_does_not_have_is_not_found(
    client: FakeClient, partitioned: TableInfo, name: str
) -> None:
    with pytest.raises(PartitionNotFoundError, match=rf"default\.p: has no partition {name}"):
        partitions_of(client, partitioned, name)


@pytest.mark.usefixtures("months")
def test_an_invalid_partition_name_is_refused(client: FakeClient, partitioned: TableInfo) -> None:
    with pytest.raises(InvalidNameError, match="month"):
        partitions_of(client, partitioned, "month")


def test_an_unpartitioned_table_is_returned_as_a_whole_and_has_no_named_partition(
    client: FakeClient, table: TableInfo
) -> None:
    (whole,) = partitions_of(client, table, None)
    assert (whole.name, whole.location) == (UNPARTITIONED, table.location)
    with pytest.raises(PartitionNotFoundError, match=r"default\.t: has no partition month=a"):
        partitions_of(client, table, "month=a")


def test_a_partition_whose_name_differs_in_case_is_not_found(
    client: FakeClient,
    partitioned: TableInfo,
    months: tuple[PartitionInfo, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ignoring_case(*_: object) -> tuple[PartitionInfo, ...]:
        return months[:1]  # as a metastore in MySQL answers

    monkeypatch.setattr(client, "get_partitions", ignoring_case)
    with pytest.raises(PartitionNotFoundError, match="month=A"):
        partitions_of(client, partitioned, "month=A")
