"""Implementation of `CatalogPort` over Thrift: databases, tables, partitions, constraints.

Calls that list names or drop objects use hmsclient, because its Hive 2.3 stubs also fit 3.1 and
4.x; calls with whole definitions use our stubs. Hive 4.0.1 lacks the call `get_table`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import (
    UNPARTITIONED,
    Constraints,
    PartitionInfo,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.metastore import catalog
from airflow_hiveacid.metastore.client.connection import Connection, Faults, Repeat
from airflow_hiveacid.metastore.gen.constraints import ttypes as constraints
from airflow_hiveacid.metastore.gen.faults.ttypes import NoSuchObjectException
from airflow_hiveacid.metastore.gen.tables import ttypes as tables
from airflow_hiveacid.metastore.half_exchange import missing_table
from airflow_hiveacid.metastore.wire import Struct

# A part of what HiveServer2 sends (HiveConf.METASTORE_CLIENT_CAPABILITIES). 4.x requires them to
# create an ACID table. In an answer, they determine the access that `catalog.source_info` reads.
_CAPABILITIES: Final[Mapping[str, object]] = {
    "processorCapabilities": [
        *("HIVEFULLACIDWRITE", "HIVEFULLACIDREAD", "HIVEMANAGEDINSERTWRITE"),
        *("HIVEMANAGEDINSERTREAD", "HIVEBUCKET2", "EXTREAD", "EXTWRITE", "HIVESQL", "HIVEMQT"),
    ],
    "processorIdentifier": "airflow-provider-hiveacid",
}
# The batch size limits the size of one response, because a partition takes a few kilobytes.
_PARTITIONS_PER_CALL: Final = 500
# Each whole definition contains all columns of the table. A server accepts 100 MB per message.
_COLUMNS_PER_CALL: Final = 50_000
_ALL: Final = -1
_FEW_PARTITIONS: Final = 4
# Without this parameter, the server lists directories and counts files during the call.
_KEEP_STATISTICS: Final = {"DO_NOT_UPDATE_STATS": "true"}
_CASCADE: Final = {"CASCADE": "true"}
_CATALOG: Final = "hive"


_Item = TypeVar("_Item")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WriteContext:
    """The IDs of the write that changes statistics; 4.x requires them (verifyStatsChangeCtx)."""

    write_id: WriteId
    write_ids: str


class CatalogCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def list_databases(self) -> tuple[str, ...]:
        names: list[str] = self._connection.catalog_call("get_all_databases", repeat=Repeat.SAFE)
        return tuple(sorted(names))

    def list_tables(self, db: str) -> tuple[str, ...]:
        names: list[str] = self._connection.catalog_call("get_all_tables", db, repeat=Repeat.SAFE)
        return tuple(sorted(names))

    def create_database(self, name: str, location: str | None = None) -> None:
        if name.lower() in self.list_databases():
            return
        database = tables.Database(
            name=name.lower(),
            description="",
            locationUri=location,
            parameters={},
            managedLocationUri=location,
        )
        self._connection.call("create_database", database, repeat=Repeat.NEVER)

    def drop_database(self, name: str) -> None:
        if name.lower() in self.list_databases():
            arguments = (name.lower(), True, False)  # delete the directory, but do not drop tables
            self._connection.catalog_call("drop_database", *arguments, repeat=Repeat.NEVER)

    def get_table(self, ref: TableRef) -> TableInfo:
        return catalog.table_info(self._existing_table(ref))

    def get_source(self, ref: TableRef) -> TableInfo:
        return catalog.source_info(self._existing_table(ref))

    def constraints(self, ref: TableRef) -> Constraints:
        if self._connection.generation is MetastoreGeneration.V4:
            request = constraints.AllTableConstraintsRequest(
                dbName=ref.db, tblName=ref.name, catName=_CATALOG
            )
            with suppress(errors.MetastoreVersionError):
                every = self._ask("get_all_table_constraints", request).allTableConstraints
                return _constraints_of(
                    every.notNullConstraints or (),
                    every.defaultConstraints or (),
                    every.checkConstraints or (),
                )
        names = {"catName": _CATALOG, "db_name": ref.db, "tbl_name": ref.name}
        return _constraints_of(
            self._ask(
                "get_not_null_constraints", constraints.NotNullConstraintsRequest(**names)
            ).notNullConstraints,
            self._ask(
                "get_default_constraints", constraints.DefaultConstraintsRequest(**names)
            ).defaultConstraints,
            self._ask(
                "get_check_constraints", constraints.CheckConstraintsRequest(**names)
            ).checkConstraints,
        )

    def primary_key(self, ref: TableRef) -> tuple[str, ...]:
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- a megabyte of stubs

        request = ttypes.PrimaryKeysRequest(db_name=ref.db, tbl_name=ref.name)
        answer = self._connection.catalog_call("get_primary_keys", request, repeat=Repeat.SAFE)
        columns = sorted(answer.primaryKeys or (), key=lambda column: column.key_seq)
        return tuple(column.column_name.lower() for column in columns)

    def create_table(self, table: catalog.NewTable) -> TableInfo:
        struct = catalog.table_struct(table)
        request = tables.CreateTableRequest(table=struct, **_CAPABILITIES)
        try:
            self._connection.call("create_table_req", request, repeat=Repeat.NEVER)
        except errors.MetastoreVersionError:  # Hive 3.1 requires no capabilities
            self._connection.call("create_table", struct, repeat=Repeat.NEVER)
        return self.get_table(table.ref)

    def drop_table(self, ref: TableRef, *, delete_data: bool = True, purge: bool = False) -> None:
        self._raw_table(ref)  # raises TableNotFoundError if the table is missing
        arguments = (ref.db, ref.name, delete_data)
        if purge:
            self._connection.catalog_call(
                "drop_table_with_environment_context", *arguments, _purging(), repeat=Repeat.NEVER
            )
        else:
            self._connection.catalog_call("drop_table", *arguments, repeat=Repeat.NEVER)

    def change_table(self, ref: TableRef, change: catalog.TableChange) -> None:
        table = self._raw_table(ref)
        catalog.change_struct(table, change)
        self._send_table(ref, table, cascade=change.cascade)

    def set_table_parameters(self, ref: TableRef, parameters: Mapping[str, str | None]) -> None:
        table = self._raw_table(ref)
        merged = {**(table.parameters or {}), **parameters}
        table.parameters = {name: value for name, value in merged.items() if value is not None}
        if catalog.EXTERNAL in parameters:
            table.tableType = catalog.table_type(table.parameters)
        self._send_table(ref, table)

    def list_partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        if not table.is_partitioned:
            return catalog.whole_table(table)
        return self._partition_infos(table, self._partition_names(table.ref))

    def partition_names(self, table: TableInfo) -> tuple[PartitionName, ...]:
        if not table.is_partitioned:
            return (UNPARTITIONED,)
        return tuple(sorted(map(PartitionName.parse, self._partition_names(table.ref)), key=str))

    def get_partitions(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> tuple[PartitionInfo, ...]:
        if not table.is_partitioned:
            return catalog.whole_table(table)
        return self._partition_infos(table, [str(name) for name in names])

    def add_partitions(
        self,
        table: TableInfo,
        names: Sequence[PartitionName],
        *,
        locations: Mapping[PartitionName, str] | None = None,
    ) -> tuple[PartitionInfo, ...]:
        if table.is_partitioned:
            # Read only names. Suppose that all partitions in a request for whole partitions are
            # missing. Then 4.0.1 runs a failed SQL query, and after it a slow query.
            existing_names = set(self._existing_names(table.ref, list(dict.fromkeys(names))))
            missing = [name for name in dict.fromkeys(names) if str(name) not in existing_names]
            if missing:
                self._add(table, missing, locations or {})
        return self.get_partitions(table, names)

    def drop_partitions(
        self, table: TableInfo, names: Sequence[PartitionName], *, purge: bool = False
    ) -> None:
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- a megabyte of stubs

        method = "drop_partitions_req"

        def send(part: Sequence[PartitionName]) -> None:
            request = ttypes.DropPartitionsRequest(
                dbName=table.ref.db,
                tblName=table.ref.name,
                parts=ttypes.RequestPartsSpec(names=[str(name) for name in part]),
                deleteData=True,
                ifExists=True,
                environmentContext=_purging() if purge else None,
                needResult=False,
            )
            self._connection.catalog_call(method, request, repeat=Repeat.NEVER)

        for _ in self._connection.calls_for(method, names, _PARTITIONS_PER_CALL, send):
            pass

    def partition_births(
        self, table: TableInfo, names: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        return {
            catalog.partition_info(table, partition).name: partition.createTime
            for chunk in _chunks(names, _most_definitions(table))
            for partition in self._raw_partitions(table.ref, [str(name) for name in chunk])
        }

    def forget_statistics(
        self,
        table: TableInfo,
        partitions: Sequence[PartitionName],
        *,
        write_id: WriteId,
        write_ids: ValidWriteIdList,
    ) -> int:
        context = _WriteContext(write_id, write_ids.with_own(write_id).text())
        if table.is_partitioned:
            return self._forget_partitions(table, partitions, context)
        raw = self._raw_table(table.ref)
        parameters = catalog.without_statistics(raw.parameters)
        if parameters is None:
            self._leave_write_id(table.ref, raw, context)
            return 0
        raw.parameters = parameters
        self._send_table(table.ref, raw, context)
        return 1

    def _ask(self, method: str, request: object) -> Struct:
        return self._connection.call(method, request, repeat=Repeat.SAFE)

    def _leave_write_id(self, ref: TableRef, raw: Struct, context: _WriteContext) -> None:
        """On 4.x, store the write ID in a table without statistics; only log a refusal.

        See docs/decisions/publishing.md.
        """
        if self._connection.generation is MetastoreGeneration.V3:
            return
        try:
            self._send_table(ref, raw, context)
        except (errors.MetastoreCallError, errors.UnsupportedTableError) as refusal:
            _log.warning(
                "a concurrent ANALYZE could mark statistics as correct, although they lack the"
                " rows of this write table=%s write_id=%s: %s",
                ref,
                context.write_id,
                refusal,
            )

    def _forget_partitions(
        self, table: TableInfo, names: Sequence[PartitionName], context: _WriteContext
    ) -> int:
        # Look for the flag in short answers first, and read whole definitions only to change them.
        marked = [
            str(catalog.partition_info(table, struct).name)
            for struct in self._locations(table.ref, [str(name) for name in names])
            if catalog.without_statistics(struct.parameters) is not None
        ]
        count = 0
        for chunk in _chunks(marked, _most_definitions(table)):
            changed = []
            for partition in self._raw_partitions(table.ref, chunk):
                parameters = catalog.without_statistics(partition.parameters)
                if parameters is not None:
                    partition.parameters = parameters
                    changed.append(partition)
            if changed:
                self._send_partitions(table.ref, changed, context)
            count += len(changed)
        return count

    def _partition_infos(self, table: TableInfo, names: Sequence[str]) -> tuple[PartitionInfo, ...]:
        """Return partitions sorted by name; those of a full-ACID table have no storage set."""
        if table.kind is not TransactionalKind.FULL_ACID:
            infos = [
                info
                for chunk in _chunks(names, _most_definitions(table))
                for info in catalog.whole_partition_infos(
                    table, self._raw_partitions(table.ref, chunk)
                )
            ]
        else:
            infos = [catalog.partition_info(table, p) for p in self._locations(table.ref, names)]
        return catalog.by_name(infos)

    def _partition_names(self, ref: TableRef) -> list[str]:
        names: list[str] = self._connection.catalog_call(
            "get_partition_names", ref.db, ref.name, _ALL, repeat=Repeat.SAFE
        )
        return names

    def _existing_names(self, ref: TableRef, names: Sequence[PartitionName]) -> list[str]:
        """Return the existing names among these, and maybe others; look up each of a few."""
        if len(names) > _FEW_PARTITIONS:
            return self._partition_names(ref)
        matches = []
        for name in names:  # the server takes a name for a pattern, which also matches similar ones
            arguments = (ref.db, ref.name, name.directory_values, _ALL)
            matches += self._connection.catalog_call(
                "get_partition_names_ps", *arguments, repeat=Repeat.SAFE
            )
        return matches

    def _existing_table(self, ref: TableRef) -> Struct:
        try:
            return self._raw_table(ref)
        except errors.TableNotFoundError:
            raise missing_table(self, ref) from None

    def _raw_table(self, ref: TableRef) -> Struct:
        request = tables.GetTableRequest(
            dbName=ref.db,
            tblName=ref.name,
            capabilities=tables.ClientCapabilities(
                values=[tables.ClientCapability.INSERT_ONLY_TABLES]
            ),
            **_CAPABILITIES,
        )
        faults: Faults = {NoSuchObjectException: lambda _: errors.TableNotFoundError(table=ref)}
        return self._connection.call(
            "get_table_req", request, repeat=Repeat.SAFE, faults=faults
        ).table

    def _raw_partitions(self, ref: TableRef, names: Sequence[str]) -> Iterator[Struct]:
        """Return whole partition definitions that can be changed and sent back."""
        return self._by_names(self._connection.call, ref, names)

    def _locations(self, ref: TableRef, names: Sequence[str]) -> Iterator[Struct]:
        """Return partitions without column lists; most of the response would be column lists."""
        return self._by_names(self._connection.brief_call, ref, names)

    def _by_names(
        self, call: Callable[..., Struct], ref: TableRef, names: Sequence[str]
    ) -> Iterator[Struct]:
        faults: Faults = {NoSuchObjectException: lambda _: errors.TableNotFoundError(table=ref)}
        method = "get_partitions_by_names"

        def send(part: Sequence[str]) -> list[Struct]:
            partitions: list[Struct] = call(
                method, ref.db, ref.name, list(part), repeat=Repeat.SAFE, faults=faults
            )
            return partitions

        for partitions in self._connection.calls_for(method, names, _PARTITIONS_PER_CALL, send):
            yield from partitions

    def _add(
        self,
        table: TableInfo,
        names: Sequence[PartitionName],
        locations: Mapping[PartitionName, str],
    ) -> None:
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- a megabyte of stubs

        # Read the storage through hmsclient, because the request below consists of its structs.
        storage = self._connection.catalog_call(
            "get_table_req",
            ttypes.GetTableRequest(
                table.ref.db,
                table.ref.name,
                ttypes.ClientCapabilities([tables.ClientCapability.INSERT_ONLY_TABLES]),
            ),
            repeat=Repeat.SAFE,
        ).table.sd
        method = "add_partitions_req"

        def send(chunk: Sequence[PartitionName]) -> None:
            parts = []
            for name in chunk:
                own = ttypes.StorageDescriptor(**vars(storage))
                own.location = locations.get(name) or table.default_partition_location(name)
                parts.append(
                    ttypes.Partition(
                        values=name.directory_values,
                        dbName=table.ref.db,
                        tableName=table.ref.name,
                        sd=own,
                        parameters={},
                    )
                )
            request = ttypes.AddPartitionsRequest(
                dbName=table.ref.db,
                tblName=table.ref.name,
                parts=parts,
                ifNotExists=True,
                needResult=False,
            )
            self._connection.catalog_call(method, request, repeat=Repeat.SAFE)

        for _ in self._connection.calls_for(method, names, _most_definitions(table), send):
            pass

    def _send_table(
        self,
        ref: TableRef,
        table: Struct,
        context: _WriteContext | None = None,
        *,
        cascade: bool = False,
    ) -> None:
        if table.sd.skewedInfo is not None and table.sd.skewedInfo.skewedColNames:
            raise errors.UnsupportedTableError(
                table=ref, detail="is SKEWED BY; its definition cannot be changed without loss"
            )
        properties = {**_KEEP_STATISTICS, **(_CASCADE if cascade else {})}
        environment = tables.EnvironmentContext(properties=properties)
        if self._connection.generation is not MetastoreGeneration.V3:
            request = tables.AlterTableRequest(
                dbName=ref.db,
                tableName=ref.name,
                table=table,
                environmentContext=environment,
                **_CAPABILITIES,
            )
            if context is not None:
                request.writeId, request.validWriteIdList = context.write_id, context.write_ids
                # 4.0.1 ignores the write ID of the request. Instead, the server reads the write ID
                # in the table struct.
                table.writeId = context.write_id
            with suppress(errors.MetastoreVersionError):
                self._connection.call("alter_table_req", request, repeat=Repeat.NEVER)
                return
        arguments = (ref.db, ref.name, table, environment)
        self._connection.call(
            "alter_table_with_environment_context", *arguments, repeat=Repeat.NEVER
        )

    def _send_partitions(
        self, ref: TableRef, partitions: Sequence[Struct], context: _WriteContext
    ) -> None:
        environment = tables.EnvironmentContext(properties=_KEEP_STATISTICS)
        method = "alter_partitions_req"
        if self._connection.generation is MetastoreGeneration.V3:
            method = "alter_partitions_with_environment_context"

        def send(part: Sequence[Struct]) -> None:
            if method == "alter_partitions_req":
                request = tables.AlterPartitionsRequest(
                    dbName=ref.db,
                    tableName=ref.name,
                    partitions=list(part),
                    environmentContext=environment,
                    writeId=context.write_id,
                    validWriteIdList=context.write_ids,
                )
                with suppress(errors.MetastoreVersionError):
                    self._connection.call(method, request, repeat=Repeat.SAFE)
                    return
            arguments = (ref.db, ref.name, list(part), environment)
            self._connection.call(
                "alter_partitions_with_environment_context", *arguments, repeat=Repeat.SAFE
            )

        for _ in self._connection.calls_for(method, partitions, len(partitions), send):
            pass


def _constraints_of(
    not_null: Sequence[Struct], defaults: Sequence[Struct], checks: Sequence[Struct]
) -> Constraints:
    """Return the enabled constraints, which only Hive's clients enforce, not the server."""
    return Constraints(
        not_null={c.column_name.lower(): c.nn_name for c in not_null if c.enable_cstr},
        defaults={c.column_name.lower(): c.default_value for c in defaults if c.enable_cstr},
        checks={c.dc_name: c.check_expression for c in checks if c.enable_cstr},
    )


def _purging() -> Struct:
    """Return the context that makes the server delete files instead of moving them to the trash."""
    from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- a megabyte of stubs

    return ttypes.EnvironmentContext(properties={"ifPurge": "TRUE"})


def _most_definitions(table: TableInfo) -> int:
    return max(1, min(_PARTITIONS_PER_CALL, _COLUMNS_PER_CALL // max(1, len(table.columns))))


def _chunks(items: Sequence[_Item], size: int = _PARTITIONS_PER_CALL) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
