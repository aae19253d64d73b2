"""Conversion between Thrift structs (of tables and partitions) and this package's value classes.

Only this module has Hive's class names for formats, and the parameters of transactional tables.

Example:
    >>> transactional_kind({"transactional": "TRUE", "transactional_properties": "insert_only"})
    <TransactionalKind.INSERT_ONLY: 'insert_only'>
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import (
    NULL_PARTITION,
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore import process_user
from airflow_hiveacid.metastore.gen.tables import ttypes
from airflow_hiveacid.metastore.wire import Struct

STATISTICS_FLAG: Final = "COLUMN_STATS_ACCURATE"
"""Table or partition parameter that marks statistics as correct (StatsSetupConst)."""


class _Classes(NamedTuple):
    input: str
    output: str
    serde: str


_HIVE: Final = "org.apache.hadoop.hive"
_CLASSES: Final[Mapping[FileFormat, _Classes]] = {
    FileFormat.ORC: _Classes(
        f"{_HIVE}.ql.io.orc.OrcInputFormat",
        f"{_HIVE}.ql.io.orc.OrcOutputFormat",
        f"{_HIVE}.ql.io.orc.OrcSerde",
    ),
    FileFormat.PARQUET: _Classes(
        f"{_HIVE}.ql.io.parquet.MapredParquetInputFormat",
        f"{_HIVE}.ql.io.parquet.MapredParquetOutputFormat",
        f"{_HIVE}.ql.io.parquet.serde.ParquetHiveSerDe",
    ),
    FileFormat.TEXT: _Classes(
        "org.apache.hadoop.mapred.TextInputFormat",
        f"{_HIVE}.ql.io.HiveIgnoreKeyTextOutputFormat",
        f"{_HIVE}.serde2.lazy.LazySimpleSerDe",
    ),
    FileFormat.AVRO: _Classes(
        f"{_HIVE}.ql.io.avro.AvroContainerInputFormat",
        f"{_HIVE}.ql.io.avro.AvroContainerOutputFormat",
        f"{_HIVE}.serde2.avro.AvroSerDe",
    ),
}
EXTERNAL: Final = "EXTERNAL"
"""Table parameter that marks a table as external; the table's type also says so."""

