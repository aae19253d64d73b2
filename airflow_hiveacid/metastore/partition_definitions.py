"""What adding and removing partitions comes to: the rules of `definitions.py` for partitions.

Takes a client, a statement and what an earlier try noted; gives the work that is left, None for
none. Changes nothing itself.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    DefinitionError,
    PartitionNotFoundError,
    UnsupportedTableError,
)
from airflow_hiveacid.metastore.definition_work import Before, Work
from airflow_hiveacid.metastore.new_table import same_place
from airflow_hiveacid.metastore.table_definitions import transactional_table
from airflow_hiveacid.plan.definition_rules import partition_spelling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.metastore_statements import (
        AddPartitions,
        DropPartitions,
        PartitionValues,
    )

_log = logging.getLogger(__name__)


def add_partitions(
    client: MetastorePort, asked: AddPartitions, before: Before | None
) -> Work | None:
    """Make those that are missing.

    Raises:
        DefinitionError: one is there, and IF NOT EXISTS was not said; or it is, or is to be,
            elsewhere.
        ConfigurationError: values do not name a partition of the table.
    """
    table = transactional_table(client, asked.target)
    wanted = {_whole_name(table, new.values): new.location for new in asked.partitions}
    if len(wanted) < len(asked.partitions):
        raise ConfigurationError(f"table {table.ref}: a partition is named twice")
    known = client.get_partitions(table, _known(client, table, wanted))
    there = {partition.name: partition.location for partition in known}
    may_be_there = asked.if_not_exists or (before is not None and before.is_of(table))
    for name, location in wanted.items():
        if name not in there:
            continue
        if not may_be_there:
            raise DefinitionError(
                table=table.ref,
                detail=f"has partition {name} already; write ADD IF NOT EXISTS PARTITION if it may",
            )
        if location is not None and not same_place(location, there[name]):
            raise DefinitionError(
                table=table.ref, detail=f"has partition {name} at {there[name]}, not at {location}"
            )
    missing = tuple(name for name in wanted if name not in there)
    for name in missing:
        _check_place(table, name, wanted[name])
    if not missing:
        return None
    return Work(
        do=partial(client.add_partitions, table, missing),
        before=Before(table_id=table.table_id),
        ref=table.ref,
        lock_type=LockType.SHARED_READ,  # as Hive: nobody has read or written there
        partitions=missing,
    )


def _check_place(table: TableInfo, name: PartitionName, location: str | None) -> None:
    # Hive reads ADD PARTITION ... LOCATION of a transactional table as a LOAD DATA: the partition
    # lies below the table, and the files become a delta of it (AlterTableAddPartitionAnalyzer).
    if location is not None and not same_place(location, table.default_partition_location(name)):
        raise DefinitionError(
            table=table.ref,
            detail=f"gets no partition {name} at {location}: Hive would load the files there;"
            " leave LOCATION out, and LOAD DATA INPATH into the partition if there are any",
        )


def drop_partitions(
    client: MetastorePort, asked: DropPartitions, before: Before | None
) -> Work | None:
    """Remove those that there are; what was made since an earlier try is not touched.

    Raises:
        PartitionNotFoundError: there is none for an entry, and IF EXISTS was not said.
        ConfigurationError: values do not fit the table's partition columns.
    """
    table = transactional_table(client, asked.target)
    everything = client.partition_names(table)
    is_again = before is not None and before.is_of(table)
    doomed: dict[PartitionName, None] = {}
    for values in asked.partitions:
        found = matching(table, values, everything)
        if not found and not (asked.if_exists or is_again):
            raise PartitionNotFoundError(table=table.ref, partition=dict(values))
        doomed |= dict.fromkeys(found)
    births = client.partition_births(table, tuple(doomed)) if doomed else {}
    if before is not None and is_again:
        # An earlier try may have removed them all, or some: whoever made one anew keeps it.
        births = {n: born for n, born in births.items() if born <= (before.newest_birth or 0)}
    names = tuple(name for name in doomed if name in births)
    if not names:
        return None
    return Work(
        do=partial(client.drop_partitions, table, names, purge=asked.purge),
        before=Before(table_id=table.table_id, newest_birth=max(births.values())),
        ref=table.ref,
        locked_partitions=names,
        partitions=names,
    )


def matching(
    table: TableInfo, values: PartitionValues, names: tuple[PartitionName, ...]
) -> tuple[PartitionName, ...]:
    """Those partitions that have these values, of all partition columns or of some.

    Raises:
        ConfigurationError: values do not fit the table's partition columns.
    """
    wanted = _spelt(table, values)
    return tuple(
        name
        for name in names
        if all(dict(zip(name.columns, name.values, strict=True))[c] == v for c, v in wanted.items())
    )


def whole_partition(table: TableInfo, values: PartitionValues) -> PartitionName:
    """The name of the partition with these values.

    Raises:
        ConfigurationError: a partition column has no value, or one that does not fit.
    """
    return _whole_name(table, values)


def _whole_name(table: TableInfo, values: PartitionValues) -> PartitionName:
    wanted = _spelt(table, values)
    missing = [c.name for c in table.partition_columns if c.name not in wanted]
    if missing:
        raise ConfigurationError(
            f"table {table.ref}: partition column {missing[0]!r} has no value; give one to each"
        )
    return table.partition_name([wanted[c.name] for c in table.partition_columns])


def _spelt(table: TableInfo, values: PartitionValues) -> Mapping[str, str]:
    if not table.is_partitioned:
        raise UnsupportedTableError(table=table.ref, detail="has no partitions")
    types = {c.name: c.type for c in table.partition_columns}
    for name, _ in values:
        if name not in types:
            raise ConfigurationError(
                f"table {table.ref}: {name!r} is none of its partition columns, which are"
                f" {', '.join(types)}"
            )
    try:
        return {name: partition_spelling(text, types[name]) for name, text in values}
    except ConfigurationError as error:
        raise ConfigurationError(f"table {table.ref}: {error}") from error


def _known(
    client: MetastorePort, table: TableInfo, wanted: Mapping[PartitionName, object]
) -> tuple[PartitionName, ...]:
    # Asked by name first: 4.0.1 runs into an SQL error where none of them is there.
    everything = set(client.partition_names(table))
    return tuple(name for name in wanted if name in everything)
