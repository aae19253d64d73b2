"""The tables that match patterns, and the databases that are listed for them."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import (
    InvalidNameError,
    JobFailedError,
    MetastoreCallError,
    PartitionNotFoundError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    Column,
    PartitionInfo,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.listed_tables import (
    is_pattern,
    matches,
    partitions_of,
    transactional_tables,
)
from tests.contract.bench import month
from tests.contract.fake_client import FakeClient


@pytest.fixture
def listed(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The listed databases, of a metastore with tables in two databases."""
    for db in ("hr", "sales"):
        client.create_database(db)
        for name in ("orders", "staff"):
            columns = (Column(name="id", type="bigint"),)
            client.create_table(NewTable(ref=TableRef(db, name), columns=columns))
    listed: list[str] = []
    list_tables = client.list_tables

    def record(db: str) -> tuple[str, ...]:
        listed.append(db)
        return list_tables(db)

    monkeypatch.setattr(client, "list_tables", record)
    return listed


@pytest.mark.parametrize(
    ("patterns", "names", "databases"),
    [
        (["sales.orders"], ["sales.orders"], ["sales"]),
        (["SALES.Orders"], ["sales.orders"], ["sales"]),
        (["s*.o*", "hr.staff"], ["hr.staff", "sales.orders"], ["hr", "sales"]),
        (["sales.o*", "sales.*s"], ["sales.orders"], ["sales"]),
        (["h?.*"], ["hr.orders", "hr.staff"], ["hr"]),
        (["sales*"], ["sales.orders", "sales.staff"], ["default", "hr", "sales"]),
        (["sales[.]orders"], ["sales.orders"], ["default", "hr", "sales"]),
        (["no.*"], [], []),
    ],
)
def test_only_databases_with_a_possible_match_are_listed(
    client: FakeClient,
    listed: list[str],
    patterns: list[str],
    names: list[str],
    databases: list[str],
) -> None:
    assert [name for name, _ in transactional_tables(client, patterns)] == names
    assert listed == databases


@pytest.mark.usefixtures("listed")
def test_tables_that_are_not_transactional_are_omitted_but_unreadable_tables_are_not(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = (Column(name="id", type="bigint"),)
    for name in ("flat", "odd", "refused"):
        ref = TableRef("hr", name)
        client.create_table(NewTable(ref=ref, columns=columns, kind=TransactionalKind.NONE))
    errors = {
        "odd": InvalidNameError(name="odd", what="column name"),
        "refused": MetastoreCallError(method="get_table", reason="no"),
    }
    get_table = client.get_table

    def read(ref: TableRef) -> object:
        if ref.name in errors:
            raise errors[ref.name]
        return get_table(ref)

    monkeypatch.setattr(client, "get_table", read)
    found = dict(transactional_tables(client, ["hr.*"]))
    assert list(found) == ["hr.odd", "hr.orders", "hr.refused", "hr.staff"]
    assert {name: found[f"hr.{name}"] for name in errors} == errors


@pytest.mark.usefixtures("listed")
def test_a_view_is_omitted_and_does_not_hide_the_tables_after_it(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_table = client.get_table

    def read(ref: TableRef) -> object:
        if ref == TableRef("hr", "orders"):
            raise UnsupportedTableError(table=ref, detail="is a view")
        return get_table(ref)

    monkeypatch.setattr(client, "get_table", read)
    found = [name for name, _ in transactional_tables(client, ["hr.*"])]
    assert found == ["hr.staff"]


@pytest.mark.usefixtures("listed")
def test_a_table_that_is_dropped_after_the_listing_does_not_hide_the_tables_after_it(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "list_tables", lambda _: ("orders", "gone", "staff"))
    found = [name for name, _ in transactional_tables(client, ["hr.*"])]
    assert found == ["hr.orders", "hr.staff"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.b", False), ("a.*", True), ("a.b?", True), ("a.[bc]", True), ("*", True)],
)
def test_a_name_with_a_wildcard_is_a_pattern(name: str, *, expected: bool) -> None:
    assert is_pattern(name) is expected


@pytest.mark.usefixtures("listed")
def test_a_table_with_a_definition_that_nobody_expected_does_not_hide_the_others(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_table = client.get_table

    def get(ref: TableRef) -> TableInfo:
        return get_table(TableRef("a", 5) if ref.name == "staff" else ref)  # type: ignore[arg-type]

    monkeypatch.setattr(client, "get_table", get)
    found = dict(transactional_tables(client, ["hr.*"]))
    assert isinstance(found["hr.staff"], JobFailedError)
    assert isinstance(found["hr.orders"], TableInfo)


def test_the_kelvin_sign_of_a_pattern_is_no_k() -> None:
    assert matches("demo.k", ["DEMO.K"])
    assert not matches("demo.k", ["demo.\u212a"])


# ---- partitions ----------------------------------------------------------------------------------


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
