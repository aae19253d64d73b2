"""The part of a table that a command reads: roots, columns and visible writes; and its rows.

They come from the metastore or, with `--location`, only from the options. A scan of a table runs in
a read transaction, so no cleaner removes a file during the scan.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.cli import metastore as cli_metastore
from airflow_hiveacid.cli.output import Record
from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    AS_ORC,
    UNPARTITIONED,
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TransactionalKind,
    own_columns,
)
from airflow_hiveacid.format.types import HiveType, PrimitiveType, StructType, parse_type
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import READ_LOCK_TIMEOUT_S
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.storage.acid.read.scan import IDENTITY, scan
from airflow_hiveacid.storage.plain.files import check_files_readable
from airflow_hiveacid.storage.plain.rows import scan_plain
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.storage.values.convert import Matching
from airflow_hiveacid.storage.values.hive_text import json_lines
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from airflow_hiveacid.versions.past import past_of

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction

PRESENT: Final = VersionSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """Partitions of a table, or a directory that is read as a table, and the visible writes.

    `title` names it in messages. If `txns` is None, all compactions are visible. `states` has the
    files of each partition at an earlier version; it is empty for the current version.
    """

    title: str
    table: TableInfo
    partitions: tuple[PartitionInfo, ...]
    write_ids: ValidWriteIdList
    txns: ValidTxnList | None
    states: tuple[AcidState, ...] = ()

    @property
    def roots(self) -> Sequence[tuple[PartitionInfo, AcidState | None]]:
        """The partitions, each with its files at the earlier version, if there is one."""
        states = self.states or (None,) * len(self.partitions)
        return list(zip(self.partitions, states, strict=True))

    def storage_of(self, info: PartitionInfo) -> Storage:
        """Return the storage of a partition, which may differ from the table's."""
        return info.storage or self.table.storage


@contextmanager
def looking(options: argparse.Namespace, *, holds_files: bool) -> Iterator[TableView]:
    """Yield the roots, columns and visible writes of the table or location in a command's options.

    With `holds_files`, a transaction prevents cleaning until the `with` block ends.
    """
    if options.table is None:
        yield _by_hand(options)
        return
    with cli_metastore.connected(options) as client:
        table = client.get_source(options.table)
        if table.kind is TransactionalKind.NONE:
            raise errors.NotTransactionalError(table=table.ref)
        partition, version = options.partition, version_of(options)
        if holds_files or not version.is_now:
            with read_transaction(client, table, partition) as txn:
                view = view_of(client, table, partition, txn.snapshot)
                if not version.is_now:
                    view = _as_of(client, view, txn, version)
                elif table.kind is TransactionalKind.INSERT_ONLY:
                    # Refuse files that an unfinished conversion has moved; the list is not needed.
                    list_in_place(table, view.partitions)
                yield view
            return
        yield view_of(client, table, partition, snapshot_now(client, [table.ref]))


def version_of(options: argparse.Namespace) -> VersionSpec:
    """Return the version that the options select; by default the current version."""
    version: VersionSpec = options.version or options.timestamp or options.tag or PRESENT
    return version


def absolute(location: str) -> str:
    """Return a relative path as an absolute path; return absolute paths and URIs unchanged."""
    is_relative = not location.startswith("/") and ":" not in location.partition("/")[0]
    return os.path.abspath(location) if is_relative else location  # noqa: PTH100 - it may be a URI


def schema_columns(text: str) -> tuple[Column, ...]:
    """Return the columns of a `struct<...>` type."""
    parsed = parse_type(text)
    if not isinstance(parsed, StructType):
        raise errors.InvalidNameError(name=text, what="schema (expected struct<name:type,...>)")
    return tuple(Column(name=name, type=str(field)) for name, field in parsed.fields)


def _by_hand(options: argparse.Namespace) -> TableView:
    is_insert_only = options.insert_only is not None
    table = TableInfo(
        ref=options.write_ids.table,
        location=absolute(options.location),
        columns=getattr(options, "schema", ()),
        kind=TransactionalKind.INSERT_ONLY if is_insert_only else TransactionalKind.FULL_ACID,
        storage=Storage(format=FileFormat[options.insert_only.upper()])
        if is_insert_only
        else AS_ORC,
    )
    return TableView(
        title=options.location,
        table=table,
        partitions=(PartitionInfo(name=UNPARTITIONED, location=table.location),),
        write_ids=options.write_ids,
        txns=options.txns,
    )


@contextmanager
def read_transaction(
    client: MetastorePort, table: TableInfo, wanted: PartitionName | None = None
) -> Iterator[MetastoreTransaction]:
    """Hold a read transaction on a table or one of its partitions during the `with` block."""
    from airflow_hiveacid.metastore.transactions.transaction import begin  # noqa: PLC0415 - needs Thrift

    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=None if wanted is None else (wanted,),
    )
    terms = JobTerms(job_key=None, lock_timeout_s=READ_LOCK_TIMEOUT_S)
    with begin(client, terms, reads=[access]) as txn:
        yield txn


