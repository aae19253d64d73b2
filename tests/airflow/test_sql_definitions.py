"""Definitions and questions among the statements of HiveAcidSqlOperator, on a real metastore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.metastore_statements import DropTable
from airflow_hiveacid.metastore.client.catalog_calls import CatalogCalls
from airflow_hiveacid.metastore.transactions import Clock
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
from tests.contract.bench import access, start
from tests.support.airflow_support import FakeSpark, StateStore, Warehouse, context_of, run_task

pytestmark = pytest.mark.usefixtures("spark")

CREATE = "CREATE TABLE t (id bigint, name string) PARTITIONED BY (day int)"
ASSET = Asset(name="t", uri="hive://hms:10000/db/t")


def _sql(warehouse: Warehouse, sql: str, **more: Any) -> HiveAcidSqlOperator:  # noqa: ANN401
    return HiveAcidSqlOperator(task_id="task", sql=sql, database=warehouse.db, **more)


@pytest.fixture(autouse=True)
def _nothing_left(warehouse: Warehouse) -> Iterator[None]:
    yield
    assert warehouse.client.show_locks() == ()


def test_a_script_runs_definitions_in_the_task_and_row_changes_in_spark(
    warehouse: Warehouse, spark: FakeSpark
) -> None:
    context = context_of(task_state_store=StateStore())
    text = f"""
        {CREATE};
        INSERT INTO t VALUES (1, 'a', 1);
        ALTER TABLE t ADD PARTITION (day = {{{{ 2 }}}});
        ALTER TABLE t ADD COLUMNS (note string COMMENT 'new') CASCADE;
        SHOW TRANSACTIONS;
    """
    returned = run_task(_sql(warehouse, text, outlets=[ASSET]), context)
    kinds = [one["kind"] for one in returned["statements"]]
    assert kinds == ["create_table", "insert", "add_partitions", "add_columns", "show_transactions"]
    assert [call["spec"]["kind"] for call in spark.calls] == ["insert"]
    assert returned["statements"][2]["partitions"] == ["day=2"]
    table = warehouse.client.get_table(TableRef(warehouse.db, "t"))
    assert [c.name for c in table.columns] == ["id", "name", "note"]
    assert [str(p.name) for p in warehouse.client.list_partitions(table)] == ["day=2"]
    told = context["outlet_events"][ASSET].extra["statements"]
    assert [(one["table"], one["status"]) for one in told] == [(str(table.ref), "committed")] * 4


def test_rows_from_the_metastore_are_returned_without_an_asset_event(
    warehouse: Warehouse, spark: FakeSpark
) -> None:
    txn_id = warehouse.client.open_txn()
    task = _sql(warehouse, f"ABORT TRANSACTIONS {txn_id}", outlets=[ASSET])
    returned = run_task(task)
    assert returned["details"] == {
        "count": 1,
        "rows": [{"txn_id": txn_id, "is_aborted": True}],
        "rows_omitted": 0,
    }
    assert returned["status"] == "nothing_to_do"
    assert task.outlets == []
    assert spark.calls == []


def test_creating_a_table_that_already_exists_sends_no_asset_event(warehouse: Warehouse) -> None:
    text = CREATE.replace("TABLE", "TABLE IF NOT EXISTS")
    first = _sql(warehouse, text, outlets=[ASSET])
    second = _sql(warehouse, text, outlets=[ASSET])
    assert run_task(first)["status"] == "committed"
    assert run_task(second)["status"] == "nothing_to_do"
    assert (first.outlets, second.outlets) == ([ASSET], [])


def test_a_retry_skips_committed_statements_even_if_their_table_was_renamed(
    warehouse: Warehouse, spark: FakeSpark
) -> None:
    store = StateStore()
    text = f"{CREATE}; INSERT INTO t VALUES (1, 'a', 1); ALTER TABLE t RENAME TO u; DROP TABLE v"
    with pytest.raises(errors.TableNotFoundError) as caught:
        run_task(_sql(warehouse, text), context_of(task_state_store=store))
    assert caught.value.__notes__[0].startswith("in statement 4 of sql, line 1")
    assert len(spark.calls) == 1
    warehouse.table("v")
    context = context_of(try_number=2, task_state_store=store)
    task = _sql(warehouse, text, outlets=[ASSET])
    returned = run_task(task, context)
    statuses = [one["status"] for one in returned["statements"]]
    assert statuses == ["already_done", "already_done", "already_done", "committed"]
    assert len(spark.calls) == 1
    assert warehouse.client.list_tables(warehouse.db) == ("u",)
    assert len(context["outlet_events"][ASSET].extra["statements"]) == 4


@pytest.mark.parametrize(
    ("method", "text", "tables"),
    [
        ("create_table", "CREATE TABLE made (id int)", ("made", "t")),
        ("drop_table", "DROP TABLE t", ()),
        ("change_table", "ALTER TABLE t RENAME TO u", ("u",)),
        ("change_table", "ALTER TABLE t ADD COLUMNS (x int)", ("t",)),
    ],
)
def test_a_retry_after_a_lost_response_detects_that_the_definition_succeeded(
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    text: str,
    tables: tuple[str, ...],
) -> None:
    warehouse.table("t")
    store = StateStore()
    do = getattr(CatalogCalls, method)

    def lost(*args: Any, **more: Any) -> None:  # noqa: ANN401
        do(*args, **more)
        raise errors.MetastoreUnavailableError(
            uris=("thrift://hms:9083",), method=method, reason="gone"
        )

    with monkeypatch.context() as patched:
        patched.setattr(CatalogCalls, method, lost)
        with pytest.raises(errors.MetastoreUnavailableError):
            run_task(_sql(warehouse, text), context_of(task_state_store=store))
    assert warehouse.client.list_tables(warehouse.db) == tables
    context = context_of(try_number=2, task_state_store=store)
    assert run_task(_sql(warehouse, text), context)["status"] == "already_done"
    assert warehouse.client.list_tables(warehouse.db) == tables
    with pytest.raises((errors.DefinitionError, errors.TableNotFoundError)):
        run_task(_sql(warehouse, text), context_of(task_state_store=StateStore()))


def test_a_retry_is_refused_if_a_completed_definition_has_changed(warehouse: Warehouse) -> None:
    store = StateStore()
    with pytest.raises(errors.TableNotFoundError):
        run_task(_sql(warehouse, f"{CREATE}; DROP TABLE v"), context_of(task_state_store=store))
    other = f"{CREATE.replace('string', 'int')}; DROP TABLE v"
    with pytest.raises(errors.StatementChangedError, match=r"an earlier try did .* statement 1"):
        run_task(_sql(warehouse, other), context_of(try_number=2, task_state_store=store))


def test_a_cleared_task_runs_its_definition_again_unless_on_rerun_prevents_it(
    warehouse: Warehouse,
) -> None:
    store, text = StateStore(), "CREATE TABLE t (id int)"
    run_task(_sql(warehouse, text), context_of(task_state_store=store))

    def cleared(on_rerun: str) -> Any:  # noqa: ANN401
        context = context_of(try_number=2, task_state_store=store)
        context["ti"].max_tries = 1  # as Airflow sets it when a task is cleared
        return run_task(_sql(warehouse, text, on_rerun=on_rerun), context)

    with pytest.raises(errors.RerunRefusedError):
        cleared("fail")
    with pytest.raises(errors.DefinitionError, match="exists already"):
        cleared("apply")
    assert cleared("skip")["status"] == "already_done"


def test_a_transaction_with_a_definition_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(
        errors.ConfigurationError,
        match="column 16: a DDL statement or metastore query cannot be part of a transaction",
    ):
        HiveAcidTransactionOperator(
            task_id="task",
            database=warehouse.db,
            statements=["DELETE FROM t", "DELETE FROM t; DROP TABLE t"],
        )


def test_the_hook_runs_a_definition(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    assert HiveAcidHook().run(DropTable(target=str(table.ref))).has_changed
    assert warehouse.client.list_tables(warehouse.db) == ()
    assert table.columns == (Column(name="id", type="bigint"),)


def test_a_killed_task_releases_its_waiting_lock_request(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("t")
    reading = start(warehouse.client, access(table, DataOperation.INSERT))
    task = _sql(warehouse, "DROP TABLE t")
    monkeypatch.setattr(Clock, "sleep", lambda *_: task.on_kill())
    with pytest.raises(errors.TransactionAbortedError):
        run_task(task)
    assert {lock.txn_id for lock in warehouse.client.show_locks()} == {reading.txn_id}
    warehouse.client.commit_txn(reading.txn_id)
    assert warehouse.client.list_tables(warehouse.db) == ("t",)
