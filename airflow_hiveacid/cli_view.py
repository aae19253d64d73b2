"""What the command line looks at: directories, columns, and which writes count.

Takes parsed options; gives a `View`, from the metastore (`--table`) or from what the options say
themselves (`--location`). Scanning a table runs in a read transaction, so that no cleaner takes a
file away meanwhile; inspecting takes a plain snapshot and holds nothing.

Example:
    with looking(options, holds_files=True) as view:
        for place in view.places:
            scan(place.location, view.columns, view.write_ids, view.txns)
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid import cli_metastore
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    InvalidNameError,
    NotTransactionalError,
    PartitionNotFoundError,
)
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    AS_ORC,
    UNPARTITIONED,
    Column,
    PartitionInfo,
    PartitionName,
    Storage,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.types import StructType, parse_type
from airflow_hiveacid.format.versions import VersionSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.client import MetastoreClient
    from airflow_hiveacid.metastore.transaction import Transaction

_LOCK_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One directory: a table's own, or one partition's with its values as texts; its files.

    `columns` are those of `PartitionInfo`. `state` are the files of a past version.
    """

    location: str
    partition: PartitionName = UNPARTITIONED
    storage: Storage = AS_ORC
    columns: tuple[Column, ...] | None = None
    state: AcidState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What there is to see, and which of it counts. `txns` None means every compaction.

    `with_originals` says of an insert-only table that files outside of base and delta count;
    `storage` and `parameters` are the table's.
    """

    title: str
    places: tuple[Place, ...]
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    write_ids: ValidWriteIdList
    txns: ValidTxnList | None
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    with_originals: bool = False
    storage: Storage = AS_ORC
    parameters: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def looking(options: argparse.Namespace, *, holds_files: bool) -> Iterator[View]:
    """What the options name.

    Args:
        options: with `table`, `partition` and those of `cli_metastore`, or `location`,
            `write_ids`, `txns` and `schema`.
        holds_files: whether a transaction keeps cleaners from the files until the end.

    Raises:
        HiveAcidError: an option is wrong, the table does not exist, or the metastore does not
            answer.
    """
    if options.table is None:
        yield _by_hand(options)
        return
    from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - needs Thrift

    with connect(cli_metastore.endpoint_of(options)) as client:
        table = client.get_table(TableRef.parse(options.table))
        if table.kind is TransactionalKind.NONE:
            raise NotTransactionalError(table=table.ref)
        wanted = PartitionName.parse(options.partition) if options.partition else None
        version = VersionSpec.of(options.version, options.timestamp, options.tag)
        if holds_files or not version.is_now:
            with _read_transaction(client, table, wanted) as txn:
                view = _view(client, table, wanted, txn.snapshot)
                yield view if version.is_now else _as_of(client, table, view, txn, version)
            return
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([table.ref], txns)
        yield _view(client, table, wanted, Snapshot(txn_id=None, txns=txns, tables=write_ids))


def absolute(location: str) -> str:
    """A location as it stands, or a relative path made absolute."""
    is_relative = not location.startswith("/") and ":" not in location.partition("/")[0]
    return os.path.abspath(location) if is_relative else location  # noqa: PTH100 - a text stays one


def limit(text: str) -> int:
    """How many lines are wanted at most, as an option says it; 0 for all.

    Raises:
        argparse.ArgumentTypeError: it is no number, or below 0.
    """
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


def schema_columns(text: str) -> tuple[Column, ...]:
    """The columns of a `struct<...>` text.

    Raises:
        InvalidNameError: it is no struct type.
    """
    parsed = parse_type(text)
    if not isinstance(parsed, StructType):
        raise InvalidNameError(name=text, what="schema (expected struct<name:type,...>)")
    return tuple(Column(name=name, type=str(field)) for name, field in parsed.fields)


def _by_hand(options: argparse.Namespace) -> View:
    schema = getattr(options, "schema", None)
    return View(
        title=options.location,
        places=(Place(location=absolute(options.location)),),
        columns=schema_columns(schema) if schema else (),
        partition_columns=(),
        write_ids=ValidWriteIdList.parse(options.write_ids),
        txns=None if options.txns is None else ValidTxnList.parse(options.txns),
    )


@contextmanager
def _read_transaction(
    client: MetastoreClient, table: TableInfo, wanted: PartitionName | None
) -> Iterator[Transaction]:
    from airflow_hiveacid.format.conflicts import DataOperation  # noqa: PLC0415 - needs Thrift
    from airflow_hiveacid.metastore.locks import TableAccess  # noqa: PLC0415 - as above
    from airflow_hiveacid.metastore.transaction import begin  # noqa: PLC0415 - as above

    access = TableAccess(
        table=table,
        operations=frozenset({DataOperation.SELECT}),
        partitions=None if wanted is None else (wanted,),
    )
    with begin(client, job_key=None, reads=[access], lock_timeout_s=_LOCK_TIMEOUT_S) as txn:
        yield txn


def _as_of(
    client: MetastoreClient, table: TableInfo, view: View, txn: Transaction, version: VersionSpec
) -> View:
    """The same view, of an earlier version.

    Raises:
        HiveAcidError: see `past_of` and `Past.states`.
    """
    from airflow_hiveacid.storage.stores.listing import list_table  # noqa: PLC0415 - needs pyarrow
    from airflow_hiveacid.versions.past import past_of  # noqa: PLC0415 - as above

    past = past_of(client, table, version, txn.snapshot, taken_s=txn.seen_after_s)
    if table.is_partitioned:
        past.check_vanished(client.partition_names(table))
    infos = [PartitionInfo(name=p.partition, location=p.location) for p in view.places]
    states = past.states(infos, [list_table(p.location) for p in view.places])
    places = tuple(
        dataclasses.replace(place, state=state)
        for place, state in zip(view.places, states, strict=True)
    )
    return dataclasses.replace(view, places=places, write_ids=past.then)


def _view(
    client: MetastoreClient, table: TableInfo, wanted: PartitionName | None, snapshot: Snapshot
) -> View:
    return View(
        title=str(table.ref),
        places=tuple(
            Place(
                location=found.location,
                partition=found.name,
                storage=found.storage or table.storage,
                columns=found.columns,
            )
            for found in _partitions(client, table, wanted)
        ),
        columns=table.columns,
        partition_columns=table.partition_columns,
        write_ids=snapshot.write_ids(table.ref),
        txns=snapshot.txns,
        kind=table.kind,
        with_originals=table.reads_originals,
        storage=table.storage,
        parameters=table.parameters,
    )


def _partitions(
    client: MetastoreClient, table: TableInfo, wanted: PartitionName | None
) -> tuple[PartitionInfo, ...]:
    if wanted is None:
        return client.list_partitions(table)
    if not table.is_partitioned:
        raise ConfigurationError(f"{table.ref} is not partitioned; leave --partition out")
    found = client.get_partitions(table, [wanted])
    if not found:
        raise PartitionNotFoundError(table=table.ref, partition=wanted)
    return found
