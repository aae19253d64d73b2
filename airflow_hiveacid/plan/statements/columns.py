"""Check the columns of a statement against the definitions of its tables.

Takes a statement's spec, its table, and its source's columns if they are known. Raises the error
that the driver would raise. Never parses expressions, because only Spark can parse them.

Example:
    >>> source_columns(SourceSpec(values=((1, "a"),)), {})
    ('col1', 'col2')
    >>> source_columns(SourceSpec(format="parquet", location="hdfs://nn/landing"), {})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from airflow_hiveacid.format.errors import ConfigurationError, PartitionNotFoundError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.specs.statements import (
    SOURCE_VIEW,
    DeleteSpec,
    InsertSpec,
    LoadSpec,
    MergeSpec,
    SourceSpec,
    StatementSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements.dml import (
    check_named_columns,
    require_partition_columns,
    resolve_insert,
    resolve_merge,
    resolve_update,
)


def source_columns(source: SourceSpec, tables: Mapping[str, TableInfo]) -> tuple[str, ...] | None:
    """Return the columns of a source, with its tables by view; None if only Spark finds them."""
    if source.query:
        return None
    if source.table is not None:
        return tables[SOURCE_VIEW].column_names
    return None if source.values is None else value_columns(source)


def value_columns(source: SourceSpec) -> tuple[str, ...]:
    """Return the columns of a source of values: its own names, or else `col1`, `col2`, ..."""
    if source.columns or not source.values:
        return source.columns
    return tuple(f"col{number}" for number in range(1, len(source.values[0]) + 1))


def check_columns(
    table: TableInfo, spec: StatementSpec, columns: Sequence[str] | None = None
) -> None:
    """Raise an error if a statement uses a column that its table does not have or cannot change.

    `columns` are those of the statement's source; None if they are unknown.
    """
    match spec:
        case InsertSpec():
            if columns is None:
                check_named_columns(table, spec)
            else:
                resolve_insert(table, spec, columns)
        case MergeSpec():
            # If a source's columns are unknown, assume that it has every column that the statement
            # uses.
            resolve_merge(table, spec, columns or (*table.column_names, *spec.keys))
        case UpdateSpec():
            resolve_update(table, spec)
        case TruncateSpec():
            check_truncate(table, spec)
        case LoadSpec():
            check_load(table, spec)
        case DeleteSpec():
            pass
        case _:
            assert_never(spec)


def check_load(table: TableInfo, spec: LoadSpec) -> None:
    """Raise an error unless a LOAD DATA specifies exactly one partition of an unbucketed table."""
    if table.num_buckets:
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: the table is CLUSTERED BY columns, so each row must be in"
            " its bucket's file. Use HiveAcidInsertOperator instead, with the files as its source"
        )
    require_partition_columns(table, spec.partition)
    if len({name.lower() for name in spec.partition}) < len(table.partition_columns):
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: give a value for every partition column:"
            f" {', '.join(c.name for c in table.partition_columns)}. If the files contain these"
            " columns, use them as the source of an INSERT instead"
        )


def check_truncate(table: TableInfo, spec: TruncateSpec) -> None:
    """Raise an error if a TRUNCATE's partition is invalid, or contains NULL as in no SQL text."""
    require_partition_columns(table, spec.partition)
    for name, value in spec.partition.items():
        if value is None:
            raise ConfigurationError(
                f"TRUNCATE of {table.ref}: the value of partition column {name!r} is NULL, which is"
                " often the value of a template by mistake. To remove rows without a value, use"
                f" DELETE WHERE {name} IS NULL"
            )


def partition_missing(table: TableInfo, spec: TruncateSpec) -> PartitionNotFoundError:
    """Return the error to raise if no partition has the values of a TRUNCATE."""
    values = "/".join(f"{name}={value}" for name, value in spec.partition.items())
    return PartitionNotFoundError(table=table.ref, partition=values)
