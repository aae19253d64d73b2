"""A full-ACID table and a flat copy of it change places, and change back: by names alone.

The metastore lets nobody take 'transactional' from a full-ACID table, so another table gets its
name. While everybody else is locked out the rows of both are compared, the table becomes
`<name>__acid` and the copy gets the name. Going back is the same the other way round: with it the
table is what it was, to the last file and write ID.

A copy has a name of its own each time. It was insert-only, and the metastore remembers the write
IDs of a name when the table under it is flat and gone (AcidEventListener): no other such table can
be renamed to it again.

Between the two renames no table has the name. Who dies there leaves two tables with the same rows,
and `recover` gives the copy the name. Must not know Spark.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import (
    ConversionRefusedError,
    HiveAcidError,
    MetastoreUnavailableError,
    TableChangedError,
)
from airflow_hiveacid.format.table import TableRef, TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget
from airflow_hiveacid.metastore.catalog import TableChange
from airflow_hiveacid.metastore.definition_lock import locked
from airflow_hiveacid.metastore.locks import components_to_define
from airflow_hiveacid.metastore.table_definitions import found_table
from airflow_hiveacid.plan.conversion import COPY_OF
from airflow_hiveacid.spark.maintenance.conversion_survey import no_write_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.definition_lock import LockTerms
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.maintenance.conversion_rows import Rows
    from airflow_hiveacid.spark.row_hash import RowDigest

# Behind the name: an attempt's; and, as long as it is filled, what CREATE TABLE AS SELECT adds.
_COPY: Final = re.compile(r"[0-9a-f]{12}(__ctas_[0-9a-f]{10}_[0-9a-f]{12})?\Z")

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The names of one table, its copy and the table that is kept. Not thread-safe."""

    client: MetastorePort
    rows: Rows
    ref: TableRef
    terms: LockTerms
    on_step: Callable[[str], None]

    @property
    def copy(self) -> TableRef:
        """The name of a copy that this attempt makes, or takes out of the table's place."""
        return TableRef(self.ref.db, f"{self._prefix}{self.terms.attempt.nonce}")

    @property
    def _prefix(self) -> str:
        return f"{self.ref.name}__flat_"

    @property
    def kept(self) -> TableRef:
        """The name of the full-ACID table while the copy has its own."""
        return TableRef(self.ref.db, f"{self.ref.name}__acid")

    def recover(self) -> None:
        """Give the copy the table's name, if somebody has died before he did.

        Raises:
            HiveAcidError: it cannot be.
        """
        kept = found_table(self.client, self.kept)
        if kept is None or found_table(self.client, self.ref) is not None:
            return
        for copy in self._copies_of(kept):
            if copy.kind is TransactionalKind.NONE:
                log.warning("an exchange of table=%s broke off; finishing it", self.ref)
                self._rename(copy.ref, self.ref)
                return

    def way_back(self, table: TableInfo) -> TableInfo | None:
        """The full-ACID table whose place this one has taken; None if there is none."""
        kept = found_table(self.client, self.kept)
        return kept if kept is not None and _is_copy(table, self.ref, kept) else None

    def make_room(self) -> None:
        """See that the table can be kept, and remove copies of it that were left behind.

        Raises:
            ConversionRefusedError: another table has the name that it would have.
            LockNotAcquiredError: somebody reads or writes the table.
        """
        with self._alone() as guard:
            table = self.client.get_table(self.ref)
            if found_table(self.client, self.kept) is not None:
                raise self._refused(ConversionTarget.FLAT, f"there is a table {self.kept} already")
            for copy in self._copies_of(table):
                guard()
                self.client.drop_table(copy.ref, purge=True)

    def _copies_of(self, table: TableInfo) -> list[TableInfo]:
        """The copies of a table that have not its name; of which there may be left some."""
        names = self.client.list_tables(self.ref.db)
        # Not one that somebody has called t__flat_old: it may have other rows by now.
        known = (name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix))
        refs = [TableRef(self.ref.db, self._prefix + end) for end in known if _COPY.match(end)]
        found = [found_table(self.client, ref) for ref in refs]
        return [copy for copy in found if copy is not None and _is_copy(copy, self.ref, table)]

    def leave(self) -> int:
        """Put the copy, which is flat by now, in the table's place; answers how many rows it has.

        Raises:
            TableChangedError: somebody has written the table since it was copied; try again.
            LockNotAcquiredError: somebody reads or writes it.
            HiveAcidError: it failed otherwise; the table has its name, or `recover` gives it one.
        """
        with self._alone() as guard:
            table, copy = self.client.get_table(self.ref), self.client.get_table(self.copy)
            before = self._digest(table)
            if copy.kind is not TransactionalKind.NONE or not _is_copy(copy, self.ref, table):
                raise self._refused(ConversionTarget.FLAT, f"{self.copy} is no flat copy of it")
            if self._digest(copy) != before:
                raise TableChangedError(table=self.ref, what="rows")
            self.on_step("compared")
            self._exchange(guard, self.kept, self.copy)
        return before.rows

    def come_back(self, kept: TableInfo) -> int:
        """Put the table that was kept in its place again; answers how many rows it has.

        Raises:
            ConversionRefusedError: their rows differ by now.
            HiveAcidError: as `leave`.
        """
        with self._alone() as guard:
            flat = self.client.get_table(self.ref)
            before = self._digest(flat)
            if self._digest(kept) != before:
                raise self._refused(
                    ConversionTarget.FULL_ACID,
                    f"{self.kept}, whose place it has taken, has other rows by now; MERGE them into"
                    " that, or drop it to convert the files that are here",
                )
            self.on_step("compared")
            self._exchange(guard, self.copy, self.kept)
        try:
            self.client.drop_table(self.copy, purge=True)
        except HiveAcidError as error:
            log.warning("left behind table=%s: %s", self.copy, error)
        return before.rows

    def _exchange(self, guard: Callable[[], None], away: TableRef, here: TableRef) -> None:
        """Rename the table away, and another one to its name."""
        expected = _traits(self.client.get_table(here))
        guard()
        self._rename(self.ref, away)
        self.on_step("away")
        try:
            self._rename(here, self.ref)
        except HiveAcidError as error:
            there = found_table(self.client, self.ref)
            if there is not None and _traits(there) == expected:
                return  # the answer was lost, or somebody else has recovered it
            if there is None and not isinstance(error, MetastoreUnavailableError):
                self._rename(away, self.ref)
            raise
        self.on_step("exchanged")

    def _rename(self, old: TableRef, new: TableRef) -> None:
        self.client.change_table(old, TableChange(name=new))

    def _digest(self, table: TableInfo) -> RowDigest:
        write_ids = no_write_ids(table.ref)
        if table.kind is not TransactionalKind.NONE:
            write_ids = self.client.valid_write_ids([table.ref], self.client.valid_txns())[
                table.ref
            ]
        return self.rows.digest(table, write_ids)

    @contextmanager
    def _alone(self) -> Iterator[Callable[[], None]]:
        """Run a block with everybody else locked out; gives what raises when that is over."""
        wanted = components_to_define(self.ref, (), LockType.EXCLUSIVE, self.client.generation)
        with locked(self.client, wanted, self.terms) as txn_id:
            yield lambda: self.client.heartbeat(txn_id)

    def _refused(self, to: ConversionTarget, why: str) -> ConversionRefusedError:
        return ConversionRefusedError(table=self.ref, to=to.value, why=why)


def copy_mark(ref: TableRef, table: TableInfo) -> str:
    """The value of `COPY_OF` for a copy of this table, which has, or had, this name."""
    return f"{ref}#{table.table_id}"


def _is_copy(copy: TableInfo, ref: TableRef, table: TableInfo) -> bool:
    is_acid = table.kind is TransactionalKind.FULL_ACID
    return is_acid and copy.parameters.get(COPY_OF) == copy_mark(ref, table)


def _traits(table: TableInfo) -> tuple[object, ...]:
    """What stays when a table is renamed, and tells it from another one."""
    return table.table_id, table.kind, table.parameters.get(COPY_OF)
