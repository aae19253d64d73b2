from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.definitions.new_table import define, differences, ensure_table
from tests.contract.fake_client import FakeClient

REF = TableRef("default", "made")
COLUMNS = {"Id": "BIGINT", "name": "varchar(20)", "price": "decimal"}


def new(**changes: Any) -> NewTable:  # noqa: ANN401
    return define(**{"table": "default.Made", "columns": COLUMNS, **changes})


def test_a_definition_has_names_and_types_in_the_metastores_form() -> None:
    made = new(partition_columns={"Day": "DATE"}, bucket_columns=["ID"], num_buckets=4)
    assert made.ref == REF
    assert [(c.name, c.type) for c in made.columns] == [
        ("id", "bigint"),
        ("name", "varchar(20)"),
        ("price", "decimal(10,0)"),
    ]
    assert made.partition_columns == (Column(name="day", type="date"),)
    assert (made.bucket_columns, made.num_buckets) == (("id",), 4)
    assert made.kind is TransactionalKind.FULL_ACID


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": "made"}, "not a valid table name"),
        ({"columns": {}}, "at least one column"),
        ({"columns": {" ": "int"}}, "a column has no name"),
        ({"columns": {"a": "strng"}}, "strng"),
        ({"columns": {"a": "int", "A": "int"}}, "'a' is named twice"),
        ({"partition_columns": {"ID": "int"}}, "'id' is named twice"),
        ({"bucket_columns": ["id"]}, "bucket_columns and num_buckets, or neither"),
        ({"num_buckets": 2}, "bucket_columns and num_buckets, or neither"),
        ({"stored_as": "parquet"}, "orc, or parquet, avro or textfile with insert_only"),
        ({"insert_only": True, "stored_as": "rcfile"}, "found 'rcfile'"),
        (
            {"insert_only": True, "bucket_columns": ["id"], "num_buckets": 2},
            "cannot have buckets",
        ),
        ({"bucket_columns": ["nothing"], "num_buckets": 2}, "'nothing' is not among the columns"),
    ],
)
def test_an_invalid_definition_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InputError, match=message):
        new(**changes)


@pytest.mark.parametrize(
    ("stored_as", "name"),
    [("ORC", "ORC"), ("Parquet", "PARQUET"), ("textfile", "TEXT"), ("avro", "AVRO")],
)
def test_an_insert_only_table_may_have_each_format(stored_as: str, name: str) -> None:
    made = new(insert_only=True, stored_as=stored_as)
    assert (made.kind, made.format) == (TransactionalKind.INSERT_ONLY, FileFormat[name])
    assert new(insert_only=True).format is FileFormat.ORC


def test_a_missing_table_is_created_and_an_equal_definition_changes_nothing(
    client: FakeClient,
) -> None:
    assert ensure_table(client, new(partition_columns={"day": "date"})) is True
    made = client.get_table(REF)
    assert (made.kind, made.storage.format) == (TransactionalKind.FULL_ACID, FileFormat.ORC)
    assert ensure_table(client, new(partition_columns={"DAY": "Date"})) is False
    assert client.get_table(REF) == made


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"columns": {"id": "int"}},
            r"its columns are id bigint, .*, price decimal\(10,0\) instead of id int",
        ),
        (
            {"partition_columns": {"day": "date"}},
            "its partition columns are none instead of day date",
        ),
        (
            {"bucket_columns": ["id"], "num_buckets": 2},
            "its bucket columns are none instead of id; its buckets are 0 instead of 2",
        ),
        ({"location": "file:/elsewhere"}, "its location is .* instead of /elsewhere"),
    ],
)
def test_a_table_that_differs_from_its_definition_raises_an_error_with_the_difference(
    client: FakeClient, changes: dict[str, Any], message: str
) -> None:
    ensure_table(client, new())
    before = client.get_table(REF)
    with pytest.raises(errors.TableDiffersError, match=message):
        ensure_table(client, new(**changes))
    assert client.get_table(REF) == before


def test_a_different_kind_or_file_format_is_reported_as_a_difference(client: FakeClient) -> None:
    ensure_table(client, new())
    found = client.get_table(REF)
    plain = replace(found, kind=TransactionalKind.NONE, storage=Storage(format=FileFormat.PARQUET))
    assert differences(new(), plain) == (
        "its kind is none instead of full_acid",
        "its format is Parquet instead of ORC",
    )


@pytest.mark.parametrize("location", ["file:///data/made/", "file:/data/made", "/data/made"])
def test_different_spellings_of_a_location_are_equal(client: FakeClient, location: str) -> None:
    ensure_table(client, new(location="file:/data/made"))
    assert ensure_table(client, new(location=location)) is False


def test_a_table_that_was_created_concurrently_is_accepted(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[TableInfo] = []
    create = client.create_table

    def refused(table: NewTable) -> TableInfo:
        made.append(create(table))  # by somebody else, a moment before us
        raise errors.MetastoreCallError(method="create_table_req", reason="already exists")

    monkeypatch.setattr(client, "create_table", refused)
    assert ensure_table(client, new()) is False
    assert made == [client.get_table(REF)]


def test_any_other_error_of_a_creation_is_raised(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(table: NewTable) -> TableInfo:
        raise errors.MetastoreCallError(
            method="create_table_req", reason=f"no database {table.ref.db}"
        )

    monkeypatch.setattr(client, "create_table", refused)
    with pytest.raises(errors.MetastoreCallError, match="no database"):
        ensure_table(client, new())
    with pytest.raises(errors.TableNotFoundError):
        client.get_table(REF)
