"""A write's changes to one table: the files, the ledger entry, and how to undo both.

A transaction may write one table in several statements. Each stages its own directories under its
own statement ID; a later statement reads them there (`staged`). All are published together. `write`
decides the order of these steps for several tables.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.conflicts import DataOperation, write_kind_of
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import OvertakenError, Winner
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import BaseName, data_file, parse_directory_name
from airflow_hiveacid.format.records import CommitNote, LedgerEntry, Owner
from airflow_hiveacid.format.rivals import ForeignWrite, committed_since, first_rival
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.maintenance.ownership import (
    Neighbours,
    check_at,
    check_note,
    check_outside,
    note_outside,
)
from airflow_hiveacid.metastore.listed_tables import check_table
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.metastore.transactions.transaction import MetastoreTransaction
from airflow_hiveacid.plan.history import below
from airflow_hiveacid.plan.reruns import Run, earlier_run
from airflow_hiveacid.reading.table_view import Staged
from airflow_hiveacid.storage.stores.job_ledger import Ledger, abandoned, committed
from airflow_hiveacid.storage.stores.staging import Staging, check_publishable
from airflow_hiveacid.storage.stores.table_notes import OWNER_FILE, note_owner
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.writing import overtaking
from airflow_hiveacid.writing.publish import (
    Publication,
    StagedDirectory,
    check_free,
    discard,
    misplaced,
    remove_abandoned,
    row_counts,
    token_of,
)

_CHANGES: Final = frozenset({DataOperation.UPDATE, DataOperation.DELETE})
_ADDING: Final = frozenset({"insert", "load"})
_BATCH_KEPT_S: Final = 3650 * 86400.0
"""A stream may pause for long, and its newest entry says where it continues, so the ledger keeps it
for ten years. Each batch removes the entries of earlier batches."""


class TableWrite:
    """The part of a write that changes one table. Mutable: it stores where its files are."""

    def __init__(
        self,
        client: MetastorePort,
        txn: MetastoreTransaction,
        order: WriteOrder,
        access: TableAccess,
    ) -> None:
        self.table: TableInfo = access.table
        self._client, self._txn, self._order, self._access = client, txn, order, access
        self._ledger = Ledger.of(access.table)
        self._publication = Publication()
        self._directories: tuple[StagedDirectory, ...] = ()
        self._operations: dict[PartitionName, set[DataOperation]] = {}
        self._kinds: set[str] = set()
        self._homes = {access.table.location}
        self._existing: dict[PartitionName, PartitionInfo] = {}
        self._tokens: set[str] = set()
        self._owner: Owner | None = None
        self._neighbours = Neighbours()
        self._entry: LedgerEntry | None = None
        self._earlier: tuple[LedgerEntry, ...] = ()

    @property
    def write_id(self) -> WriteId:
        """The table's write ID in this transaction."""
        return self._txn.write_ids[self.table.ref]

    @property
    def directories(self) -> tuple[StagedDirectory, ...]:
        """The directories that have been staged and will be published."""
        return self._directories

    @property
    def staged(self) -> Staged | None:
        """The staged directories in the form in which a later statement reads them, or None."""
        if not self._directories:
            return None
        locations = {d.partition: d.staging.location for d in self._directories}
        return Staged(
            write_id=self.write_id,
            partitions=tuple(PartitionInfo(name=n, location=p) for n, p in locations.items()),
            files={name: tuple(_files(self._directories, name)) for name in locations},
        )

    def token(self, statement_id: StatementId) -> str:
        """Return the name of one statement's staging directories; `discard` removes them."""
        token = token_of(self._txn.txn_id, self._order.terms.attempt, statement_id)
        self._tokens.add(token)
        return token

    def check_table(self) -> None:
        """Check that the table has not changed since the statements were checked."""
        check_table(self._client, self.table)

    def check_owner(self) -> None:
        """Check that the table's directory has no note of another owner."""
        self._owner = check_note(self._client, self.table)

    # ---- earlier runs ----------------------------------------------------------------------------

    def earlier_run(self) -> LedgerEntry | None:
        """Return the earlier run in this table's ledger that makes this run unnecessary, if any."""
        run, ref = self._order.run, self.table.ref
        self._earlier = self._entries()
        commits = self._committed(self._txn.snapshot)
        if any(entry.doubt for entry in commits):
            # Another copy may have committed after the snapshot.
            commits = self._committed(self._txn.newest(ref))
        return earlier_run(run, commits, self.table, self._txn.txn_id)

    def _entries(self) -> tuple[LedgerEntry, ...]:
        entries = self._ledger.entries(self._order.job_key)
        return tuple(sorted(entries, key=lambda e: e.is_confirmed))  # confirmed ones last

    def _committed(self, snapshot: Snapshot) -> tuple[LedgerEntry, ...]:
        return committed(self._earlier, snapshot.write_ids(self.table.ref), snapshot.txns)

    def has_twin(self, entry: LedgerEntry) -> bool:
        """Return True if this table's ledger has the entry of a job, or its twin.

        It is read again if it has none, because a copy of the job may have just written it.
        """
        if not any(map(entry.is_twin, self._earlier)):
            self._earlier = self._entries()
        return any(map(entry.is_twin, self._earlier))

    def is_certain(self, entry: LedgerEntry) -> bool:
        """Return True if an entry of this table's ledger is certain (`Ledger.is_certain`)."""
        return self._ledger.is_certain(entry)

    def confirm_earlier(self, entry: LedgerEntry) -> None:
        """Confirm an entry if its writer was killed before the writer could confirm it."""
        if not entry.is_confirmed:
            self._ledger.write(dataclasses.replace(entry, is_confirmed=True))

    def remove_abandoned(self) -> None:
        """Remove files and entries of this job's aborted attempts; `earlier_run` has found them."""
        dead = abandoned(self._earlier, self.table.ref, self._txn.snapshot)
        remove_abandoned(self._ledger, self._client, self.table, dead)

    # ---- transactions that committed first -------------------------------------------------------

    def named(self, winner: Winner) -> Winner:
        """Return the winner with its job, if this table's ledger has recorded the job."""
        entry = self._ledger.entry_of(txn_id=winner.txn_id, write_id=winner.write_id)
        if entry is None:
            return winner
        return dataclasses.replace(
            winner, txn_id=entry.txn_id, job_key=entry.job_key, attempt=str(entry.attempt)
        )

    def check_no_rival(
        self, partitions: Sequence[PartitionInfo], newest: ValidWriteIdList | None = None
    ) -> None:
        """Raise WriteConflictError if a transaction has committed a conflicting change meanwhile.

        "Meanwhile" is since this job began. By the conflict policy, this also finds changes that
        the metastore, which checks at the commit, has not recorded, or that were committed before a
        restart.
        """
        ref = self.table.ref
        began = self._txn.began.get(ref)
        if began is None:  # the metastore finds all conflicts (`looks_for_rivals`)
            return
        snapshot_ids = self._txn.snapshot.write_ids(ref)
        newest_ids = newest or self._newest()
        if not self._has_news(newest_ids):
            return

        def rival_among(partition: PartitionInfo, names: Sequence[str]) -> ForeignWrite | None:
            operations = self._operations.get(partition.name) or self._access.operations
            return first_rival(
                committed_since(names, began, snapshot_ids, newest_ids),
                self._access.policy,
                self._client.generation,
                write_kind_of(operations),
            )

        conflict = overtaking.found_in(partitions, rival_among)
        if conflict is not None:
            root, rival = conflict
            raise overtaking.rival_error(
                rival, root.location, self._access.policy, self._txn.txn_id
            )

    def check_not_overtaken(
        self, partitions: Sequence[PartitionInfo], newest: ValidWriteIdList | None = None
    ) -> None:
        """Raise OvertakenError, for a restart, if a later commit (of `newest`) hides this write."""
        path = overtaking.hiding_directory(
            partitions,
            newest or self._newest(),
            self.write_id,
            replaces=DataOperation.OVERWRITE in self._access.operations,
        )
        if path is not None:
            raise self.overtaken(f"{path} would hide the rows of this write")

    def _newest(self) -> ValidWriteIdList:
        return self._txn.newest(self.table.ref).write_ids(self.table.ref)

    def look_ahead(self) -> None:
        """Check for conflicts and overtaking before writing, if the snapshot shows newer commits.

        The result is that of a check after writing, so it can avoid useless work. An UPDATE, DELETE
        or MERGE must not even read rows with a higher write ID than its own (OvertakenError). Hive
        4 ignores a delete event if its write ID is lower than the row's write ID
        (VectorizedOrcAcidRowBatchReader). It would show both rows.
        """
        # If a partitioned table is locked as a whole, only `verify` checks its partitions.
        partitions = self._access.partitions or (
            () if self.table.is_partitioned else (PartitionName(),)
        )
        write_ids = self._txn.snapshot.write_ids(self.table.ref)
        if self._has_news(write_ids):
            self.check_no_rival(self._client.get_partitions(self.table, partitions))
        if overtaking.is_overtaken(write_ids, self.write_id):
            if self._access.operations & _CHANGES:
                raise self.overtaken("it would change rows with a higher write ID than its own")
            self.check_not_overtaken(self._client.get_partitions(self.table, partitions))

    def _has_news(self, now: ValidWriteIdList) -> bool:
        """Return True if a write to the table is known to have committed since the job began."""
        began = self._txn.began.get(self.table.ref)
        return began is not None and any(
            now.is_visible(WriteId(w))
            for w in (*began.open, *range(began.high_watermark + 1, now.high_watermark + 1))
        )

    def overtaken(self, why: str) -> OvertakenError:
        """Return the error that makes this write restart, for the caller to raise."""
        return OvertakenError(table=self.table.ref, txn_id=self._txn.txn_id, why=why)

    # ---- files -----------------------------------------------------------------------------------

    def check_locations(self, locations: Collection[str]) -> None:
        """Check that files can be published to these locations, the table's own; store them."""
        check_outside(self._client, self.table, locations, self._neighbours)
        for location in locations:
            check_publishable(self.table.ref, location)
            if Staging.of(self.table, location, "any").home is None:  # not below the table
                self._homes.add(location)

    def note_existing(self, partitions: Iterable[PartitionInfo]) -> None:
        """Note partitions that a statement has read; `check_published` finds their changes."""
        self._existing |= {info.name: info for info in partitions}

    def stage(
        self,
        directories: tuple[StagedDirectory, ...],
        operations: Collection[DataOperation] | None = None,
        *,
        kinds: Collection[str] = (),
    ) -> None:
        """Add the directories of a statement; all their files must have been written.

        A base replaces the directories that earlier statements have staged in its partition, which
        readers would ignore. `directories` is empty if the statement changes nothing. By default,
        `operations` are all operations of this write on the table. `kinds` names the statement in
        the history, as its result does; by default, and for an INSERT or LOAD that overwrites, the
        operations do.
        """
        bases = [d for d in directories if isinstance(parse_directory_name(d.directory), BaseName)]
        replaced = {d.partition for d in bases}
        remaining = [d for d in self._directories if d.partition not in replaced]
        self._directories = (*remaining, *directories)
        performed = self._access.operations if operations is None else operations
        for directory in directories:
            self._operations.setdefault(directory.partition, set()).update(performed)
        if directories:
            says_less = DataOperation.OVERWRITE in performed and _ADDING.issuperset(kinds)
            named = [operation.name.lower() for operation in performed]
            self._kinds.update(named if says_less or not kinds else kinds)

    def register(self) -> None:
        """Register the changed partitions with the metastore, before they contain new files.

        If a partition was created, or created again, at a different location, the job must restart
        (OvertakenError).
        """
        if not self._directories:
            self._txn.change_nothing(self.table.ref)
        elif self.table.is_partitioned:
            names = self._partitions
            known = [self._existing[name] for name in names if name in self._existing]
            new = tuple(name for name in names if name not in self._existing)
            homes = {d.partition: d.staging.location for d in self._directories}
            check_at(self._client, self.table, [homes[name] for name in new], self._neighbours)
            added = self._client.add_partitions(self.table, new) if new else ()
            self._check_locations([*known, *added])
            alike: dict[frozenset[DataOperation], list[PartitionName]] = {}
            for name in names:
                alike.setdefault(frozenset(self._operations[name]), []).append(name)
            for operations, group in alike.items():
                self._txn.register_partitions(self.table.ref, group, operations)

    def verify(self) -> None:
        """Check, directly before publication, that the changes would not be lost.

        A client without a lock may have dropped the table (TableChangedError), and another
        directory may hide the published files or have a final name. The ledger has no entry yet, so
        no retry will treat that directory as this job's.
        """
        if self._directories:
            self.check_table()
            # The locations were checked at registration, and `check_published` checks them again.
            homes = {d.partition: d.staging.location for d in self._directories}
            written = [PartitionInfo(name=name, location=home) for name, home in homes.items()]
            newest = self._newest()
            self.check_no_rival(written, newest)
            self.check_not_overtaken(written, newest)
            check_free(self._directories)

    def note(self, result: str) -> None:
        """Record in the ledger the directories to publish and the result."""
        run = self._order.run
        self._entry = LedgerEntry(
            job_key=self._order.job_key,
            generation=run.generation,
            attempt=self._order.terms.attempt,
            statement=run.statement,
            table_id=self.table.table_id,
            txn_id=self._txn.txn_id,
            write_id=self.write_id,
            directories=tuple(d.final_path for d in self._directories),
            result=result,
            recorded_s=self._order.now_s(),
            retention_s=self._order.ledger_retention_s if run.batch is None else _BATCH_KEPT_S,
        )
        self._ledger.write(self._entry)

    def publish(self) -> None:
        """Rename every directory to its final name; the open write ID hides it until the commit."""
        self._publication.publish(self._directories)

    def check_published(self) -> None:
        """Raise OvertakenError if the published directories are not where readers look."""
        if self.table.is_partitioned:
            self._check_locations(self._client.get_partitions(self.table, self._partitions))

    def take_back(self) -> None:
        """Undo this write's changes to the table; call this only if the transaction was aborted."""
        self._publication.take_back(into_staging=self._order.keeps_staged)
        if not self._order.keeps_staged:
            self.discard()
        if self._entry is not None:
            self._ledger.withdraw(self._entry)

    def confirm(self) -> None:
        """Record the finished commit and the directory's owner; remove old entries and files."""
        if self._entry is not None:
            self._ledger.write(dataclasses.replace(self._entry, is_confirmed=True))
            VersionNotes.of(self.table).note_commit(self._commit_note(self._entry))
        self.discard()
        files = self._ledger.tidy(self._order.now_s(), self._order.ledger_retention_s)
        if self._order.run.batch is not None:
            number, running = self._order.run.generation, self._txn.snapshot.txns.open
            older = [e for e in self._earlier if e.generation < number and e.txn_id not in running]
            self._ledger.supersede(older, files)
        VersionNotes.of(self.table).bundle_commits(files)
        # After a RENAME of the table, the note has its former name.
        is_former = self._owner is not None and self._owner.table != self.table.ref
        if is_former or not any(file.name == OWNER_FILE for file in files):
            owner = Owner(
                metastore=self._client.metastore_id,
                table=self.table.ref,
                table_id=self.table.table_id,
            )
            note_owner(self.table.location, owner)
        written = {d.staging.location for d in self._directories}
        note_outside(self._client, self.table, written, self._neighbours)

    def _commit_note(self, entry: LedgerEntry) -> CommitNote:
        files = [file for directory in self._directories for file in directory.files]
        rows = row_counts(self._directories)
        note = CommitNote(
            table_id=entry.table_id,
            write_id=entry.write_id,
            txn_id=entry.txn_id,
            job_key=entry.job_key,
            attempt=str(entry.attempt),
            kind="+".join(sorted(self._kinds)),
            inserted=rows.inserted,
            updated=rows.updated,
            deleted=rows.deleted,
            partitions=tuple(map(str, self._partitions)) if self.table.is_partitioned else (),
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            directories=tuple(below(self.table.location, d) for d in entry.directories),
        )
        times = self._txn.times
        if times is None:  # the server reported no time
            return note
        return dataclasses.replace(
            note,
            opened_s=times.opened_s,
            seen=self._txn.snapshot.write_ids(self.table.ref).text(),
            seen_after_s=times.seen.after_s or 0.0,
            seen_by_s=times.seen.by_s or 0.0,
            committed=times.committed,
        )

    @property
    def _partitions(self) -> tuple[PartitionName, ...]:
        return tuple(sorted({d.partition for d in self._directories}, key=str))

    def _check_locations(self, partitions: Sequence[PartitionInfo]) -> None:
        stray = misplaced(self._directories, partitions)
        if stray is not None:
            raise self.overtaken(f"partition {stray.partition} is not at {stray.staging.location}")

    def discard(self) -> None:
        """Remove all files of this write that are still in staging."""
        discard(
            Staging(location=home, token=token)
            for home in sorted(self._homes)
            for token in sorted(self._tokens)
        )


def _files(directories: Iterable[StagedDirectory], partition: PartitionName) -> list[FileEntry]:
    return [
        FileEntry(
            path=f"{directory.directory}/{data_file(file.bucket, file.kind)}",
            size_bytes=file.size_bytes,
            root=directory.staging.root,
        )
        for directory in directories
        if directory.partition == partition
        for file in directory.files
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """The tables to write, the job's run that writes them, and its terms.

    `accesses` has one entry per written table; `reads` are the tables that are only read. For a
    restart, `handover` has the transactions that it replaces, and the job's rank; with
    `keeps_staged`, an abort leaves staged files in place.
    """

    run: Run
    terms: JobTerms
    accesses: tuple[TableAccess, ...]
    reads: tuple[TableAccess, ...] = ()
    ledger_retention_s: float
    handover: Handover | None = None
    keeps_staged: bool = False
    now_s: Callable[[], float] = time.time

    @property
    def job_key(self) -> str:
        """The key of the job, which the ledger needs."""
        if self.terms.job_key is None:
            raise TypeError("a write needs the key of its job")
        return self.terms.job_key
