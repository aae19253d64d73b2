"""Conversion of one table: flat to full ACID or insert-only, and insert-only to flat.

Nobody writes or reads the table meanwhile who asks Hive's locks: one that excludes everybody is
held to the end. Read `Converter._convert` downwards: what a killed conversion has left is finished
or undone; the table is looked at; then

* to full ACID: the rows are read as those of the flat table and as those of the table that it will
  be; if they are the same, the parameters are set. Nothing has to be undone, and nothing could be:
  the metastore lets nobody take 'transactional' from a full-ACID table.
* else: a note is written, files are moved, the parameters are set, the rows are read again. If they
  are others, or anything fails, all of that is undone. Once the note says "verified" it is done.

The transaction holds the lock and nothing else; before each step the metastore is asked whether it
still does. Who has lost it leaves everything, with the note, to whoever comes next.
"""

from __future__ import annotations

import dataclasses
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.errors import HiveAcidError, TableChangedError
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget
from airflow_hiveacid.metastore.clock import SystemClock
from airflow_hiveacid.metastore.commit import abort_quietly, commit
from airflow_hiveacid.metastore.lock_wait import acquire
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.plan.conversion import (
    KINDS,
    ConversionOutcome,
    emptied_by,
    moved_to,
    outcome_of,
    parameters_of,
    steps_of,
)
from airflow_hiveacid.spark.maintenance.conversion_survey import (
    ConversionSurvey,
    no_write_ids,
)
from airflow_hiveacid.spark.maintenance.conversion_undo import WayBack
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_renames

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo, TableRef
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.spark.maintenance.conversion_rows import Rows
    from airflow_hiveacid.spark.row_hash import RowDigest

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Converts one table. Not thread-safe."""

    rows: Rows
    client: MetastorePort
    ref: TableRef
    to: ConversionTarget
    job_key: str
    attempt: AttemptId
    lock_timeout_s: float
    heartbeat_s: float | None
    on_step: Callable[[str], None]

    def convert(self) -> ConversionOutcome:
        """Convert the table, unless it is what it is asked to be.

        Raises:
            ConversionRefusedError: it cannot be, or its rows would be others.
            LockNotAcquiredError: somebody reads or writes it.
            TableChangedError: somebody has written files into it who asked for no lock.
            HiveAcidError: something else failed. What was done is undone, or noted.
        """
        table = self.client.get_table(self.ref)
        if table.kind is KINDS[self.to] and ConversionNote.read(table.location) is None:
            return self._survey.nothing(table)
        self._check_places(table)
        access = TableAccess(table=table, operations=frozenset({DataOperation.SELECT}))
        outcome = None
        try:
            with (
                self.rows.group(str(self.attempt)) as cancel,
                begin(
                    self.client,
                    job_key=self.job_key,
                    attempt=self.attempt,
                    reads=[access],
                    lock_timeout_s=self.lock_timeout_s,
                    heartbeat_s=self.heartbeat_s,
                    on_step=self.on_step,
                    on_lost=cancel,
                ) as txn,
            ):
                self._exclude(txn)
                outcome = self._convert(txn)
        except HiveAcidError as error:
            if outcome is None:
                raise
            # The transaction held locks and nothing else.
            log.warning("converted %s; its transaction did not end well: %s", self.ref, error)
        return outcome

    def _convert(self, txn: Transaction) -> ConversionOutcome:
        """The conversion itself, with everybody else locked out."""
        way_back = WayBack(survey=self._survey, guard=txn.confirm_alive)
        way_back.recover()
        table = self.client.get_table(self.ref)
        if table.kind is KINDS[self.to]:
            steps = ("what was begun before is finished",)
            return outcome_of(table, self.to, steps=steps, done=True, txn_id=txn.txn_id)
        self._survey.check(table)
        if self.to is ConversionTarget.FULL_ACID:
            return self._set_parameters_alone(table, txn)
        try:
            note = self._note(table, txn)
            outcome = self._move(table, txn, note)
        except BaseException as error:
            self._undo_at_once(table, way_back, error)
            raise
        way_back.tidy(note)
        return outcome

    @property
    def _survey(self) -> ConversionSurvey:
        return ConversionSurvey(client=self.client, ref=self.ref, to=self.to)

    def _check_places(self, table: TableInfo) -> None:
        """See that files and directories can be renamed wherever the table has some."""
        check_writable(table.location)
        partitions = self._survey.partitions(table)
        for location in {table.location, *(p.location for p in partitions)}:
            check_renames(table.ref, location, "a conversion")

    # ---- what is done ----------------------------------------------------------------------------

    def _exclude(self, txn: Transaction) -> None:
        """Wait until nobody else has a lock on the table, and keep everybody out."""
        component = LockComponent(
            table=self.ref,
            lock_type=LockType.EXCLUSIVE,
            operation=DataOperation.SELECT,
            is_transactional=False,
        )
        acquire(
            self.client,
            LockRequest(
                txn_id=txn.txn_id, components=(component,), agent_info="hiveacid conversion"
            ),
            timeout_s=self.lock_timeout_s,
            clock=SystemClock(),
            on_enqueued=lambda: False,
        )
        txn.step("excluded")

    def _set_parameters_alone(self, table: TableInfo, txn: Transaction) -> ConversionOutcome:
        """To full ACID: what will be read is read before anything is changed."""
        nothing = no_write_ids(self.ref)
        files = self._survey.files(table)
        before = self.rows.digest(table, nothing)
        as_will_be = dataclasses.replace(table, kind=TransactionalKind.FULL_ACID)
        self._require_alike(before, self.rows.digest(as_will_be, nothing))
        txn.step("verified")
        self._require_files(table, files)
        txn.confirm_alive()
        self.client.set_table_parameters(self.ref, parameters_of(table, self.to))
        txn.step("switched")
        try:
            self._require_files(table, files)
        except TableChangedError as error:
            error.add_note("The table is full ACID by now: see whether such files are rows of it")
            raise
        steps = steps_of(table, self.to, len(files))
        return outcome_of(
            table, self.to, steps=steps, done=True, rows=before.rows, txn_id=txn.txn_id
        )

    def _require_files(self, table: TableInfo, files: list[tuple[str, str, int]]) -> None:
        if self._survey.files(table) != files:
            raise TableChangedError(table=self.ref, what="files")

    def _note(self, table: TableInfo, txn: Transaction) -> ConversionNote:
        """Put down what is going to be done, before anything is."""
        is_out = self.to is ConversionTarget.FLAT
        write_ids = self._survey.write_ids() if is_out else no_write_ids(self.ref)
        if is_out:
            self._forget_statistics(table, txn, write_ids)
        own = None if is_out else self._committed_write_id()
        moves = self._survey.moves(table, write_ids, own)
        note = ConversionNote(
            attempt=str(self.attempt),
            table_id=table.table_id,
            to=self.to.value,
            undo={name: table.parameters.get(name) for name in parameters_of(table, self.to)},
            moves=tuple(moves),
            emptied=tuple(emptied_by(moves)) if is_out else (),
            write_id=own,
        )
        txn.confirm_alive()
        note.write(table.location)
        txn.step("noted")
        return note

    def _committed_write_id(self) -> WriteId:
        """A write ID that counts already, whatever becomes of this conversion.

        Files that are in the delta of an aborted one when the conversion is killed would go with
        the next cleaning.
        """
        clock = SystemClock()
        with ExitStack() as undo:
            txn_id = self.client.open_txn()
            undo.callback(abort_quietly, self.client, txn_id)
            write_id = self.client.allocate_write_id(txn_id, self.ref)
            undo.pop_all()
        patience_s = self.client.txn_timeout_s / 2
        commit(self.client, txn_id, {self.ref: write_id}, patience_s=patience_s, clock=clock)
        return write_id

    def _forget_statistics(
        self, table: TableInfo, txn: Transaction, write_ids: ValidWriteIdList
    ) -> None:
        """Those of an aborted write are known as such by its write ID; a flat table has none."""
        self.client.forget_statistics(
            table,
            [partition.name for partition in self._survey.partitions(table)],
            write_id=self.client.allocate_write_id(txn.txn_id, self.ref),
            write_ids=write_ids,
        )

    def _move(self, table: TableInfo, txn: Transaction, note: ConversionNote) -> ConversionOutcome:
        """To insert-only, or back: files are moved, parameters set, the rows read again."""
        is_out = self.to is ConversionTarget.FLAT
        write_ids = self._survey.write_ids() if is_out else no_write_ids(self.ref)
        before = self.rows.digest(table, write_ids)
        note.move_all(txn.confirm_alive)
        txn.step("moved")
        txn.confirm_alive()
        self.client.set_table_parameters(self.ref, parameters_of(table, self.to))
        txn.step("switched")
        now = self.client.get_table(self.ref)
        if now.kind is not KINDS[self.to]:
            raise self._survey.refused("the metastore has not made it that")
        seen = no_write_ids(self.ref) if is_out else self._survey.write_ids()
        self._require_alike(before, self.rows.digest(now, seen))
        if not is_out and set(self._survey.places(now)) != moved_to(note.moves):
            raise TableChangedError(table=self.ref, what="files")
        txn.step("verified")
        txn.confirm_alive()
        dataclasses.replace(note, is_verified=True).write(table.location)
        txn.step("done")
        return outcome_of(
            table,
            self.to,
            steps=steps_of(table, self.to, len(note.moves)),
            done=True,
            rows=before.rows,
            files_moved=len(note.moves),
            txn_id=txn.txn_id,
        )

    def _require_alike(self, before: RowDigest, after: RowDigest) -> None:
        if before != after:
            raise self._survey.refused(
                f"its {before.rows} rows would be {after.rows} others, or have other values"
            )

    def _undo_at_once(self, table: TableInfo, way_back: WayBack, error: BaseException) -> None:
        """Undo it as long as everybody else is locked out; else another one may be at work."""
        try:
            way_back.undo_own(table.location, self.attempt)
        except HiveAcidError as failure:
            error.add_note(f"what was done is not undone: {failure}. The next conversion does it")
