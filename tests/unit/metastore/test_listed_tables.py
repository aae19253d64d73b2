"""The tables that match patterns, and the databases that are listed for them."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import (
    InvalidNameError,
    JobFailedError,
    MetastoreCallError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import Column, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.listed_tables import is_pattern, matches, transactional_tables
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
