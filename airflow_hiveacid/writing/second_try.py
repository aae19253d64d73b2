"""Restart of an overtaken INSERT with the files that it has already staged, within one driver.

The staged files get the new write ID (`reissue`); no row is read, computed or decoded again. Files
can be reused if the statement would write the same files again. This holds for an INSERT that reads
no table: its rows come from values, from files, or from a query over these. If the files would now
belong to a different root, or cannot be reissued, the whole INSERT runs again.

Other overtaken jobs run again in full, because the overtaking transaction has replaced rows that
the statement read. The result says why (`details`, `retried`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName, data_file, parse_directory_name
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.jobs.results import StatementResult
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.storage.stores.filesystem import make_directory, move
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import StagedDirectory, StagedFile, assemble, misplaced
from airflow_hiveacid.writing.table_write import TableWrite
from airflow_hiveacid.writing.write import Write

# Up to these limits, a copy in the driver (1 to 2 ms of CPU time per MB) beats a stage of tasks.
_FEW_FILES: Final = 16
_ANY: Final = "any"
SEVERAL: Final = "the transaction has several statements"
"""Why a restart cannot use the staged files of several statements."""
# A staging area of its own: the INSERT may run again, with statement ID 0.
_TAKEN_OVER: Final = StatementId(1)
_FEW_BYTES: Final = 256 << 20

CopyMany = Callable[[Mapping[Reissue, int]], Mapping[str, int]]
"""A function that copies files, from each work's size in bytes; it returns the sizes by target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWork:
    """The directories that an INSERT has staged, in the staging area of `write`."""

    write: Write
    write_id: WriteId
    directories: tuple[StagedDirectory, ...]
    operations: frozenset[DataOperation]
    results: tuple[StatementResult, ...]


def why_not_kept(
    table: TableInfo,
    operations: Collection[DataOperation],
    *,
    reads_tables: bool,
    copies_files: bool,
) -> str | None:
    """Return why a restart cannot use the staged files of a job's only statement, or None."""
    if set(operations) != {DataOperation.INSERT}:
        # A base or a dropped partition replaced rows that the change has read.
        is_overwrite = DataOperation.OVERWRITE in operations
        return "it overwrites existing rows" if is_overwrite else "rows that it read were replaced"
    if copies_files:
        return "it copies existing files"
    if reads_tables:
        return "it reads another table"
    if not Staging(location=table.location, token=_ANY).renames:
        return "its store has no renames"
    return None


def why_in_full(client: MetastorePort, table: TableInfo, staged: StagedWork) -> str | None:
    """Return why an INSERT must run again; None if it would now make the same files."""
    if not staged.directories:
        return "it had staged nothing"
    names = tuple(dict.fromkeys(d.partition for d in staged.directories))
    existing = {info.name: info for info in client.get_partitions(table, names)}
    partitions = [
        existing.get(name)
        or PartitionInfo(name=name, location=table.default_partition_location(name))
        for name in names
    ]
    stray = misplaced(staged.directories, partitions)
    if stray is not None:
        return f"partition {stray.partition} is no longer at {stray.staging.location}"
    return None


def reissued(
    staged: StagedWork, part: TableWrite, copy_many: CopyMany
) -> tuple[StagedDirectory, ...]:
    """Stage the directories of an earlier write again, with a new write ID."""
    part.check_locations([d.staging.location for d in staged.directories])
    token = part.token(_TAKEN_OVER)
    homes = {
        d.partition: Staging.of(part.table, d.staging.location, token) for d in staged.directories
    }
    copies: list[tuple[StagedFile, Reissue]] = []
    for directory in staged.directories:
        name = str(_renamed(directory.directory, part.write_id))
        for file in directory.files:
            attempt, text = uuid.uuid4().hex, data_file(file.bucket, file.kind)
            work = Reissue(
                source=f"{directory.staging.path_for(directory.directory)}/{text}",
                target=homes[directory.partition].attempt_path(name, text, attempt),
                old=staged.write_id,
                new=part.write_id,
            )
            copies.append((replace(file, directory=name, attempt=attempt), work))
    sizes = _copied(part.table.kind, {work: file.size_bytes for file, work in copies}, copy_many)
    files = [replace(file, size_bytes=sizes[work.target]) for file, work in copies]
    return assemble(files, homes)


def _renamed(directory: str, write_id: WriteId) -> DeltaName:
    name = parse_directory_name(directory)
    if not isinstance(name, DeltaName):
        raise TypeError(directory)
    return replace(name, low=write_id, high=write_id)


def _copied(
    kind: TransactionalKind, sizes: Mapping[Reissue, int], copy_many: CopyMany
) -> Mapping[str, int]:
    if kind is TransactionalKind.INSERT_ONLY:
        # These files contain no write ID, so a rename is sufficient.
        for work in sizes:
            fs, target = open_location(work.target)
            make_directory(fs, target.rpartition("/")[0])
            move(fs, open_location(work.source)[1], target)
        return {work.target: size for work, size in sizes.items()}
    if len(sizes) <= _FEW_FILES and sum(sizes.values()) <= _FEW_BYTES:
        return {work.target: reissue(work) for work in sizes}
    return copy_many(sizes)
