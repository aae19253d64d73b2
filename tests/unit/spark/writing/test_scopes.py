"""Which partitions of a table the statements of a transaction lock."""

from __future__ import annotations

import dataclasses
from typing import Any

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.reading.table_view import Touched
from airflow_hiveacid.spark.writing.work import CheckedStatement
from airflow_hiveacid.writing.runs import accesses, touched_partitions

ONE, TWO = PartitionName.parse("p=1"), PartitionName.parse("p=2")


def change(table: TableInfo, name: PartitionName, *, is_fixed: bool) -> CheckedStatement:
    seen = () if is_fixed else (name,)
    events: Any = None
    return CheckedStatement(
        spec=InsertSpec(target=str(table.ref), source=SourceSpec()),
        table=table,
        operations=frozenset({DataOperation.INSERT if is_fixed else DataOperation.UPDATE}),
        make_events=events,
        fixed=(name,) if is_fixed else None,
        partitions=lambda: Touched(names=(name,), seen=seen),
    )


def locked(*changes: CheckedStatement) -> tuple[PartitionName, ...] | None:
    (access,) = accesses(changes, touched_partitions(changes))
    return access.partitions


def test_a_single_statement_locks_the_partitions_that_it_selects(table: TableInfo) -> None:
    assert locked(change(table, ONE, is_fixed=False)) == (ONE,)


def test_several_statements_lock_partitions_only_if_every_statement_names_them(
    table: TableInfo,
) -> None:
    """A search among existing partitions misses partitions that an earlier statement adds."""
    named = change(table, ONE, is_fixed=True)
    assert locked(named, change(table, TWO, is_fixed=True), named) == (ONE, TWO)
    assert locked(named, change(table, ONE, is_fixed=False)) is None
    assert locked(change(table, ONE, is_fixed=False), named) is None


def test_a_named_partition_that_was_seen_is_searched_for_among_all_partitions(
    table: TableInfo,
) -> None:
    """The metastore may store its name with a different escaping."""
    truncation = dataclasses.replace(
        change(table, ONE, is_fixed=True), partitions=lambda: Touched(names=(ONE,), seen=(ONE, TWO))
    )
    for found in touched_partitions([truncation, change(table, TWO, is_fixed=True)]):
        assert found.seen == ((ONE, TWO) if found.names == (ONE,) else ())


def test_the_lock_of_a_table_covers_the_operations_of_all_statements(table: TableInfo) -> None:
    changes = [change(table, ONE, is_fixed=True), change(table, ONE, is_fixed=False)]
    for order in (changes, changes[::-1]):
        (access,) = accesses(order, touched_partitions(order))
        assert access.operations == {DataOperation.INSERT, DataOperation.UPDATE}
