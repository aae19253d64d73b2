"""Conversion of one table: flat to full ACID or insert-only, and insert-only to flat.

An exclusive lock is held until the conversion ends. The steps are those of
docs/decisions/conversion.md: to full ACID, read the rows twice, then set the parameters, which the
metastore does not allow removing; to another kind, write a note, move files, set the parameters,
read the rows again, and undo all steps if the rows differ or a step fails. The transaction only
holds the lock; before each step, the metastore must confirm the lock.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from airflow_hiveacid.format.conflicts import DataOperation, LockType
from airflow_hiveacid.format.errors import (
    HiveAcidError,
    TableChangedError,
    TypeMismatchError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.jobs.maintenance import ConversionTarget
from airflow_hiveacid.maintenance.conversion_survey import (
    ConversionSurvey,
    WayBack,
    no_write_ids,
    not_compactable,
)
from airflow_hiveacid.maintenance.ownership import check_all
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest, TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.commit import abort_quietly, commit
from airflow_hiveacid.metastore.transactions.lock_wait import acquire
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction, begin
from airflow_hiveacid.plan import conversion
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.engine.tasks import job_group, task_results
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.spark.writing.spreading import RowDigest, row_digest
from airflow_hiveacid.storage.plain.compact import compactable_form
from airflow_hiveacid.storage.stores.conversion_note import ConversionNote
from airflow_hiveacid.storage.stores.filesystem import check_writable
from airflow_hiveacid.storage.stores.staging import check_renames
from airflow_hiveacid.storage.values.timestamps import TimestampForm

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of tables, which Spark reads before and after a conversion."""

    spark: SparkSession
    client: MetastorePort

    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """Run a block's Spark jobs as one group; yield a function that cancels the group."""
        return job_group(self.spark, name)

    def digest(self, table: TableInfo, write_ids: ValidWriteIdList) -> RowDigest:
        """Return the digest of a table's rows, read with the given definition of the table."""
        return row_digest(self._target(table, write_ids).rows())

    def require_compactable(self, flat: TableInfo) -> None:
        """Read each file of a flat table as a compaction would: a footer does not prove its values.

        Raises UnsupportedFileError, TypeMismatchError or CorruptFileError.
        """
        numbered = self._target(flat, no_write_ids(flat.ref)).plain_files
        files = [file for _, file in numbered if file.length]
        read = partial(compactable_form, columns=flat.columns, table=flat.ref)
        with typed_failures():
            forms = task_results(self.spark, read, files)
            if TimestampForm.NANOSECONDS in forms:
                # A compaction may combine files, and all timestamps of its result have one unit.
                fine = partial(read, form=TimestampForm.NANOSECONDS)
                task_results(self.spark, fine, files)

    def _target(self, table: TableInfo, write_ids: ValidWriteIdList) -> Target:
        return Target(
            spark=self.spark,
            table=table,
            write_ids=write_ids,
            txns=self.client.valid_txns(),
            partitions=self.client.list_partitions(table),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """The conversion of one table. Not thread-safe."""

    rows: Rows
    client: MetastorePort
    ref: TableRef
    to: ConversionTarget
    terms: JobTerms

    def convert(self) -> conversion.ConversionOutcome:
        """Convert the table, unless it is already of the requested kind.

        Another transaction that reads or writes the table prevents the conversion, and so do files
        that were written into the table without a lock (TableChangedError). After an error, the
        conversion is undone, or a note remains for the next conversion.
        """
        table = self.client.get_table(self.ref)
        if table.kind is conversion.KINDS[self.to] and ConversionNote.read(table.location) is None:
            return self._survey.nothing(table)
        self._check_locations(table)
        access = TableAccess(table=table, operations=frozenset({DataOperation.SELECT}))
        outcome = None
        try:
            with (
                self.rows.group(str(self.terms.attempt)) as cancel,
                begin(
                    self.client, dataclasses.replace(self.terms, on_lost=cancel), reads=[access]
                ) as txn,
            ):
                self._exclude(txn)
                outcome = self._convert(txn)
        except HiveAcidError as error:
            if outcome is None:
                raise
            # The transaction only held locks, so its failure does not undo the conversion.
            log.warning("converted %s, but its transaction failed to end: %s", self.ref, error)
        return outcome

    def _convert(self, txn: MetastoreTransaction) -> conversion.ConversionOutcome:
        way_back = WayBack(survey=self._survey, guard=txn.confirm_alive)
        way_back.recover()
        table = self.client.get_table(self.ref)
        if table.kind is conversion.KINDS[self.to]:
            steps = ("finished an interrupted conversion",)
            return conversion.outcome_of(table, self.to, steps=steps, done=True, txn_id=txn.txn_id)
        self._survey.check(table)
        if self.to is not ConversionTarget.FLAT:
            self._require_compactable(table)
        if self.to is ConversionTarget.FULL_ACID:
            return self._set_parameters_alone(table, txn)
        write_ids = no_write_ids(self.ref)
        if self.to is ConversionTarget.FLAT:
            write_ids = self._survey.write_ids()
        # Before the note exists: beside it, a reader refuses files outside of base and deltas.
        digest = self.rows.digest(table, write_ids)
        try:
            note = self._note(table, txn, write_ids)
            outcome = self._move(table, txn, note, digest)
        except BaseException as error:
            self._undo_at_once(table, way_back, error)
            raise
        way_back.tidy(note)
        return outcome

    @property
    def _survey(self) -> ConversionSurvey:
        return ConversionSurvey(client=self.client, ref=self.ref, to=self.to)

    def _check_locations(self, table: TableInfo) -> None:
        check_all(self.client, table)
        check_writable(table.location)
        partitions = self.client.list_partitions(table)
        for location in {table.location, *(p.location for p in partitions)}:
            check_renames(table.ref, location, "a conversion")

    # ---- steps -----------------------------------------------------------------------------------

    def _exclude(self, txn: MetastoreTransaction) -> None:
        component = LockComponent(
            table=self.ref,
            lock_type=LockType.EXCLUSIVE,
            operation=DataOperation.SELECT,
            is_transactional=False,
        )
        acquire(
            self.client,
            LockRequest(txn_id=txn.txn_id, components=(component,), agent_info=txn.agent_info),
            timeout_s=self.terms.lock_timeout_s,
            clock=self.terms.clock,
        )
        txn.step("excluded")

    def _require_compactable(self, table: TableInfo) -> None:
        try:
            self.rows.require_compactable(table)
        except (UnsupportedFileError, TypeMismatchError) as error:
            raise self._survey.refused(not_compactable(error)) from error

    def _set_parameters_alone(
        self, table: TableInfo, txn: MetastoreTransaction
    ) -> conversion.ConversionOutcome:
        """Convert to full ACID if the rows before and after the conversion are equal."""
        write_ids = no_write_ids(self.ref)
        files = self._survey.files(table)
        digest = self.rows.digest(table, write_ids)
        as_will_be = dataclasses.replace(table, kind=TransactionalKind.FULL_ACID)
        self._require_alike(digest, self.rows.digest(as_will_be, write_ids))
        txn.step("verified")
        self._require_files(table, files)
        txn.confirm_alive()
        self.client.set_table_parameters(self.ref, conversion.parameters_of(table, self.to))
        txn.step("switched")
        try:
            self._require_files(table, files)
        except TableChangedError as error:
            error.add_note(
                "The table is now full ACID: check whether it includes these files' rows"
            )
            raise
        steps = conversion.steps_of(table, self.to, len(files))
        return conversion.outcome_of(
            table, self.to, steps=steps, done=True, rows=digest.rows, txn_id=txn.txn_id
        )

    def _require_files(self, table: TableInfo, files: list[tuple[str, str, int]]) -> None:
        if self._survey.files(table) != files:
            raise TableChangedError(table=self.ref, what="files")

    def _note(
        self, table: TableInfo, txn: MetastoreTransaction, write_ids: ValidWriteIdList
    ) -> ConversionNote:
        is_out = self.to is ConversionTarget.FLAT
        if is_out:
            self._forget_statistics(table, txn, write_ids)
        own = None if is_out else self._committed_write_id()
        moves = self._survey.moves(table, write_ids, own)
        note = ConversionNote(
            attempt=str(self.terms.attempt),
            table_id=table.table_id,
            to=self.to.value,
            undo={
                name: table.parameters.get(name)
                for name in conversion.parameters_of(table, self.to)
            },
            moves=tuple(moves),
            emptied=tuple(conversion.emptied_by(moves)) if is_out else (),
            write_id=own,
        )
        txn.confirm_alive()
        note.write(table.location)
        txn.step("noted")
        return note

    def _committed_write_id(self) -> WriteId:
        """Commit a write ID for the files, which cleaning would remove if it were aborted."""
        with ExitStack() as undo:
            txn_id = self.client.open_txn()
            undo.callback(abort_quietly, self.client, txn_id)
            write_id = self.client.allocate_write_id(txn_id, self.ref)
            undo.pop_all()
        patience_s = self.client.txn_timeout_s / 2
        commit(
            self.client, txn_id, {self.ref: write_id}, patience_s=patience_s, clock=self.terms.clock
        )
        return write_id

    def _forget_statistics(
        self, table: TableInfo, txn: MetastoreTransaction, write_ids: ValidWriteIdList
    ) -> None:
        """Remove the statistics of the table and its partitions, as their writer may be aborted."""
        self.client.forget_statistics(
            table,
            [partition.name for partition in self.client.list_partitions(table)],
            write_id=self.client.allocate_write_id(txn.txn_id, self.ref),
            write_ids=write_ids,
        )

    def _move(
        self, table: TableInfo, txn: MetastoreTransaction, note: ConversionNote, digest: RowDigest
    ) -> conversion.ConversionOutcome:
        """Convert to or from insert-only: move files, set parameters, read the rows again."""
        is_out = self.to is ConversionTarget.FLAT
        note.move_all(txn.confirm_alive)
        txn.step("moved")
        txn.confirm_alive()
        self.client.set_table_parameters(self.ref, conversion.parameters_of(table, self.to))
        txn.step("switched")
        changed_table = self.client.get_table(self.ref)
        if changed_table.kind is not conversion.KINDS[self.to]:
            raise self._survey.refused("the metastore did not change its kind")
        new_write_ids = no_write_ids(self.ref) if is_out else self._survey.write_ids()
        self._require_alike(digest, self.rows.digest(changed_table, new_write_ids))
        if not is_out and set(self._survey.paths(changed_table)) != conversion.moved_to(note.moves):
            raise TableChangedError(table=self.ref, what="files")
        txn.step("verified")
        txn.confirm_alive()
        dataclasses.replace(note, is_verified=True).write(table.location)
        txn.step("done")
        return conversion.outcome_of(
            table,
            self.to,
            steps=conversion.steps_of(table, self.to, len(note.moves)),
            done=True,
            rows=digest.rows,
            files_moved=len(note.moves),
            txn_id=txn.txn_id,
        )

    def _require_alike(self, before: RowDigest, after: RowDigest) -> None:
        if before != after:
            raise self._survey.refused(
                f"its {before.rows} rows would become {after.rows} rows, or values would differ"
            )

    def _undo_at_once(self, table: TableInfo, way_back: WayBack, error: BaseException) -> None:
        try:
            way_back.undo_own(table.location, self.terms.attempt)
        except HiveAcidError as failure:
            error.add_note(f"the undo failed: {failure}. The next conversion will repeat it")
