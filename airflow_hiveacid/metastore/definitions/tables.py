"""The rules for statements that define databases, tables and partitions.

The function of a statement returns the work, or None if there is nothing to change. Its `before` is
the state that an earlier try noted, or None if no try can have made the change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.definition_rules import (
    partition_spelling,
    why_fixed,
    why_no_change,
    why_not_set,
)
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.metastore.catalog import NewTable, TableChange
from airflow_hiveacid.metastore.definitions import Before, DefinitionWork
from airflow_hiveacid.metastore.definitions.new_table import (
    define,
    differences,
    ensure_table,
    same_directory,
)
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
    return _locking(table, partial(client.drop_table, ref, purge=asked.purge))


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
        raise _refused(table, f"cannot be renamed to {new_ref}: a table of that name exists")
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
    return _locking(table, partial(client.change_table, table.ref, change))


def _set(
    client: MetastorePort, table: TableInfo, values: Mapping[str, str | None]
) -> DefinitionWork:
    # Unlike Hive, take an exclusive lock, because this function reads, changes and sends back the
    # whole definition. With a weaker lock, a concurrent writer could mark statistics as outdated
    # after the read. The sent definition would then overwrite that mark.
    return _locking(table, partial(client.set_table_parameters, table.ref, values))


def _locking(table: TableInfo, do: Callable[[], object]) -> DefinitionWork:
    return DefinitionWork(do=do, before=Before(table_id=table.table_id), ref=table.ref)


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


def add_partitions(
    client: MetastorePort, asked: statements.AddPartitions, before: Before | None
) -> DefinitionWork | None:
    """Return the work that creates the statement's missing partitions.

    Raises DefinitionError if a partition exists, without IF NOT EXISTS or elsewhere, or if a new
    one would get a location other than the default.
    """
    table = transactional_table(client, asked.target)
    locations = {whole_partition(table, new.values): new.location for new in asked.partitions}
    if len(locations) < len(asked.partitions):
        raise errors.ConfigurationError(f"table {table.ref}: a partition is named twice")
    partitions = client.get_partitions(table, _known(client, table, locations))
    actual = {partition.name: partition.location for partition in partitions}
    may_be_there = asked.if_not_exists or (before is not None and before.is_of(table))
    for name, location in locations.items():
        if name not in actual:
            continue
        if not may_be_there:
            accepting = "write ADD IF NOT EXISTS PARTITION to accept that"
            raise _refused(table, f"has partition {name} already; {accepting}")
        if location is not None and not same_directory(location, actual[name]):
            raise _refused(table, f"has partition {name} at {actual[name]}, not at {location}")
    missing = tuple(name for name in locations if name not in actual)
    for name in missing:
        _check_location(table, name, locations[name])
    if not missing:
        return None
    return DefinitionWork(
        do=partial(client.add_partitions, table, missing),
        before=Before(table_id=table.table_id),
        ref=table.ref,
        lock_type=LockType.SHARED_READ,  # as in Hive, since a new partition has no readers
        partitions=missing,
    )


def _check_location(table: TableInfo, name: PartitionName, location: str | None) -> None:
    # For a transactional table, Hive executes ADD PARTITION ... LOCATION like LOAD DATA. Hive
    # creates the partition below the table's directory, and loads the files as a delta
    # (AlterTableAddPartitionAnalyzer).
    if location is not None and not same_directory(
        location, table.default_partition_location(name)
    ):
        raise _refused(
            table,
            f"cannot get partition {name} at {location}: Hive would load the files there. Omit"
            " LOCATION; if there are files, load them with LOAD DATA INPATH",
        )


def drop_partitions(
    client: MetastorePort, asked: statements.DropPartitions, before: Before | None
) -> DefinitionWork | None:
    """Return the work that drops partitions; skip partitions created after an earlier try.

    Raises PartitionNotFoundError if a specification matches none, without IF EXISTS.
    """
    table = transactional_table(client, asked.target)
    all_names = client.partition_names(table)
    is_again = before is not None and before.is_of(table)
    doomed: dict[PartitionName, None] = {}
    for values in asked.partitions:
        matches = matching(table, values, all_names)
        if not matches and not (asked.if_exists or is_again):
            raise errors.PartitionNotFoundError(table=table.ref, partition=dict(values))
        doomed |= dict.fromkeys(matches)
    births = client.partition_births(table, tuple(doomed)) if doomed else {}
    if before is not None and is_again:
        # An earlier try may have dropped some partitions. Keep partitions created after that try.
        births = {n: born for n, born in births.items() if born <= (before.newest_birth or 0)}
    names = tuple(name for name in doomed if name in births)
    if not names:
        return None
    return DefinitionWork(
        do=partial(client.drop_partitions, table, names, purge=asked.purge),
        before=Before(table_id=table.table_id, newest_birth=max(births.values())),
        ref=table.ref,
        locked_partitions=names,
        partitions=names,
    )


def matching(
    table: TableInfo, values: statements.PartitionValues, names: tuple[PartitionName, ...]
) -> tuple[PartitionName, ...]:
    """Return the partitions with these values; `values` may omit some partition columns."""
    spec = _spelt(table, values)
    return tuple(
        name
        for name in names
        if all(dict(zip(name.columns, name.values, strict=True))[c] == v for c, v in spec.items())
    )


def whole_partition(table: TableInfo, values: statements.PartitionValues) -> PartitionName:
    """Return the name of the partition with these values; each column needs one."""
    spec = _spelt(table, values)
    missing = [c.name for c in table.partition_columns if c.name not in spec]
    if missing:
        raise errors.ConfigurationError(
            f"table {table.ref}: partition column {missing[0]!r} has no value; give one to each"
        )
    return table.partition_name([spec[c.name] for c in table.partition_columns])


def _spelt(table: TableInfo, values: statements.PartitionValues) -> Mapping[str, str]:
    """Return a mapping from column to value, as Hive spells it; refuse what does not fit."""
    if not table.is_partitioned:
        raise errors.UnsupportedTableError(table=table.ref, detail="has no partitions")
    types = {c.name: c.type for c in table.partition_columns}
    for name, text in values:
        if name not in types:
            raise errors.ConfigurationError(
                f"table {table.ref}: {name!r} is not one of its partition columns, which are"
                f" {', '.join(types)}"
            )
        if not text:  # None, too, from a caller that is not type-checked
            raise errors.ConfigurationError(
                f"table {table.ref}: the value of partition column {name!r} is {text!r}, which"
                " Hive stores as NULL; give a value"
            )
    try:
        return {name: partition_spelling(text, types[name]) for name, text in values}
    except errors.ConfigurationError as error:
        raise errors.ConfigurationError(f"table {table.ref}: {error}") from error


def _known(
    client: MetastorePort, table: TableInfo, names: Mapping[PartitionName, object]
) -> tuple[PartitionName, ...]:
    # List all names first: `get_partitions` causes an SQL error in 4.0.1 if no partition exists.
    all_names = set(client.partition_names(table))
    return tuple(name for name in names if name in all_names)
