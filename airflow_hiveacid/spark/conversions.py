"""Conversion of a table to another kind: in place, by moving files, or through a copy.

A full-ACID table becomes flat only through a copy: CREATE TABLE AS SELECT makes it as an
insert-only table, while others read and write the original. Then it is made flat, compared with the
original, and renamed to its name (`Exchange`).

The metastore does not allow removing 'transactional' from a full-ACID table, so a flat copy takes
over the table's name (docs/decisions/conversion.md). Each copy gets a new name: a copy starts as an
insert-only table, the metastore remembers write IDs for its name even after a drop, and no table
with write IDs can be renamed to that name (AcidEventListener).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.table import (
    COPY_OF,
    TableInfo,
    TableRef,
    TransactionalKind,
    kept_table,
)
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import ConversionTarget, ConvertSpec
from airflow_hiveacid.jobs.statements import CreateAsSpec, SourceSpec
from airflow_hiveacid.maintenance.conversion_survey import ConversionSurvey, no_write_ids
from airflow_hiveacid.maintenance.ownership import check_all
from airflow_hiveacid.metastore.catalog import TableChange
from airflow_hiveacid.metastore.definitions.statements import locked
from airflow_hiveacid.metastore.definitions.tables import found_table
from airflow_hiveacid.metastore.half_exchange import copies_of, copy_mark, copy_prefix, is_copy
from airflow_hiveacid.metastore.locks import components_to_define
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.plan import conversion
from airflow_hiveacid.spark.maintenance.convert import Converter, Rows
from airflow_hiveacid.spark.statements.creation import create_and_fill
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.spark.writing.spreading import RowDigest

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The exchange of a table and its flat copy. Not thread-safe."""

    client: MetastorePort
    rows: Rows
    ref: TableRef
    terms: JobTerms

    @property
    def copy(self) -> TableRef:
        """The name of the copy before it replaces the table, and after the table is restored."""
        return TableRef(self.ref.db, f"{copy_prefix(self.ref)}{self.terms.attempt.nonce}")

    @property
    def kept(self) -> TableRef:
        """The name of the full-ACID table while the copy has the original name."""
        return kept_table(self.ref)

    def recover(self) -> None:
        """Rename the copy to the table's name, if an earlier job was killed before this rename.

        If a copy has the name, other copies are dropped: their jobs came too late.
        """
        acid_table = found_table(self.client, self.kept)
        if acid_table is None or not copies_of(self.client, self.ref, acid_table):
            return
        with self._alone() as guard:
            table = self._table()
            copies = copies_of(self.client, self.ref, acid_table)
            if table is None:
                self._finish(acid_table, copies, guard)
            elif is_copy(table, self.ref, acid_table):
                for copy in copies:
                    guard()
                    self.client.drop_table(copy.ref, purge=True)
            else:
                self._check_name(acid_table, copies)

    def _finish(
        self, acid_table: TableInfo, copies: list[TableInfo], guard: Callable[[], None]
    ) -> None:
        """Rename the flat copy with the table's rows; another one may be older than some rows."""
        flat = [copy for copy in copies if copy.kind is TransactionalKind.NONE]
        if not flat:
            return
        digest = self._digest(acid_table)
        whole = next((copy.ref for copy in flat if self._digest(copy) == digest), None)
        if whole is None:
            raise self._refused(
                ConversionTarget.FLAT,
                f"an earlier conversion of it was interrupted, and {flat[0].ref} does not have the"
                f" rows of {acid_table.ref}. Compare their rows, and rename the right one to"
                f" {self.ref} in Hive (ALTER TABLE ... RENAME TO)",
            )
        log.warning("finishing an interrupted exchange table=%s", self.ref)
        guard()
        self._rename(whole, self.ref)

    def way_back(self, table: TableInfo) -> TableInfo | None:
        """Return the full-ACID table that this copy has replaced; None if there is none."""
        acid_table = found_table(self.client, self.kept)
        return (
            acid_table if acid_table is not None and is_copy(table, self.ref, acid_table) else None
        )

    def make_room(self) -> None:
        """Check that no table has the name `kept`, and remove copies left by earlier jobs."""
        with self._alone() as guard:
            table = self.client.get_table(self.ref)
            check_all(self.client, table)
            if (other := found_table(self.client, self.kept)) is not None:
                self._check_name(other, copies_of(self.client, self.ref, other))
                raise self._refused(ConversionTarget.FLAT, f"a table {self.kept} already exists")
            for copy in copies_of(self.client, self.ref, table):
                guard()
                self.client.drop_table(copy.ref, purge=True)

    def _table(self) -> TableInfo | None:
        """Return the table, or None if it is missing, also between the two renames."""
        is_there = self.ref.name in self.client.list_tables(self.ref.db)
        return self.client.get_table(self.ref) if is_there else None

    def _check_name(self, acid_table: TableInfo, copies: list[TableInfo]) -> None:
        """Check that the table's name was not taken while a killed job had renamed the table."""
        if flat := next((c.ref for c in copies if c.kind is TransactionalKind.NONE), None):
            raise self._refused(
                ConversionTarget.FLAT,
                f"an earlier conversion of it was interrupted, its rows are in {acid_table.ref} and"
                f" {flat}, and a new table has its name now. Rename the new table, convert"
                f" {self.ref} again, and move the new table's rows",
            )

    def leave(self) -> int:
        """Rename the flat copy to the table's name; return its number of rows.

        If the table was written after it was copied, raise TableChangedError. After an error, the
        table is unchanged, or `recover` finishes the exchange.
        """
        with self._alone() as guard:
            table, copy = self.client.get_table(self.ref), self.client.get_table(self.copy)
            digest = self._digest(table)
            if copy.kind is not TransactionalKind.NONE or not is_copy(copy, self.ref, table):
                raise self._refused(ConversionTarget.FLAT, f"{self.copy} is not a flat copy of it")
            if self._digest(copy) != digest:
                raise errors.TableChangedError(table=self.ref, what="rows")
            self.terms.on_step("compared")
            self._exchange(guard, self.kept, self.copy)
        return digest.rows

    def come_back(self, kept: TableInfo) -> int:
        """Rename the kept table to its original name; return its number of rows."""
        with self._alone() as guard:
            flat = self.client.get_table(self.ref)
            for table in (flat, kept):
                check_all(self.client, table)
            digest = self._digest(flat)
            if self._digest(kept) != digest:
                raise self._refused(
                    ConversionTarget.FULL_ACID,
                    f"it replaced {self.kept}, and the rows of the two tables differ. MERGE the"
                    f" rows of this table into {self.kept}; or drop {self.kept}, so that the files"
                    " of this table are converted",
                )
            self.terms.on_step("compared")
            self._exchange(guard, self.copy, self.kept)
        try:
            self.client.drop_table(self.copy, purge=True)
        except errors.HiveAcidError as error:
            log.warning("cannot remove the copy table=%s: %s", self.copy, error)
        return digest.rows

    def _exchange(self, guard: Callable[[], None], away: TableRef, here: TableRef) -> None:
        """Rename the table to `away`, then `here` to its name; if that is refused, rename back."""
        expected = _traits(self.client.get_table(here))
        guard()
        self._rename(self.ref, away)
        self.terms.on_step("away")
        try:
            self._rename(here, self.ref)
        except errors.HiveAcidError as error:
            table = self._table()
            if table is not None and _traits(table) == expected:
                return  # the rename's reply was lost, or a different job has recovered the table
            if table is None and not isinstance(error, errors.MetastoreUnavailableError):
                self._rename(away, self.ref)
            raise
        self.terms.on_step("exchanged")

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
        """Run a block under an exclusive lock; yield a guard that raises if the lock is lost."""
        components = components_to_define(self.ref, (), LockType.EXCLUSIVE, self.client.generation)
        with locked(self.client, components, self.terms) as txn_id:
            yield lambda: self.client.heartbeat(txn_id)

    def _refused(self, to: ConversionTarget, why: str) -> errors.ConversionRefusedError:
        return errors.ConversionRefusedError(table=self.ref, to=to.value, why=why)


