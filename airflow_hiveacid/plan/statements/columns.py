"""Check the columns of a statement against the definitions of its tables.

Raises the error that the driver would raise. Never parses expressions: only Spark can.

Example:
    >>> source_columns(statements.SourceSpec(values=((1, "a"),)), {})
    ('col1', 'col2')
    >>> source_columns(statements.SourceSpec(format="parquet", location="hdfs://nn/landing"), {})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from airflow_hiveacid.format.errors import ConfigurationError, PartitionNotFoundError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.plan.statements import dml


def source_columns(
    source: statements.SourceSpec, tables: Mapping[str, TableInfo]
) -> tuple[str, ...] | None:
    """Return the columns of a source, with its tables by view; None if only Spark finds them."""
    if source.query:
        return None
    if source.table is not None:
        return tables[statements.SOURCE_VIEW].column_names
    return None if source.values is None else value_columns(source)


def value_columns(source: statements.SourceSpec) -> tuple[str, ...]:
    """Return the columns of a source of values: its own names, or else `col1`, `col2`, ..."""
    if source.columns or not source.values:
        return source.columns
    return tuple(f"col{number}" for number in range(1, len(source.values[0]) + 1))


def check_columns(
    table: TableInfo, spec: statements.StatementSpec, columns: Sequence[str] | None = None
) -> None:
    """Raise an error if a statement uses a column that its table does not have or cannot change.

    `columns` are those of the statement's source; None if they are unknown.
    """
    match spec:
        case statements.InsertSpec():
            if columns is None:
                dml.check_named_columns(table, spec)
            else:
                dml.resolve_insert(table, spec, columns)
        case statements.MergeSpec():
            # If a source's columns are unknown, assume that it has every column that the statement
            # uses.
            dml.resolve_merge(table, spec, columns or (*table.column_names, *spec.keys))
        case statements.UpdateSpec():
            dml.resolve_update(table, spec)
        case statements.TruncateSpec():
            check_truncate(table, spec)
        case statements.LoadSpec():
            check_load(table, spec)
        case statements.DeleteSpec():
            pass
        case _:
            assert_never(spec)


def check_load(table: TableInfo, spec: statements.LoadSpec) -> None:
    """Raise an error unless a LOAD DATA specifies exactly one partition of an unbucketed table."""
    if table.num_buckets:
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: the table is CLUSTERED BY columns, so each row must be in"
            " its bucket's file. Use HiveAcidInsertOperator instead, with the files as its source"
        )
    dml.require_partition_columns(table, spec.partition)
    if len({name.lower() for name in spec.partition}) < len(table.partition_columns):
        raise ConfigurationError(
            f"LOAD DATA into {table.ref}: give a value for every partition column:"
            f" {', '.join(c.name for c in table.partition_columns)}. If the files contain these"
            " columns, use them as the source of an INSERT instead"
        )


def check_truncate(table: TableInfo, spec: statements.TruncateSpec) -> None:
    """Raise an error if a TRUNCATE's partition is invalid, or contains NULL as in no SQL text."""
    dml.require_partition_columns(table, spec.partition)
    for name, value in spec.partition.items():
        if value is None:
            raise ConfigurationError(
                f"TRUNCATE of {table.ref}: the value of partition column {name!r} is NULL, which is"
                " often the value of a template by mistake. To remove rows without a value, use"
                f" DELETE WHERE {name} IS NULL"
            )


def partition_missing(table: TableInfo, spec: statements.TruncateSpec) -> PartitionNotFoundError:
    """Return the error to raise if no partition has the values of a TRUNCATE."""
    values = "/".join(f"{name}={value}" for name, value in spec.partition.items())
    return PartitionNotFoundError(table=table.ref, partition=values)
