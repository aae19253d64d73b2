"""Compaction of a table or partition: through the metastore's queue, or without a queue on 3.1.

An engine (`CompactionEngine`) merges the sorted files of each bucket as streams: in tasks of Spark,
or in this process. `Compactor.compact` does these steps in order: claim the compaction, take the
compactor's snapshot, plan under it, let the engine write, check that the plan is still valid,
publish, commit. Row IDs do not change.
"""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import (
    ConflictPolicy,
    MetastoreGeneration,
    WriteKind,
    looks_for_rivals,
)
from airflow_hiveacid.format.errors import HiveAcidError, JobFailedError
from airflow_hiveacid.format.ids import BucketId, TxnId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.records import OwnCompaction
from airflow_hiveacid.format.rivals import come_since, first_rival
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.maintenance.compaction_facts import CompactionFacts, CompactionOutcome
from airflow_hiveacid.maintenance.compaction_planner import Window
from airflow_hiveacid.maintenance.pauses import forget_failures, note_failure, would_fail_again
from airflow_hiveacid.metastore.compaction_queue import CompactionType, in_queue
from airflow_hiveacid.metastore.listed_tables import check_partition
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.compaction_work import CompactionWork, compacting
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from airflow_hiveacid.plan import compaction
from airflow_hiveacid.storage.acid.read.buckets import buckets_by_rows
from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction, CompactedFile
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.compact import PlainCompaction, put_together
from airflow_hiveacid.storage.plain.files import (
    check_files_readable,
    check_files_writable,
    plain_files,
)
from airflow_hiveacid.storage.plain.text_form import text_form
from airflow_hiveacid.storage.stores.listing import list_directories, list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.table_notes import TableNotes
from airflow_hiveacid.versions.keeping import note_as_ours
from airflow_hiveacid.writing.event_files import writer_options
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.overtaking import rival_error
from airflow_hiveacid.writing.publish import (
    Replacement,
    SharedNotes,
    StagedDirectory,
    StagedFile,
    assemble,
    empty_file,
    live_names,
)

_MOST_SHOWN: Final = 5
# The steps after a result is published: up to its commit, they cost less than its loss.
_PUBLISHED: Final = frozenset({"published", "body_done", "committed", "marked"})


