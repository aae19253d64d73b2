"""Simple statements as events: what each locks, which rows it finds, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa

from airflow_hiveacid.arrow.columns import (
    KeyIndex,
    array_of,
    ends_of,
    repeated,
    rows_that_meet,
)
from airflow_hiveacid.arrow.events import EventBatches, EventMaker, partition_keys
from airflow_hiveacid.arrow.limits import Limits
from airflow_hiveacid.arrow.search import FileRows, Search, partition_constants
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs.specs.statements import TruncateSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements.columns import partition_missing
from airflow_hiveacid.plan.statements.conditions import (
    AllOf,
    Comparison,
    Condition,
    Membership,
    column_type,
    columns_of,
    reduced,
)
from airflow_hiveacid.plan.statements.simple import (
    Columns,
    SimpleChange,
    SimpleInsert,
    SimpleMerge,
    SimpleStatement,
    SimpleTruncate,
    partition_of,
)
from airflow_hiveacid.reading.access import Touched, nameable, touching
from airflow_hiveacid.reading.table_view import TableView
from airflow_hiveacid.writing.runs import PlannedStatement

MakeEvents = Callable[[TableView, Limits], EventBatches]
"""A function that makes a statement's events from the table as the statement sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowStatement(PlannedStatement):
    """A simple statement that is ready to run; without `make_events`, it writes no rows."""

    make_events: MakeEvents | None


def planned(kind: str, statement: SimpleStatement, client: MetastorePort) -> ArrowStatement:
    """Return a statement with its locks and the function that makes its events."""
    match statement:
        case SimpleInsert():
            return _insert(kind, statement)
        case SimpleChange():
            return _change(kind, statement, client)
        case SimpleMerge():
            return _merge(kind, statement, client)
        case SimpleTruncate():
            return _truncate(kind, statement, client)
        case _:
            assert_never(statement)


# ---- INSERT --------------------------------------------------------------------------------------


def _insert(kind: str, statement: SimpleInsert) -> ArrowStatement:
    table = statement.table
    partitions = _partitions_of(table, statement.values, statement.rows)
    fixed = None if statement.partition is None else (statement.partition,)
    names = fixed or (nameable(tuple(dict.fromkeys(partitions))) if table.is_partitioned else None)

    def make(_view: TableView, limits: Limits) -> EventBatches:
        values = _arrays(table, statement.values)
        limits.check_changes(statement.rows, _size_of(values))
        events = EventMaker(table, table.columns)
        rows = [events.inserts(partition_keys(partitions), values)] if statement.rows else []
        return EventBatches(batches=rows)

    return ArrowStatement(
        kind=kind,
        table=table,
        operations=frozenset({DataOperation.INSERT}),
        make_events=make,
        fixed=fixed,
        partitions=partial(Touched, names=names),
    )


def _partitions_of(table: TableInfo, values: Columns, rows: int) -> list[PartitionName]:
    """Return the partition of each new row."""
    if not table.is_partitioned:
        return [PartitionName()] * rows
    columns = [values[column.name] for column in table.partition_columns]
    names: dict[tuple[object, ...], PartitionName] = {}
    return [
        names.get(row) or names.setdefault(row, partition_of(table, row))
        for row in zip(*columns, strict=True)
    ]


# ---- UPDATE and DELETE ---------------------------------------------------------------------------