def _as_of(
    client: MetastorePort, view: TableView, txn: MetastoreTransaction, version: VersionSpec
) -> TableView:
    table = view.table
    past = past_of(client, table, version, txn.snapshot, taken_s=txn.seen_after_s)
    if table.is_partitioned:
        past.check_vanished(client.partition_names(table))
    states = past.states(view.partitions, list_in_place(table, view.partitions))
    return dataclasses.replace(view, states=states, write_ids=past.then)


def view_of(
    client: MetastorePort, table: TableInfo, wanted: PartitionName | None, snapshot: Snapshot
) -> TableView:
    """Return the view of a table, or of a single partition, at a snapshot."""
    return TableView(
        title=str(table.ref),
        table=table,
        partitions=_partitions(client, table, wanted),
        write_ids=snapshot.write_ids(table.ref),
        txns=snapshot.txns,
    )


def _partitions(
    client: MetastorePort, table: TableInfo, wanted: PartitionName | None
) -> tuple[PartitionInfo, ...]:
    if wanted is None:
        return client.list_partitions(table)
    if not table.is_partitioned:
        raise errors.ConfigurationError(f"{table.ref} is not partitioned; omit --partition")
    partitions = client.get_partitions(table, [wanted])
    if not partitions:
        raise errors.PartitionNotFoundError(table=table.ref, partition=wanted)
    return partitions


ROW_ID: Final = "row_id"
_IDENTITY: Final = StructType(
    (
        ("writeid", PrimitiveType("bigint")),
        ("bucketid", PrimitiveType("int")),
        ("rowid", PrimitiveType("bigint")),
    )
)
_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def records(view: TableView, *, with_identity: bool, limit: int) -> Iterator[list[Record]]:
    """Yield batches of visible rows with their partition columns, at most `limit` (0: all)."""
    types: list[HiveType] = [parse_type(column.type) for column in view.table.columns]
    types += [
        PrimitiveType("bigint" if column.type in _WHOLE_NUMBERS else "string")
        for column in view.table.partition_columns
    ]
    names = [*view.table.column_names]
    if with_identity:
        types, names = [_IDENTITY, *types], [ROW_ID, *names]
    remaining = limit or None
    for info, state in view.roots:
        for batch in _rows(view, info, state, with_identity=with_identity):
            whole = _with_partition(batch.slice(0, remaining), view.table, info.name)
            lines = json_lines(whole, types)
            yield [dict(zip(names, json.loads(line), strict=True)) for line in lines]
            if remaining is not None:
                remaining -= whole.num_rows
                if remaining <= 0:
                    return


def rows_by_write(view: TableView, info: PartitionInfo, state: AcidState | None) -> Counter[int]:
    """Count a partition's visible rows by write ID; rows without row IDs are counted under 0."""
    rows_per_write: Counter[int] = Counter()
    if view.table.kind is not TransactionalKind.FULL_ACID:
        batches = _rows(view, info, state, with_identity=False)
        rows_per_write[0] = sum(batch.num_rows for batch in batches)
        return rows_per_write
    for batch in scan(
        info.location,
        view.table.columns,
        view.write_ids,
        view.txns,
        data_columns=(),
        with_identity=True,
        state=state,
    ):
        counts = pc.value_counts(pc.struct_field(batch.column(IDENTITY), 0))
        for entry in counts.to_pylist():
            rows_per_write[entry["values"]] += entry["counts"]
    return rows_per_write


def _rows(
    view: TableView, info: PartitionInfo, state: AcidState | None, *, with_identity: bool
) -> Iterator[pa.RecordBatch]:
    if view.table.kind is TransactionalKind.FULL_ACID:
        return scan(
            info.location,
            view.table.columns,
            view.write_ids,
            view.txns,
            with_identity=with_identity,
            timestamps=TimestampForm.PAIR,
            matching=Matching.UNAMBIGUOUS,
            state=state,
        )
    if with_identity:
        raise errors.ConfigurationError(
            "rows of an insert-only table have no identity; omit --row-ids"
        )
    table, storage = view.table, view.storage_of(info)
    check_files_readable(view.title, storage, table.parameters, table.columns)
    of_partition = storage if table.is_partitioned else None
    return scan_plain(
        info.location,
        table.columns,
        storage.format,
        view.write_ids,
        view.txns,
        with_originals=table.reads_originals,
        text=text_form(view.title, table.storage, table.parameters, of_partition),
        own=own_columns(view.title, table.columns, info.name, info.columns, storage.format),
        timestamps=TimestampForm.PAIR,
        state=state,
    )


def _with_partition(
    batch: pa.RecordBatch, table: TableInfo, partition: PartitionName
) -> pa.RecordBatch:
    texts = partition_texts(table.partition_columns, partition)
    for column, text in zip(table.partition_columns, texts, strict=True):
        is_number = column.type in _WHOLE_NUMBERS
        scalar = (
            pa.scalar(None if text is None else int(text), pa.int64())
            if is_number
            else pa.scalar(text, pa.string())
        )
        batch = batch.append_column(column.name, pa.repeat(scalar, batch.num_rows))
    return batch
