"""Checks INSERT, UPDATE, DELETE and MERGE statements and resolves their columns.

Decides nothing about files. Does not parse expressions, because only Spark can parse them.

Example:
    >>> from airflow_hiveacid.format.table import Column, TableInfo, TableRef
    >>> a = Column(name="a", type="int")
    >>> t = TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=(a,))
    >>> resolve_update(t, UpdateSpec(target="d.t", set={"A": "a + 1"})).assignments
    {'a': 'a + 1'}
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, TableInfo, TransactionalKind, check_format
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.statements import (
    SOURCE_VIEW,
    ColumnMatch,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements.constraints import default_where, value_or_default

_HANDLER = "storage_handler"
_ALLOWED_ACTIONS: Mapping[MergeWhen, frozenset[MergeAction]] = {
    MergeWhen.MATCHED: frozenset({MergeAction.UPDATE, MergeAction.DELETE}),
    MergeWhen.NOT_MATCHED: frozenset({MergeAction.INSERT}),
    MergeWhen.NOT_MATCHED_BY_SOURCE: frozenset({MergeAction.UPDATE, MergeAction.DELETE}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause with resolved columns.

    `assignments` maps target columns to expressions: all columns for an insert, only the changed
    columns for an update, and none for a delete. If a source value differs from the target row's in
    a column of `unchanged`, which an update cannot change, the statement fails.
    """

    when: MergeWhen
    action: MergeAction
    condition: str | None
    assignments: Mapping[str, str]
    unchanged: tuple[str, ...] = ()


def check_changeable(table: TableInfo, operation: str) -> None:
    """Raise an UnsupportedTableError or the like unless a table is full ACID, unsorted and ORC."""
    if table.kind is TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=table.ref)
    if table.kind is TransactionalKind.INSERT_ONLY:
        raise errors.InsertOnlyTableError(table=table.ref, operation=operation)
    if table.sort_columns:
        raise errors.SortedTableError(table=table.ref, columns=table.sort_columns)
    if table.storage.format is not FileFormat.ORC:
        raise errors.UnsupportedTableError(
            table=table.ref, detail="is not stored as ORC; full-ACID tables are ORC only"
        )


def check_readable(table: TableInfo) -> None:
    """Raise a SortedTableError or UnsupportedTableError if a table's rows cannot be read."""
    if table.kind is TransactionalKind.FULL_ACID:
        check_changeable(table, "reading")
        return
    if (handler := table.parameters.get(_HANDLER)) is not None:
        raise errors.UnsupportedTableError(
            table=table.ref,
            detail=f"stores its rows outside Hive, through {handler}; only Hive can read them",
        )
    check_format(table.ref, table.storage, table.parameters)


def check_insertable(table: TableInfo) -> None:
    """Raise an error with the reason if rows cannot be inserted into a table."""
    if table.kind is not TransactionalKind.INSERT_ONLY:
        check_changeable(table, "INSERT")
        return
    check_readable(table)
    if table.sort_columns:
        raise errors.SortedTableError(table=table.ref, columns=table.sort_columns)
    if table.num_buckets:
        raise errors.UnsupportedTableError(
            table=table.ref,
            detail="is insert-only and CLUSTERED BY; we can read such tables, but only Hive"
            " can write them. Recreate it without buckets, or as a full-ACID table",
        )


def check_cleanable(table: TableInfo) -> None:
    """Raise an error if a table is neither insert-only nor a full-ACID table that we can change."""
    if table.kind is not TransactionalKind.INSERT_ONLY:
        check_changeable(table, "cleaning")


