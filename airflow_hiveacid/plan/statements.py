"""What INSERT, UPDATE, DELETE and MERGE mean for one table, checked before anything is begun.

Takes a table and a statement's spec; gives the same statement with every column resolved and every
impossible wish refused. Decides nothing about files, and never looks into an expression: Spark
does.

Example:
    >>> from airflow_hiveacid.format.table import Column, TableInfo, TableRef
    >>> a = Column(name="a", type="int")
    >>> t = TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=(a,))
    >>> resolve_update(t, UpdateSpec(target="d.t", set={"A": "a + 1"})).assignments
    {'a': 'a + 1'}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import (
    BucketColumnUpdateError,
    ConfigurationError,
    InsertOnlyTableError,
    NotTransactionalError,
    PartitionColumnUpdateError,
    SortedTableError,
    UnknownColumnError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.table import FileFormat, Storage, TableInfo, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.specs import (
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
from airflow_hiveacid.plan.constraints import default_where, value_or_default

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from airflow_hiveacid.format.table import Column, PartitionInfo, PartitionName

_READ = frozenset({FileFormat.ORC, FileFormat.PARQUET, FileFormat.AVRO, FileFormat.TEXT})
# A table's parameter by which Hive finds columns of Parquet by their places.
_BY_PLACE = "parquet.column.index.access"
_HANDLER = "storage_handler"
_ALLOWED_ACTIONS: Mapping[MergeWhen, frozenset[MergeAction]] = {
    MergeWhen.MATCHED: frozenset({MergeAction.UPDATE, MergeAction.DELETE}),
    MergeWhen.NOT_MATCHED: frozenset({MergeAction.INSERT}),
    MergeWhen.NOT_MATCHED_BY_SOURCE: frozenset({MergeAction.UPDATE, MergeAction.DELETE}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause, resolved.

    `assignments` maps target columns to expressions: every data and partition column for an insert,
    only the columns that change for an update, none for a delete.
    """

    when: MergeWhen
    action: MergeAction
    condition: str | None
    assignments: Mapping[str, str]


def check_changeable(table: TableInfo, operation: str) -> None:
    """Refuse tables in which rows of full-ACID ORC files cannot be written.

    Raises:
        NotTransactionalError, InsertOnlyTableError, SortedTableError, UnsupportedTableError: as
        named.
    """
    if table.kind is TransactionalKind.NONE:
        raise NotTransactionalError(table=table.ref)
    if table.kind is TransactionalKind.INSERT_ONLY:
        raise InsertOnlyTableError(table=table.ref, operation=operation)
    if table.sort_columns:
        raise SortedTableError(table=table.ref, columns=table.sort_columns)
    if table.storage.format is not FileFormat.ORC:
        raise UnsupportedTableError(
            table=table.ref, detail="is not stored as ORC; full-ACID tables are ORC only"
        )


def check_readable(table: TableInfo) -> None:
    """Refuse tables whose rows cannot be read.

    Raises:
        SortedTableError, UnsupportedTableError: as named.
    """
    if table.kind is TransactionalKind.FULL_ACID:
        check_changeable(table, "reading")
        return
    if (handler := table.parameters.get(_HANDLER)) is not None:
        raise UnsupportedTableError(
            table=table.ref,
            detail=f"has its rows elsewhere, behind {handler}; only Hive reads them",
        )
    check_format(table.ref, table.storage, table.parameters)


def check_format(table: object, storage: Storage, parameters: Mapping[str, str]) -> None:
    """Refuse files of a table of plain files, or of one of its partitions, that cannot be read.

    Args:
        table: for messages.
        storage: of the table or partition.
        parameters: the table's.

    Raises:
        UnsupportedTableError: they are of another format, or columns are found in them otherwise.
    """
    by_place = {**dict(storage.parameters), **parameters}.get(_BY_PLACE, "")
    if storage.format is FileFormat.PARQUET and by_place.lower() == "true":
        raise UnsupportedTableError(
            table=table, detail=f"has {_BY_PLACE}=true; Parquet is read by names here"
        )
    if storage.format not in _READ:
        raise UnsupportedTableError(
            table=table,
            detail=f"is stored as {storage}; of tables that are not full-ACID only ORC, Parquet,"
            " Avro and text can be read here. Copy it into such a table with Hive",
        )


