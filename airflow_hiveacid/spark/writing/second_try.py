"""An INSERT that lost after its work was done is tried again without doing it again.

Its files are still staged. Under the new transaction they get the new write ID (`reissue`); no row
is read, made or decoded. That is right if the statement would make the same files again: an INSERT
of values, of files or of a query over such always would, since nothing of the table is in it. It is
done again in full if it would put them at another place, or if they cannot be reissued.

Whatever else loses is done again in full: an overwrite, what reads another table, several
statements; and an UPDATE, DELETE or MERGE, since whoever has overtaken it has replaced rows that it
has read. A result says which of the two it was, and why (`details`, `retried`).
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName, data_file, parse_directory_name
from airflow_hiveacid.format.table import PartitionInfo, TransactionalKind
from airflow_hiveacid.spark.failures import typed_failures
from airflow_hiveacid.spark.reading.source import tables_of
from airflow_hiveacid.spark.tasks import run_tasks
from airflow_hiveacid.spark.writing.publish import (
    StagedDirectory,
    StagedFile,
    assemble,
    misplaced,
)
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.storage.stores.filesystem import make_directory, move
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.jobs.results import StatementResult
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.spark.writing.table_write import TableWrite
    from airflow_hiveacid.spark.writing.work import Change
    from airflow_hiveacid.spark.writing.write import Write

log = logging.getLogger("hiveacid")

# Up to here a stage of tasks would cost more than the copying: 1 to 2 ms of CPU a megabyte.
_FEW_FILES: Final = 16
_ANY: Final = "any"
# Staging of its own: the statement is 0, and may have to be done again beside it.
_TAKEN_OVER: Final = StatementId(1)
_FEW_BYTES: Final = 256 << 20
_SIZES: Final = "path string, size_bytes long"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWork:
    """What an INSERT has staged, all of it. `write` has the files in its staging."""

    write: Write
    write_id: WriteId
    directories: tuple[StagedDirectory, ...]
    operations: frozenset[DataOperation]
    results: tuple[StatementResult, ...]


def why_not_kept(changes: Sequence[Change]) -> str | None:
    """Why what these stage is of no use, should they be overtaken; None if it may be."""
    if len(changes) != 1:
        return "it is of several statements"
    change = changes[0]
    if change.operations != {DataOperation.INSERT}:
        # What makes a change lose is a base, or a partition that is gone: of rows that it has read.
        is_overwrite = DataOperation.OVERWRITE in change.operations
        return "it replaces what is there" if is_overwrite else "what it has read was replaced"
    if change.make_files is not None:
        return "its files are somebody else's"
    if change.tables or tables_of(change.source):
        return "it has read another table"
    if not Staging(location=change.table.location, token=_ANY).renames:
        return "its store has no renames"
    return None


def why_in_full(client: MetastorePort, table: TableInfo, staged: StagedWork) -> str | None:
    """Why an INSERT has to be done again; None if its files are what it would make now.

    Raises:
        MetastoreError: it does not say where the partitions are.
    """
    if not staged.directories:
        return "it had staged nothing"
    names = tuple(dict.fromkeys(d.partition for d in staged.directories))
    there = {place.name: place for place in client.get_partitions(table, names)}
    places = [
        there.get(name) or PartitionInfo(name=name, location=table.default_partition_location(name))
        for name in names
    ]
    stray = misplaced(staged.directories, places)
    if stray is not None:
        return f"partition {stray.partition} is not at {stray.staging.location} any more"
    return None


def reissued(
    spark: SparkSession, staged: StagedWork, part: TableWrite
) -> tuple[StagedDirectory, ...]:
    """The same directories under the write ID of another write, staged as its own.

    Raises:
        HiveAcidError: a file cannot be made; what was made goes with the write's staging, wherever
            the partitions are.
    """
    part.check_locations([d.staging.location for d in staged.directories])
    token = part.token(_TAKEN_OVER)
    homes = {
        d.partition: Staging.of(part.table, d.staging.location, token) for d in staged.directories
    }
    made: list[tuple[StagedFile, Reissue]] = []
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
            made.append((replace(file, directory=name, attempt=attempt), work))
    sizes = _make(spark, part.table.kind, made)
    files = [replace(file, size_bytes=sizes[work.target]) for file, work in made]
    return assemble(files, homes)


def _renamed(directory: str, write_id: WriteId) -> DeltaName:
    name = parse_directory_name(directory)
    if not isinstance(name, DeltaName):
        raise TypeError(directory)
    return replace(name, low=write_id, high=write_id)


def _make(
    spark: SparkSession, kind: TransactionalKind, made: Sequence[tuple[StagedFile, Reissue]]
) -> Mapping[str, int]:
    """Make the files; their sizes, by their places."""
    if kind is TransactionalKind.INSERT_ONLY:
        # Nothing in these says a write ID: they get another name.
        for _, work in made:
            fs, target = open_location(work.target)
            make_directory(fs, target.rpartition("/")[0])
            move(fs, open_location(work.source)[1], target)
        return {work.target: file.size_bytes for file, work in made}
    works = [work for _, work in made]
    if len(works) <= _FEW_FILES and sum(f.size_bytes for f, _ in made) <= _FEW_BYTES:
        return {work.target: reissue(work) for work in works}
    size_of = {work: file.size_bytes for file, work in made}
    with typed_failures():
        frame = run_tasks(spark, _reissue_task, works, _SIZES, work=size_of.__getitem__)
        return {row.path: row.size_bytes for row in frame.collect()}


def _reissue_task(work: Reissue) -> Iterator[pa.RecordBatch]:
    size = reissue(work)
    columns = {"path": pa.array([work.target]), "size_bytes": pa.array([size], pa.int64())}
    yield pa.RecordBatch.from_pydict(columns)