def check_source(source: SourceSpec) -> None:
    """Raise a ConfigurationError unless a source is complete and exactly one of its four kinds."""
    kinds = (source.location, source.table, source.values, source.tables)
    count = sum(kind is not None for kind in kinds)
    if count != 1:
        raise errors.ConfigurationError(
            "a source needs exactly one of: location (with format), table, values, tables (with"
            f" query); found {count}"
        )
    if source.tables is not None and not source.query:
        raise errors.ConfigurationError("a source of several tables needs a query over their views")
    views = {SOURCE_VIEW} if source.table is not None else set(source.tables or {})
    for view, version in source.versions.items():
        if view not in views:
            raise errors.ConfigurationError(
                f"source versions contain {view!r}, but the source has no such view"
            )
        VersionSpec.parse(version)
    if source.location is not None and not source.format:
        raise errors.ConfigurationError(f"source {source.location} needs a format, such as parquet")
    rows, width = source.values or (), len(source.columns)
    expected = f"{width} columns" if width else "a different number in the first row"
    for number, row in enumerate(rows):
        if len(row) != (width or len(rows[0])):
            raise errors.ConfigurationError(
                f"source values[{number}] has {len(row)} values for {expected}"
            )


def tables_of(source: SourceSpec | None) -> Mapping[str, str]:
    """Return a dict from view name to ACID table, for the tables that a source reads."""
    if source is None:
        return {}
    return {SOURCE_VIEW: source.table} if source.table is not None else source.tables or {}


CLAUSE_WITHOUT_ROWS: Final = (
    "clause {number}: an earlier clause for the same WHEN has no condition. Add a condition"
    " to it, or put it last"
)


def clause_problem(clause: MergeClause) -> str | None:
    """Return why a clause is invalid for any table, or None if it may be valid for a table.

    Example:
        >>> clause_problem(MergeClause(when=MergeWhen.MATCHED, action=MergeAction.INSERT))
        'WHEN matched cannot insert; it can delete or update'
    """
    when, allowed = clause.when.value, _ALLOWED_ACTIONS[clause.when]
    if clause.action not in allowed:
        can = " or ".join(sorted(action.value for action in allowed))
        return f"WHEN {when} cannot {clause.action.value}; it can {can}"
    if clause.action is MergeAction.DELETE and clause.set is not None:
        return f"WHEN {when} deletes, so it cannot set columns; drop 'set', or make it an update"
    if clause.values is not None and clause.action is not MergeAction.INSERT:
        return f"WHEN {when} does not insert, so it has no values; name the columns in 'set'"
    if clause.values is not None and clause.set is not None:
        return f"WHEN {when} has 'set' and 'values'; give only one"
    is_update = clause.action is MergeAction.UPDATE
    if is_update and clause.set is None and clause.when is MergeWhen.NOT_MATCHED_BY_SOURCE:
        return "an update of rows without a source row needs explicit assignments, in 'set'"
    return None


def unreachable_clause(clauses: Iterable[tuple[object, object | None]]) -> int | None:
    """Return the position of the first clause that no row can reach, or None.

    A clause is its WHEN (any value that differs for each kind of rows) and its condition.

    Example:
        >>> unreachable_clause([(MergeWhen.MATCHED, None), (MergeWhen.MATCHED, "a = 1")])
        1
        >>> unreachable_clause([(MergeWhen.MATCHED, "a = 1"), (MergeWhen.MATCHED, None)])
    """
    closed = set[object]()
    for index, (when, condition) in enumerate(clauses):
        if when in closed:
            return index
        if condition is None:
            closed.add(when)
    return None


def resolve_merge(
    table: TableInfo, spec: MergeSpec, source_columns: Sequence[str]
) -> tuple[Clause, ...]:
    """Return the clauses of a MERGE with their columns resolved in the target and source.

    Raises ConfigurationError if the clauses or keys are invalid for any table.
    """
    source = {c.lower() for c in source_columns}
    if not spec.clauses:
        raise errors.ConfigurationError(
            f"MERGE into {table.ref} has no clauses; give at least one WHEN"
        )
    if not spec.keys:
        raise errors.ConfigurationError(
            f"MERGE into {table.ref} has no key columns; list those that identify a row"
        )
    for key in spec.keys:
        require_column(table, key)
        if key.lower() not in source:
            raise errors.UnknownColumnError(table="source", column=key, known=tuple(source_columns))
    if (index := unreachable_clause((c.when, c.condition) for c in spec.clauses)) is not None:
        raise errors.ConfigurationError(
            f"MERGE into {table.ref}: no row reaches {CLAUSE_WITHOUT_ROWS.format(number=index + 1)}"
        )
    keys = frozenset(key.lower() for key in spec.keys)
    return tuple(_resolve_clause(table, clause, source, keys) for clause in spec.clauses)


