"""Statements over Arrow rows: their specs, and their rows in the table's types.

Everything that can be refused without reading the table is refused here, before a transaction
exists.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.arrow.columns import KeyIndex, repeated
from airflow_hiveacid.arrow.rows import Values, check_days, check_not_null, stored
from airflow_hiveacid.arrow.statements import RowInsert, RowMerge
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.plan.statements import arguments, simple
from airflow_hiveacid.plan.statements.conditions import Condition, column_type, condition_of
from airflow_hiveacid.plan.statements.constants import (
    UNFIT,
    VALUE_REMEDY,
    Constant,
    constant_of,
)
from airflow_hiveacid.plan.statements.dml import resolve_insert, resolve_merge
from airflow_hiveacid.plan.statements.parameters import where_parameters
from airflow_hiveacid.storage.values.limits import is_utf8

_DELETE: Final = (specs.MergeClause(when=specs.MergeWhen.MATCHED, action=specs.MergeAction.DELETE),)
_GRAMMAR: Final = (
    "without Spark, a condition has =, <>, <, <=, >, >=, IN, BETWEEN and IS NULL of a column and"
    " constants or parameters, joined with AND, OR and parentheses"
)
_EVERY_ROW: Final = "true"


class Statement(NamedTuple):
    """A statement's spec, and the statement for the engine."""

    spec: specs.StatementSpec
    work: RowInsert | RowMerge | simple.SimpleChange


def insertion(
    table: TableInfo,
    rows: pa.Table,
    *,
    overwrites: bool,
    partition: Mapping[str, object] | None = None,
) -> Statement:
    """Return an INSERT INTO or INSERT OVERWRITE; `table` has its constraints."""
    # A date is spelled as the metastore spells it.
    constants = {
        name: value.isoformat() if type(value) is dt.date else value
        for name, value in (partition or {}).items()
    }
    spec = specs.InsertSpec(
        target=str(table.ref),
        source=_source(rows),
        mode=specs.InsertMode.OVERWRITE if overwrites else specs.InsertMode.APPEND,
        partition=arguments.partition_values(constants, nulls=arguments.null_columns(constants)),
    )
    resolve_insert(table, spec, rows.column_names)
    fixed = {
        name.lower(): _fixed(table, name.lower(), text) for name, text in spec.partition.items()
    }
    count = rows.num_rows
    values = _completed(table, stored(table, rows), count, fixed)
    _check_new_rows(table, values)
    check_not_null(table, values)
    names = [column.name for column in table.partition_columns]
    is_whole = bool(names) and set(fixed) == set(names)
    return Statement(
        spec,
        RowInsert(
            table=table,
            rows=count,
            values=values,
            overwrites=overwrites,
            partition=simple.partition_of(table, [fixed[n] for n in names]) if is_whole else None,
        ),
    )


def upsertion(table: TableInfo, rows: pa.Table, keys: Sequence[str] | str) -> Statement:
    """Return a MERGE that updates the rows with these keys and inserts the others."""
    spec = specs.MergeSpec(
        target=str(table.ref),
        source=_source(rows),
        keys=arguments.key_names(keys),
        clauses=specs.UPSERT,
    )
    update, _ = resolve_merge(table, spec, rows.column_names)
    names = tuple(name.lower() for name in spec.keys)
    values = stored(table, rows)
    own = _keys(table, values, names)
    for name in update.unchanged:
        simple.require_comparable(table, name, "column")
    index = KeyIndex.of(list(own.values()))
    _check_distinct(table, own, index)
    check_not_null(table, values)
    inserts = _completed(table, values, rows.num_rows)
    _check_new_rows(table, inserts)
    data = {column.name for column in table.columns}
    changes = {name: values[name] for name in update.assignments if name not in names}
    return Statement(
        spec,
        RowMerge(
            table=table,
            rows=rows.num_rows,
            keys=own,
            # A matched row has the keys of the source, so its old row is not read for them.
            updates={**{n: own[n] for n in names if n in data}, **changes} if changes else None,
            inserts=inserts,
            deletes=False,
            unchanged={name: values[name] for name in update.unchanged},
        ),
    )


def deletion_by_keys(table: TableInfo, rows: pa.Table) -> Statement:
    """Return a MERGE that deletes the rows with these keys; every column is a key."""
    spec = specs.MergeSpec(
        target=str(table.ref),
        source=_source(rows),
        keys=arguments.key_names(rows.column_names),
        clauses=_DELETE,
    )
    resolve_merge(table, spec, rows.column_names)
    own = _keys(table, stored(table, rows), tuple(rows.column_names))
    index = KeyIndex.of(list(own.values()))
    # A key that occurs twice would delete its rows twice; one with NULL (below 0) matches none.
    _, first = np.unique(index.of_rows[index.of_rows >= 0], return_index=True)
    positions = np.flatnonzero(index.of_rows >= 0)[first]
    distinct = {name: column.take(pa.array(positions)) for name, column in own.items()}
    work = RowMerge(
        table=table, rows=len(positions), keys=distinct, updates=None, inserts=None, deletes=True
    )
    return Statement(spec, work)


