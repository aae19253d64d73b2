from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_hiveacid.format.errors import ConfigurationError, MetastoreCallError, TableDiffersError
from airflow_hiveacid.format.table import Column, FileFormat, TableRef, TransactionalKind
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.create_table import HiveAcidCreateTableOperator
from airflow_hiveacid.plan.keeping import leaves_alone
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.support.airflow_support import Warehouse, run_task

COLUMNS = {"id": "bigint", "name": "string"}


def _create(warehouse: Warehouse, **arguments: Any) -> HiveAcidCreateTableOperator:  # noqa: ANN401
    return HiveAcidCreateTableOperator(
        task_id="create", **{"table": f"{warehouse.db}.made", "columns": COLUMNS, **arguments}
    )


def test_a_table_is_created_once_and_a_second_run_finds_it(warehouse: Warehouse) -> None:
    arguments: dict[str, Any] = {
        "columns": {"id": "bigint", "name": "{{ 'string' }}"},
        "partition_columns": {"month": "int"},
        "bucket_columns": ["id"],
        "num_buckets": "{{ 2 * 2 }}",
    }
    made = run_task(_create(warehouse, **arguments))
    table = warehouse.client.get_table(TableRef(warehouse.db, "made"))
    assert made == {"table": str(table.ref), "is_new": True, "location": table.location}
    assert (table.kind, table.storage.format) == (TransactionalKind.FULL_ACID, FileFormat.ORC)
    assert table.partition_columns == (Column(name="month", type="int"),)
    assert (table.bucket_columns, table.num_buckets) == (("id",), 4)
    assert run_task(_create(warehouse, **arguments)) == {**made, "is_new": False}


def test_an_insert_only_parquet_table_is_created(warehouse: Warehouse) -> None:
    arguments = {"insert_only": "{{ 1 == 1 }}", "stored_as": "Parquet"}
    assert run_task(_create(warehouse, **arguments))["is_new"]
    table = warehouse.client.get_table(TableRef(warehouse.db, "made"))
    assert (table.kind, table.storage.format) == (TransactionalKind.INSERT_ONLY, FileFormat.PARQUET)
    assert not run_task(_create(warehouse, **arguments))["is_new"]
    with pytest.raises(TableDiffersError, match="its kind is insert_only instead of full_acid"):
        run_task(_create(warehouse))


def test_a_new_table_gets_readable_for_and_a_later_run_does_not_change_it(
    warehouse: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    run_task(_create(warehouse, readable_for="{{ 7 }} days"))
    ref = TableRef(warehouse.db, "made")
    table = warehouse.client.get_table(ref)
    assert table.parameters["hiveacid.readable.for"] == "7 days"
    promise = VersionNotes.of(table).promises().keeping
    assert promise is not None
    assert leaves_alone(table.parameters, warehouse.client.generation)
    run_task(_create(warehouse, readable_for="7 days"))
    assert VersionNotes.of(table).promises().keeping == promise
    run_task(_create(warehouse, readable_for="9 days"))
    assert "hiveacid.readable.for=7 days instead of 9 days" in capsys.readouterr().out
    parameters = warehouse.client.get_table(ref).parameters
    assert parameters["hiveacid.readable.for"] == "7 days"


def test_readable_for_makes_an_existing_table_a_kept_table(warehouse: Warehouse) -> None:
    run_task(_create(warehouse))
    table = warehouse.client.get_table(TableRef(warehouse.db, "made"))
    assert "hiveacid.readable.for" not in table.parameters
    assert VersionNotes.of(table).promises().keeping is None
    run_task(_create(warehouse, readable_for="7 days"))
    assert VersionNotes.of(table).promises().keeping is not None


def test_an_asset_event_is_sent_only_if_the_table_is_new(warehouse: Warehouse) -> None:
    asset = Asset(name="made", uri="hive://hms:10000/db/made")
    first, second = _create(warehouse, outlets=[asset]), _create(warehouse, outlets=[asset])
    run_task(first)
    run_task(second)
    assert (first.outlets, second.outlets) == ([asset], [])


def test_an_existing_table_with_different_columns_fails_the_task(warehouse: Warehouse) -> None:
    run_task(_create(warehouse))
    with pytest.raises(TableDiffersError, match="name string instead of name int"):
        run_task(_create(warehouse, columns={"name": "int"}))


def test_a_missing_database_is_created_only_with_create_database(warehouse: Warehouse) -> None:
    name = f"{warehouse.db}_new.made"
    with pytest.raises(MetastoreCallError):
        run_task(_create(warehouse, table=name))
    assert run_task(_create(warehouse, table=name, create_database=True))["is_new"] is True


def test_the_hook_creates_a_table(warehouse: Warehouse) -> None:
    name = f"{warehouse.db}.by_hook"
    made = HiveAcidHook().create_table(name, COLUMNS)
    assert (str(made.ref), made.is_new) == (name, True)
    assert HiveAcidHook().create_table(name, COLUMNS).is_new is False


def test_templated_arguments_are_checked_when_the_task_runs() -> None:
    task = HiveAcidCreateTableOperator(task_id="create", table="db.t", columns={"a": "{{ 'x' }}"})
    with pytest.raises(ConfigurationError, match=r"columns\['a'\]: 'x' is not a valid Hive type"):
        run_task(task)