def _change(kind: str, statement: SimpleChange, client: MetastorePort) -> ArrowStatement:
    table, condition, assignments = statement.table, statement.condition, statement.assignments
    search = Search(
        reach=condition,
        columns=tuple(columns_of(condition)),
        pick=None if condition is None else partial(rows_that_meet, condition),
    )

    def make(view: TableView, limits: Limits) -> EventBatches:
        found = search.find(view, limits)
        names = None if assignments is None else frozenset(assignments)
        events = EventMaker(table, tuple(c for c in table.columns if c.name in (names or ())))
        batches = [events.deletes(view, rows) for rows in found]
        if assignments is not None:
            of_row = sum(
                array_of([value], column_type(table, name)).nbytes
                for name, value in assignments.items()
            )
            limits.check_changes(0, of_row * sum(rows.rows.num_rows for rows in found))
            for rows in found:
                values = {
                    name: repeated(value, column_type(table, name), rows.rows.num_rows)
                    for name, value in assignments.items()
                }
                batches.append(events.updates(view, rows, values))
        return EventBatches(
            batches=batches,
            updated=frozenset() if names is None else frozenset(rows.file.number for rows in found),
            assigned=names,
        )

    operation = DataOperation.DELETE if assignments is None else DataOperation.UPDATE
    return ArrowStatement(
        kind=kind,
        table=table,
        operations=frozenset({operation}),
        make_events=make,
        partitions=_reached(table, condition, client),
    )


def _reached(
    table: TableInfo, condition: Condition | None, client: MetastorePort
) -> Callable[[], Touched]:
    """Return a function that finds the partitions in which a condition can hold."""
    named = [c.name for c in table.partition_columns if c.name in columns_of(condition)]
    if condition is None or not named:
        return Touched
    return touching(
        client, table, lambda names: nameable(partitions_where(table, names, condition))
    )


def partitions_where(
    table: TableInfo, names: tuple[PartitionName, ...], condition: Condition
) -> tuple[PartitionName, ...]:
    """Return the partitions in which a condition can hold."""
    used = columns_of(condition)
    return tuple(
        name
        for name in names
        if reduced(condition, partition_constants(table, name, tuple(used))) is not False
    )


# ---- MERGE ---------------------------------------------------------------------------------------


def _merge(kind: str, statement: SimpleMerge, client: MetastorePort) -> ArrowStatement:
    table = statement.table
    return ArrowStatement(
        kind=kind,
        table=table,
        operations=frozenset({DataOperation.UPDATE}),
        make_events=partial(_merge_events, statement),
        partitions=_merged_partitions(statement, client),
    )