def own_columns(
    table: object,
    columns: Sequence[Column],
    partition: PartitionName,
    own: tuple[Column, ...] | None,
    format_: FileFormat,
) -> tuple[Column, ...] | None:
    """The columns by which Hive reads a partition's files, if they are not the table's.

    ORC it reads by the table's; of other formats what a partition does not know is NULL, whatever
    lies in its files.

    Args:
        table: for messages.
        columns: the table's.
        partition: which.
        own: its own (`PartitionInfo.columns`).
        format_: of its files.

    Raises:
        UnsupportedTableError: they are not the first of the table's, by their names.
    """
    if own is None or format_ is FileFormat.ORC:
        return None
    if any(a.name != b.name for a, b in zip(own, columns, strict=False)):
        raise UnsupportedTableError(
            table=table,
            detail=f"has columns of other names in its partition {partition}; give it the table's"
            " with ALTER TABLE ... PARTITION (...) REPLACE COLUMNS",
        )
    return own


def check_alike(table: TableInfo, partitions: Iterable[PartitionInfo]) -> None:
    """Refuse to write partitions of an insert-only table that are stored otherwise than itself.

    Raises:
        UnsupportedTableError: one is.
    """
    for partition in partitions:
        if partition.storage is not None and partition.storage.format is not table.storage.format:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"is stored as {table.storage}, and its partition {partition.name} as"
                f" {partition.storage}; only Hive can write such a table",
            )


def check_insertable(table: TableInfo) -> None:
    """Refuse tables into which rows cannot be written.

    Raises:
        NotTransactionalError, SortedTableError, UnsupportedTableError: as named.
    """
    if table.kind is not TransactionalKind.INSERT_ONLY:
        check_changeable(table, "INSERT")
        return
    check_readable(table)
    if table.sort_columns:
        raise SortedTableError(table=table.ref, columns=table.sort_columns)
    if table.num_buckets:
        raise UnsupportedTableError(
            table=table.ref,
            detail="is insert-only and CLUSTERED BY; such tables can be read, and Hive can write"
            " them. Recreate it without buckets, or as a full-ACID table",
        )


def check_source(source: SourceSpec) -> None:
    """Refuse a source that is not exactly one of files, table, values and tables.

    Raises:
        ConfigurationError: it is none or several, or its rows differ in length.
    """
    places = (source.location, source.table, source.values, source.tables)
    given = sum(place is not None for place in places)
    if given != 1:
        raise ConfigurationError(
            "a source is exactly one of: location (with format), table, values, tables (with"
            f" query); {given} of them were given"
        )
    if source.tables is not None and not source.query:
        raise ConfigurationError("a source of several tables needs a query over their views")
    views = {SOURCE_VIEW} if source.table is not None else set(source.tables or {})
    for view, version in source.versions.items():
        if view not in views:
            raise ConfigurationError(f"source versions name {view!r}, which is no table of it")
        VersionSpec.parse(version)
    if source.location is not None and not source.format:
        raise ConfigurationError(f"source {source.location} needs a format, such as parquet")
    for number, row in enumerate(source.values or ()):
        if len(row) != len(source.columns or (source.values or ((),))[0]):
            of = f"{len(source.columns)} columns" if source.columns else "another number of them"
            raise ConfigurationError(f"source values[{number}] has {len(row)} values for {of}")


