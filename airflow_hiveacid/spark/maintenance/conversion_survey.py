"""What a conversion finds before it begins: the table, its partitions and files, and why not.

Takes a metastore and a table's name; changes nothing. Must not know Spark: a plan needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import ConversionRefusedError
from airflow_hiveacid.format.ids import LONG_MAX, StatementId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget
from airflow_hiveacid.metastore.compaction_queue import CompactionState
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
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.threads import each_in_threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.format.directories import Listing
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TableRef
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.conversion import Move


_AT_WORK: Final = frozenset({CompactionState.INITIATED, CompactionState.WORKING})


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionSurvey:
    """A look at one table that is to be converted."""

    client: MetastorePort
    ref: TableRef
    to: ConversionTarget

    def table(self) -> TableInfo:
        """The table as it is now."""
        return self.client.get_table(self.ref)

    def plan(self) -> ConversionOutcome:
        """What would be done now.

        Raises:
            ConversionRefusedError: it cannot be.
            StorageError: the table's directories cannot be read.
        """
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
        """What to say of a table that is what it is asked to be."""
        return outcome_of(table, self.to, steps=("it is that already",))

    def check(self, table: TableInfo) -> None:
        """See that a table can be converted, as far as definitions and names tell.

        Raises:
            ConversionRefusedError: it cannot.
            StorageError: its directories cannot be read.
        """
        why = why_not_table(table, self.to)
        if why is None:
            why = self._why_not_partitions(table)
        if why is None and self.to is not ConversionTarget.FLAT:
            found = (why_not_files(listing, self.to) for listing in self.listings(table))
            why = next((reason for reason in found if reason is not None), None)
        if why is None and table.kind is TransactionalKind.INSERT_ONLY:
            why = self._why_not_queue()
        if why is None and self.to is ConversionTarget.FULL_ACID:
            why = self._why_not_numbers()
        if why is not None:
            raise self.refused(why)

    def refused(self, why: str) -> ConversionRefusedError:
        """What ends a conversion, to be raised."""
        return ConversionRefusedError(table=self.ref, to=self.to.value, why=why)

    def _why_not_partitions(self, table: TableInfo) -> str | None:
        wanted = table.storage.format
        for partition in self.partitions(table):
            found = wanted if partition.storage is None else partition.storage.format
            if found is not wanted:
                return f"it is stored as {table.storage}, and its partition {partition.name} not"
        return None

    def _why_not_numbers(self) -> str | None:
        # It gives a new full-ACID table its first write ID, and fails where there is one
        # (TxnHandler.seedWriteId).
        if self.write_ids().high_watermark:
            return (
                "it was insert-only once, or a table of its name, and the metastore refuses a table"
                " whose write IDs it remembers; CREATE TABLE ... AS SELECT makes a new one"
            )
        return None

    def _why_not_queue(self) -> str | None:
        # Hive's compactors do not all ask for locks, and would write a base beside the flat files.
        queue = self.client.show_compactions(self.ref)
        if any(entry.state in _AT_WORK for entry in queue):
            return "a compaction of it is queued or at work; try again when that is over"
        return None

    def partitions(self, table: TableInfo) -> tuple[PartitionInfo, ...]:
        """All of them, with how they are stored, by name."""
        return self.client.list_partitions(table)

    def listings(self, table: TableInfo) -> Sequence[Listing]:
        """What lies at each."""
        locations = [partition.location for partition in self.partitions(table)]
        return each_in_threads(list_table, locations)

    def files(self, table: TableInfo) -> list[tuple[str, str, int]]:
        """The files of a flat table: where, path below it, bytes."""
        return [
            (listing.location, file.path, file.size_bytes)
            for listing in self.listings(table)
            for file in visible_files(listing)
        ]

    def places(self, table: TableInfo) -> list[tuple[str, str]]:
        """Where each of `files` is."""
        return [(location, path) for location, path, _ in self.files(table)]

    def write_ids(self) -> ValidWriteIdList:
        """The table's write IDs that count now."""
        return self.client.valid_write_ids([self.ref], self.client.valid_txns())[self.ref]

    def moves(
        self, table: TableInfo, write_ids: ValidWriteIdList, own: WriteId | None
    ) -> list[Move]:
        """Which files are moved, and where.

        Args:
            table: as it is now.
            write_ids: with them is known what is live, out of which files come.
            own: a write ID, into whose delta files go; None if they come out.

        Raises:
            ConversionRefusedError: there are directories that are not live.
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
    """The write IDs of a table that nobody has written in a transaction."""
    return ValidWriteIdList.parse(f"{ref}:0:{LONG_MAX}::")
