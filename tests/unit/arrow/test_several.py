"""Several statements of one transaction in this process, and the calls of a statement."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_hiveacid.format.errors import SparkNeededError, StatementOrderError
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MergeSpec,
    MultiInsertSpec,
    SourceSpec,
    TransactionSpec,
    TruncateSpec,
    UpdateSpec,
)
from tests.contract.fake_metastore import FakeMetastore
from tests.unit.arrow.lake import INSERT_ALL, UPDATE_ALL, Lake, values

T = "default.s"


def insert(lake: Lake, *rows: tuple[object, ...]) -> InsertSpec:
    return InsertSpec(target=T, source=values(lake.table, *rows))


def test_each_statement_sees_the_changes_of_the_earlier_ones(lake: Lake) -> None:
    lake.insert((1, "a", None), (2, "b", None))
    merge = MergeSpec(
        target=T,
        source=values(lake.table, (3, "merged", None), (4, "new", None)),
        keys=("id",),
        clauses=(UPDATE_ALL, INSERT_ALL),
    )
    result = lake.run(
        TransactionSpec(
            statements=(
                insert(lake, (3, "c", None)),
                UpdateSpec(target=T, set={"name": "'u'"}, where="id IN (2, 3)"),
                merge,
                DeleteSpec(target=T, where="id = 1 OR name = 'new'"),
            )
        )
    )
    assert lake.rows == [(2, "u", None), (3, "merged", None)]
    assert result.kind == "transaction"
    assert (result.rows.inserted, result.rows.updated, result.rows.deleted) == (2, 3, 2)
    assert len(result.details["statements"]) == 4  # type: ignore[arg-type]


def test_a_new_partition_of_an_earlier_statement_is_read(parted: Lake) -> None:
    delete = DeleteSpec(target=T, where="id = 1 AND part = 7")
    first = insert(parted, (1, "a", None, "2026-01-01", 7), (2, "b", None, "2026-01-01", 7))
    parted.run(TransactionSpec(statements=(first, delete)))
    assert parted.rows == [(2, "b", None, "2026-01-01", "7")]


def test_nothing_of_a_transaction_is_done_if_a_statement_needs_spark(lake: Lake) -> None:
    lake.insert((1, "a", None))
    needs_spark = DeleteSpec(target=T, where="upper(name) = 'A'")
    with pytest.raises(SparkNeededError) as caught:
        lake.run(TransactionSpec(statements=(insert(lake, (2, "b", None)), needs_spark)))
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
    both = MultiInsertSpec(inserts=(insert(lake, (2, "b", None)),))
    with pytest.raises(SparkNeededError, match="read one source"):
        lake.run(TransactionSpec(statements=(both,)))
    assert len(lake.rows) == 1


def test_rows_behind_an_overwrite_are_refused_as_by_spark(lake: Lake) -> None:
    statements = (TruncateSpec(target=T), insert(lake, (1, "a", None)))
    with pytest.raises(StatementOrderError):
        lake.run(TransactionSpec(statements=statements))


@pytest.mark.parametrize(
    ("static", "is_refused"),
    [({"part": "7"}, True), ({"day": "2026-01-02", "part": "7"}, False), ({}, True)],
)
def test_an_insert_beside_a_truncation_is_judged_by_its_partition_clause_not_by_its_rows(
    parted: Lake, static: dict[str, str], is_refused: bool
) -> None:
    parted.insert((1, "old", None, "2026-01-01", 7))
    truncate = TruncateSpec(target=T, partition={"day": "2026-01-01", "part": "7"})
    row = {"id": 2, "name": "new", "price": None, "day": "2026-01-02", "part": 7}
    columns = tuple(name for name in row if name not in static)
    source = SourceSpec(columns=columns, values=(tuple(row[name] for name in columns),))
    dynamic = tuple(name for name in ("day", "part") if name not in static)
    into = InsertSpec(target=T, source=source, partition=static, dynamic_partition=dynamic)
    both = TransactionSpec(statements=(truncate, into))
    if is_refused:
        with pytest.raises(StatementOrderError):
            parted.run(both)
    else:
        parted.run(both)
    assert [row[1] for row in parted.rows] == ["old" if is_refused else "new"]


def test_a_static_insert_without_rows_may_follow_the_truncation_of_another_partition(
    parted: Lake,
) -> None:
    parted.insert((1, "old", None, "2026-01-01", 7))
    truncate = TruncateSpec(target=T, partition={"day": "2026-01-01", "part": "7"})
    source = SourceSpec(columns=("id", "name", "price"), values=())
    into = InsertSpec(target=T, source=source, partition={"day": "2026-01-02", "part": "7"})
    parted.run(TransactionSpec(statements=(truncate, into)))
    assert parted.rows == []


def test_a_merge_makes_these_calls(parted: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not grow with the rows, the files or the partitions that are not touched."""
    parted.insert((1, "a", None, "2026-01-01", 7))
    calls: Counter[str] = Counter()
    fault = FakeMetastore.take_fault

    def counted(self: FakeMetastore, name: str, *, is_done: bool) -> None:
        calls[name] += not is_done
        fault(self, name, is_done=is_done)

    monkeypatch.setattr(FakeMetastore, "take_fault", counted)
    row = (1, "b", None, "2026-01-01", 7)
    parted.merge(row, keys=("id", "day", "part"), clauses=[UPDATE_ALL, INSERT_ALL])
    assert calls == {
        "get_table": 3,
        "constraints": 1,
        "partition_names": 2,
        "open_txn": 1,
        "allocate_write_id": 1,
        "lock": 1,
        "show_locks": 1,
        "valid_txns": 3,
        "valid_write_ids": 3,
        "add_write_ids_to_min_history": 1,
        "get_partitions": 2,
        "add_dynamic_partitions": 1,
        "heartbeat": 1,
        "forget_statistics": 1,
        "commit_txn": 1,
    }


def test_rows_of_several_partitions_behind_an_overwrite_of_one_are_refused(parted: Lake) -> None:
    """They would be invisible below the base of the overwrite."""
    rows = [(number, "a", None, "2026-01-01", number) for number in (1, 2)]
    parted.insert(*rows)
    truncate = TruncateSpec(target=T, partition={"day": "2026-01-01", "part": "2"})
    with pytest.raises(StatementOrderError):
        parted.run(TransactionSpec(statements=(truncate, insert(parted, *rows))))