def _traits(table: TableInfo) -> tuple[object, ...]:
    return table.table_id, table.kind, table.parameters.get(COPY_OF)


def convert(job: JobContext) -> JobResult:
    """Convert one table, or only report the steps."""
    spec = job.job_of(ConvertSpec)
    ref = TableRef.parse(spec.target)
    if spec.plan_only:
        outcome = ConversionSurvey(client=job.client, ref=ref, to=spec.to).plan()
    else:
        outcome = convert_table(job, ref, spec.to)
    if outcome.done:
        status = JobStatus.COMMITTED
    elif spec.plan_only and outcome.before != outcome.after:
        status = JobStatus.PLANNED
    else:
        status = JobStatus.NOTHING_TO_DO
    result = job.result(status, spec.target, {"conversion": to_json(outcome)})
    return dataclasses.replace(result, txn_id=outcome.txn_id, files=outcome.files_moved)


def convert_table(
    job: JobContext, ref: TableRef, to: ConversionTarget
) -> conversion.ConversionOutcome:
    """Convert a table to another kind, unless it is already of that kind."""
    exchange = Exchange(
        client=job.client,
        rows=Rows(spark=job.spark, client=job.client),
        ref=ref,
        terms=job.terms,
    )
    exchange.recover()
    table = job.client.get_table(ref)
    if to is ConversionTarget.FLAT and table.kind is TransactionalKind.FULL_ACID:
        return _leave(job, table, exchange)
    is_back = to is ConversionTarget.FULL_ACID and table.kind is TransactionalKind.NONE
    former_table = exchange.way_back(table) if is_back else None
    if former_table is not None:
        rows = exchange.come_back(former_table)
        steps = conversion.steps_back(exchange.kept)
        return conversion.outcome_of(table, to, steps=steps, done=True, rows=rows)
    return _converter(job, ref, to).convert()


def _leave(job: JobContext, table: TableInfo, exchange: Exchange) -> conversion.ConversionOutcome:
    exchange.make_room()
    copy = CreateAsSpec(
        target=str(exchange.copy),
        source=SourceSpec(table=str(table.ref)),
        partition_columns=tuple(column.name for column in table.partition_columns),
        insert_only=True,
        comment=table.parameters.get("comment"),
        properties={COPY_OF: copy_mark(table.ref, table)},
    )
    create_and_fill(dataclasses.replace(job, spec=dataclasses.replace(job.spec, job=copy)))
    _converter(job, exchange.copy, ConversionTarget.FLAT).convert()
    rows = exchange.leave()
    steps = conversion.steps_of(table, ConversionTarget.FLAT, 0)
    return conversion.outcome_of(table, ConversionTarget.FLAT, steps=steps, done=True, rows=rows)


def _converter(job: JobContext, ref: TableRef, to: ConversionTarget) -> Converter:
    return Converter(
        rows=Rows(spark=job.spark, client=job.client),
        client=job.client,
        ref=ref,
        to=to,
        terms=job.terms,
    )