def _resolve_clause(
    table: TableInfo, clause: MergeClause, source: set[str], keys: Collection[str]
) -> Clause:
    if (problem := clause_problem(clause)) is not None:
        raise errors.ConfigurationError(f"MERGE into {table.ref}: {problem}")
    if clause.action is MergeAction.DELETE:
        assignments: dict[str, str] = {}
    elif clause.action is MergeAction.UPDATE:
        assignments = _update_assignments(table, clause, source)
    else:
        assignments = _insert_assignments(table, clause, source)
    return Clause(
        when=clause.when,
        action=clause.action,
        condition=clause.condition,
        assignments=assignments,
        unchanged=_unchanged(table, clause, source - set(keys)),
    )


def _unchanged(table: TableInfo, clause: MergeClause, source: Collection[str]) -> tuple[str, ...]:
    """Return the columns that UPDATE SET * must leave unchanged."""
    if clause.action is not MergeAction.UPDATE or clause.set is not None:
        return ()
    names = (*(c.name for c in table.partition_columns), *table.bucket_columns)
    return tuple(name for name in names if name in source)


def _update_assignments(table: TableInfo, clause: MergeClause, source: set[str]) -> dict[str, str]:
    if clause.set is not None:
        return checked_assignments(table, clause.set)
    # UPDATE SET * cannot change bucket and partition columns, which are usually part of the key. If
    # a source value of such a column differs from the target row's value, the statement fails
    # (`unchanged`).
    fixed = set(table.bucket_columns)
    return {c.name: f"s.{quoted(c.name)}" for c in table.columns if c.name in source - fixed}


def _insert_assignments(table: TableInfo, clause: MergeClause, source: set[str]) -> dict[str, str]:
    if clause.values is not None:
        if len(clause.values) != len(table.column_names):
            raise errors.ConfigurationError(
                f"MERGE into {table.ref} inserts {len(clause.values)} values, but the table has"
                f" {len(table.column_names)} columns, including partition columns"
            )
        return {
            name: value_or_default(table, name, value)
            for name, value in zip(table.column_names, clause.values, strict=True)
        }
    expressions = (
        {name.lower(): expression for name, expression in clause.set.items()}
        if clause.set is not None
        else {name: f"s.{quoted(name)}" for name in table.column_names if name in source}
    )
    for name in expressions:
        require_column(table, name)
    return {
        name: value_or_default(table, name, expressions.get(name)) for name in table.column_names
    }


def resolve_update(table: TableInfo, spec: UpdateSpec) -> Clause:
    """Return an UPDATE as a single resolved clause."""
    if not spec.set:
        raise errors.ConfigurationError(f"UPDATE of {table.ref} assigns no column")
    return Clause(
        when=MergeWhen.MATCHED,
        action=MergeAction.UPDATE,
        condition=spec.where,
        assignments=checked_assignments(table, spec.set),
    )


def checked_assignments(table: TableInfo, given: Mapping[str, str]) -> dict[str, str]:
    """Return an update's assignments by lower-case column name, after checking the columns."""
    assignments = {name.lower(): expression for name, expression in given.items()}
    for name in assignments:
        require_column(table, name)
        if name in {c.name for c in table.partition_columns}:
            raise errors.ColumnUpdateError(table=table.ref, column=name, role="partition")
        if name in table.bucket_columns:
            raise errors.ColumnUpdateError(table=table.ref, column=name, role="bucket")
    return {
        name: value_or_default(table, name, expression) for name, expression in assignments.items()
    }