class CompactionEngine(ABC):
    """The tasks of compactions: where they run, and how they end."""

    @property
    @abstractmethod
    def job_id(self) -> str:
        """The name of the tasks' job, which the metastore's queue shows."""

    @property
    @abstractmethod
    def at_once(self) -> int:
        """The number of partitions to compact at a time."""

    @abstractmethod
    def excuses(self, error: HiveAcidError) -> bool:
        """Return True if a failure says nothing about the files, so that it is not counted.

        The engine is ending, or another engine tries next.
        """

    @abstractmethod
    def group(self, name: str) -> AbstractContextManager[Callable[[], None]]:
        """Run a block whose tasks the yielded function cancels, from another thread."""

    @abstractmethod
    def stop(self) -> None:
        """Cancel the running tasks of all compactions."""

    @abstractmethod
    def buckets(self, works: Sequence[BucketCompaction]) -> list[CompactedFile]:
        """Compact the buckets of one directory, and return the staged files."""

    @abstractmethod
    def plain_files(self, works: Sequence[PlainCompaction]) -> list[CompactedFile]:
        """Combine files of an insert-only table, and return the staged files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compactor:
    """The compactor of one partition. Not thread-safe.

    `client` is the connection of its thread, `shared` the job's notes of the table. Steps fail once
    the window stops the compaction.
    """

    job: WritingJob
    engine: CompactionEngine
    client: MetastorePort
    facts: CompactionFacts
    shared: SharedNotes
    window: Window

    def compact(self) -> CompactionOutcome:
        """Compact the partition, if it is due and free; count failures (`maintenance.pauses`)."""
        plan = self.facts.plan(self.client)
        if isinstance(plan, compaction.NoCompaction):
            return self.facts.checked(self.facts.outcome(plan))
        try:
            outcome = self._compact_as(plan)
        except HiveAcidError as error:
            self._note(error)
            raise
        if outcome.done:
            forget_failures(self.facts.table, self.facts.partition)
        return self.facts.checked(outcome)

    def _compact_as(self, wanted: compaction.CompactionPlan) -> CompactionOutcome:
        terms, policy = self.job.terms, self.job.policy_of(self.facts.table)
        on_step = _checking(self.window, terms.on_step)
        look = self._look(WriteKind(wanted.choice.value), policy)
        group = f"{terms.attempt} {self.facts.table.ref} {self.facts.name}"
        with (
            self.engine.group(group) as cancel,
            compacting(
                self.client,
                dataclasses.replace(terms, on_step=on_step, on_lost=cancel),
                table=self.facts.table,
                partition=in_queue(self.facts.partition),
                compaction_type=CompactionType(wanted.choice.value),
                policy=policy,
                on_alone=look,
            ) as work,
        ):
            if work.refusal is not None:
                return self._hindered(work, work.refusal)
            return self._compact(wanted, work, look)

    def _note(self, error: HiveAcidError) -> None:
        """Count a failure, unless the job is being stopped or the partition was dropped."""
        if not would_fail_again(error) or self.window.is_stopped or self.engine.excuses(error):
            return
        facts, job_key = self.facts, self.job.terms.job_key or ""
        if not facts.where.is_dropped(self.client):  # the note would create the directory again
            note_failure(facts.table, facts.partition, error, job_key=job_key, now_s=time.time())

    def _look(
        self, doing: WriteKind, policy: ConflictPolicy
    ) -> Callable[[MetastoreTransaction], None]:
        """Return a check for commits since this call; it raises WriteConflictError for a rival."""
        if not looks_for_rivals(policy, doing):
            return lambda _: None
        # List the directories first, so that the write IDs cover every listed one.
        ref, location = self.facts.table.ref, self.facts.partition.location
        directories = frozenset(list_directories(*open_location(location)))
        began = self.client.valid_write_ids([ref], self.client.valid_txns())[ref]

        def check(txn: MetastoreTransaction) -> None:
            # Now the snapshot comes first: each write that it shows has published its directory.
            newest = txn.newest(ref)
            names = list_directories(*open_location(location))
            now = newest.write_ids(ref), newest.txns
            foreign_writes = come_since(names, directories, began, now)
            rival = first_rival(foreign_writes, policy, self.client.generation, doing)
            if rival is not None:
                raise rival_error(rival, location, policy, txn.txn_id, loser="compaction")

        return check

    def _compact(
        self,
        wanted: compaction.CompactionPlan,
        work: CompactionWork,
        look: Callable[[MetastoreTransaction], None],
    ) -> CompactionOutcome:
        if self.facts.spec.choice is CompactionChoice.QUEUED and not work.served:
            why = "the request no longer waits in the metastore's queue"
            work.refuse(why, is_pointless=True)
            return self.facts.outcome(compaction.NoCompaction(why=why))
        check_partition(self.client, self.facts.table, self.facts.partition)
        state = self.facts.state(self.client, work.snapshot)
        plan = self.facts.decide(self.client, state, wanted.choice)
        if isinstance(plan, compaction.NoCompaction):
            work.refuse(plan.why, is_pointless=not plan.is_hindered)
            return self.facts.outcome(plan)
        wider = _made_later(plan, plan.state)
        if wider is not None:
            return self._hindered(work, wider)
        older = self._has_older_readers(work.txn.txn_id)
        plan = dataclasses.replace(plan, why=wanted.why, has_older_readers=older)
        if work.claim is not None:
            self.client.set_job_id(work.claim, self.engine.job_id)
            self._note_as_ours(work.claim.entry_id, work)
        return self._write_and_publish(plan, work, look)

    def _write_and_publish(
        self,
        plan: compaction.CompactionPlan,
        work: CompactionWork,
        look: Callable[[MetastoreTransaction], None],
    ) -> CompactionOutcome:
        txn, claim = work.txn, work.claim
        token = f"{txn.txn_id}-{self.job.terms.attempt}"
        # Stage inside the partition, so that a drop or truncate (3.1) removes the staged files,
        # too: a process that was suspended beyond its lock must not bring back rows.
        staging = Staging(location=self.facts.partition.location, token=token)
        txn.on_abort(staging.discard)
        txn.ensure_alive()  # a cancel does not reach tasks that have not begun
        directories = self._write(plan, staging, work)
        txn.step("staged")
        txn.confirm_alive()
        why_not = self._why_unseen(plan, directories, txn.txn_id)
        if why_not is not None:
            return self._hindered(work, why_not)
        # Take this lock late. An overwrite, a truncate or a drop waits for this lock, and all later
        # statements wait behind such a statement. The checks below find the changes that such
        # statements have made up to now (docs/decisions/compaction.md).
        txn.lock_reads()
        txn.step("reads_locked")
        look(txn)
        check_partition(self.client, self.facts.table, self.facts.partition)
        # Read the ledger before the last checks of the queue and the directory. A compaction worker
        # of Hive 3.1 can start and finish after these checks without being detected.
        write_ids = work.snapshot.write_ids(self.facts.table.ref)
        self.shared.confirm_writers(plan.state, write_ids, work.snapshot.txns)
        if self._is_pointless(plan, work):
            return self.facts.outcome(compaction.NoCompaction(why=str(work.refusal)))
        if work.has_rival():
            return self._hindered(work, str(work.refusal))
        changed = self._what_changed(plan, work)
        if changed is not None:
            return self._hindered(work, changed)
        replacement = Replacement(
            plan=plan,
            directories=directories,
            look=partial(self.facts.state, self.client, work.snapshot),
        )
        replacement.remove_dead_siblings()
        # Check again, because a compaction worker of Hive 3.1 may have started while many files
        # were listed. This check misses a worker that has both started and finished in that time.
        if work.has_rival():
            return self._hindered(work, str(work.refusal))
        txn.on_abort(replacement.take_back)
        work.confirm_wanted()
        replacement.publish()
        # If the transaction has ended, the next compactor may have missed our result.
        txn.confirm_alive()
        txn.step("published")
        staging.discard()
        if claim is not None:
            notes = TableNotes.of(self.facts.table)
            notes.note_highest_write_id(claim.entry_id, plan.high)
        return dataclasses.replace(
            self.facts.outcome(plan),
            done=True,
            outputs=tuple(d.directory for d in directories),
            files=sum(len(d.files) for d in directories),
            rows=sum(f.rows for d in directories for f in d.files),
            bytes_out=sum(f.size_bytes for d in directories for f in d.files),
            txn_id=txn.txn_id,
            entry_id=claim.entry_id if claim is not None else None,
            serves=work.serves,
        )

    def _note_as_ours(self, entry_id: int, work: CompactionWork) -> None:
        """Record that a queue entry is ours; another client's ends a kept table's guarantee."""
        aborted = work.snapshot.write_ids(self.facts.table.ref).aborted
        own = OwnCompaction(entry_id=entry_id, aborted=aborted)
        note_as_ours(self.client, self.facts.table, own, self.shared.versions)

    def _why_unseen(
        self, plan: compaction.CompactionPlan, directories: Sequence[StagedDirectory], txn_id: TxnId
    ) -> str | None:
        """Return why the result must not appear file by file; None if it may."""
        files = sum(len(directory.files) for directory in directories)
        if not plan.needs_one_file:
            return None
        if files > 1:
            return compaction.seen_by_halves(plan, files)
        open_txns = set(self.client.valid_txns().open) - {txn_id}
        if plan.is_major and open_txns:
            # Without its marker file, a compacted base looks like that of a single write: a reader
            # with an older snapshot may see rows that are not visible to it.
            oldest = min(open_txns)
            return (
                f"transaction {oldest} is open. On this store a base's rows appear before its"
                f" marker file, and until then transaction {oldest} could see rows that are newer"
                " than its snapshot"
            )
        return None

    def _write(
        self, plan: compaction.CompactionPlan, staging: Staging, work: CompactionWork
    ) -> tuple[StagedDirectory, ...]:
        outputs = plan.outputs(work.txn.txn_id if plan.hides else None)
        # One list for all tasks: it may contain a million IDs, and only one object is shared.
        write_ids = work.write_ids
        options = self._options(is_base=plan.is_major)
        if self.facts.table.kind is TransactionalKind.INSERT_ONLY:
            (output,) = outputs
            files = self._write_plain(plan, str(output), staging, options)
        else:
            works = [
                BucketCompaction(
                    table=self.facts.table.ref,
                    columns=self.facts.table.columns,
                    bucket_id=bucket.bucket_id,
                    inserts=bucket.inserts if plan.is_major else bucket.delta_inserts,
                    deletes=bucket.deletes,
                    write_ids=write_ids,
                    outputs=outputs,
                    staging=staging,
                    options=options,
                    shared=bucket.shared,
                )
                for bucket in buckets_by_rows(plan.state, write_ids)
            ]
            files = [self._staged(file) for file in self.engine.buckets(works)]
        files += self._empty_results(outputs, files, staging)
        return assemble(files, {self.facts.name: staging}, is_compacted=plan.is_major)

    def _write_plain(
        self,
        plan: compaction.CompactionPlan,
        directory: str,
        staging: Staging,
        options: WriterOptions,
    ) -> list[StagedFile]:
        table, partition = self.facts.table, self.facts.partition
        storage = partition.storage or table.storage
        check_files_readable(table.ref, storage, table.parameters, table.columns)
        check_files_writable(table, [partition], keeps_text_form=True)
        data_files = plain_files(
            plan.read,
            storage.format,
            with_originals=table.reads_originals,
            text=text_form(table.ref, table.storage, table.parameters, partition.storage),
        )
        works = [
            PlainCompaction(
                table=table.ref,
                files=together,
                columns=table.columns,
                format=storage.format,
                number=BucketId(number),
                directory=directory,
                staging=staging,
                options=options,
            )
            for number, together in enumerate(put_together(data_files))
        ]
        return [self._staged(file) for file in self.engine.plain_files(works)]

    def _staged(self, file: CompactedFile) -> StagedFile:
        return StagedFile(
            partition=self.facts.name,
            directory=file.directory,
            bucket=file.bucket_id,
            attempt=file.attempt,
            rows=file.rows,
            size_bytes=file.size_bytes,
            kind=self.facts.table.kind,
        )

    def _empty_results(
        self,
        outputs: Sequence[BaseName | DeltaName],
        files: Sequence[StagedFile],
        staging: Staging,
    ) -> list[StagedFile]:
        """Stage an empty file for each result without rows, which still replaces its inputs."""
        table = self.facts.table
        missing = {str(o) for o in outputs} - {f.directory for f in files}
        return [
            empty_file(table, self.facts.name, directory, staging, self._options(is_base=True))
            for directory in sorted(missing)
        ]

    def _options(self, *, is_base: bool) -> WriterOptions:
        return writer_options(self.facts.table, self.client.generation, is_base=is_base)

    def _hindered(self, work: CompactionWork, why: str) -> CompactionOutcome:
        if work.refusal is None:
            work.refuse(why)
        return self.facts.outcome(compaction.NoCompaction(why=why, is_hindered=True))

    def _has_older_readers(self, own: TxnId) -> bool:
        """Return True if another transaction's snapshot may be older than the newest input.

        On 3.1, return False, as no suffix can hide a result. Call this after taking our snapshot:
        later transactions see every write that it shows. Open compactions do not count: ours choose
        a base as Hive 3.1, and the queue prevents concurrent ones by Hive.
        """
        if self.client.generation is MetastoreGeneration.V3:
            return False
        return bool(self.client.open_but_compactions() - {own})

    def _is_pointless(self, plan: compaction.CompactionPlan, work: CompactionWork) -> bool:
        """Return True, and refuse the compaction, if a job without our lock replaced its input."""
        table = self.facts.table
        newest = work.txn.newest(table.ref)
        listing = list_table(self.facts.partition.location)
        newer = compaction.replacing_base(
            plan, listing.directories, newest.write_ids(table.ref), newest.txns
        )
        if newer is not None:
            why = f"{newer} has replaced the files that were to be compacted"
            work.refuse(why, is_pointless=True)
            return True
        state = resolve(listing, work.write_ids, newest.txns, table.kind)
        is_gone = bool(_read_from(plan.state)) and not _read_from(state)
        if is_gone:
            why = "the files that were to be compacted no longer exist: they were truncated"
            work.refuse(why, is_pointless=True)
        return is_gone

    def _what_changed(self, plan: compaction.CompactionPlan, work: CompactionWork) -> str | None:
        """Describe changes of other compactors that would duplicate rows of our result."""
        # The entry of Hive's worker leaves the queue shortly before the worker commits.
        txns = self.client.valid_txns()
        state = self.facts.state(self.client, dataclasses.replace(work.snapshot, txns=txns))
        for name in (d.name for d in state.invisible):
            txn_id = name.visibility_txn_id
            if txn_id is not None and txn_id in txns.open:
                return f"transaction {txn_id} is about to commit {name}"
        old_names, new_names = live_names(plan.state), live_names(state)
        if old_names == new_names:
            return _made_later(plan, state)
        changes = [f"{name} was added" for name in sorted(new_names - old_names)]
        changes += [f"{name} is no longer read" for name in sorted(old_names - new_names)]
        return (
            f"since the compaction began, {self.facts.partition.location} changed:"
            f" {', '.join(changes[:_MOST_SHOWN])}"
        )


def _made_later(plan: compaction.CompactionPlan, state: AcidState) -> str | None:
    """Describe the wider compaction result of a different client; return None if none exists.

    A wider result is not live in our snapshot, so readers would read both that result and our base.
    A 4.0.1 metastore's list of write IDs may end too early, at the lowest uncommitted write.
    """
    wider = compaction.read_beside(plan, [d.name for d in state.directories])
    if not wider:
        return None
    return (
        f"the metastore's list of writes now ends at {plan.high}, but"
        f" {min(str(name) for name in wider)} contains later writes; a base would duplicate its"
        " rows. The list is complete again after the table's next write"
    )


def _read_from(state: AcidState) -> set[str]:
    return live_names(state) | {file.path for file in state.originals}


def _checking(window: Window, on_step: Callable[[str], None]) -> Callable[[str], None]:
    """Return an `on_step` that ends a compaction at its next step once the window stops it."""

    def check(step: str) -> None:
        on_step(step)
        if window.is_stopped and step not in _PUBLISHED:
            raise JobFailedError("the window has ended")

    return check
