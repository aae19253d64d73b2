"""How staged files become directories that readers see, while all can still be aborted.

Order matters, and is the point of this module (docs/adr/0002): executors have written every file
where no reader looks; partitions are made known to the metastore; only then are directories
renamed into place, one rename each. Until the transaction commits their write ID hides them.
"""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import bucket_file, staging_directory
from airflow_hiveacid.storage.filesystem import delete_directory, list_table, open_location
from airflow_hiveacid.storage.orc_writer import AcidFileWriter
from airflow_hiveacid.storage.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hiveacid.format.table import PartitionName, TableInfo
    from airflow_hiveacid.storage.orc_encoders import WriterOptions

log = logging.getLogger("hiveacid")

_PARALLEL: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file that a task has written and the driver has accepted."""

    partition: PartitionName
    directory: str
    bucket: BucketId
    attempt: str
    rows: int
    updated: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDirectory:
    """One directory that is to be published, with the staging area that holds it."""

    partition: PartitionName
    directory: str
    staging: Staging
    files: tuple[StagedFile, ...]

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
        )
        for (partition, directory), members in sorted(
            groups.items(), key=lambda g: (str(g[0][0]), g[0][1])
        )
    ]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda d: _assemble_one(d, is_compacted=is_compacted), directories))
    return tuple(directories)


def _assemble_one(directory: StagedDirectory, *, is_compacted: bool) -> None:
    staging = directory.staging
    for file in directory.files:
        staging.accept(directory.directory, bucket_file(file.bucket), file.attempt)
    staging.add_version_file(directory.directory)
    if is_compacted:
        staging.add_metadata_file(directory.directory)


def empty_file(
    table: TableInfo,
    partition: PartitionName,
    directory: str,
    staging: Staging,
    options: WriterOptions,
) -> StagedFile:
    """Stage a file without rows: a directory needs one file to be seen by every engine."""
    bucket, attempt = BucketId(0), uuid.uuid4().hex
    fs, path = open_location(staging.attempt_path(directory, bucket_file(bucket), attempt))
    is_delete = directory.startswith("delete_")
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
    )


def publish(directories: Sequence[StagedDirectory]) -> None:
    """Rename every directory into place.

    Raises:
        DirectoryExistsError: one is there already.
        StorageError: a rename failed; the ones before it are in place and go with the abort.
    """
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(lambda d: d.staging.publish([d.directory]), directories))
    log.info("published directories=%d", len(directories))


def discard_all(table: TableInfo, locations: Iterable[str], token: str) -> None:
    """Remove what a job has staged anywhere, also in partitions that never came to be."""
    roots = [
        table.location,
        *(place for place in locations if not place.startswith(f"{table.location}/")),
    ]
    for root in dict.fromkeys(roots):
        for path in list_table(root).directories:
            if path.rpartition("/")[2] == staging_directory(token):
                delete_directory(*open_location(f"{root.rstrip('/')}/{path}"))


def discard(stagings: Iterable[Staging]) -> None:
    """Remove what was staged and not published."""
    with ThreadPoolExecutor(_PARALLEL) as pool:
        list(pool.map(Staging.discard, set(stagings)))
