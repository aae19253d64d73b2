"""The rules for ADD PARTITION and DROP PARTITION; each returns the remaining work, or None."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.definition_rules import partition_spelling
from airflow_hiveacid.format.table import PartitionName, TableInfo
from airflow_hiveacid.jobs import metastore_statements as statements
from airflow_hiveacid.metastore.definitions.new_table import same_directory
from airflow_hiveacid.metastore.definitions.tables import transactional_table
from airflow_hiveacid.metastore.definitions.work import Before, DefinitionWork
from airflow_hiveacid.metastore.port import MetastorePort


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
            raise errors.DefinitionError(
                table=table.ref,
                detail=f"has partition {name} already; write ADD IF NOT EXISTS PARTITION to accept"
                " that",
            )
        if location is not None and not same_directory(location, actual[name]):
            raise errors.DefinitionError(
                table=table.ref, detail=f"has partition {name} at {actual[name]}, not at {location}"
            )
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
        raise errors.DefinitionError(
            table=table.ref,
            detail=f"cannot get partition {name} at {location}: Hive would load the files there."
            " Omit LOCATION; if there are files, load them with LOAD DATA INPATH",
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