def _merge_events(statement: SimpleMerge, view: TableView, limits: Limits) -> EventBatches:
    table, names = statement.table, tuple(statement.keys)
    keys = [array_of(statement.keys[name], column_type(table, name)) for name in names]
    index = KeyIndex.of(keys)

    def pick(columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        return pa.array(index.look_up([columns[name] for name in names]) >= 0)

    reach = _reach_of(statement)
    search = Search(reach=reach, columns=names, pick=pick)
    found = [] if reach is None else search.find(view, limits)
    updates = None if statement.updates is None else _arrays(table, statement.updates)
    assigned = None if updates is None else frozenset(updates)
    named = frozenset(table.column_names) if statement.inserts is not None else assigned or ()
    brought = tuple(column for column in table.columns if column.name in named)
    events = EventMaker(table, brought)
    matched = np.zeros(index.size, dtype=bool)
    batches: list[pa.RecordBatch] = []
    changes = updates is not None or statement.deletes
    for rows in found:
        codes = index.look_up([rows.columns[name] for name in names])
        matched[codes] = True
        if not changes:
            continue
        pairs, source = _pairs(rows, codes, index, limits)
        batches.append(events.deletes(view, pairs))
        if updates is not None:
            values = {name: array.take(source) for name, array in updates.items()}
            batches.append(events.updates(view, pairs, values))
    if statement.inserts is not None:
        new = np.flatnonzero(
            ~((index.of_rows >= 0) & matched[index.of_rows])
            if index.size
            else np.ones(statement.rows, dtype=bool)
        )
        batches += _new_rows(statement, statement.inserts, events, new)
    limits.check_changes(
        sum(batch.num_rows for batch in batches), sum(batch.nbytes for batch in batches)
    )
    return EventBatches(
        batches=batches,
        updated=frozenset() if assigned is None else frozenset(rows.file.number for rows in found),
        assigned=assigned,
    )


def _pairs(
    found: FileRows, codes: np.ndarray, index: KeyIndex, limits: Limits
) -> tuple[FileRows, pa.Array]:
    """Return each found row once for each source row with its key, and these source rows.

    A key that occurs twice in the source gives two changes of one row, which the writer refuses.
    """
    order = np.argsort(index.of_rows, kind="stable")
    sorted_codes = index.of_rows[order]
    first = np.searchsorted(sorted_codes, codes, "left")
    counts = np.searchsorted(sorted_codes, codes, "right") - first
    limits.check_changes(int(counts.sum()))
    at = np.repeat(np.arange(len(codes)), counts)
    offsets = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    source = order[np.repeat(first, counts) + offsets]
    taken = pa.array(at)
    rows = FileRows(file=found.file, rows=found.rows.take(taken), columns={})
    return rows, pa.array(source)


def _new_rows(
    statement: SimpleMerge, inserts: Columns, events: EventMaker, new: np.ndarray
) -> list[pa.RecordBatch]:
    if not len(new):
        return []
    table, taken = statement.table, pa.array(new)
    values = {name: array.take(taken) for name, array in _arrays(table, inserts).items()}
    partitions = _partitions_of(table, inserts, statement.rows)
    names = partition_keys([partitions[position] for position in new.tolist()])
    return [events.inserts(names, values)]


def _reach_of(statement: SimpleMerge) -> Condition | None:
    """Return where rows with the source's keys can be; None if no source row has a key."""
    table = statement.table
    partition_names = {column.name for column in table.partition_columns}
    ends = ends_of(statement.keys, tuple(statement.keys))
    if len(ends) < len(statement.keys):
        return None
    parts: list[Condition] = []
    for name, (low, high) in ends.items():
        if name in partition_names:
            parts.append(Membership(name, tuple(dict.fromkeys(statement.keys[name]))))
        else:
            parts += [Comparison(name, ">=", low), Comparison(name, "<=", high)]
    return AllOf(tuple(parts))


def _merged_partitions(statement: SimpleMerge, client: MetastorePort) -> Callable[[], Touched]:
    """Return a function that finds the partitions of matched and new rows by the keys."""
    table = statement.table
    reach = _reach_of(statement)
    if reach is None or not any(c.name in statement.keys for c in table.partition_columns):
        return Touched
    new: tuple[PartitionName, ...] = ()
    if statement.inserts is not None:
        new = tuple(_partitions_of(table, statement.inserts, statement.rows))

    def ask(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        matched = partitions_where(table, names, reach)
        return nameable(tuple(sorted({*new, *matched}, key=str)))

    return touching(client, table, ask)


# ---- TRUNCATE ------------------------------------------------------------------------------------


def _truncate(kind: str, statement: SimpleTruncate, client: MetastorePort) -> ArrowStatement:
    table, values = statement.table, statement.partition

    def meant(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...]:
        return tuple(
            name
            for name in names
            if partition_constants(table, name, tuple(values)) == dict(values)
        )

    partitions = meant(client.partition_names(table)) if values else ()
    if values and not partitions:
        shown = {name: str(value) for name, value in values.items()}
        raise partition_missing(table, TruncateSpec(target=str(table.ref), partition=shown))
    is_one = len(partitions) == 1 and len(values) == len(table.partition_columns)
    return ArrowStatement(
        kind=kind,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        fixed=partitions if is_one else None,
        partitions=touching(client, table, lambda names: nameable(meant(names)))
        if values
        else Touched,
        empties=meant,
    )


def _arrays(table: TableInfo, values: Columns) -> dict[str, pa.Array]:
    """Return the data columns of rows as arrays."""
    types = {column.name: column.type for column in table.columns}
    return {name: array_of(column, types[name]) for name, column in values.items() if name in types}


def _size_of(values: Mapping[str, pa.Array]) -> int:
    return sum(array.nbytes for array in values.values())
