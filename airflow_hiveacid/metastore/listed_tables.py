"""The tables and partitions of a job or a sensor, and checks that no definition has changed.

The checks are needed because Trino's DDL does not wait for the locks of readers and writers. Hive's
DDL does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import (
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
    lower_name,
)
from airflow_hiveacid.metastore.port import MetastorePort

_SHAPE: Final = (
    "table_id",
    "location",
    "columns",
    "partition_columns",
    "kind",
    "storage",
    "bucket_columns",
    "num_buckets",
    "bucketing_version",
    "sort_columns",
)
"""The parts of a table's definition that determine how files are read and written."""


def listed_tables(
    client: MetastorePort, db: str, *, is_wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, TableInfo | errors.HiveAcidError]]:
    """Yield each table's name with its definition, or with the error if it is unreadable.

    A name is `db.table`; only tables that `is_wanted` selects are read. Views are omitted, and
    tables that were dropped after the listing.
    """
    for name in client.list_tables(db):
        full_name = f"{db}.{name}"
        if not is_wanted(full_name):
            continue
        try:
            yield full_name, client.get_table(TableRef(db, name))
        except (errors.TableNotFoundError, errors.UnsupportedTableError):  # dropped, or a view
            continue
        except (errors.InvalidNameError, errors.MetastoreCallError) as error:
            yield full_name, error
        except errors.HiveAcidError:
            raise
        except Exception as error:  # noqa: BLE001 - other clients define tables in many ways
            yield full_name, errors.typed(error)


def every_table(
    client: MetastorePort, on_unlisted: Callable[[str, errors.MetastoreCallError], None]
) -> Iterator[tuple[str, TableInfo | errors.HiveAcidError]]:
    """Yield the tables of all databases as `listed_tables` does.

    `on_unlisted` gets the name of each database that the server does not list, for example because
    the user lacks access to it, and the error.
    """
    for db in client.list_databases():
        try:
            yield from listed_tables(client, db)
        except errors.MetastoreCallError as error:
            on_unlisted(db, error)


def is_pattern(name: str) -> bool:
    """Return whether a name of `transactional_tables` may match several tables."""
    return any(sign in name for sign in "*?[")


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a full table name matches a pattern of `transactional_tables`."""
    return any(fnmatchcase(name.lower(), lower_name(pattern)) for pattern in patterns)


def transactional_tables(
    client: MetastorePort, patterns: Sequence[str], *, only: Collection[TableRef] | None = None
) -> Iterator[tuple[str, TableInfo | errors.HiveAcidError]]:
    """Yield the transactional tables of all databases whose names match one of the patterns.

    `patterns` are names such as `sales.orders`, in any case, with the wildcards `*`, `?` and
    `[...]`. Databases without a possible match are not listed, since the user may lack access to
    them. As in `listed_tables`, an unreadable table is included. If `only` is given, no other
    tables are read.
    """
    names = None if only is None else {str(ref) for ref in only}

    def is_wanted(name: str) -> bool:
        return (names is None or name.lower() in names) and matches(name, patterns)

    databases = [_pattern_of_databases(pattern) for pattern in patterns]
    listed = client.list_databases() if only is None else sorted({ref.db for ref in only})
    for db in listed:
        if not matches(db, databases):
            continue
        for name, table in listed_tables(client, db, is_wanted=is_wanted):
            if isinstance(table, Exception) or table.kind is not TransactionalKind.NONE:
                yield name, table


def _pattern_of_databases(pattern: str) -> str:
    """Return a pattern that matches all databases in which a table can match.

    A `*` without a dot, and a dot in brackets, may match the dot between database and table.
    """
    db, dot, name = pattern.partition(".")
    return db if dot and "." not in name and "[" not in pattern else "*"


def partitions_of(
    client: MetastorePort, table: TableInfo, partition: str | None
) -> tuple[PartitionInfo, ...]:
    """Return a table's partitions, or the named one; PartitionNotFoundError without it."""
    if partition is None:
        return client.list_partitions(table)
    name = PartitionName.parse(partition)
    partitions = client.get_partitions(table, [name])
    # An unpartitioned table is its own only partition. Some metastore databases ignore case.
    if [info.name for info in partitions] != [name]:
        raise errors.PartitionNotFoundError(table=table.ref, partition=partition)
    return partitions


def check_table(client: MetastorePort, table: TableInfo) -> None:
    """Raise TableChangedError unless this is still the table, with the same definition."""
    _check_same(client.get_table(table.ref), table)


def check_source(client: MetastorePort, table: TableInfo) -> None:
    """Check a table or materialized view that is only read, as `check_table`."""
    _check_same(client.get_source(table.ref), table)


def _check_same(now: TableInfo, then: TableInfo) -> None:
    changed = changed_parts(now, then)
    if changed:
        raise errors.TableChangedError(table=then.ref, what=changed)


def changed_parts(now: TableInfo, then: TableInfo) -> str:
    """Return the names of the parts of a definition that have changed; empty if none has.

    Only parts that determine how files are read and written are compared.
    """
    return ", ".join(name for name in _SHAPE if getattr(now, name) != getattr(then, name))


def check_partition(client: MetastorePort, table: TableInfo, partition: PartitionInfo) -> None:
    """Raise TableChangedError if the table or partition was changed, or dropped and made again."""
    check_table(client, table)
    if partition.name.columns and client.get_partitions(table, [partition.name]) != (partition,):
        raise errors.TableChangedError(table=table.ref, what=f"partition {partition.name}")
