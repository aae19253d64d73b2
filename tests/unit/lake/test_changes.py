"""Changes of tables with Arrow rows: their rows, their transactions, and what they refuse."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow import LIBRARY_LIMITS, Limits
from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    CommitStateUnknownError,
    ConfigurationError,
    ConstraintViolationError,
    EarlierRunUnknownError,
    ExpressionError,
    InsertOnlyTableError,
    SnapshotClosedError,
    SourceKeyError,
    SparkNeededError,
    StatementChangedError,
    StatementOrderError,
    TypeMismatchError,
    UnknownColumnError,
)
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import Column, Constraints, TableRef, TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus, RowCounts
from airflow_hiveacid.lake.connection import Lake
from airflow_hiveacid.lake.table import Table
from airflow_hiveacid.metastore.port import TxnState
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.unit.lake.lakes import DAY, T, Warehouse, ids, rows

JAN = dt.date(2026, 1, 1)
FEB = dt.date(2026, 2, 1)
COMMIT = "airflow_hiveacid.metastore.transactions.transaction.commit"


def names(lake: Lake, name: str = T) -> dict[int, str | None]:
    found = lake.table(name).scan(["id", "name"]).to_arrow().to_pylist()
    return {row["id"]: row["name"] for row in found}


def test_an_upsert_updates_the_columns_that_it_has_and_inserts_the_rest(table: Table) -> None:
    table.append(rows(1, 2, name="old", price=Decimal("1.50")))
    result = table.upsert(rows(2, 3, NAME=["new", "added"]), keys="ID")
    assert result.rows == RowCounts(inserted=1, updated=1)
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, "old", Decimal("1.50")),
        (2, "new", Decimal("1.50")),
        (3, "added", None),
    ]
    assert table.upsert(rows(3, 4), keys=["id"]).rows == RowCounts(inserted=1)
    assert table.upsert(rows(), keys=["id"]).rows == RowCounts()


def test_rows_are_deleted_by_a_condition_or_by_keys(table: Table) -> None:
    table.append(rows(*range(10), name=["a", "b"] * 5))
    assert table.delete("id IN (:ids)", parameters={"ids": [0, 2, 99]}).rows.deleted == 2
    keys = rows(1, 1, 4, 5, name=["b", "b", "a", "a"])
    assert table.delete(keys=keys).rows.deleted == 2
    assert table.delete(keys=pa.table({"id": pa.array([None], pa.int64())})).rows.deleted == 0
    assert ids(table) == [3, 5, 6, 7, 8, 9]
    assert table.delete(" TRUE ").rows.deleted == 6
    assert ids(table) == []


def test_an_overwrite_replaces_the_table_or_the_partitions_of_its_rows(
    table: Table, warehouse: Warehouse, lake: Lake
) -> None:
    table.append(rows(1, 2))
    scan = table.scan()
    table.overwrite(rows(3))
    assert ids(table) == [3]
    with pytest.raises(SnapshotClosedError, match="because an overwrite of this connection"):
        scan.to_arrow()
    table.overwrite(rows())
    assert ids(table) == []
    warehouse.create("default.p", partition_columns=DAY)
    parted = lake.table("default.p")
    parted.append(rows(1, 2, 3, day=[JAN, FEB, None]))
    parted.overwrite(rows(4, 5, day=[JAN, None]))
    assert ids(parted) == [2, 4, 5]
    parted.overwrite(rows(6), partition={"DAY": FEB})
    parted.overwrite(rows(), partition={"day": "2026-01-01"})
    assert ids(parted) == [5, 6]


def test_partition_and_bucket_columns_that_are_no_key_must_stay_the_same(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create(partition_columns=DAY, bucket_columns=("name",), num_buckets=4)
    table = lake.table(T)
    table.append(rows(1, 2, name="a", day=[JAN, FEB]))
    price = Decimal("2.00")
    table.upsert(rows(1, 3, name="a", price=price, day=JAN), keys=["id"])
    found = table.scan(["id", "price", "day"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["price"], row["day"]) for row in found) == [
        (1, price, JAN), (2, None, FEB), (3, price, JAN)
    ]  # fmt: skip
    with pytest.raises(ColumnUpdateError, match="partition column 'day'"):
        table.upsert(rows(2, name="a", price=price, day=JAN), keys=["id"])
    with pytest.raises(ColumnUpdateError, match="bucket column 'name'"):
        table.upsert(rows(2, name="b", price=price, day=FEB), keys=["id"])
    # Nothing but such a column is given, so no row is written for a match.
    assert table.upsert(pa.table({"id": [2], "day": [FEB]}), keys=["id"]).rows == RowCounts()
    with pytest.raises(ColumnUpdateError, match="partition column 'day'"):
        table.upsert(pa.table({"id": [2], "day": [JAN]}), keys=["id"])
    with pytest.raises(ColumnUpdateError, match="bucket column 'name'"):
        table.upsert(pa.table({"id": [2], "name": ["b"], "day": [FEB]}), keys=["id"])


def test_frames_and_readers_are_rows(table: Table) -> None:
    import pandas as pd  # noqa: PLC0415 - the only test that needs it

    table.append(pd.DataFrame({"id": [1, 2], "name": ["a", None]}))
    table.append(table.scan().to_batches())
    table.append(table.scan(where="id = 1"))
    assert ids(table) == [1, 1, 1, 1, 2, 2]


# ---- transactions --------------------------------------------------------------------------------


def test_the_statements_of_a_transaction_are_committed_together(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore
) -> None:
    warehouse.create()
    warehouse.create("default.u")
    lake.table(T).append(rows(1, 2, name="old"))
    begun = len(server.txns)
    with lake.transaction() as txn:
        txn.table(T).append(rows(3, name="old"))
        txn.table(T).upsert(rows(2, 3, name="new"), keys=["id"])
        txn.table(T).delete("id = 1")
        txn.table("default.u").append(rows(9, name="other"))
        assert len(server.txns) == begun
        assert txn.result is None
    assert names(lake) == {2: "new", 3: "new"}
    assert names(lake, "default.u") == {9: "other"}
    assert txn.result is not None
    assert (txn.result.rows.inserted, txn.result.was_done_before) == (2, False)
    assert len(txn.result.statements) == 4
    assert len(server.txns) == begun + 3
    with pytest.raises(ConfigurationError, match="the transaction's block has ended"):
        txn.table(T).append(rows(1))


def test_an_error_in_the_block_commits_nothing(table: Table, lake: Lake) -> None:
    def interrupted() -> None:
        with lake.transaction("k") as txn:
            txn.table(T).append(rows(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert ids(table) == []
    with lake.transaction("k") as txn:
        pass
    assert txn.result is not None
    assert txn.result.status is JobStatus.NOTHING_TO_DO


def test_a_transaction_with_a_key_is_done_exactly_once(table: Table, lake: Lake) -> None:
    def load(where: str = "id = 1") -> Any:  # noqa: ANN401
        with lake.transaction(key="orders of 2026-01-31") as txn:
            txn.table(T).append(rows(1, 2))
            txn.table(T).delete(where)
        return txn.result

    assert not load().was_done_before
    assert load().was_done_before
    assert ids(table) == [2]
    with pytest.raises(StatementChangedError, match="python/orders of 2026-01-31"):
        load("id = 2")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (" ", "key is blank"),
        ("\ud800", "key contains an unpaired surrogate"),
        (5, "key must be a st"),
    ],
)
def test_a_key_that_no_ledger_can_store_is_refused(lake: Lake, key: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message), lake.transaction(key):
        pass


def test_a_key_of_two_tables_is_not_done_because_of_a_note_in_one(
    warehouse: Warehouse, lake: Lake
) -> None:
    warehouse.create()
    warehouse.create("default.u")

    def load() -> Any:  # noqa: ANN401
        with lake.transaction(key="k") as txn:
            txn.table(T).append(rows(1))
            txn.table("default.u").append(rows(1))
        return txn.result

    load()
    assert load().was_done_before
    for path in (warehouse.root / "u" / "_hiveacid").glob("_*.0.*.json"):
        path.unlink()
    with pytest.raises(EarlierRunUnknownError, match="take another key in a program in Python"):
        load()
    assert ids(lake.table("default.u")) == [1]


def test_a_statement_that_cannot_follow_is_refused_where_it_is_called(
    table: Table, lake: Lake
) -> None:
    with lake.transaction() as txn:
        txn.table(T).overwrite(rows(1))
        with pytest.raises(StatementOrderError) as caught:
            txn.table(T).append(rows(2))
        txn.table(T).overwrite(rows(3))
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
    assert ids(table) == [3]


def test_a_change_that_fails_leaves_no_transaction_open(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore
) -> None:
    warehouse.create()
    with pytest.raises(SparkNeededError), warehouse.connect(Limits(changed_rows=1)) as small:
        small.table(T).append(rows(1, 2))
    assert {txn.state for txn in server.txns.values()} == {TxnState.ABORTED}
    assert ids(lake.table(T)) == []


@pytest.mark.parametrize("key", [None, "k"])
def test_a_change_whose_outcome_is_unknown_is_seen_and_repeated_only_under_a_key(
    table: Table, lake: Lake, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    table.append(rows(1))
    assert ids(table) == [1]

    def lost(client: FakeClient, txn_id: TxnId, *_: object, **_others: object) -> None:
        client.commit_txn(txn_id)
        raise CommitStateUnknownError(txn_id=txn_id, reason="no answer")

    monkeypatch.setattr(COMMIT, lost)
    said = "Retry the task" if key else r"may apply it twice: first see with refresh\(\) and a scan"
    if key is None:
        with pytest.raises(CommitStateUnknownError, match=said):
            table.append(rows(2))
        assert ids(table) == [1, 2]
    with pytest.raises(CommitStateUnknownError, match=said), lake.transaction(key) as txn:
        txn.table(T).append(rows(3))


def test_a_change_that_is_interrupted_while_it_commits_is_seen_by_the_next_scan(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ids(table) == []

    def interrupted(client: FakeClient, txn_id: TxnId, *_: object, **_others: object) -> None:
        monkeypatch.undo()
        client.commit_txn(txn_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMIT, interrupted)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows(1))
    assert ids(table) == [1]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "change"),
    [
        ("changed_rows", lambda table: table.append(rows(1, 2, 3))),
        ("memory_bytes", lambda table: table.append(rows(1, 2))),
        ("rows", lambda table: table.delete("id = 1")),
    ],
)
def test_a_change_above_a_limit_says_which_limit_to_raise(
    warehouse: Warehouse,
    lake: Lake,
    limit: str,
    change: Any,  # noqa: ANN401
) -> None:
    warehouse.create()
    lake.table(T).append(rows(1, 2))
    limits = Limits(**({"changed_rows": 2} | {limit: 2 if limit == "changed_rows" else 1}))
    said = rf"table default.s: this statement needs Spark: .*Pass limits=Limits\({limit}=\.\.\.\)"
    with warehouse.connect(limits) as small, pytest.raises(SparkNeededError, match=said):
        change(small.table(T))
    assert ids(lake.table(T)) == [1, 2]


def test_a_program_that_sets_one_limit_keeps_the_others() -> None:
    assert replace(Limits(changed_rows=1), changed_rows=LIBRARY_LIMITS.changed_rows) == (
        LIBRARY_LIMITS
    )


def test_more_memory_than_arrow_can_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 2 GiB"):
        Limits(memory_bytes=1 << 31)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (rows(1, 2, 1, 2), "2 keys occur more than once, such as id=1"),
        (pa.table({"id": pa.array([1, None], pa.int64())}), "1 rows have NULL in their key"),
    ],
)
def test_rows_to_upsert_have_distinct_keys(
    table: Table, server: FakeMetastore, given: pa.Table, said: str
) -> None:
    with pytest.raises(SourceKeyError, match=f"cannot upsert by id: {said}"):
        table.upsert(given, keys=["id"])
    assert not server.txns


def test_a_value_of_a_row_forges_no_line_of_an_error(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create()
    value, shown = "a\x1b[31m\nforged", r"a\\x1b\[31m\\nforged"
    twice = pa.table({"name": [value, value]})
    with pytest.raises(SourceKeyError, match=f"such as name={shown}"):
        lake.table(T).upsert(twice, keys=["name"])
    with pytest.raises(TypeMismatchError, match=f"struct<{shown}:bigint>"):
        lake.table(T).append(pa.table({"name": [{value: 1}]}))


def test_what_does_not_fit_the_table_is_refused_before_a_transaction_begins(
    table: Table, server: FakeMetastore
) -> None:
    with pytest.raises(UnknownColumnError, match="'nothing'"):
        table.append(rows(1, nothing=1))
    with pytest.raises(TypeMismatchError, match="'price' is decimal"):
        table.append(rows(1, price=0.5))
    with pytest.raises(UnknownColumnError, match="'nothing'"):
        table.upsert(rows(1), keys=["nothing"])
    with pytest.raises(ConfigurationError, match="keys is empty"):
        table.upsert(rows(1), keys=[])
    with pytest.raises(ExpressionError, match="without Spark, a condition has"):
        table.delete("id + 1 = 2")
    for where, keys in ((None, None), ("id = 1", rows(1))):
        with pytest.raises(ConfigurationError, match="delete needs where"):
            table.delete(where, keys=keys)
    assert not server.txns


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_time_that_cannot_be_read_again_is_refused(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore, unit: str
) -> None:
    warehouse.create(columns=(Column(name="t", type="array<timestamp>"),))
    far = pa.array([[1 << 62]], pa.list_(pa.timestamp(unit)))
    with pytest.raises(TypeMismatchError, match="'t' is timestamp"):
        lake.table(T).append(pa.table({"t": far}))
    assert not server.txns


def test_keys_and_partitions_that_are_no_utf8_are_refused(
    warehouse: Warehouse, lake: Lake, server: FakeMetastore
) -> None:
    columns = (Column(name="k", type="string"),)
    warehouse.create(columns=columns, partition_columns=(Column(name="p", type="string"),))
    table, raw = lake.table(T), pa.array([b"M\xfcller"]).view(pa.string())
    with pytest.raises(TypeMismatchError, match=r"'p' is string, but .* not UTF-8; encode"):
        table.append(pa.table({"k": ["a"], "p": raw}))
    with pytest.raises(TypeMismatchError, match=r"'k' is string, but .* not UTF-8"):
        table.upsert(pa.table({"k": raw, "p": ["a"]}), keys=["k"])
    with pytest.raises(TypeMismatchError, match=r"'k' is string, but .* not UTF-8"):
        table.delete(keys=pa.table({"k": raw}))
    assert not server.txns


def test_keys_and_partitions_that_engines_read_differently_need_spark(
    warehouse: Warehouse, lake: Lake
) -> None:
    columns = (Column(name="id", type="double"), Column(name="d", type="date"))
    warehouse.create(columns=columns, partition_columns=(Column(name="p", type="string"),))
    table = lake.table(T)
    with pytest.raises(SparkNeededError, match="compare the key id, of type double"):
        table.upsert(pa.table({"id": [0.5], "p": ["a"]}), keys=["id"])
    with pytest.raises(SparkNeededError, match="d has a date outside"):
        table.delete(keys=pa.table({"d": [dt.date(1500, 1, 1)]}))
    with pytest.raises(SparkNeededError, match=r"needs an escape\. Use simpler terms"):
        table.append(pa.table({"p": ["a/b"]}))
    with pytest.raises(TypeMismatchError, match="'p' is string, but the value is bigint"):
        lake.table(T).overwrite(pa.table({"p": [1]}))


def test_constraints_are_kept(table: Table, lake: Lake, server: FakeMetastore) -> None:
    ref = TableRef.parse(T)
    server.constraints[ref] = Constraints(not_null={"name": "nn"}, defaults={"price": "1"})
    price = Decimal(1)
    table.append(rows(1, name="a", price=price))
    table.upsert(rows(1, 2, name="b", price=price), keys=["id"])
    begun = len(server.txns)
    with pytest.raises(ConstraintViolationError, match="name NOT NULL"):
        table.append(rows(3, name=None, price=price))
    with pytest.raises(ConstraintViolationError, match="name NOT NULL"):
        table.append(rows(3, price=price))
    with pytest.raises(SparkNeededError, match="lack column price, which has a DEFAULT"):
        table.append(rows(3, name="a"))
    assert len(server.txns) == begun
    table.upsert(rows(1, price=Decimal(2)), keys=["id"])
    with pytest.raises(ConstraintViolationError, match="name NOT NULL"):
        table.upsert(rows(1, 3, price=price), keys=["id"])
    server.constraints[ref] = Constraints(checks={"c": "id > 0"})
    with pytest.raises(SparkNeededError, match="has CHECK constraints"):
        table.append(rows(3))
    assert names(lake) == {1: "b", 2: "b"}


def test_rows_of_an_insert_only_table_are_not_changed(warehouse: Warehouse, lake: Lake) -> None:
    warehouse.create(kind=TransactionalKind.INSERT_ONLY)
    table = lake.table(T)
    with pytest.raises(InsertOnlyTableError, match="MERGE"):
        table.upsert(rows(1), keys=["id"])
    with pytest.raises(InsertOnlyTableError, match="DELETE"):
        table.delete("id = 1")