def resolve_insert(
    table: TableInfo, spec: InsertSpec, source_columns: Sequence[str]
) -> dict[str, str]:
    """Return an expression over the source columns for each target column.

    A column in `spec.partition` gets that value. `spec.columns` lists the target columns in the
    order of the source columns; without it, `spec.match` determines them. A column without a value
    gets its default. Raises ConfigurationError if the columns or the PARTITION clause do not fit.
    """
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    require_partition_columns(table, fixed)
    # The last source columns are the flags of the columns at `default_where`.
    count = len(source_columns) - len(spec.default_where)
    of_values, flags = source_columns[:count], source_columns[count:]
    every = _targets(table, spec, fixed, of_values)
    targets = [name for index, name in enumerate(every) if index not in spec.default_at]
    if len(targets) != len(of_values):
        raise errors.ConfigurationError(
            f"INSERT into {table.ref} names {len(targets)} columns, but the source has"
            f" {len(of_values)}"
        )
    expressions: dict[str, str] = {}
    for target, name in zip(targets, of_values, strict=True):
        if target in expressions or target in fixed:
            raise errors.ConfigurationError(
                f"INSERT into {table.ref} gives column {target!r} twice"
            )
        expressions[target] = quoted(name)
    texts = columns_of_texts(table, spec, source_columns)
    for index, flag in zip(spec.default_where, flags, strict=True):
        name = every[index]
        expressions[name] = default_where(
            table, name, quoted(flag), expressions[name], is_text=name in texts
        )
    for name, value in fixed.items():
        expressions[name] = "NULL" if value is None else sql_string(value)
    return {
        name: value_or_default(table, name, expressions.get(name)) for name in table.column_names
    }


def check_named_columns(table: TableInfo, spec: InsertSpec) -> None:
    """Raise an error if an INSERT names a wrong column, independent of its source's columns."""
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    require_partition_columns(table, fixed)
    _targets(table, spec, fixed, ())


def columns_of_texts(
    table: TableInfo, spec: InsertSpec, source_columns: Sequence[str]
) -> frozenset[str]:
    """Return the columns to which an INSERT gives strings; Spark casts these strings."""
    if spec.source.values is not None:  # Spark gets every constant as a string
        return frozenset(table.column_names)
    # The values of PARTITION (p = '1') are strings, too.
    fixed = frozenset(name.lower() for name in spec.partition)
    if not spec.text_at:
        return fixed
    targets = _targets(table, spec, fixed, source_columns)
    return fixed | {name for index, name in enumerate(targets) if index in spec.text_at}


def _targets(
    table: TableInfo, spec: InsertSpec, fixed: Collection[str], source_columns: Sequence[str]
) -> list[str]:
    """Return the target columns in the order of the source, including those in `default_at`."""
    targets = [c.lower() for c in (spec.columns or source_columns)]
    if not spec.columns and spec.match is ColumnMatch.POSITION:
        targets = _by_position(table, spec, fixed)
    for name in targets:
        require_column(table, name)
    return targets


def _by_position(table: TableInfo, spec: InsertSpec, fixed: Collection[str]) -> list[str]:
    """Return the target columns in the order of the source columns, for a match by position."""
    names = [c.name for c in table.partition_columns]
    static, dynamic = names[: len(fixed)], names[len(fixed) :]
    dynamic_names = [name.lower() for name in spec.dynamic_partition]
    if (fixed or dynamic_names) and (set(static) != set(fixed) or dynamic != dynamic_names):
        raise errors.ConfigurationError(
            f"INSERT into {table.ref}: PARTITION ({', '.join([*fixed, *dynamic_names])}) does not"
            f" match the table, whose partition columns are {', '.join(names) or 'none'}; list all"
            " of them in that order"
        )
    return [*(c.name for c in table.columns), *dynamic]


def sql_string(text: str) -> str:
    r"""Quote a string as a Spark SQL string literal.

    Example:
        >>> sql_string("it's")
        "'it\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Quote a column name for Spark SQL; the name may contain any characters.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def require_column(table: TableInfo, name: str) -> None:
    """Raise an UnknownColumnError if a table does not have a column."""
    if name.lower() not in table.column_names:
        raise errors.UnknownColumnError(table=table.ref, column=name, known=table.column_names)


def require_partition_columns(table: TableInfo, names: Iterable[str]) -> None:
    """Raise an UnknownColumnError if one of these names is not a partition column of a table."""
    partition_names = {column.name for column in table.partition_columns}
    for name in names:
        if name.lower() not in partition_names:
            raise errors.UnknownColumnError(
                table=table.ref, column=name, known=tuple(sorted(partition_names))
            )