def clause_problem(clause: MergeClause) -> str | None:
    """What is wrong with a clause whatever the table, as the rest of a sentence; None if nothing.

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
        return f"WHEN {when} has 'set' and 'values'; give one of them"
    is_update = clause.action is MergeAction.UPDATE
    if is_update and clause.set is None and clause.when is MergeWhen.NOT_MATCHED_BY_SOURCE:
        return "an update of rows without a source row needs its assignments named, in 'set'"
    return None


def resolve_merge(
    table: TableInfo, spec: MergeSpec, source_columns: Sequence[str]
) -> tuple[Clause, ...]:
    """Resolve the clauses of a MERGE against the target and the source's columns.

    Raises:
        UnknownColumnError, PartitionColumnUpdateError, BucketColumnUpdateError: a clause names a
            column that is not there or may not change.
        ConfigurationError: no clauses, no keys, or see `clause_problem`.
    """
    source = {c.lower() for c in source_columns}
    if not spec.clauses:
        raise ConfigurationError(f"MERGE into {table.ref} has no clauses; give at least one WHEN")
    if not spec.keys:
        raise ConfigurationError(
            f"MERGE into {table.ref} has no key columns; name those that identify a row"
        )
    for key in spec.keys:
        require_column(table, key)
        if key.lower() not in source:
            raise UnknownColumnError(table="source", column=key, known=tuple(source_columns))
    return tuple(_resolve_clause(table, clause, source) for clause in spec.clauses)


def _resolve_clause(table: TableInfo, clause: MergeClause, source: set[str]) -> Clause:
    if (problem := clause_problem(clause)) is not None:
        raise ConfigurationError(f"MERGE into {table.ref}: {problem}")
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
    )


def _update_assignments(table: TableInfo, clause: MergeClause, source: set[str]) -> dict[str, str]:
    if clause.set is not None:
        return checked_assignments(table, clause.set)
    # UPDATE SET * leaves bucket and partition columns alone: they cannot change, and in a matched
    # row they are usually part of the key.
    fixed = set(table.bucket_columns)
    return {c.name: f"s.{quoted(c.name)}" for c in table.columns if c.name in source - fixed}


def _insert_assignments(table: TableInfo, clause: MergeClause, source: set[str]) -> dict[str, str]:
    if clause.values is not None:
        if len(clause.values) != len(table.column_names):
            raise ConfigurationError(
                f"MERGE into {table.ref} inserts {len(clause.values)} values, the table has"
                f" {len(table.column_names)} columns, those of its partitions included"
            )
        return {
            name: value_or_default(table, name, value)
            for name, value in zip(table.column_names, clause.values, strict=True)
        }
    given = (
        {name.lower(): expression for name, expression in clause.set.items()}
        if clause.set is not None
        else {name: f"s.{quoted(name)}" for name in table.column_names if name in source}
    )
    for name in given:
        require_column(table, name)
    return {name: value_or_default(table, name, given.get(name)) for name in table.column_names}


def resolve_update(table: TableInfo, spec: UpdateSpec) -> Clause:
    """Resolve an UPDATE to the one clause it is.

    Raises:
        UnknownColumnError, PartitionColumnUpdateError, BucketColumnUpdateError: see
        `resolve_merge`.
        ConfigurationError: nothing is assigned.
    """
    if not spec.set:
        raise ConfigurationError(f"UPDATE of {table.ref} assigns no column")
    return Clause(
        when=MergeWhen.MATCHED,
        action=MergeAction.UPDATE,
        condition=spec.where,
        assignments=checked_assignments(table, spec.set),
    )


def checked_assignments(table: TableInfo, given: Mapping[str, str]) -> dict[str, str]:
    """Lower-case the names of an update's assignments and refuse what may not change.

    Raises:
        UnknownColumnError, PartitionColumnUpdateError, BucketColumnUpdateError: as named.
    """
    assignments = {name.lower(): expression for name, expression in given.items()}
    for name in assignments:
        require_column(table, name)
        if name in {c.name for c in table.partition_columns}:
            raise PartitionColumnUpdateError(table=table.ref, column=name)
        if name in table.bucket_columns:
            raise BucketColumnUpdateError(table=table.ref, column=name)
    return {name: value_or_default(table, name, given) for name, given in assignments.items()}


def resolve_insert(
    table: TableInfo, spec: InsertSpec, source_columns: Sequence[str]
) -> dict[str, str]:
    """Say which expression over the source fills each column of the target.

    Columns in `spec.partition` get that constant; `spec.columns` names the targets of the source's
    columns in order; without it columns meet as `spec.match` says. A column that gets nothing gets
    its default.

    Raises:
        UnknownColumnError: a column is named that the table does not have, or none of the source's
            is.
        ConfigurationError: a column is given twice, the numbers of columns differ, or the PARTITION
            clause is not that of the table.
    """
    fixed = {name.lower(): value for name, value in spec.partition.items()}
    partition_columns = {c.name for c in table.partition_columns}
    for name in fixed:
        if name not in partition_columns:
            raise UnknownColumnError(
                table=table.ref, column=name, known=tuple(sorted(partition_columns))
            )
    count = len(source_columns) - len(spec.default_where)
    of_values, flags = source_columns[:count], source_columns[count:]
    every = _targets(table, spec, fixed, of_values)
    targets = [name for at, name in enumerate(every) if at not in spec.default_at]
    if len(targets) != len(of_values):
        raise ConfigurationError(
            f"INSERT into {table.ref} gives {len(targets)} columns, the source has {len(of_values)}"
        )
    given: dict[str, str] = {}
    for target, name in zip(targets, of_values, strict=True):
        if target in given or target in fixed:
            raise ConfigurationError(f"INSERT into {table.ref} gives column {target!r} twice")
        given[target] = quoted(name)
    texts = columns_of_texts(table, spec, source_columns)
    for at, flag in zip(spec.default_where, flags, strict=True):
        name = every[at]
        given[name] = default_where(table, name, quoted(flag), given[name], is_text=name in texts)
    for name, value in fixed.items():
        given[name] = "NULL" if value is None else sql_string(value)
    return {name: value_or_default(table, name, given.get(name)) for name in table.column_names}


def columns_of_texts(
    table: TableInfo, spec: InsertSpec, source_columns: Sequence[str]
) -> frozenset[str]:
    """The columns that an INSERT gives texts to which are cast to whatever the columns are."""
    if spec.source.values is not None:
        return frozenset(table.column_names)
    fixed = frozenset(name.lower() for name in spec.partition)
    every = _targets(table, spec, fixed, source_columns) if spec.text_at else []
    return fixed | {name for at, name in enumerate(every) if at in spec.text_at}


def _targets(
    table: TableInfo, spec: InsertSpec, fixed: Collection[str], source_columns: Sequence[str]
) -> list[str]:
    """The target columns in the order of the source's, those of `default_at` among them."""
    targets = [c.lower() for c in (spec.columns or source_columns)]
    if not spec.columns and spec.match is ColumnMatch.POSITION:
        targets = _by_position(table, spec, fixed)
    for name in targets:
        require_column(table, name)
    return targets


def _by_position(table: TableInfo, spec: InsertSpec, fixed: Collection[str]) -> list[str]:
    """The target columns in the order in which the source's columns are for them."""
    names = [c.name for c in table.partition_columns]
    static, dynamic = names[: len(fixed)], names[len(fixed) :]
    given = [name.lower() for name in spec.dynamic_partition]
    if (fixed or given) and (set(static) != set(fixed) or dynamic != given):
        raise ConfigurationError(
            f"INSERT into {table.ref}: PARTITION ({', '.join([*fixed, *given])}) is not that of the"
            f" table, whose partition columns are {', '.join(names) or 'none'}; name all of them in"
            " that order"
        )
    return [*(c.name for c in table.columns), *dynamic]


def sql_string(text: str) -> str:
    r"""Quote a text as a Spark SQL string literal.

    Example:
        >>> sql_string("it's")
        "'it\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """Quote a column's name for Spark SQL, whatever characters are in it.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def require_column(table: TableInfo, name: str) -> None:
    """Refuse a column that the table does not have.

    Raises:
        UnknownColumnError: it has not.
    """
    if name.lower() not in table.column_names:
        raise UnknownColumnError(table=table.ref, column=name, known=table.column_names)
