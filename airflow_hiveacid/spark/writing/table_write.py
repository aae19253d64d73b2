"""What one write does to one table: its files, its ledger entry, and how both are taken back.

A transaction may write several tables, and one table in several statements. Each statement stages
its directories apart; they are published together, under the statement's own ID. Whoever reads the
table in between reads them where they are staged (`staged`). In which order the tables of a write
go through these steps is the affair of `write`. Must not know Spark.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.format.errors import OvertakenError, WriteConflictError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, data_file, parse_directory_name
from airflow_hiveacid.format.policies import doing_of
from airflow_hiveacid.format.rivals import committed_since, first_rival
from airflow_hiveacid.format.table import PartitionInfo, PartitionName
from airflow_hiveacid.format.winner import Winner
from airflow_hiveacid.metastore.unchanged import check_table
from airflow_hiveacid.plan.history import Between, CommitNote, below
from airflow_hiveacid.plan.reruns import LedgerEntry, earlier_run
from airflow_hiveacid.spark.reading.staged import Staged
from airflow_hiveacid.spark.writing.burial import bury
from airflow_hiveacid.spark.writing.overtaking import found_in, hiding_directory, is_overtaken
from airflow_hiveacid.spark.writing.publish import (
    Publication,
    StagedDirectory,
    check_free,
    discard,
    misplaced,
    token_of,
)
from airflow_hiveacid.storage.stores.job_ledger import Ledger, abandoned, committed
from airflow_hiveacid.storage.stores.staging import Staging, check_publishable
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow_hiveacid.format.ids import StatementId
    from airflow_hiveacid.format.rivals import Deed
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.locks import TableAccess
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.metastore.transaction import Transaction
    from airflow_hiveacid.spark.writing.order import WriteOrder

_CHANGES: Final = frozenset({DataOperation.UPDATE, DataOperation.DELETE})


class TableWrite:
    """The part of a write that is about one table. Mutable: it remembers what it has put where."""

    def __init__(
        self, client: MetastorePort, txn: Transaction, order: WriteOrder, access: TableAccess
    ) -> None:
        self.table: TableInfo = access.table
        self._client, self._txn, self._order, self._access = client, txn, order, access
        self._ledger = Ledger.of(access.table)
        self._publication = Publication()
        self._directories: tuple[StagedDirectory, ...] = ()
        self._operations: dict[PartitionName, set[DataOperation]] = {}
        self._homes = {access.table.location}
        self._tokens: set[str] = set()
        self._entry: LedgerEntry | None = None
        self._earlier: tuple[LedgerEntry, ...] = ()

    @property
    def write_id(self) -> WriteId:
        """The table's write ID in this transaction."""
        return self._txn.write_ids[self.table.ref]

    @property
    def directories(self) -> tuple[StagedDirectory, ...]:
        """What has been staged and will be published."""
        return self._directories

    @property
    def staged(self) -> Staged | None:
        """The same as a later statement reads it; None if there is nothing."""
        if not self._directories:
            return None
        places = {d.partition: d.staging.location for d in self._directories}
        return Staged(
            write_id=self.write_id,
            partitions=tuple(PartitionInfo(name=n, location=p) for n, p in places.items()),
            files={name: tuple(_files(self._directories, name)) for name in places},
        )

    def token(self, statement_id: StatementId) -> str:
        """The name of one statement's staging directories, which are ours to remove."""
        token = token_of(self._txn.txn_id, self._order.run.attempt, statement_id)
        self._tokens.add(token)
        return token

    def check_table(self) -> None:
        """See that the table is still what the statements were checked against.

        Raises:
            TableChangedError: its definition changed, or it is another table of that name.
        """
        check_table(self._client, self.table)

    # ---- earlier runs ----------------------------------------------------------------------------

    def earlier_run(self) -> LedgerEntry | None:
        """The run that makes this one needless, as far as this table's ledger knows.

        Raises:
            RerunRefusedError, StatementChangedError, FencedError: see `plan.reruns`.
        """
        run, snapshot = self._order.run, self._txn.snapshot
        self._earlier = self._ledger.entries(run.job_key)
        write_ids = snapshot.write_ids(self.table.ref)
        known = committed(self._earlier, write_ids, snapshot.txns)
        return earlier_run(run, known, self.table, self._txn.txn_id)

    def is_certain(self, entry: LedgerEntry) -> bool:
        """Whether an entry of this table's is beyond doubt (`Ledger.is_certain`)."""
        return self._ledger.is_certain(entry)

    def confirm_earlier(self, entry: LedgerEntry) -> None:
        """Confirm an entry whose writer was killed before it could."""
        if not entry.is_confirmed:
            self._ledger.write(dataclasses.replace(entry, is_confirmed=True))

    def bury_abandoned(self) -> None:
        """Remove what aborted attempts of this job have left; `earlier_run` has found them.

        Raises:
            StorageError: something cannot be removed.
        """
        dead = abandoned(self._earlier, self.table.ref, self._txn.snapshot)
        bury(self._ledger, self._client, self.table, dead)

    # ---- those who were faster -------------------------------------------------------------------

    def named(self, winner: Winner) -> Winner:
        """The same with what this table's ledger knows of it.

        Raises:
            StorageError: the ledger cannot be read.
        """
        entry = self._ledger.entry_of(txn_id=winner.txn_id, write_id=winner.write_id)
        if entry is None:
            return winner
        return dataclasses.replace(
            winner, txn_id=entry.txn_id, job_key=entry.job_key, attempt=str(entry.attempt)
        )

    def check_no_rival(self, partitions: Sequence[PartitionInfo]) -> None:
        """See that nobody has committed, since this job began, what its policy lets it fail for.

        The metastore looks for itself at the commit. This look comes before, and knows whatever
        can be seen of others: what they did not have recorded, and what was committed before a
        transaction that began anew.

        Raises:
            WriteConflictError: somebody has.
        """
        ref = self.table.ref
        began = self._txn.began.get(ref)
        if began is None:
            return
        seen, now = self._txn.snapshot.write_ids(ref), self._txn.newest(ref).write_ids(ref)
        if not self._has_news(now):
            return

        def rival_among(partition: PartitionInfo, names: Sequence[str]) -> Deed | None:
            operations = self._operations.get(partition.name) or self._access.operations
            return first_rival(
                committed_since(names, began, seen, now),
                self._access.policy,
                self._client.generation,
                doing_of(operations),
            )

        found = found_in(partitions, rival_among)
        if found is not None:
            place, rival = found
            raise WriteConflictError(
                txn_id=self._txn.txn_id,
                reason=f"{place.location.rstrip('/')}/{rival.directory} was committed while this"
                f" job was at work, and the policy {self._access.policy.value} lets only the first"
                " of the two",
                winner=Winner(
                    write_id=rival.write_id, did=rival.doing.value, directory=rival.directory
                ),
            )

    def check_not_overtaken(self, partitions: Sequence[PartitionInfo]) -> None:
        """See that nothing committed since the write ID was given hides what is to be written.

        Raises:
            OvertakenError: something does; begin anew.
        """
        path = hiding_directory(
            partitions,
            self._txn.newest(self.table.ref).write_ids(self.table.ref),
            self.write_id,
            replaces=DataOperation.OVERWRITE in self._access.operations,
        )
        if path is not None:
            raise self.overtaken(f"{path} would hide what it writes")

    def look_ahead(self) -> None:
        """Do so before the work, if it is known already that somebody came first.

        With the locks in hand the answer cannot change any more, so this spares the work. Whoever
        changes rows must not even see a higher write ID than its own: Hive 4 passes over delete
        events for rows that are younger than these (VectorizedOrcAcidRowBatchReader), and would
        show the old row beside the new one.

        Raises:
            WriteConflictError: as `check_no_rival`.
            OvertakenError: as `check_not_overtaken`; or rows that are seen may be younger than the
                change.
        """
        known = self._access.partitions or (() if self.table.is_partitioned else (PartitionName(),))
        seen = self._txn.snapshot.write_ids(self.table.ref)
        if self._has_news(seen):
            self.check_no_rival(self._client.get_partitions(self.table, known))
        if is_overtaken(seen, self.write_id):
            if self._access.operations & _CHANGES:
                raise self.overtaken("it would change rows of a higher write ID than its own")
            self.check_not_overtaken(self._client.get_partitions(self.table, known))

    def _has_news(self, now: ValidWriteIdList) -> bool:
        """Whether anything of the table was committed since the job began, where that matters."""
        began = self._txn.began.get(self.table.ref)
        return began is not None and any(
            now.is_visible(WriteId(w))
            for w in (*began.open, *range(began.high_watermark + 1, now.high_watermark + 1))
        )

    def overtaken(self, why: str) -> OvertakenError:
        """What lets this write begin anew, to be raised."""
        return OvertakenError(table=self.table.ref, txn_id=self._txn.txn_id, why=why)

    # ---- files -----------------------------------------------------------------------------------

    def check_locations(self, locations: Collection[str]) -> None:
        """See that every place that may be written can be published to, and remember it.

        Raises:
            UnsupportedTableError: a partition is on a store without renames.
        """
        for location in locations:
            check_publishable(self.table.ref, location)
            if Staging.of(self.table, location, "any").home is None:
                self._homes.add(location)

    def stage(
        self,
        directories: tuple[StagedDirectory, ...],
        operations: Collection[DataOperation] | None = None,
    ) -> None:
        """Take over the directories of a statement, whose files are all written.

        A base takes the place of what earlier statements have staged in its partition: readers
        would pass over it, so it is not published at all.

        Args:
            directories: they; none if the statement changes nothing.
            operations: what the statement does; by default all that this write does to the table.
        """
        replaced = {d.partition for d in directories if _is_base(d)}
        kept = [d for d in self._directories if d.partition not in replaced]
        self._directories = (*kept, *directories)
        done = self._access.operations if operations is None else operations
        for directory in directories:
            self._operations.setdefault(directory.partition, set()).update(done)

    def register(self) -> None:
        """Tell the metastore which partitions change, before the first file appears in one.

        Raises:
            OvertakenError: a partition has come, or come again, at another place; begin anew.
        """
        if not self._directories:
            self._txn.change_nothing(self.table.ref)
        elif self.table.is_partitioned:
            names = self._partitions
            self._check_places(self._client.add_partitions(self.table, names))
            alike: dict[frozenset[DataOperation], list[PartitionName]] = {}
            for name in names:
                alike.setdefault(frozenset(self._operations[name]), []).append(name)
            for operations, found in alike.items():
                self._txn.register_partitions(self.table.ref, found, operations)

    def verify(self) -> None:
        """Make sure, right before anything becomes visible, that it can still count.

        Raises:
            TableChangedError: it is another table by now; who has dropped it took no lock.
            WriteConflictError: as `check_no_rival`.
            OvertakenError: what is to be published would be hidden.
            DirectoryExistsError: something of that name is there. Nothing is noted yet, so nobody
                will take it for ours.
        """
        if self._directories:
            self.check_table()
            # Where they are was asked when they were registered, and is asked again right behind.
            places = {d.partition: d.staging.location for d in self._directories}
            written = [PartitionInfo(name=name, location=place) for name, place in places.items()]
            self.check_no_rival(written)
            self.check_not_overtaken(written)
            check_free(self._directories)

    def note(self, result: str) -> None:
        """Put into the ledger what is going to be published."""
        run = self._order.run
        self._entry = LedgerEntry(
            job_key=run.job_key,
            generation=run.generation,
            attempt=run.attempt,
            statement=run.statement,
            table_id=self.table.table_id,
            txn_id=self._txn.txn_id,
            write_id=self.write_id,
            directories=tuple(d.final_path for d in self._directories),
            result=result,
            recorded_s=self._order.now_s(),
            retention_s=self._order.ledger_retention_s,
        )
        self._ledger.write(self._entry)

    def publish(self) -> None:
        """Give every directory its final name; the open write ID hides them until the commit.

        Raises:
            DirectoryExistsError: one is there already; it was not touched.
            StorageError: a rename failed.
        """
        self._publication.publish(self._directories)

    def check_published(self) -> None:
        """See that what was published is where readers look.

        Raises:
            OvertakenError: a partition is gone, or is at another place; who has dropped it took no
                lock. Whoever does it from here on removes what was published, too.
        """
        if self.table.is_partitioned:
            self._check_places(self._client.get_partitions(self.table, self._partitions))

    def take_back(self) -> None:
        """Undo what this write did to the table: the transaction is known to be aborted."""
        self._publication.take_back(into_staging=self._order.keeps_staged)
        if not self._order.keeps_staged:
            self.discard()
        if self._entry is not None:
            self._ledger.withdraw(self._entry)

    def confirm(self) -> None:
        """Note the commit, which has happened, and tidy up."""
        if self._entry is not None:
            self._ledger.write(dataclasses.replace(self._entry, is_confirmed=True))
            VersionNotes.of(self.table).note_commit(self._commit_note(self._entry))
        self.discard()
        self._ledger.prune(self._order.now_s(), self._order.ledger_retention_s)

    def _commit_note(self, entry: LedgerEntry) -> CommitNote:
        files = [(d, file) for d in self._directories for file in d.files]
        written = sum(f.rows for d, f in files if not _is_delete(d))
        removed = sum(f.rows for d, f in files if _is_delete(d))
        updated = sum(f.updated for _, f in files)
        times = self._txn.times
        seen = None if times is None else times.seen
        return CommitNote(
            table_id=entry.table_id,
            write_id=entry.write_id,
            txn_id=entry.txn_id,
            job_key=entry.job_key,
            attempt=str(entry.attempt),
            kind="+".join(self._kinds),
            inserted=written - updated,
            updated=updated,
            deleted=removed - updated,
            partitions=tuple(map(str, self._partitions)) if self.table.is_partitioned else (),
            files=len(files),
            size_bytes=sum(f.size_bytes for _, f in files),
            directories=tuple(below(self.table.location, d) for d in entry.directories),
            opened_s=None if times is None else times.opened_s,
            seen="" if seen is None else self._txn.snapshot.write_ids(self.table.ref).text(),
            seen_after_s=(seen and seen.after_s) or 0.0,
            seen_by_s=(seen and seen.by_s) or 0.0,
            committed=Between() if times is None else times.committed,
        )

    @property
    def _kinds(self) -> list[str]:
        """What was done to the table, for people."""
        done = {one for each in self._operations.values() for one in each}
        return sorted(operation.name.lower() for operation in done)

    @property
    def _partitions(self) -> tuple[PartitionName, ...]:
        return tuple(sorted({d.partition for d in self._directories}, key=str))

    def _check_places(self, partitions: Sequence[PartitionInfo]) -> None:
        stray = misplaced(self._directories, partitions)
        if stray is not None:
            raise self.overtaken(f"partition {stray.partition} is not at {stray.staging.location}")

    def discard(self) -> None:
        """Remove everything of this write that is still in staging."""
        discard(
            Staging(location=home, token=token)
            for home in sorted(self._homes)
            for token in sorted(self._tokens)
        )


def _is_base(directory: StagedDirectory) -> bool:
    return isinstance(parse_directory_name(directory.directory), BaseName)


def _is_delete(directory: StagedDirectory) -> bool:
    name = parse_directory_name(directory.directory)
    return isinstance(name, DeltaName) and name.is_delete


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
