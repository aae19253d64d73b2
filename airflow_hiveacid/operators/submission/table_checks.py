"""Checks of a job's tables in the metastore before Spark starts.

A check applies the driver's first rules in the driver's order, and raises the driver's errors. It
must never refuse a job that the driver would accept, so only the driver checks expressions, files,
ledgers, and tables that the job itself may create.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from airflow_hiveacid.format.errors import ConversionRefusedError, TableNotFoundError
from airflow_hiveacid.format.table import PartitionName, TableInfo, TableRef, kept_table
from airflow_hiveacid.jobs import maintenance, statements
from airflow_hiveacid.jobs.job import Job, ProgramSpec
from airflow_hiveacid.metastore.listed_tables import is_pattern, partitions_of
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.conversion import KINDS, why_not_table
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION, opted_out
from airflow_hiveacid.plan.rebalancing import check_rebalanceable
from airflow_hiveacid.plan.statements import dml
from airflow_hiveacid.plan.statements.columns import (
    check_columns,
    partition_missing,
    source_columns,
)
from airflow_hiveacid.plan.transactions import numbered

# Partition values of these types are equal if and only if their normalized strings are equal.
_PLAIN_TYPES: Final = frozenset({"string", "date", "tinyint", "smallint", "int", "bigint"})
_SHORT_INTEGER: Final = re.compile(r"0|-?[1-9]\d{0,8}", re.ASCII)


def check_tables(client: MetastorePort, job: Job) -> None:
    """Raise the error that the driver would raise if it refuses this job's tables."""
    _TableCheck(client).check(job)


