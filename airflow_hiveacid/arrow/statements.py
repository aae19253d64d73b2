"""Simple statements as events: what each locks, which rows it finds, and what it makes of them.

Rows come as Arrow columns in the table's types: those of a spec's values (`SimpleStatement`), or
those of a caller (`RowInsert`, `RowMerge`). LOAD DATA copies files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.arrow import TASK_LIMITS, Limits
from airflow_hiveacid.arrow.columns import (
    KeyIndex,
    Positions,
    array_of,
    ends_of,
    repeated,
    rows_that_meet,
)
from airflow_hiveacid.arrow.rows import Values, check_not_null
from airflow_hiveacid.arrow.search import (
    EventBatches,
    EventMaker,
    FileRows,
    Search,
    partition_constants,
    partition_keys,
)
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import ColumnUpdateError
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.statements import StatementSpec, TruncateSpec
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.statements import simple
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
from airflow_hiveacid.reading.table_view import TableView, Touched, nameable, touching
from airflow_hiveacid.writing.event_files import WritePlan
from airflow_hiveacid.writing.loading import checked_load, copied_here
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.runs import PlannedStatement

MakeEvents = Callable[[TableView, Limits], EventBatches]
"""A function that makes a statement's events from the table as the statement sees it."""

MakeFiles = Callable[
    [WritePlan, TableView, Callable[[VersionSpec], TableView]], tuple[StagedFile, ...]
]
"""A function that stages files, from the write plan, and the table as it is and as of a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowStatement(PlannedStatement):
    """A simple statement that is ready to run; without `make_events`, it writes no rows.

    `make_files` stages files without events.
    """

    make_events: MakeEvents | None
    make_files: MakeFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowInsert:
    """An INSERT of Arrow columns: every column of the table, with partition columns.

    With `overwrites`, the rows replace those of their partitions. If all rows belong to one
    `partition`, because the statement names it, that partition is replaced even without rows.
    """

    table: TableInfo
    rows: int
    values: Values
    overwrites: bool = False
    partition: PartitionName | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMerge:
    """A MERGE of Arrow columns by keys; the fields are those of `SimpleMerge`.

    `unchanged` are columns that an update cannot change: if a matched row has another value there,
    the statement fails, also if it updates no other column.
    """

    table: TableInfo
    rows: int
    keys: Values
    updates: Values | None
    inserts: Values | None
    deletes: bool
    unchanged: Values = field(default_factory=dict)


def planned(  # noqa: PLR0911 - one for each kind of statement
    spec: StatementSpec,
    statement: simple.SimpleStatement | RowInsert | RowMerge,
    client: MetastorePort,
    limits: Limits = TASK_LIMITS,
) -> ArrowStatement:
    """Return a statement with its locks and the function that makes its events or files."""
    table = statement.table
    match statement:
        case simple.SimpleInsert():
            insert = RowInsert(
                table=table,
                rows=statement.rows,
                values=_arrays(table, statement.values),
                partition=statement.partition,
            )
            return _insert(spec, insert)
        case RowInsert():
            return _insert(spec, statement)
        case simple.SimpleChange():
            return _change(spec, statement, client)
        case simple.SimpleMerge():
            updates, inserts = statement.updates, statement.inserts
            merge = RowMerge(
                table=table,
                rows=statement.rows,
                keys=_arrays(table, statement.keys),
                updates=None if updates is None else _arrays(table, updates),
                inserts=None if inserts is None else _arrays(table, inserts),
                deletes=statement.deletes,
            )
            return _merge(spec, merge, client)
        case RowMerge():
            return _merge(spec, statement, client)
        case simple.SimpleTruncate():
            return _truncate(spec, statement, client)
        case simple.SimpleLoad():
            return _load(spec, statement, client, limits)
        case _:
            assert_never(statement)


# ---- INSERT --------------------------------------------------------------------------------------


def _insert(spec: StatementSpec, statement: RowInsert) -> ArrowStatement:
    table, values = statement.table, statement.values
    partitions = RowPartitions.of(table, values, statement.rows)
    fixed = None if statement.partition is None else (statement.partition,)
    names = fixed or (nameable(partitions.names) if table.is_partitioned else None)
    operation = DataOperation.OVERWRITE if statement.overwrites else DataOperation.INSERT

    def make(_view: TableView, limits: Limits) -> EventBatches:
        data = _data_of(table, values)
        limits.check_changes(statement.rows, sum(array.nbytes for array in data.values()))
        events = EventMaker(table, table.columns)
        rows = [events.inserts(partitions.keys(), data)] if statement.rows else []
        return EventBatches(batches=rows)

    return ArrowStatement(
        spec=spec,
        table=table,
        operations=frozenset({operation}),
        make_events=make,
        fixed=fixed,
        partitions=partial(Touched, names=names),
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowPartitions:
    """The partitions of rows: their distinct names, and the position of each row's name."""

    names: tuple[PartitionName, ...]
    of_rows: Positions

    @classmethod
    def of(cls, table: TableInfo, values: Values, rows: int) -> RowPartitions:
        """Return the partitions of rows with these values of the partition columns."""
        codes = np.zeros(rows, np.int64)
        if not table.is_partitioned:
            return cls((PartitionName(),), codes)
        columns = [values[column.name] for column in table.partition_columns]
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            # A number for each combination; renumbered, so that it stays below the number of rows.
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
            codes = np.unique(codes, return_inverse=True)[1]
        _, first, of_rows = np.unique(codes, return_index=True, return_inverse=True)
        distinct = zip(
            *(column.take(pa.array(first)).to_pylist() for column in columns), strict=True
        )
        return cls(tuple(simple.partition_of(table, row) for row in distinct), of_rows)

    def keys(self, rows: Positions | None = None) -> pa.Array:
        """Return the `_partition` value of each row, or of the rows at some positions."""
        chosen = self.of_rows if rows is None else self.of_rows[rows]
        return partition_keys(self.names).take(pa.array(chosen))