def deletion(table: TableInfo, where: str, parameters: Mapping[str, object] | None) -> Statement:
    """Return a DELETE of the rows that meet a condition; of all rows, if it is `true`."""
    spec = specs.DeleteSpec(
        target=str(table.ref), where=where, parameters=where_parameters(where, parameters)
    )
    condition = simple_condition(table, where, parameters)
    return Statement(spec, simple.SimpleChange(table=table, condition=condition, assignments=None))


def simple_condition(
    table: TableInfo, where: str | None, parameters: Mapping[str, object] | None
) -> Condition | None:
    """Return a condition of a scan or DELETE, None for all rows.

    Raises ExpressionError if only Spark can evaluate it; for TypeMismatchError, see `unfit`.
    """
    values = where_parameters(where, parameters)
    if where is None or where.strip().lower() == _EVERY_ROW:
        return None
    try:
        return condition_of(where, table, values)
    except errors.SparkNeededError as error:
        raise errors.ExpressionError(
            table=table.ref, expression=where, reason=f"{error.reason}; {_GRAMMAR}"
        ) from error


def _source(rows: pa.Table) -> specs.SourceSpec:
    return specs.SourceSpec(columns=tuple(rows.column_names))


def _completed(
    table: TableInfo, values: Values, count: int, fixed: Mapping[str, Constant] | None = None
) -> dict[str, pa.Array]:
    """Return new rows with every column of the table: given, fixed by the statement, or NULL."""
    every = dict(values)
    for name, value in (fixed or {}).items():
        every[name] = repeated(value, column_type(table, name), count)
    missing = [name for name in table.column_names if name not in every]
    for name in missing:
        if name in table.constraints.defaults:
            raise errors.SparkNeededError(
                reason=f"the rows lack column {name}, which has a DEFAULT"
            )
    return every | stored(table, pa.table({name: pa.nulls(count) for name in missing}))


def _fixed(table: TableInfo, name: str, text: str | None) -> Constant:
    type_ = column_type(table, name)
    value = None if text is None else constant_of(text, parse_type(type_))
    if value is UNFIT:
        raise errors.TypeMismatchError(
            table=table.ref,
            column=name,
            column_type=type_,
            value_type=f"the text {text!r}",
            remedy=VALUE_REMEDY,
        )
    return value


def _check_new_rows(table: TableInfo, values: Values) -> None:
    """Check the partitions of new rows, and refuse a table whose checks only Spark evaluates."""
    if table.constraints.checks:
        raise errors.SparkNeededError(reason="the table has CHECK constraints")
    names = [column.name for column in table.partition_columns]
    _check_texts(table, values, names)
    check_days(values, names)
    simple.check_partition_values(table, {n: pc.unique(values[n]).to_pylist() for n in names})


def _keys(table: TableInfo, values: Values, names: Sequence[str]) -> dict[str, pa.Array]:
    for name in names:
        simple.require_comparable(table, name, "key")
    _check_texts(table, values, names)
    check_days(values, names)
    return {name: values[name] for name in names}


def _check_texts(table: TableInfo, values: Values, names: Sequence[str]) -> None:
    """Refuse keys and partitions that are no UTF-8, because they become texts of Python."""
    for name in names:
        if pa.types.is_string(values[name].type) and not is_utf8(values[name]):
            raise errors.TypeMismatchError(
                table=table.ref,
                column=name,
                column_type=column_type(table, name),
                value_type="a text that is not UTF-8",
                remedy="encode it as UTF-8",
            )


def _check_distinct(table: TableInfo, own: Values, index: KeyIndex) -> None:
    names, rows = tuple(own), index.of_rows
    null_count = int((rows < 0).sum())
    if null_count:
        raise errors.SourceKeyError(
            table=table.ref, keys=names, problem=f"{null_count} rows have NULL in their key"
        )
    counts = np.bincount(rows, minlength=index.size)
    if (counts > 1).any():
        position = int(np.flatnonzero(counts[rows] > 1)[0])
        key = ", ".join(f"{name}={column[position].as_py()}" for name, column in own.items())
        problem = f"{int((counts > 1).sum())} keys occur more than once, such as {key}"
        raise errors.SourceKeyError(table=table.ref, keys=names, problem=problem)


def check_given(where: str | None, keys: object) -> None:
    """Check that a DELETE has a condition or keys, not both."""
    if (where is None) == (keys is None):
        raise errors.ConfigurationError(
            "delete needs where, a condition, or keys, rows with the keys; give one of them, or"
            " where='true' to delete every row"
        )
