"""Publication of staged files, or of a compaction's result, and removal after an abort.

The order matters (docs/decisions/publishing.md): executors write every file to staging, the driver
registers the partitions with the metastore, and then renames directories into place; on a store
without renames, files appear one at a time (docs/decisions/s3.md). Until the commit, readers ignore
files with the write ID.

Trino reads an aborted base as committed, so a retry cannot wait for the cleaner. Ledger entries
record what an attempt was about to publish. Only directories at the table's current locations are
removed: a different table may now be at an old one. Open uploads are aborted first.

A result with a `_v` suffix is invalid if its transaction aborts. One without a suffix contains the
rows of its inputs, and is valid once renamed, so it is kept even then, unless it would duplicate
the rows of another compactor's result (`plan.compaction.doubles_rows`).
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Self

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import (
    DirectoryExistsError,
    LocationPermissionError,
    StorageError,
)
from airflow_hiveacid.format.ids import AttemptId, BucketId, StatementId, TxnId
from airflow_hiveacid.format.names import (
    ACID_VERSION_FILE,
    METADATA_FILE,
    BaseName,
    DeltaName,
    data_file,
    parse_directory_name,
)
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.jobs.job import RowCounts
from airflow_hiveacid.maintenance.ownership import check_outside
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.plan.compaction import CompactionPlan, doubles_rows
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WrittenFile
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.stream_writer import WrittenRows
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.filesystem import delete_directory, exists, rename_directory
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.listing import (
    give_up,
    give_up_all,
    list_directories,
    open_uploads,
)
from airflow_hiveacid.storage.stores.locations import (
    identity,
    open_location,
    publishes_files,
    scheme_of,
)
from airflow_hiveacid.storage.stores.staging import AcceptedFile, Staging
from airflow_hiveacid.storage.stores.threads import side_by_side
from airflow_hiveacid.storage.stores.version_notes import VersionNotes

log = logging.getLogger("hiveacid")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file that a task has written and the driver has accepted.

    `kind` is the kind of table that normally contains such files. Files of plain rows always have
    the kind INSERT_ONLY, even if LOAD DATA adds them to a full-ACID table.
    """

    partition: PartitionName
    directory: str
    bucket: BucketId
    attempt: str
    rows: int
    updated: int = 0
    size_bytes: int
    kind: TransactionalKind = TransactionalKind.FULL_ACID

    @property
    def is_delete(self) -> bool:
        """True if the rows of the file are delete events."""
        return is_delete_directory(self.directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """A directory that is to be published, with the staging area that contains it."""

    partition: PartitionName
    directory: str
    staging: Staging
    files: tuple[StagedFile, ...]
    is_compacted: bool = False

    @property
    def accepted(self) -> tuple[AcceptedFile, ...]:
        """The directory's data files, under their final names."""
        return tuple(
            AcceptedFile(
                name=data_file(file.bucket, file.kind),
                attempt=file.attempt,
                size_bytes=file.size_bytes,
            )
            for file in self.files
        )

    @property
    def markers(self) -> tuple[str, ...]:
        """The names of the directory's marker files."""
        is_acid = any(file.kind is TransactionalKind.FULL_ACID for file in self.files)
        names = ((ACID_VERSION_FILE, is_acid), (METADATA_FILE, self.is_compacted))
        return tuple(name for name, is_wanted in names if is_wanted)

    @property
    def final_path(self) -> str:
        """The directory's URI after publication."""
        return self.staging.final_path(self.directory)


def is_delete_directory(text: str) -> bool:
    """Return True if a directory's name is the name of a delete delta."""
    name = parse_directory_name(text)
    return isinstance(name, DeltaName) and name.is_delete


def row_counts(directories: Iterable[StagedDirectory]) -> RowCounts:
    """Return the numbers of inserted, updated and deleted rows; an update counts only as one."""
    files = [file for directory in directories for file in directory.files]
    updated = sum(file.updated for file in files)
    return RowCounts(
        inserted=sum(file.rows for file in files if not file.is_delete) - updated,
        updated=updated,
        deleted=sum(file.rows for file in files if file.is_delete) - updated,
    )


def assemble(
    files: Iterable[StagedFile],
    staging_of: dict[PartitionName, Staging],
    *,
    is_compacted: bool = False,
) -> tuple[StagedDirectory, ...]:
    """Move the accepted files into their directories and add the marker files."""
    groups: dict[tuple[PartitionName, str], list[StagedFile]] = {}
    for file in files:
        groups.setdefault((file.partition, file.directory), []).append(file)
    directories = [
        StagedDirectory(
            partition=partition,
            directory=directory,
            staging=staging_of[partition],
            files=tuple(members),
            is_compacted=is_compacted,
        )
        for (partition, directory), members in sorted(
            groups.items(), key=lambda g: (str(g[0][0]), g[0][1])
        )
    ]
    steps = [step for directory in directories for step in _steps(directory)]
    side_by_side(lambda step: step(), steps)
    return tuple(directories)


def _steps(directory: StagedDirectory) -> Iterator[Callable[[], object]]:
    """Yield the steps that assemble a directory; on a slow store, they should run in parallel."""
    staging, name = directory.staging, directory.directory
    for file in directory.files:
        yield partial(staging.accept, name, data_file(file.bucket, file.kind), file.attempt)
    if ACID_VERSION_FILE in directory.markers:
        yield partial(staging.add_version_file, name)
    if METADATA_FILE in directory.markers:
        yield partial(staging.add_metadata_file, name)


def empty_file(
    table: TableInfo,
    partition: PartitionName,
    directory: str,
    staging: Staging,
    options: WriterOptions,
) -> StagedFile:
    """Stage a file without rows, because some engines ignore a directory without files."""
    bucket, attempt = BucketId(0), uuid.uuid4().hex
    name = data_file(bucket, table.kind)
    fs, path = open_location(staging.attempt_path(directory, name, attempt))
    is_delete = is_delete_directory(directory)
    written: WrittenFile | WrittenRows
    if table.kind is TransactionalKind.INSERT_ONLY:
        with rows_writer(table.storage.format, fs, path, table.columns, options, table.ref) as rows:
            written = rows.close()
    else:
        with AcidFileWriter(fs, path, table.columns, options, is_delete=is_delete) as writer:
            written = writer.close()
    return StagedFile(
        partition=partition,
        directory=directory,
        bucket=bucket,
        attempt=attempt,
        rows=0,
        size_bytes=written.size_bytes,
        kind=table.kind,
    )


def check_free(directories: Sequence[StagedDirectory]) -> None:
    """Raise DirectoryExistsError if a directory exists under one of the final names."""

    def look(directory: StagedDirectory) -> None:
        if exists(*open_location(directory.final_path)):
            raise DirectoryExistsError(path=directory.final_path)

    side_by_side(look, directories)


def misplaced(
    directories: Iterable[StagedDirectory], partitions: Iterable[PartitionInfo]
) -> StagedDirectory | None:
    """Return a directory whose partition is not in `partitions`, or is elsewhere; or None."""
    homes = {info.name: identity(info.location) for info in partitions}
    return next(
        (d for d in directories if homes.get(d.partition) != identity(d.staging.location)),
        None,
    )


class Publication:
    """The directories that a transaction has published; an undo removes only these.

    Mutable: it remembers the directories. The store decides how a directory is published
    (`Staging.publish`).
    """

    def __init__(self) -> None:
        self._tried: list[StagedDirectory] = []

    def publish(self, directories: Sequence[StagedDirectory]) -> None:
        """Rename every directory, or publish its files; DirectoryExistsError if one exists."""
        side_by_side(self._publish_one, directories)
        log.info("published directories=%d", len(directories))

    def take_back(self, *, into_staging: bool = False) -> None:
        """Undo the publication, also into staging; call this only if the transaction is aborted."""
        side_by_side(_put_back_one if into_staging else _take_back_one, self._tried)

    def _publish_one(self, directory: StagedDirectory) -> None:
        self._tried.append(directory)
        staging = directory.staging
        if not staging.renames:
            # It stays in `_tried` after an error: marks identify a file's writer, so only our files
            # are taken back.
            staging.publish_files(directory.directory, directory.accepted, directory.markers)
            return
        try:
            staging.publish([directory.directory])
        except DirectoryExistsError:
            self._tried.remove(directory)  # the existing directory is not ours to remove
            raise


def _take_back_one(directory: StagedDirectory) -> None:
    staging = directory.staging
    if not staging.renames:
        log.info("taking back %s", directory.final_path)
        staging.take_back_files(directory.directory, directory.accepted, directory.markers)
        return
    # A rename may have succeeded even if it reported a failure. If the staged directory no longer
    # exists, the rename succeeded. Only this process moves the staged directory.
    if exists(*open_location(staging.path_for(directory.directory))):
        return
    log.info("taking back %s", directory.final_path)
    delete_directory(*open_location(directory.final_path))


def _put_back_one(directory: StagedDirectory) -> None:
    fs, staged = open_location(directory.staging.path_for(directory.directory))
    if exists(fs, staged):
        return
    log.info("putting back %s", directory.final_path)
    try:
        rename_directory(fs, open_location(directory.final_path)[1], staged)
    except StorageError as error:
        log.warning("cannot move a directory back to staging: %s", error)
        _take_back_one(directory)


def token_of(txn_id: TxnId, attempt: AttemptId, statement_id: StatementId | None = None) -> str:
    """Return the name of an attempt's staging directories for a statement; 0 adds no suffix."""
    token = f"{txn_id}-{attempt}"
    return f"{token}.{statement_id}" if statement_id else token


def all_staged(first: str) -> tuple[str, ...]:
    """Return an attempt's existing staging directories beside `first`, that of statement 0."""
    home, _, name = first.rpartition("/")
    tokens = list_directories(*open_location(home))
    return tuple(f"{home}/{n}" for n in tokens if n == name or n.startswith(f"{name}."))


def discard(stagings: Iterable[Staging]) -> None:
    """Remove everything in these staging areas; the call can be repeated."""
    for staging in {s.top: s for s in stagings}.values():
        staging.discard()


def remove_abandoned(
    ledger: Ledger, client: MetastorePort, table: TableInfo, abandoned: Sequence[LedgerEntry]
) -> None:
    """Remove the directories of these aborted attempts of a job, and their ledger entries."""
    if not abandoned:
        return
    locations = {partition.location.rstrip("/") for partition in client.list_partitions(table)}
    for entry in abandoned:
        log.info("removing files of this job's aborted txn_id=%s", entry.txn_id)
        directories = [d for d in entry.directories if _is_of(entry, d, locations)]
        check_outside(client, table, {d.rpartition("/")[0] for d in directories})
        # Uploads first: a stalled attempt could complete one after the removal.
        with _permitted():
            _discard_staged(table, entry, directories)
        for directory in directories:
            with _permitted():
                give_up_all(directory)
            delete_directory(*open_location(directory))
        ledger.withdraw(entry)


def _is_of(entry: LedgerEntry, directory: str, locations: Collection[str]) -> bool:
    """Return whether an attempt can have published a directory: by its location and write ID."""
    location, _, name = directory.rpartition("/")
    parsed = parse_directory_name(name)  # a base has no `low`
    low = getattr(parsed, "low", entry.write_id)
    return location in locations and parsed is not None and low == parsed.high == entry.write_id


def _discard_staged(table: TableInfo, entry: LedgerEntry, directories: Sequence[str]) -> None:
    """Remove an attempt's notes, which aborts the noted uploads: MinIO's list is incomplete."""
    token = token_of(entry.txn_id, entry.attempt)
    uploaded = [d for d in directories if publishes_files(scheme_of(d))]
    for top in {Staging.of(table, d.rpartition("/")[0], token).top for d in uploaded}:
        for staged in all_staged(top):
            delete_directory(*open_location(staged))


@contextmanager
def _permitted() -> Iterator[None]:
    try:
        yield
    except LocationPermissionError as error:
        # The user of a retry may lack the permission to list uploads. The retry continues.
        log.warning("cannot abort an ended attempt's uploads; cleaning will abort them: %s", error)


def live_names(state: AcidState) -> set[str]:
    """Return the names of the live directories."""
    return {d.text for d in state.live}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The staged result of a compaction; `look` lists the partition under its snapshot."""

    plan: CompactionPlan
    directories: tuple[StagedDirectory, ...]
    look: Callable[[], AcidState]
    _publication: Publication = field(default_factory=Publication)

    def remove_dead_siblings(self) -> None:
        """Remove directories that aborted compactors have left for the same write IDs.

        Of `delta_1_5_v12` and `delta_1_5_v15`, Hive reads only one, but Trino reads both. The
        caller holds the lock that only compactors request, so the other compactor has ended. A
        directory that is not aborted in the snapshot taken with the lock is kept: an input or, if
        this process was suspended, the next compactor's result.
        """
        location = self.plan.state.location.rstrip("/")
        if publishes_files(scheme_of(location)):
            # Uploads first, so that `look` lists all that suspended compactors published.
            self._stop_the_dead(location)
        ranges = {_without_suffix(name) for name in self._names}
        for name in sorted({d.text for d in self.look().aborted} - self._names):
            # A name with a suffix, and with the same write IDs as one of ours.
            if name != _without_suffix(name) in ranges:
                log.info("removing a directory of an aborted compactor: %s/%s", location, name)
                delete_directory(*open_location(f"{location}/{name}"))

    def _stop_the_dead(self, location: str) -> None:
        """Abort the open uploads of a suspended compactor, so that it cannot publish them later."""
        dead = [
            upload
            for upload in open_uploads(location)
            if (name := upload.path.partition("/")[0]) not in self._names
            and name != _without_suffix(name)
        ]
        for upload in dead:
            log.info("aborting an upload of an aborted compactor: %s/%s", location, upload.path)
        give_up(location, dead)

    def publish(self) -> None:
        """Publish the result of the compaction."""
        self._publication.publish(self.directories)

    def take_back(self) -> None:
        """Remove the result if it is invalid; call this only if the transaction was aborted."""
        is_void = any(name != _without_suffix(name) for name in self._names)
        if is_void or doubles_rows(self.plan, self._present()):
            self._publication.take_back()

    @property
    def _names(self) -> set[str]:
        return {d.directory for d in self.directories}

    def _present(self) -> list[BaseName | DeltaName]:
        names = list_directories(*open_location(self.plan.state.location))
        return [parsed for name in names if (parsed := parse_directory_name(name)) is not None]


def _without_suffix(directory: str) -> str:
    name = parse_directory_name(directory)
    return str(dataclasses.replace(name, visibility_txn_id=None)) if name else directory


@dataclass(slots=True, kw_only=True)
class SharedNotes:
    """The ledger and the notes of one table, listed once. Mutable and thread-safe."""

    ledger: Ledger
    versions: VersionNotes
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)
    _covered: ValidWriteIdList | None = field(default=None, init=False, repr=False)
    _unconfirmed: tuple[LedgerEntry, ...] = field(default=(), init=False, repr=False)

    @classmethod
    def of(cls, table: TableInfo) -> Self:
        """Return the notes of a table, without listing anything yet."""
        return cls(ledger=Ledger.of(table), versions=VersionNotes.of(table).listed_once())

    def confirm_writers(
        self, state: AcidState, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> None:
        """Confirm the ledger's entries of a partition's committed writes.

        `write_ids` and `txns` are of the snapshot of `state`. A writer writes its entry before it
        commits, so the ledger is listed again only if the partition has a write that is not
        committed in the snapshot of the last listing.
        """
        location = state.location.rstrip("/")
        with self._lock:
            if self._covered is None or _has_later_write(state, write_ids, self._covered):
                self._unconfirmed = self.ledger.unconfirmed(txns)
                self._covered = write_ids
            self._unconfirmed = self.ledger.confirm_committed(
                self._unconfirmed,
                {f"{location}/{name}" for name in live_names(state)},
                write_ids,
                txns,
            )


def _has_later_write(
    state: AcidState, write_ids: ValidWriteIdList, covered: ValidWriteIdList
) -> bool:
    """Return True if a live directory has a committed write that `covered` lacks.

    Only a directory's highest write ID is compared. A directory of several writes comes from a
    compactor or a streaming client, and no ledger entry names it.
    """
    return any(write_ids.is_visible(d.high) and not covered.is_visible(d.high) for d in state.live)
