"""The rules for statements that define databases and tables; each returns the work, or None."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.definition_rules import why_fixed, why_no_change, why_not_set
from airflow_hiveacid.format.table import Column, FileFormat, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.metastore.catalog import NewTable, TableChange
from airflow_hiveacid.metastore.definitions.new_table import define, differences, ensure_table
from airflow_hiveacid.metastore.definitions.work import Before, DefinitionWork
from airflow_hiveacid.metastore.port import MetastorePort

_log = logging.getLogger(__name__)


def create_database(
    client: MetastorePort, asked: statements.CreateDatabase, before: Before | None
) -> DefinitionWork | None:
    """Return the work that creates a database, unless it exists."""
    if asked.target in client.list_databases():
        if asked.if_not_exists or before is not None:
            return None
        raise errors.ConfigurationError(
            f"database {asked.target} exists already; write CREATE DATABASE IF NOT EXISTS to accept"
            " that"
        )
    return DefinitionWork(do=partial(client.create_database, asked.target), before=Before())


def create_table(
    client: MetastorePort, asked: statements.CreateTable, before: Before | None
) -> DefinitionWork | None:
    """Return the work that creates a table, unless it exists with the same definition."""
    new = new_table(asked)
    table = found_table(client, new.ref)
    if table is None:
        # With IF NOT EXISTS, it is no error if a different client creates the same table first.
        make = partial(ensure_table, client) if asked.if_not_exists else client.create_table
        return DefinitionWork(do=partial(make, new), before=Before())
    if wrong := differences(new, table):
        raise errors.TableDiffersError(table=new.ref, differences=wrong)
    if asked.if_not_exists or before is not None:
        return None
    raise errors.DefinitionError(
        table=new.ref, detail="exists already; write CREATE TABLE IF NOT EXISTS to accept that"
    )


def new_table(asked: statements.CreateTable) -> NewTable:
    """Return the table definition that a CREATE TABLE statement requests."""
    every = (*asked.columns, *asked.partition_columns)
    properties = dict(asked.properties)
    for name in properties:
        if why := why_not_set(name):
            raise errors.ConfigurationError(
                f"{asked.target}: property {name!r} cannot be set: {why}"
            )
    if asked.comment is not None:
        properties["comment"] = asked.comment
    return define(
        asked.target,
        _types(asked.columns),
        partition_columns=_types(asked.partition_columns),
        bucket_columns=asked.bucket_columns,
        num_buckets=asked.num_buckets,
        location=asked.location,
        insert_only=asked.insert_only,
        stored_as=asked.stored_as,
        comments=_comments(every),
        parameters=properties,
    )


def drop_table(
    client: MetastorePort, asked: statements.DropTable, before: Before | None
) -> DefinitionWork | None:
    """Return the work that drops a table, unless the table was created after an earlier try."""
    ref = TableRef.parse(asked.target)
    table = found_table(client, ref)
    if table is None:
        if asked.if_exists or before is not None:
            return None
        raise errors.TableNotFoundError(table=ref)
    if before is not None and not before.is_of(table):
        _log.warning("an earlier try dropped table=%s; the table that exists now stays", ref)
        return None
    _check_transactional(table)
    drop = partial(client.drop_table, ref, purge=asked.purge)
    return DefinitionWork(do=drop, before=Before(table_id=table.table_id), ref=ref)


def add_columns(
    client: MetastorePort, asked: statements.AddColumns, before: Before | None
) -> DefinitionWork | None:
    """Return the work that adds new columns."""
    table = transactional_table(client, asked.target)
    _check_cascade(table, asked)
    added = _columns(asked.columns)
    if before is not None and before.is_of(table) and _alike(table.columns[-len(added) :], added):
        return None
    _check_new_names(table, added)
    change = TableChange(
        added=added,
        comments=_comments(asked.columns),
        cascade=asked.cascade,
    )
    return _change(client, table, change)


def change_column(client: MetastorePort, asked: statements.ChangeColumn) -> DefinitionWork | None:
    """Return the work that widens a column's type, or sets its comment.

    A type with which a reader could read different values is refused.
    """
    table = transactional_table(client, asked.target)
    _check_cascade(table, asked)
    (column,) = _columns((asked.column,))
    previous = next((c for c in table.columns if c.name == column.name), None)
    if previous is None:
        if any(c.name == column.name for c in table.partition_columns):
            raise _refused(table, f"{column.name!r} is a partition column and cannot be changed")
        names = tuple(c.name for c in table.columns)
        raise errors.UnknownColumnError(table=table.ref, column=column.name, known=names)
    if _alike((previous,), (column,)):
        if asked.column.comment is None:
            return None
    else:
        _check_type(table, previous, column)
    change = TableChange(
        changed=(column,),
        comments=_comments((asked.column,)),
        cascade=asked.cascade,
    )
    return _change(client, table, change)


def rename_table(
    client: MetastorePort, asked: statements.RenameTable, before: Before | None
) -> DefinitionWork | None:
    """Return the work that renames a table, unless an earlier try has renamed it."""
    ref, new_ref = TableRef.parse(asked.target), TableRef.parse(asked.new_name)
    table, occupant = found_table(client, ref), found_table(client, new_ref)
    if before is not None and before.is_of(occupant) and not before.is_of(table):
        return None
    if table is None:
        raise errors.TableNotFoundError(table=ref)
    _check_transactional(table)
    if occupant is not None:
        raise errors.DefinitionError(
            table=ref, detail=f"cannot be renamed to {new_ref}: a table of that name exists"
        )
    return _change(client, table, TableChange(name=new_ref))


def set_properties(client: MetastorePort, asked: statements.SetProperties) -> DefinitionWork | None:
    """Return the work that sets table properties."""
    table = transactional_table(client, asked.target)
    properties = dict(asked.properties)
    _check_parameters(table, properties, why_not_set)
    if all(table.parameters.get(name) == value for name, value in properties.items()):
        return None
    return _set(client, table, properties)


def unset_properties(
    client: MetastorePort, asked: statements.UnsetProperties, before: Before | None
) -> DefinitionWork | None:
    """Return the work that removes table properties, other than those of `why_not_set`."""
    table = transactional_table(client, asked.target)
    _check_parameters(table, asked.names, why_fixed)
    names = [name for name in asked.names if name in table.parameters]
    may_lack = asked.if_exists or (before is not None and before.is_of(table))
    if len(names) < len(asked.names) and not may_lack:
        missing = next(name for name in asked.names if name not in names)
        raise _refused(table, f"has no property {missing!r}; write UNSET TBLPROPERTIES IF EXISTS")
    return _set(client, table, dict.fromkeys(names)) if names else None


def transactional_table(client: MetastorePort, name: str) -> TableInfo:
    """Return the definition of a table that must be transactional."""
    table = client.get_table(TableRef.parse(name))
    _check_transactional(table)
    return table


def found_table(client: MetastorePort, ref: TableRef) -> TableInfo | None:
    """Return the table, or None if it does not exist."""
    try:
        return client.get_table(ref)
    except errors.TableNotFoundError:
        return None


def _change(client: MetastorePort, table: TableInfo, change: TableChange) -> DefinitionWork:
    return DefinitionWork(
        do=partial(client.change_table, table.ref, change),
        before=Before(table_id=table.table_id),
        ref=table.ref,
    )


def _set(
    client: MetastorePort, table: TableInfo, values: Mapping[str, str | None]
) -> DefinitionWork:
    # Unlike Hive, take an exclusive lock, because this function reads, changes and sends back the
    # whole definition. With a weaker lock, a concurrent writer could mark statistics as outdated
    # after the read. The sent definition would then overwrite that mark.
    return DefinitionWork(
        do=partial(client.set_table_parameters, table.ref, values),
        before=Before(table_id=table.table_id),
        ref=table.ref,
    )


def _check_transactional(table: TableInfo) -> None:
    if table.kind is TransactionalKind.NONE:
        raise errors.NotTransactionalError(table=table.ref)


def _check_parameters(
    table: TableInfo, names: Iterable[str], why_not: Callable[[str], str | None]
) -> None:
    for name in names:
        if why := why_not(name):
            raise _refused(table, f"{name!r} cannot be changed: {why}")


def _check_cascade(
    table: TableInfo, asked: statements.AddColumns | statements.ChangeColumn
) -> None:
    if asked.cascade and not table.is_partitioned:
        raise _refused(table, "has no partitions, so leave CASCADE out, as Hive requires")


def _check_new_names(table: TableInfo, added: Sequence[Column]) -> None:
    names = set(table.column_names)
    for column in added:
        if column.name in names:
            raise _refused(table, f"has a column {column.name!r} already, or it is added twice")
        names.add(column.name)


def _check_type(table: TableInfo, previous: Column, column: Column) -> None:
    if table.storage.format is not FileFormat.ORC:
        raise _refused(
            table,
            f"is stored as {table.storage}, and readers convert such files differently. So column"
            f" {previous.name!r} stays {previous.type}; add a column of the new type",
        )
    if previous.name in table.bucket_columns:
        raise _refused(
            table,
            f"is bucketed by column {previous.name!r}, and the column's hash depends on its type;"
            " create a new table and INSERT INTO it",
        )
    if why := why_no_change(previous.type, column.type):
        raise _refused(
            table,
            f"column {previous.name!r} cannot become {column.type}: {why}. Add a column of the new"
            " type and UPDATE it",
        )


def _refused(table: TableInfo, detail: str) -> errors.DefinitionError:
    return errors.DefinitionError(table=table.ref, detail=detail)


def _columns(columns: Sequence[statements.NewColumn]) -> tuple[Column, ...]:
    return tuple(Column(name=c.name.lower(), type=str(parse_type(c.type))) for c in columns)


def _alike(first: Sequence[Column], second: Sequence[Column]) -> bool:
    return [(c.name, parse_type(c.type)) for c in first] == [
        (c.name, parse_type(c.type)) for c in second
    ]


def _types(columns: Sequence[statements.NewColumn]) -> dict[str, str]:
    return {column.name: column.type for column in columns}


def _comments(columns: Sequence[statements.NewColumn]) -> dict[str, str]:
    return {c.name.lower(): c.comment for c in columns if c.comment is not None}