# ---- UPDATE and DELETE ---------------------------------------------------------------------------


def _change(
    spec: StatementSpec, statement: simple.SimpleChange, client: MetastorePort
) -> ArrowStatement:
    table, condition, assignments = statement.table, statement.condition, statement.assignments
    search = Search(
        reach=condition,
        columns=tuple(columns_of(condition)),
        pick=None if condition is None else partial(rows_that_meet, condition),
    )

    def make(view: TableView, limits: Limits) -> EventBatches:
        parts = search.find(view, limits)
        names = None if assignments is None else frozenset(assignments)
        events = EventMaker(table, tuple(c for c in table.columns if c.name in (names or ())))
        batches = [events.deletes(view, rows) for rows in parts]
        if assignments is not None:
            of_row = sum(
                array_of([value], column_type(table, name)).nbytes
                for name, value in assignments.items()
            )
            limits.check_changes(0, of_row * sum(rows.rows.num_rows for rows in parts))
            for rows in parts:
                values = {
                    name: repeated(value, column_type(table, name), rows.rows.num_rows)
                    for name, value in assignments.items()
                }
                batches.append(events.updates(view, rows, values))
        return EventBatches(
            batches=batches,
            updated=frozenset() if names is None else frozenset(rows.file.number for rows in parts),
            assigned=names,
        )

    operation = DataOperation.DELETE if assignments is None else DataOperation.UPDATE
    return ArrowStatement(
        spec=spec,
        table=table,
        operations=frozenset({operation}),
        make_events=make,
        partitions=_reached(table, condition, client),
    )


