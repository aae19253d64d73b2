"""Conversion of one table: flat to full ACID or insert-only, and insert-only to flat.

Nobody writes or reads the table meanwhile who asks Hive's locks: one that excludes everybody is
held to the end. Read `Converter.convert` downwards: what a killed conversion has left is finished
or undone; the table is looked at; then

* to full ACID: the rows are read as those of the flat table and as those of the table that it will
  be; if they are the same, the parameters are set. Nothing has to be undone, and nothing could be:
  the metastore lets nobody take 'transactional' from a full-ACID table.
* else: a note is written, files are moved, the parameters are set, the rows are read again. If they
  are others, or anything fails, all of that is undone.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.errors import HiveAcidError, TableChangedError
from airflow_hiveacid.format.names import looks_like_directory_name
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget
from airflow_hiveacid.metastore.clock import SystemClock
from airflow_hiveacid.metastore.lock_wait import acquire
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.plan.conversion import (
    KINDS,
    ConversionOutcome,
    emptied_by,
    outcome_of,
    parameters_of,
    steps_of,
)
from airflow_hiveacid.spark.maintenance.conversion_survey import (
    ConversionSurvey,
    no_write_ids,
)
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.row_hash import RowDigest, row_digest
from airflow_hiveacid.spark.tasks import job_group
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import check_writable, delete_directory
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import check_publishable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo, TableRef
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """Converts one table. Not thread-safe."""

    spark: SparkSession
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
        with (
            job_group(self.spark, str(self.attempt)) as cancel,
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
            self._recover()
            table = self.client.get_table(self.ref)
            if table.kind is KINDS[self.to]:
                return outcome_of(table, self.to, steps=("what was begun before is finished",))
            self._survey.check(table)
            if self.to is ConversionTarget.FULL_ACID:
                return self._set_parameters_alone(table, txn)
            note = self._note(table, txn)
            txn.on_abort(lambda: self._undo_own(table))
            try:
                outcome = self._move(table, txn, note)
            except BaseException as error:
                self._undo_at_once(table, error)
                raise
        # Committed: from here on nothing may fail the job.
        self._tidy(note)
        return outcome

    @property
    def _survey(self) -> ConversionSurvey:
        return ConversionSurvey(client=self.client, ref=self.ref, to=self.to)

    def _check_places(self, table: TableInfo) -> None:
        """See that files and directories can be renamed wherever the table has some."""
        check_writable(table.location)
        partitions = self._survey.partitions(table)
        for location in {table.location, *(p.location for p in partitions)}:
            check_publishable(table.ref, location)

    def _digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        """The digest of the table's rows, if it were this."""
        target = Target(
            spark=self.spark,
            table=table,
            write_ids=write_ids,
            txns=self.client.valid_txns(),
            partitions=self._survey.partitions(table),
        )
        return row_digest(target.rows())

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
            on_enqueued=lambda: None,
        )
        txn.step("excluded")

    def _set_parameters_alone(self, table: TableInfo, txn: Transaction) -> ConversionOutcome:
        """To full ACID: what will be read is read before anything is changed."""
        nothing = no_write_ids(self.ref)
        files = self._survey.files(table)
        before = self._digest(table, nothing)
        as_will_be = dataclasses.replace(table, kind=TransactionalKind.FULL_ACID)
        self._require_alike(before, self._digest(as_will_be, nothing))
        txn.step("verified")
        txn.confirm_alive()
        self.client.set_table_parameters(self.ref, parameters_of(table, self.to))
        txn.step("switched")
        if self._survey.files(table) != files:
            raise TableChangedError(table=self.ref, what="files")
        steps = steps_of(table, self.to, len(files))
        return outcome_of(
            table, self.to, steps=steps, done=True, rows=before.rows, txn_id=txn.txn_id
        )

    def _note(self, table: TableInfo, txn: Transaction) -> ConversionNote:
        """Put down what is going to be done, before anything is."""
        is_out = self.to is ConversionTarget.FLAT
        write_ids = self._survey.write_ids() if is_out else no_write_ids(self.ref)
        own = None if is_out else self.client.allocate_write_id(txn.txn_id, self.ref)
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
        note.write(table.location)
        txn.step("noted")
        return note

    def _move(self, table: TableInfo, txn: Transaction, note: ConversionNote) -> ConversionOutcome:
        """To insert-only, or back: files are moved, parameters set, the rows read again."""
        is_out = self.to is ConversionTarget.FLAT
        write_ids = self._survey.write_ids() if is_out else no_write_ids(self.ref)
        before = self._digest(table, write_ids)
        txn.confirm_alive()
        note.move_all()
        txn.step("moved")
        self.client.set_table_parameters(self.ref, parameters_of(table, self.to))
        txn.step("switched")
        now = self.client.get_table(self.ref)
        if now.kind is not KINDS[self.to]:
            raise self._survey.refused("the metastore has not made it that")
        seen = no_write_ids(self.ref) if is_out else self._own(note)
        self._require_alike(before, self._digest(now, seen))
        dataclasses.replace(note, is_verified=True).write(table.location)
        txn.step("verified")
        return outcome_of(
            table,
            self.to,
            steps=steps_of(table, self.to, len(note.moves)),
            done=True,
            rows=before.rows,
            files_moved=len(note.moves),
            txn_id=txn.txn_id,
        )

    def _own(self, note: ConversionNote) -> ValidWriteIdList:
        """The table's write IDs as if this conversion had been committed."""
        found = self._survey.write_ids()
        return found if note.write_id is None else found.with_own(note.write_id)

    def _require_alike(self, before: RowDigest, after: RowDigest) -> None:
        if before != after:
            raise self._survey.refused(
                f"its {before.rows} rows would be {after.rows} others, or have other values"
            )

    # ---- the way back ----------------------------------------------------------------------------

    def _recover(self) -> None:
        """Finish or undo what a killed conversion has left. Call it with the table locked.

        Raises:
            HiveAcidError: it cannot be.
        """
        table = self.client.get_table(self.ref)
        note = ConversionNote.read(table.location)
        if note is None:
            return
        if note.table_id != table.table_id:
            ConversionNote.remove(table.location)
            return
        is_seen = note.write_id is None or self._survey.write_ids().is_visible(note.write_id)
        if note.is_verified and is_seen:
            log.warning("finishing a conversion of %s to %s", self.ref, note.to)
            self._tidy(note)
        else:
            log.warning("undoing a conversion of %s to %s", self.ref, note.to)
            self._undo(note)

    def _undo_at_once(self, table: TableInfo, error: BaseException) -> None:
        """Undo it as long as everybody else is locked out."""
        try:
            self._undo_own(table)
        except HiveAcidError as failure:
            error.add_note(f"what was done is not undone: {failure}. The next conversion does it")

    def _undo_own(self, table: TableInfo) -> None:
        """Undo what this very attempt has done, if it is not undone; a later one may be at work."""
        note = ConversionNote.read(table.location)
        if note is not None and note.attempt == str(self.attempt):
            self._undo(note)

    def _undo(self, note: ConversionNote) -> None:
        table = self.client.get_table(self.ref)
        self._require_untouched(table, note)
        if any(table.parameters.get(name) != value for name, value in note.undo.items()):
            self.client.set_table_parameters(self.ref, note.undo)
        note.move_back()
        for place in _made_by(note):
            delete_directory(*open_location(place))
        ConversionNote.remove(table.location)

    def _require_untouched(self, table: TableInfo, note: ConversionNote) -> None:
        """See that nobody has written into a table that a killed conversion made insert-only.

        Raises:
            ConversionRefusedError: somebody has.
        """
        if table.kind is not TransactionalKind.INSERT_ONLY or note.write_id is None:
            return
        own = {move.target.partition("/")[0] for move in note.moves}
        for listing in self._survey.listings(table):
            others = {path.partition("/")[0] for path in listing.directories} - own
            found = min(filter(looks_like_directory_name, others), default=None)
            if found is not None:
                raise self._survey.refused(
                    f"{listing.location}/{found} was written after an earlier conversion broke"
                    " off, which can be neither finished nor undone beside it"
                )

    def _tidy(self, note: ConversionNote) -> None:
        try:
            for move in note.emptied:
                delete_directory(*open_location(f"{move.location.rstrip('/')}/{move.target}"))
            ConversionNote.remove(self.client.get_table(self.ref).location)
        except HiveAcidError as error:
            log.warning("converted %s to %s, but its note stays: %s", self.ref, note.to, error)


def _made_by(note: ConversionNote) -> set[str]:
    """The directories that a conversion made for files to be moved into."""
    return {
        f"{move.location.rstrip('/')}/{move.target.partition('/')[0]}"
        for move in note.moves
        if "/" in move.target
    }
