"""Compaction of one table or partition: as a worker of the metastore's queue, or beside it on 3.1.

Takes what a plan (`plan.compaction`) decided and carries it out: one Spark task per bucket merges
sorted files as streams; the driver publishes the result. Rows keep their identity; none passes
through Spark.

Read downwards: `Compactor.compact` claims the work and takes the compactor's snapshot, plans under
it, lets executors write, looks once more whether the plan still holds, publishes, and commits.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import DirectoryExistsError, NotEnoughHistoryError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.policies import ConflictPolicy, Doing, looks_for_rivals
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, Snapshot
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.specs import CompactionChoice, CompactSpec
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.metastore.compaction_work import compacting
from airflow_hiveacid.metastore.unchanged import check_partition
from airflow_hiveacid.plan.compaction import (
    Appearance,
    CompactionPlan,
    NoCompaction,
    only_hive_4_reads,
    plan_compaction,
    read_beside,
    seen_by_halves,
)
from airflow_hiveacid.plan.keeping import OwnCompaction
from airflow_hiveacid.plan.statements import check_alike, check_format
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.spark.maintenance.lookout import Lookout
from airflow_hiveacid.spark.maintenance.replacement import Replacement, live_names
from airflow_hiveacid.spark.tasks import job_group, run_tasks
from airflow_hiveacid.spark.writing.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    empty_file,
)
from airflow_hiveacid.spark.writing.writers import writer_options
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction, compact_bucket
from airflow_hiveacid.storage.plain.avro_schema import check_avro, check_avro_alike
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compact_plain, put_together
from airflow_hiveacid.storage.plain.files import plain_files
from airflow_hiveacid.storage.plain.text_form import check_text_writable, text_form
from airflow_hiveacid.storage.stores.listing import list_directories, list_table
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.storage.stores.traits import publishes_files
from airflow_hiveacid.versions.keeping import note_as_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Row, SparkSession

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.names import BaseName, DeltaName
    from airflow_hiveacid.format.table import PartitionInfo, TableInfo
    from airflow_hiveacid.metastore.compaction_work import CompactionWork
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.storage.orc.encoders import WriterOptions

log = logging.getLogger("hiveacid")

_COMPACTED_SCHEMA: Final = (
    "directory string, bucket int, attempt string, rows long, size_bytes long"
)
_COMPACTED_ARROW: Final = pa.schema(
    [
        ("directory", pa.string()),
        ("bucket", pa.int32()),
        ("attempt", pa.string()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOutcome:
    """What became of one partition: compacted (with directories), planned, or why not.

    `bytes_in` and `bytes_out` count data files. `entry_id` is the queue's, on 4.x.
    """

    partition: str
    done: bool
    kind: str
    why: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    files: int = 0
    rows: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    txn_id: int | None = None
    entry_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """Compacts partitions of one table. Not thread-safe: one per thread, with its own client.

    `known` is a compactor's snapshot that the run took when it began. It tells which partitions
    need nothing; what is compacted is decided anew under the snapshot of its own transaction.
    `policy` says beside whom a compaction may be committed.
    """

    spark: SparkSession
    client: MetastorePort
    table: TableInfo
    spec: CompactSpec
    job_key: str
    attempt: AttemptId
    lock_timeout_s: float
    heartbeat_s: float | None
    on_step: Callable[[str], None]
    known: Snapshot | None = None
    policy: ConflictPolicy = ConflictPolicy.HIVE

    def plan(self, partition: PartitionInfo) -> CompactionPlan | NoCompaction:
        """What would be done now, without claiming anything."""
        if self.known is not None:
            with suppress(NotEnoughHistoryError):  # of the older one
                return self._decide(self._state(partition, self.known), self.spec.choice)
        txns = self.client.valid_txns()
        snapshot = Snapshot(
            txn_id=None, txns=txns, tables=self.client.valid_write_ids([self.table.ref], txns)
        )
        return self._decide(self._state(partition, snapshot), self.spec.choice)

    def compact(self, partition: PartitionInfo) -> CompactionOutcome:
        """Compact one partition, if it is due and nobody else is at it."""
        wanted = self.plan(partition)
        if isinstance(wanted, NoCompaction) or self.spec.plan_only:
            return _outcome(partition, wanted)
        look = self._look(partition, Doing.MAJOR if wanted.is_major else Doing.MINOR)
        with (
            job_group(self.spark, f"{self.attempt} {partition.name}") as cancel,
            compacting(
                self.client,
                table=self.table,
                partition=partition.name if partition.name.columns else None,
                compaction_type=CompactionType.MAJOR if wanted.is_major else CompactionType.MINOR,
                job_key=self.job_key,
                attempt=self.attempt,
                lock_timeout_s=self.lock_timeout_s,
                heartbeat_s=self.heartbeat_s,
                policy=self.policy,
                on_step=self.on_step,
                on_lost=cancel,
                on_alone=look,
            ) as work,
        ):
            if work.refusal is not None:
                return _outcome(partition, NoCompaction(why=work.refusal))
            return self._compact(partition, wanted, work, look)

    def _look(self, partition: PartitionInfo, doing: Doing) -> Callable[[Transaction], None]:
        """A look for whoever commits from now on and makes a compaction fail by the policy."""
        if not looks_for_rivals(self.policy, doing):
            return lambda _: None
        # In this order: whatever lies there is in the list that is taken behind, as open if it is.
        there = frozenset(list_directories(*open_location(partition.location)))
        began = self.client.valid_write_ids([self.table.ref], self.client.valid_txns())
        return Lookout(
            client=self.client,
            table=self.table.ref,
            location=partition.location,
            policy=self.policy,
            doing=doing,
            there=there,
            began=began[self.table.ref],
        ).check

    def _compact(
        self,
        partition: PartitionInfo,
        wanted: CompactionPlan,
        work: CompactionWork,
        look: Callable[[Transaction], None],
    ) -> CompactionOutcome:
        txn, claim = work.txn, work.claim
        check_partition(self.client, self.table, partition)
        kind = CompactionChoice.MAJOR if wanted.is_major else CompactionChoice.MINOR
        plan = self._decide(self._state(partition, work.snapshot), kind)
        if isinstance(plan, NoCompaction):
            return _refused(partition, work, plan.why)
        older = self._has_older_readers(txn.txn_id)
        plan = dataclasses.replace(plan, why=wanted.why, has_older_readers=older)
        if claim is not None:
            self.client.set_job_id(claim, self.spark.sparkContext.applicationId)
            self._note_as_ours(claim.entry_id, work)
        token = f"{txn.txn_id}-{self.attempt}"
        # Inside the partition, so that it goes with it: a process that stands still for longer than
        # it keeps its lock must not bring back what was truncated (3.1) or dropped meanwhile.
        staging = Staging(location=partition.location, token=token)
        txn.on_abort(staging.discard)
        directories = self._write(partition, plan, staging, work)
        txn.step("staged")
        txn.confirm_alive()
        why_not = self._why_unseen(plan, directories, txn.txn_id)
        if why_not is not None:
            return _refused(partition, work, why_not)
        if work.has_rival():
            return _outcome(partition, NoCompaction(why=str(work.refusal)))
        look(txn)
        # Trino changes a definition whatever locks there are.
        check_partition(self.client, self.table, partition)
        unfinished = self._require_unchanged(partition, plan, work)
        if unfinished is not None:
            return _refused(partition, work, unfinished)
        replacement = Replacement(
            plan=plan,
            directories=directories,
            look=partial(self._state, partition, work.snapshot),
        )
        replacement.remove_dead_siblings()
        # To look at many files takes its time, in which a worker of 3.1 may have come. One that has
        # gone again within it is not known of.
        if work.has_rival():
            return _outcome(partition, NoCompaction(why=str(work.refusal)))
        txn.on_abort(replacement.take_back)
        txn.ensure_alive()  # costs nothing, unless we stood still while we looked
        replacement.publish()
        txn.confirm_alive()  # if it is over already, whoever came next has not seen our result
        txn.step("published")
        staging.discard()
        if claim is not None:
            notes = TableNotes.of(self.table)
            notes.note_highest_write_id(claim.entry_id, plan.high)
        return dataclasses.replace(
            _outcome(partition, plan),
            done=True,
            outputs=tuple(d.directory for d in directories),
            files=sum(len(d.files) for d in directories),
            rows=sum(f.rows for d in directories for f in d.files),
            bytes_out=sum(f.size_bytes for d in directories for f in d.files),
            txn_id=txn.txn_id,
            entry_id=claim.entry_id if claim is not None else None,
        )

    def _note_as_ours(self, entry_id: int, work: CompactionWork) -> None:
        """Say that an entry is ours, before the server's cleaner can take it up.

        What somebody else compacts ends what is promised of a kept table (docs/adr/0052).
        """
        aborted = work.snapshot.write_ids(self.table.ref).aborted
        note_as_ours(self.client, self.table, OwnCompaction(entry_id=entry_id, aborted=aborted))

    def _state(self, partition: PartitionInfo, snapshot: Snapshot) -> AcidState:
        write_ids = CompactorWriteIdList.of(snapshot.write_ids(self.table.ref))
        return resolve(list_table(partition.location), write_ids, snapshot.txns, self.table.kind)

    def _decide(self, state: AcidState, choice: CompactionChoice) -> CompactionPlan | NoCompaction:
        knows_suffix = self.client.generation is not MetastoreGeneration.V3
        can_hide = knows_suffix and only_hive_4_reads(self.table.parameters)
        appears = Appearance.AT_ONCE
        if publishes_files(scheme_of(state.location)):
            appears = Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE
            if can_hide:
                appears = Appearance.HIDDEN
            elif not knows_suffix:
                appears = Appearance.FILE_BY_FILE
        return plan_compaction(
            state,
            choice,
            CompactionPolicy(delta_count=self.spec.delta_count, delta_ratio=self.spec.delta_ratio),
            can_hide_until_commit=can_hide,
            kind=self.table.kind,
            appears=appears,
        )

    def _why_unseen(
        self, plan: CompactionPlan, directories: Sequence[StagedDirectory], txn_id: TxnId
    ) -> str | None:
        """Why what is staged must not be shown file by file; None where it may, or is not."""
        files = sum(len(directory.files) for directory in directories)
        if not plan.needs_one_file:
            return None
        if files > 1:
            return seen_by_halves(plan, files)
        others = set(self.client.valid_txns().open) - {txn_id}
        if plan.is_major and others:
            # Without its marker a base is taken for that of one write, which an older snapshot may
            # see although it does not see all that is in there.
            return (
                f"transaction {min(others)} is open: between the rows of the base and its marker,"
                " which appear one after the other on this store, it could see what came after it"
            )
        return None

    def _write(
        self, partition: PartitionInfo, plan: CompactionPlan, staging: Staging, work: CompactionWork
    ) -> tuple[StagedDirectory, ...]:
        outputs = plan.outputs(work.txn.txn_id if plan.hides else None)
        # Once: there may be a million, and what several tasks have in common is sent once.
        write_ids = work.write_ids
        options = self._options(is_base=plan.is_major)
        if self.table.kind is TransactionalKind.INSERT_ONLY:
            (output,) = outputs
            files = self._write_plain(partition, plan, str(output), staging, options)
            files += self._empty_results(partition, outputs, files, staging)
            return assemble(files, {partition.name: staging}, is_compacted=plan.is_major)
        works = [
            BucketCompaction(
                columns=self.table.columns,
                bucket_id=bucket.bucket_id,
                inserts=bucket.inserts if plan.is_major else bucket.delta_inserts,
                deletes=bucket.deletes,
                write_ids=write_ids,
                outputs=outputs,
                staging=staging,
                options=options,
            )
            for bucket in bucket_files(plan.state, write_ids)
        ]
        frame = run_tasks(self.spark, _compact_task, works, _COMPACTED_SCHEMA)
        files = [self._staged(partition, row) for row in frame.collect()]
        files += self._empty_results(partition, outputs, files, staging)
        return assemble(files, {partition.name: staging}, is_compacted=plan.is_major)

    def _write_plain(
        self,
        partition: PartitionInfo,
        plan: CompactionPlan,
        directory: str,
        staging: Staging,
        options: WriterOptions,
    ) -> list[StagedFile]:
        """The same of an insert-only table: files are put together, by their bytes."""
        storage = partition.storage or self.table.storage
        check_format(self.table.ref, storage, self.table.parameters)
        check_alike(self.table, [partition])
        check_avro(self.table.ref, storage, self.table.parameters, self.table.columns)
        check_avro_alike(self.table, [partition])
        check_text_writable(self.table)
        found = plain_files(
            plan.read,
            storage.format,
            with_originals=self.table.reads_originals,
            text=text_form(
                self.table.ref, self.table.storage, self.table.parameters, partition.storage
            ),
        )
        works = [
            PlainCompaction(
                files=together,
                columns=self.table.columns,
                format=storage.format,
                number=BucketId(number),
                directory=directory,
                staging=staging,
                options=options,
            )
            for number, together in enumerate(put_together(found))
        ]
        frame = run_tasks(self.spark, _compact_plain_task, works, _COMPACTED_SCHEMA)
        return [self._staged(partition, row) for row in frame.collect()]

    def _staged(self, partition: PartitionInfo, row: Row) -> StagedFile:
        return StagedFile(
            partition=partition.name,
            directory=row.directory,
            bucket=BucketId(row.bucket),
            attempt=row.attempt,
            rows=row.rows,
            updated=0,
            size_bytes=row.size_bytes,
            kind=self.table.kind,
        )

    def _empty_results(
        self,
        partition: PartitionInfo,
        outputs: Sequence[BaseName | DeltaName],
        files: Sequence[StagedFile],
        staging: Staging,
    ) -> list[StagedFile]:
        """A result without rows still replaces its inputs; engines see it by an empty file."""
        missing = {str(o) for o in outputs} - {f.directory for f in files}
        return [
            empty_file(self.table, partition.name, directory, staging, self._options(is_base=True))
            for directory in sorted(missing)
        ]

    def _options(self, *, is_base: bool) -> WriterOptions:
        return writer_options(self.table, self.client.generation, is_base=is_base)

    def _has_older_readers(self, own: TxnId) -> bool:
        """Whether a transaction may have a snapshot of before the last write that goes in.

        Asked when ours is taken: whoever begins later sees all that we see. Compactions are none:
        ours take a base as Hive 3.1 does, and Hive's own are kept away by the queue.
        """
        if self.client.generation is MetastoreGeneration.V3:
            return False
        return bool(self.client.open_but_compactions() - {own})

    def _require_unchanged(
        self, partition: PartitionInfo, plan: CompactionPlan, work: CompactionWork
    ) -> str | None:
        """Another compactor's result would overlap with ours and double rows.

        Returns:
            Why nobody can say yet whether there is one; None if there is none.

        Raises:
            DirectoryExistsError: there is.
        """
        # A worker of Hive's leaves the queue, and is committed a moment later.
        txns = self.client.valid_txns()
        state = self._state(partition, dataclasses.replace(work.snapshot, txns=txns))
        for name in (d.name for d in state.invisible):
            txn_id = name.visibility_txn_id
            if txn_id is not None and txn_id in txns.open:
                return f"transaction {txn_id} is about to show {name}"
        changed = live_names(state) ^ live_names(plan.state)
        # Made under a later snapshot than ours: it is not live here, and would be beside our base.
        wider = read_beside(plan, [d.name for d in state.directories])
        if changed or wider:
            found = min(changed or {str(name) for name in wider})
            raise DirectoryExistsError(path=f"{partition.location}/{found}")
        return None


def _compact_task(work: BucketCompaction) -> Iterator[pa.RecordBatch]:
    files = compact_bucket(work, uuid.uuid4().hex)
    yield pa.RecordBatch.from_pydict(
        {
            "directory": [f.directory for f in files],
            "bucket": pa.array([int(f.bucket_id) for f in files], pa.int32()),
            "attempt": [f.attempt for f in files],
            "rows": pa.array([f.rows for f in files], pa.int64()),
            "size_bytes": pa.array([f.size_bytes for f in files], pa.int64()),
        },
        schema=_COMPACTED_ARROW,
    )


def _compact_plain_task(work: PlainCompaction) -> Iterator[pa.RecordBatch]:
    attempt = uuid.uuid4().hex
    written = compact_plain(work, attempt)
    row = {
        "directory": work.directory,
        "bucket": int(work.number),
        "attempt": attempt,
        "rows": written.rows,
        "size_bytes": written.size_bytes,
    }
    yield pa.RecordBatch.from_pylist([row], schema=_COMPACTED_ARROW)


def _refused(partition: PartitionInfo, work: CompactionWork, why: str) -> CompactionOutcome:
    """What becomes of a compaction that is given up, in the queue as well."""
    work.refuse(why)
    return _outcome(partition, NoCompaction(why=why))


def _outcome(partition: PartitionInfo, plan: CompactionPlan | NoCompaction) -> CompactionOutcome:
    name = str(partition.name)
    if isinstance(plan, NoCompaction):
        return CompactionOutcome(partition=name, done=False, kind="none", why=plan.why)
    return CompactionOutcome(
        partition=name,
        done=False,
        kind="major" if plan.is_major else "minor",
        why=plan.why,
        inputs=tuple(d.text for d in plan.inputs),
        bytes_in=plan.bytes_in,
    )