def _reached(
    table: TableInfo, condition: Condition | None, client: MetastorePort
) -> Callable[[], Touched]:
    """Return a function that finds the partitions to lock; `Touched()` means the whole table."""
    columns = [c.name for c in table.partition_columns if c.name in columns_of(condition)]
    if condition is None or not columns:
        return Touched
    return touching(
        client, table, lambda names: nameable(partitions_where(table, names, condition))
    )


def partitions_where(
    table: TableInfo, names: tuple[PartitionName, ...], condition: Condition
) -> tuple[PartitionName, ...]:
    """Return the partitions in which a condition can hold."""
    columns = columns_of(condition)
    return tuple(
        name
        for name in names
        if reduced(condition, partition_constants(table, name, tuple(columns))) is not False
    )


# ---- MERGE ---------------------------------------------------------------------------------------


def _merge(spec: StatementSpec, statement: RowMerge, client: MetastorePort) -> ArrowStatement:
    table = statement.table
    return ArrowStatement(
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.UPDATE}),
        make_events=partial(_merge_events, statement),
        partitions=_merged_partitions(statement, client),
    )


def _merge_events(statement: RowMerge, view: TableView, limits: Limits) -> EventBatches:
    table, names = statement.table, tuple(statement.keys)
    index = KeyIndex.of(list(statement.keys.values()))

    def pick(columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        return pa.array(index.look_up([columns[name] for name in names]) >= 0)

    reach = _reach_of(statement)
    search = Search(reach=reach, columns=(*names, *statement.unchanged), pick=pick)
    parts = [] if reach is None else search.find(view, limits)
    updates = None if statement.updates is None else _data_of(table, statement.updates)
    assigned = None if updates is None else frozenset(updates)
    new_columns = frozenset(table.column_names) if statement.inserts is not None else assigned or ()
    event_columns = tuple(column for column in table.columns if column.name in new_columns)
    events = EventMaker(table, event_columns)
    matched = np.zeros(index.size, dtype=bool)
    batches: list[pa.RecordBatch] = []
    changed = 0
    changes = updates is not None or statement.deletes
    for rows in parts:
        codes = index.look_up([rows.columns[name] for name in names])
        matched[codes] = True
        if not (changes or statement.unchanged):
            continue
        pairs, source = _pairs(rows, codes, index, limits)
        _check_unchanged(statement, pairs, source)
        if changes:
            changed += pairs.rows.num_rows
            batches.append(events.deletes(view, pairs))
        if updates is not None:
            values = {name: array.take(source) for name, array in updates.items()}
            batches.append(events.updates(view, pairs, values))
    if statement.inserts is not None:
        # A source row is new if its key has a NULL or matched no row; all are, if no row has a key.
        new = np.flatnonzero(
            ~((index.of_rows >= 0) & matched[index.of_rows])
            if index.size
            else np.ones(statement.rows, dtype=bool)
        )
        changed += len(new)
        batches += _new_rows(table, statement.inserts, events, new, statement.rows)
    limits.check_changes(changed, sum(batch.nbytes for batch in batches))
    return EventBatches(
        batches=batches,
        updated=frozenset() if assigned is None else frozenset(rows.file.number for rows in parts),
        assigned=assigned,
    )


def _pairs(
    found: FileRows, codes: np.ndarray, index: KeyIndex, limits: Limits
) -> tuple[FileRows, pa.Array]:
    """Return each pair of a found row and a source row with its key; the writer refuses doubles."""
    order = np.argsort(index.of_rows, kind="stable")
    sorted_codes = index.of_rows[order]
    first = np.searchsorted(sorted_codes, codes, "left")
    counts = np.searchsorted(sorted_codes, codes, "right") - first
    limits.check_changes(int(counts.sum()))
    positions = np.repeat(np.arange(len(codes)), counts)
    # Of each pair: the place of its source row among those with the key of its found row.
    offsets = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    source = order[np.repeat(first, counts) + offsets]
    indices = pa.array(positions)
    columns = {name: column.take(indices) for name, column in found.columns.items()}
    rows = FileRows(file=found.file, rows=found.rows.take(indices), columns=columns)
    return rows, pa.array(source)


def _check_unchanged(statement: RowMerge, found: FileRows, source: pa.Array) -> None:
    table = statement.table
    for name, values in statement.unchanged.items():
        old, new = found.columns[name], values.take(source)
        is_same = pc.or_(
            pc.fill_null(pc.equal(old, new), fill_value=False),
            pc.and_(old.is_null(), new.is_null()),
        )
        if not pc.all(is_same, min_count=0).as_py():
            role = "bucket" if name in table.bucket_columns else "partition"
            raise ColumnUpdateError(table=table.ref, column=name, role=role)


def _new_rows(
    table: TableInfo, inserts: Values, events: EventMaker, new: Positions, rows: int
) -> list[pa.RecordBatch]:
    if not len(new):
        return []
    values = {name: array.take(pa.array(new)) for name, array in inserts.items()}
    check_not_null(table, values)
    partitions = RowPartitions.of(table, inserts, rows)
    return [events.inserts(partitions.keys(new), _data_of(table, values))]


def _reach_of(statement: RowMerge) -> Condition | None:
    """Return where rows with the source's keys can be; None if no source row has a key."""
    table = statement.table
    partition_names = {column.name for column in table.partition_columns}
    ends = ends_of(statement.keys)
    if len(ends) < len(statement.keys):
        return None
    parts: list[Condition] = []
    for name, (low, high) in ends.items():
        if name in partition_names:
            parts.append(Membership(name, tuple(pc.unique(statement.keys[name]).to_pylist())))
        else:
            parts += [Comparison(name, ">=", low), Comparison(name, "<=", high)]
    return AllOf(tuple(parts))


def _merged_partitions(statement: RowMerge, client: MetastorePort) -> Callable[[], Touched]:
    """Return a function that finds the partitions of matched and new rows by the keys."""
    table = statement.table
    reach = _reach_of(statement)
    if reach is None or not any(c.name in statement.keys for c in table.partition_columns):
        return Touched
    new: tuple[PartitionName, ...] = ()
    if statement.inserts is not None:
        new = RowPartitions.of(table, statement.inserts, statement.rows).names

    def ask(names: tuple[PartitionName, ...]) -> tuple[PartitionName, ...] | None:
        matched = partitions_where(table, names, reach)
        return nameable(tuple(sorted({*new, *matched}, key=str)))

    return touching(client, table, ask)


# ---- TRUNCATE ------------------------------------------------------------------------------------


def _truncate(
    spec: StatementSpec, statement: simple.SimpleTruncate, client: MetastorePort
) -> ArrowStatement:
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
        spec=spec,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        fixed=partitions if is_one else None,
        partitions=touching(client, table, lambda names: nameable(meant(names)))
        if values
        else Touched,
        empties=meant,
    )


# ---- LOAD DATA -----------------------------------------------------------------------------------


def _load(
    spec: StatementSpec, statement: simple.SimpleLoad, client: MetastorePort, limits: Limits
) -> ArrowStatement:
    program = checked_load(
        client, statement.table, statement.location, statement.partition, limits.check_files
    )
    operation = DataOperation.OVERWRITE if statement.overwrites else DataOperation.INSERT
    return ArrowStatement(
        spec=spec,
        table=statement.table,
        operations=frozenset({operation}),
        make_events=None,
        make_files=lambda plan, _view, _as_of: copied_here(program.copies(plan)),
        fixed=program.fixed,
        partitions=partial(Touched, names=program.fixed),
    )


def _arrays(table: TableInfo, values: simple.Columns) -> dict[str, pa.Array]:
    return {name: array_of(column, column_type(table, name)) for name, column in values.items()}


def _data_of(table: TableInfo, values: Values) -> dict[str, pa.Array]:
    names = {column.name for column in table.columns}
    return {name: array for name, array in values.items() if name in names}