_MANAGED: Final = "MANAGED_TABLE"
_MATERIALIZED: Final = "MATERIALIZED_VIEW"
_VIEWS: Final[Mapping[str, str]] = {
    "VIRTUAL_VIEW": "a view; use the tables that it selects from",
    _MATERIALIZED: "a materialized view, which only Hive may change; it can only be a source",
}
_NO_ACCESS: Final = 1  # hive_metastoreConstants.ACCESSTYPE_NONE
# Hive versions before the second hash function did not set `bucketing_version` (Hive 3's
# Table.getBucketingVersion).
_OLDEST_BUCKETING: Final = "1"
_KIND_PARAMETERS: Final[Mapping[TransactionalKind, Mapping[str, str]]] = {
    TransactionalKind.NONE: {},
    TransactionalKind.FULL_ACID: {"transactional": "true", "transactional_properties": "default"},
    TransactionalKind.INSERT_ONLY: {
        "transactional": "true",
        "transactional_properties": "insert_only",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A managed table to create. If `location` is None, the metastore chooses the directory.

    `num_buckets` is 0 for an unbucketed table. `parameters` come on top of those of `kind`. Only an
    insert-only table may have a `format` other than ORC. `comments` are keyed by column.
    """

    ref: TableRef
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    kind: TransactionalKind = TransactionalKind.FULL_ACID
    format: FileFormat = FileFormat.ORC
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = 0
    bucketing_version: int = 2
    sort_columns: tuple[str, ...] = ()
    location: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A change of a table's definition; a field with its default leaves that part unchanged.

    `added` columns go after the existing ones. `changed` contains existing columns with their new
    types. `comments` are keyed by column, for added and changed columns. With `cascade`, the
    partitions' definitions are also changed.
    """

    added: tuple[Column, ...] = ()
    changed: tuple[Column, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    name: TableRef | None = None
    cascade: bool = False


def transactional_kind(parameters: Mapping[str, str]) -> TransactionalKind:
    """Return the kind that the table parameters set (see AcidUtils.isTransactionalTable)."""
    if parameters.get("transactional", "").lower() != "true":
        return TransactionalKind.NONE
    if parameters.get("transactional_properties", "").lower() == "insert_only":
        return TransactionalKind.INSERT_ONLY
    return TransactionalKind.FULL_ACID


def table_info(table: Struct) -> TableInfo:
    """Convert a Table struct to a `TableInfo`."""
    if table.tableType == _MATERIALIZED:
        raise _is_view(table)
    return source_info(table)


def source_info(table: Struct) -> TableInfo:
    """Convert the Table struct of a table or materialized view that is only read."""
    if table.tableType in _VIEWS and table.tableType != _MATERIALIZED:
        raise _is_view(table)
    if table.accessType == _NO_ACCESS:
        needs = ", ".join(table.requiredReadCapabilities or ["capabilities that are unknown here"])
        detail = f"is a {table.tableType}: the metastore requires {needs} of its readers"
        raise UnsupportedTableError(table=_ref(table), detail=detail)
    parameters = dict(table.parameters or {})
    storage = table.sd
    bucket_columns = tuple(name.lower() for name in storage.bucketCols or ())
    return TableInfo(
        ref=_ref(table),
        location=storage.location or "",
        columns=_columns(storage.cols),
        partition_columns=_columns(table.partitionKeys),
        kind=transactional_kind(parameters),
        storage=storage_of(storage),
        bucket_columns=bucket_columns,
        num_buckets=storage.numBuckets if bucket_columns else 0,
        bucketing_version=int(parameters.get("bucketing_version", _OLDEST_BUCKETING)),
        sort_columns=tuple(order.col.lower() for order in storage.sortCols or ()),
        parameters=parameters,
        # Tables have no ID in Hive 3.1. So add the creation time, because ALTER never changes it.
        table_id=f"{table.createTime}.{table.id or 0}",
        write_needs=", ".join(table.requiredWriteCapabilities or ()),
    )


def _is_view(table: Struct) -> UnsupportedTableError:
    return UnsupportedTableError(table=_ref(table), detail=f"is {_VIEWS[table.tableType]}")


def _ref(table: Struct) -> TableRef:
    return TableRef(table.dbName.lower(), table.tableName.lower())


def storage_of(descriptor: Struct) -> Storage:
    """Convert a StorageDescriptor; the SerDe counts, too, because several SerDes read text."""
    serde = descriptor.serdeInfo
    library = (serde.serializationLib if serde is not None else None) or ""
    file_format = next(
        (
            format_
            for format_, classes in _CLASSES.items()
            if (descriptor.inputFormat, library) == (classes.input, classes.serde)
        ),
        FileFormat.OTHER,
    )
    return Storage(
        format=file_format,
        input_format=descriptor.inputFormat or "",
        serde=library,
        parameters=tuple(sorted((serde.parameters or {}).items())) if serde is not None else (),
    )


def partition_info(
    table: TableInfo,
    partition: Struct,
    storage: Storage | None = None,
    columns: tuple[Column, ...] | None = None,
) -> PartitionInfo:
    """Convert a Partition struct to a `PartitionInfo`; the caller provides storage and columns."""
    values = [None if value == NULL_PARTITION else value for value in partition.values]
    return PartitionInfo(
        name=table.partition_name(values),
        location=partition.sd.location,
        storage=storage,
        columns=columns,
    )


def whole_partition_infos(
    table: TableInfo, partitions: Iterable[Struct]
) -> Iterator[PartitionInfo]:
    """Convert Partition structs with storage and columns; equal values share one object."""
    shared_values: dict[object, Any] = {}
    for partition in partitions:
        storage, columns = storage_of(partition.sd), _columns(partition.sd.cols)
        yield partition_info(
            table,
            partition,
            shared_values.setdefault(storage, storage),
            None if columns == table.columns else shared_values.setdefault(columns, columns),
        )


def by_name(partitions: Sequence[PartitionInfo]) -> tuple[PartitionInfo, ...]:
    """Sort partitions by name, so that their order does not depend on the server."""
    return tuple(sorted(partitions, key=lambda p: str(p.name)))


def whole_table(table: TableInfo) -> tuple[PartitionInfo, ...]:
    """Return the single, nameless "partition" that represents an unpartitioned table."""
    return (PartitionInfo(name=PartitionName(), location=table.location),)


def table_struct(new: NewTable) -> ttypes.Table:
    """Build the Table struct of a new table."""
    classes = _CLASSES[new.format]
    return ttypes.Table(
        tableName=new.ref.name,
        dbName=new.ref.db,
        owner=process_user(),
        createTime=int(time.time()),
        lastAccessTime=0,
        retention=0,
        sd=ttypes.StorageDescriptor(
            cols=_fields(new.columns, new.comments),
            location=new.location,
            inputFormat=classes.input,
            outputFormat=classes.output,
            compressed=False,
            numBuckets=new.num_buckets or -1,
            serdeInfo=ttypes.SerDeInfo(
                serializationLib=classes.serde, parameters={"serialization.format": "1"}
            ),
            bucketCols=list(new.bucket_columns),
            sortCols=[ttypes.Order(col=name, order=1) for name in new.sort_columns],
            parameters={},
        ),
        partitionKeys=_fields(new.partition_columns, new.comments),
        parameters={
            "bucketing_version": str(new.bucketing_version),
            **_KIND_PARAMETERS[new.kind],
            **new.parameters,
        },
        tableType=_MANAGED,
    )


def table_type(parameters: Mapping[str, str]) -> str:
    """Return the table type for these parameters; a server rejects any other combination."""
    return "EXTERNAL_TABLE" if parameters.get(EXTERNAL, "").lower() == "true" else _MANAGED


def change_struct(table: Struct, change: TableChange) -> None:
    """Apply a change to a Table struct, in place."""
    changed = {column.name: column.type for column in change.changed}
    for field_ in table.sd.cols:
        name = field_.name.lower()
        field_.type = changed.get(name, field_.type)
        field_.comment = change.comments.get(name, field_.comment)
    table.sd.cols = [*table.sd.cols, *_fields(change.added, change.comments)]
    if change.name is not None:
        table.dbName, table.tableName = change.name.db, change.name.name


def without_statistics(parameters: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the parameters without the flag for correct statistics; None without such a flag."""
    if not parameters or STATISTICS_FLAG not in parameters:
        return None
    return {name: value for name, value in parameters.items() if name != STATISTICS_FLAG}


def _columns(fields: Sequence[Struct] | None) -> tuple[Column, ...]:
    return tuple(Column(name=f.name.lower(), type=f.type) for f in fields or ())


def _fields(columns: Sequence[Column], comments: Mapping[str, str]) -> list[ttypes.FieldSchema]:
    return [
        ttypes.FieldSchema(name=c.name.lower(), type=c.type, comment=comments.get(c.name.lower()))
        for c in columns
    ]