class _TableCheck:
    """The check of one job; mutable, because it keeps each table that it has requested."""

    def __init__(self, client: MetastorePort) -> None:
        self._client = client
        self._found: dict[TableRef, TableInfo] = {}
        self._sources_found: dict[TableRef, TableInfo] = {}

    def check(self, job: Job) -> None:
        match job:
            case statements.TransactionSpec():
                self._check_statements(job.statements)
            case ProgramSpec() | statements.StreamBatchSpec():
                pass  # no check: the program may create its tables before it opens its transaction
            case statements.CreateAsSpec():
                if not self._exists(TableRef.parse(job.target)):  # else: created by an earlier try
                    self._sources(job.source)
            case maintenance.ChangeFeedSpec():
                # Do not check columns: an earlier try may have written this range before a column
                # was dropped.
                dml.check_readable(self._table(job.target))
            case (
                maintenance.CompactSpec()
                | maintenance.CleanSpec()
                | maintenance.ProveErasureSpec()
                | maintenance.RestoreSpec()
                | maintenance.RebalanceSpec()
            ):
                self._check_maintenance(job)
            case maintenance.ConvertSpec():
                self._check_conversion(job)
            case _:
                self._check_statements((job,))

    def _check_statements(
        self, specs: Sequence[statements.StatementSpec | statements.MultiInsertSpec]
    ) -> None:
        count, number = sum(len(statements.each(spec)) for spec in specs), 0
        for spec in specs:
            if isinstance(spec, statements.MultiInsertSpec):
                with numbered(number + 1, count):
                    self._readable(spec.tables)
            for statement in statements.each(spec):
                number += 1
                with numbered(number, count):
                    self._check_statement(statement)

    def _check_statement(self, spec: statements.StatementSpec) -> None:
        table, columns = self._table(spec.target), None
        match spec:
            case statements.InsertSpec():
                dml.check_insertable(table)
                columns = self._sources(spec.source)
            case statements.TruncateSpec() | statements.LoadSpec():
                dml.check_insertable(table)
            case statements.MergeSpec():
                dml.check_changeable(table, "MERGE")
                columns = self._sources(spec.source)
                self._readable(spec.tables)
            case statements.UpdateSpec() | statements.DeleteSpec():
                dml.check_changeable(
                    table, "UPDATE" if isinstance(spec, statements.UpdateSpec) else "DELETE"
                )
                self._readable(spec.tables)
            case _:
                assert_never(spec)
        check_columns(table, spec, columns)
        if isinstance(spec, statements.TruncateSpec) and spec.partition:
            values = _comparable(table, spec)
            if not any(_may_have(name, values) for name in self._client.partition_names(table)):
                raise partition_missing(table, spec)

    def _check_maintenance(
        self,
        spec: maintenance.CompactSpec
        | maintenance.CleanSpec
        | maintenance.ProveErasureSpec
        | maintenance.RestoreSpec
        | maintenance.RebalanceSpec,
    ) -> None:
        cleans = isinstance(spec, maintenance.CleanSpec | maintenance.ProveErasureSpec)
        check = dml.check_cleanable if cleans else dml.check_insertable
        if (
            isinstance(spec, maintenance.CompactSpec | maintenance.CleanSpec)
            and not spec.is_of_table
        ):
            for name in spec.tables:
                if not is_pattern(name):
                    check(self._table(name))
            return
        table = self._table(spec.target)
        check(table)
        if isinstance(spec, maintenance.RebalanceSpec):
            check_rebalanceable(table, spec.order_by)
        if (
            isinstance(spec, maintenance.RestoreSpec | maintenance.ProveErasureSpec)
            or spec.partition is None
        ):
            return
        is_off = opted_out(table.parameters, NO_AUTO_COMPACTION) is not None
        if (
            is_off
            and isinstance(spec, maintenance.CompactSpec)
            and spec.choice is maintenance.CompactionChoice.AUTO
        ):
            return  # the driver may skip the table before it searches for the partition
        partitions_of(self._client, table, spec.partition)

    def _check_conversion(self, spec: maintenance.ConvertSpec) -> None:
        ref = TableRef.parse(spec.target)
        if not spec.plan_only:
            # The driver first finishes or undoes an interrupted conversion. During this, a table
            # may be renamed to the job's target, or the target's kind may change.
            if not self._exists(kept_table(ref)):
                self._table(spec.target)
            return
        table = self._table(spec.target)
        why = None if table.kind is KINDS[spec.to] else why_not_table(table, spec.to)
        if why is not None:
            raise ConversionRefusedError(table=ref, to=spec.to.value, why=why)

    def _sources(self, source: statements.SourceSpec) -> tuple[str, ...] | None:
        dml.check_source(source)
        return source_columns(source, self._readable(dml.tables_of(source)))

    def _readable(self, names: Mapping[str, str]) -> dict[str, TableInfo]:
        tables = {}
        for view, name in names.items():
            ref = TableRef.parse(name)
            if ref not in self._sources_found:
                self._sources_found[ref] = self._found.get(ref) or self._client.get_source(ref)
            tables[view] = self._sources_found[ref]
            dml.check_readable(tables[view])
        return tables

    def _table(self, name: str) -> TableInfo:
        ref = TableRef.parse(name)
        if ref not in self._found:
            self._found[ref] = self._client.get_table(ref)
        return self._found[ref]

    def _exists(self, ref: TableRef) -> bool:
        try:
            self._client.get_table(ref)
        except TableNotFoundError:
            return False
        return True


def _comparable(
    table: TableInfo, spec: statements.TruncateSpec
) -> dict[int, tuple[str, str | None]]:
    """Map a column's position to its type and wanted value, if a worker can compare the value.

    The driver compares values with Spark, which may accept other spellings, such as `01` for 1.
    """
    values = {name.lower(): value for name, value in spec.partition.items()}
    return {
        position: (column.type, values[column.name])
        for position, column in enumerate(table.partition_columns)
        if column.name in values
        and column.type in _PLAIN_TYPES
        and _normal(values[column.name], column.type) == values[column.name]
    }


def _may_have(name: PartitionName, wanted: Mapping[int, tuple[str, str | None]]) -> bool:
    """Return false only if the partition's values certainly differ from the wanted values."""
    return all(
        name.values[position] == value or _normal(name.values[position], column_type) == value
        for position, (column_type, value) in wanted.items()
    )


def _normal(text: str | None, column_type: str) -> str | None:
    # Most values match this pattern, which saves time: Arrow takes six seconds for 20,000 values.
    if text is None or (column_type in ("int", "bigint") and _SHORT_INTEGER.fullmatch(text)):
        return text
    from airflow_hiveacid.storage.values.partition_values import partition_text_of  # noqa: PLC0415 - brings Arrow

    return partition_text_of(text, column_type)
