"""Survey of a table before its conversion: its partitions and files, and reasons to refuse.

The input is a metastore and a table's name; nothing is changed. Must not depend on Spark, since a
plan does not need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_hiveacid.format.errors import (
    ConversionRefusedError,
    UnsupportedFileError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.ids import LONG_MAX, StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.records.maintenance import Move
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import resolve
from airflow_hiveacid.format.state.directories import Listing
from airflow_hiveacid.format.table import (
    FileFormat,
    PartitionInfo,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.specs.maintenance import ConversionTarget
from airflow_hiveacid.metastore.entry_status import unfinished
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.conversion import (
    KINDS,
    ConversionOutcome,
    moves_in,
    moves_out,
    outcome_of,
    steps_of,
    visible_files,
    why_not_files,
    why_not_state,
    why_not_table,
)
from airflow_hiveacid.storage.plain.compact import require_compactable
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.text_form import check_text_writable
from airflow_hiveacid.storage.stores.listing import list_roots
from airflow_hiveacid.storage.stores.locations import locate
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.storage.values.column_types import row_type


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionSurvey:
    """The survey of one table that is to be converted."""

    client: MetastorePort
    ref: TableRef
    to: ConversionTarget

    def table(self) -> TableInfo:
        """Return the table as it is now."""
        return self.client.get_table(self.ref)

    def plan(self) -> ConversionOutcome:
        """Return the outcome that a conversion would have now."""
        table = self.table()
        if table.kind is KINDS[self.to]:
            return self.nothing(table)
        self.check(table)
        if self.to is not ConversionTarget.FLAT:
            count = len(self.files(table))
        elif table.kind is TransactionalKind.FULL_ACID:
            count = 0
        else:
            count = len(self.moves(table, self.write_ids(), None))
        return outcome_of(table, self.to, steps=steps_of(table, self.to, count))

    def nothing(self, table: TableInfo) -> ConversionOutcome:
        """Return the outcome for a table that is already of the requested kind."""
        return outcome_of(table, self.to, steps=("it is already of that kind",))

    def check(self, table: TableInfo) -> None:
        """Check whether the table can be converted.

        The check uses the table's definition, the names of its files, and the footers of Parquet
        files.

        Raises:
            ConversionRefusedError: the table cannot be converted.
            StorageError: the table's directories cannot be read.
        """
        why = why_not_table(table, self.to)
        if why is None:
            why = self._why_not_partitions(table)
        if why is None and self.to is not ConversionTarget.FLAT:
            reasons = (why_not_files(listing, self.to) for listing in self.listings(table))
            why = next((reason for reason in reasons if reason is not None), None)
        if why is None and self.to is not ConversionTarget.FLAT:
            why = self._why_not_compactable(table)
        if why is None and table.kind is TransactionalKind.INSERT_ONLY:
            why = self._why_not_queue()
        if why is None and self.to is ConversionTarget.FULL_ACID:
            why = self._why_not_numbers()
        if why is not None:
            raise self.refused(why)

    def refused(self, why: str) -> ConversionRefusedError:
        """Return the error that refuses a conversion, for the caller to raise."""
        return ConversionRefusedError(table=self.ref, to=self.to.value, why=why)

    def _why_not_partitions(self, table: TableInfo) -> str | None:
        table_format = table.storage.format
        for partition in self.partitions(table):
            format_ = table_format if partition.storage is None else partition.storage.format
            if format_ is not table_format:
                return f"it is stored as {table.storage}, but its partition {partition.name} is not"
        return None

    def _why_not_compactable(self, table: TableInfo) -> str | None:
        """Return why the converted table could be read, but not compacted."""
        try:
            row_type(table.columns)
            check_text_writable(table, self.partitions(table))
            if table.storage.format is FileFormat.PARQUET:
                each_in_threads(require_compactable, self._plain_files(table))
        except (UnsupportedTableError, UnsupportedFileError) as error:
            return f"it could not be compacted afterwards: {error}"
        return None

    def _plain_files(self, table: TableInfo) -> list[PlainFile]:
        return [
            PlainFile(
                store=store,
                path=f"{root}/{file.path}",
                key=file.path,
                length=file.size_bytes,
                format=FileFormat.PARQUET,
            )
            for listing in self.listings(table)
            for store, root in [locate(listing.location)]
            for file in visible_files(listing)
            if file.size_bytes
        ]

    def _why_not_numbers(self) -> str | None:
        # The metastore allocates the first write ID of a new full-ACID table. The metastore fails
        # if the table already has a write ID (TxnHandler.seedWriteId).
        if self.write_ids().high_watermark:
            return (
                "it, or an earlier table with its name, was insert-only, and the metastore cannot"
                " convert a table whose write IDs it remembers; use CREATE TABLE ... AS SELECT"
            )
        return None

    def _why_not_queue(self) -> str | None:
        # Some of Hive's compactors take no locks. A compactor without locks would write a base next
        # to the flat files.
        at_work = (s for s in unfinished(self.client, self.ref) if s.entry.is_at_work)
        status = next(at_work, None)
        return None if status is None else f"a compaction is queued or running: {status}"

    def partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """Return all partitions, ordered by name, with their storage formats."""
        return self.client.list_partitions(table)

    def listings(self, table: TableInfo) -> Sequence[Listing]:
        """Return the listing of each partition's directory."""
        return list_roots(self.partitions(table))

    def files(self, table: TableInfo) -> list[tuple[str, str, int]]:
        """Return the files of a flat table: location, path below the location, size in bytes."""
        return [
            (listing.location, file.path, file.size_bytes)
            for listing in self.listings(table)
            for file in visible_files(listing)
        ]

    def paths(self, table: TableInfo) -> list[tuple[str, str]]:
        """Return the location and path of each file in `files`."""
        return [(location, path) for location, path, _ in self.files(table)]

    def write_ids(self) -> ValidWriteIdList:
        """Return the table's valid write IDs now."""
        return self.client.valid_write_ids([self.ref], self.client.valid_txns())[self.ref]

    def moves(
        self, table: TableInfo, write_ids: ValidWriteIdList, own: WriteId | None
    ) -> list[Move]:
        """Return the files to move, and their new paths.

        Only files of directories that are live with `write_ids` are moved out. `own` is the write
        ID of the delta for the moved files; None to move files out of deltas.

        Raises:
            ConversionRefusedError: some directories are not live.
        """
        listings = self.listings(table)
        if own is not None:
            delta = DeltaName(low=own, high=own, statement_id=StatementId(0))
            return [move for listing in listings for move in moves_in(listing, delta)]
        txns = self.client.valid_txns()
        states = [resolve(listing, write_ids, txns, table.kind) for listing in listings]
        for state in states:
            if (why := why_not_state(state)) is not None:
                raise self.refused(why)
        return [move for state in states for move in moves_out(state)]


def no_write_ids(ref: TableRef) -> ValidWriteIdList:
    """Return the list of valid write IDs of a table that never had a transactional write."""
    return ValidWriteIdList.parse(f"{ref}:0:{LONG_MAX}::")
