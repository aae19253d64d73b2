"""How staged files become directories that readers see, while all can still be aborted.

Order matters, and is the point of this module (docs/adr/0002): executors have written every file
where no reader looks; partitions are made known to the metastore; only then are directories
renamed into place, one rename each (or, where nothing is renamed, is file after file made visible:
docs/adr/0043). Until the transaction commits their write ID hides them.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import DirectoryExistsError, StorageError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import ACID_VERSION_FILE, METADATA_FILE, data_file
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WrittenFile
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.filesystem import (
    delete_directory,
    exists,
    rename_directory,
)
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import AcceptedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.ids import StatementId, TxnId
    from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
    from airflow_hiveacid.storage.orc.encoders import WriterOptions
    from airflow_hiveacid.storage.plain.written import WrittenRows
    from airflow_hiveacid.storage.stores.staging import Staging

log = logging.getLogger("hiveacid")

_PARALLEL: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file that a task has written and the driver has accepted.

    `kind` is that of the tables whose files are so: a file of plain rows, which LOAD DATA brings
    into a full-ACID table, too, has that of an insert-only one.
    """

    partition: PartitionName
    directory: str
    bucket: BucketId
    attempt: str
    rows: int
    updated: int
    size_bytes: int
    kind: TransactionalKind = TransactionalKind.FULL_ACID


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """One directory that is to be published, with the staging area that holds it."""

    partition: PartitionName
    directory: str
    staging: Staging
    files: tuple[StagedFile, ...]
    is_compacted: bool = False

    @property
    def accepted(self) -> tuple[AcceptedFile, ...]:
        """Its files of rows, by the names that they will have."""
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
        """The small files that belong into it."""
        is_acid = any(file.kind is TransactionalKind.FULL_ACID for file in self.files)
        names = ((ACID_VERSION_FILE, is_acid), (METADATA_FILE, self.is_compacted))
        return tuple(name for name, is_wanted in names if is_wanted)

    @property
    def final_path(self) -> str:
        """Its URI once it is published."""
        return self.staging.final_path(self.directory)


def assemble(
    files: Iterable[StagedFile],
    staging_of: dict[PartitionName, Staging],
    *,
    is_compacted: bool = False,
) -> tuple[StagedDirectory, ...]:
    """Move the files that count into their directories, with the small files that belong there."""
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
    steps = [step for one in directories for step in _steps(one)]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda step: step(), steps))
    return tuple(directories)


def _steps(directory: StagedDirectory) -> Iterator[Callable[[], object]]:
    """What is done for a directory, in any order: closing a small file far away takes long."""
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
    """Stage a file without rows: a directory needs one file to be seen by every engine."""
    bucket, attempt = BucketId(0), uuid.uuid4().hex
    name = data_file(bucket, table.kind)
    fs, path = open_location(staging.attempt_path(directory, name, attempt))
    is_delete = directory.startswith("delete_")
    written: WrittenFile | WrittenRows
    if table.kind is TransactionalKind.INSERT_ONLY:
        with rows_writer(table.storage.format, fs, path, table.columns, options) as rows:
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
        updated=0,
        size_bytes=written.size_bytes,
        kind=table.kind,
    )


def check_free(directories: Sequence[StagedDirectory]) -> None:
    """See that no final name is taken.

    Raises:
        DirectoryExistsError: one is.
    """

    def look(directory: StagedDirectory) -> None:
        if exists(*open_location(directory.final_path)):
            raise DirectoryExistsError(path=directory.final_path)

    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(look, directories))


def misplaced(
    directories: Iterable[StagedDirectory], partitions: Iterable[PartitionInfo]
) -> StagedDirectory | None:
    """A directory that would be published beside its partition, where nobody sees it; or None."""
    places = {info.name: open_location(info.location)[1] for info in partitions}
    return next(
        (d for d in directories if places.get(d.partition) != open_location(d.staging.location)[1]),
        None,
    )


class Publication:
    """What a transaction has made visible, so that exactly that can be taken back.

    Mutable: it remembers. How a directory becomes visible is its store's affair
    (`Staging.publish`).
    """

    def __init__(self) -> None:
        self._tried: list[StagedDirectory] = []

    def publish(self, directories: Sequence[StagedDirectory]) -> None:
        """Rename every directory into place, or publish its files where nothing is renamed.

        Raises:
            DirectoryExistsError: one is there already; it was not touched.
            StorageError: a rename failed; the others may be in place.
        """
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(self._publish_one, directories))
        log.info("published directories=%d", len(directories))

    def take_back(self, *, into_staging: bool = False) -> None:
        """Remove what was published by us, or put it back where it was staged.

        Call it when the transaction is aborted.
        """
        with ThreadPoolExecutor(_PARALLEL) as pool:
            list(pool.map(_put_back_one if into_staging else _take_back_one, self._tried))

    def _publish_one(self, directory: StagedDirectory) -> None:
        self._tried.append(directory)
        staging = directory.staging
        if not staging.renames:
            # Of each file there is a mark that tells whose it is, so nothing has to be forgotten.
            staging.publish_files(directory.directory, directory.accepted, directory.markers)
            return
        try:
            staging.publish([directory.directory])
        except DirectoryExistsError:
            self._tried.remove(directory)
            raise


def _take_back_one(directory: StagedDirectory) -> None:
    staging = directory.staging
    if not staging.renames:
        log.info("taking back %s", directory.final_path)
        staging.take_back_files(directory.directory, directory.accepted, directory.markers)
        return
    # A rename that failed may have happened all the same. Its source tells: nobody else moves it.
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
        log.warning("cannot put it back: %s", error)
        _take_back_one(directory)


def token_of(txn_id: TxnId, attempt: AttemptId, statement_id: StatementId | None = None) -> str:
    """The name of an attempt's staging directories, of its first or of a later statement."""
    token = f"{txn_id}-{attempt}"
    return f"{token}.{statement_id}" if statement_id else token


def all_staged(first: str) -> tuple[str, ...]:
    """The staging directories, as they are there, of all statements of an attempt at one home.

    Args:
        first: that of its first statement, which need not be there.

    Raises:
        LocationPermissionError: they may not be listed.
        StorageError: listing failed otherwise.
    """
    home, _, name = first.rpartition("/")
    found = list_directories(*open_location(home))
    return tuple(f"{home}/{n}" for n in found if n == name or n.startswith(f"{name}."))


def discard(stagings: Iterable[Staging]) -> None:
    """Remove what was staged and not published; doing it again is no error."""
    for staging in {s.top: s for s in stagings}.values():
        staging.discard()
