"""One run of a job that writes, and its restarts when another transaction overtakes it.

An overtaken INSERT restarts with the files that it has already staged, within one driver: they get
the new write ID (`reissue`); no row is read, computed or decoded again. Files can be reused if
the statement would write the same files again. This holds for an INSERT that reads no table: its
rows come from values, from files, or from a query over these. If the files would now belong to a
different root, or cannot be reissued, the whole INSERT runs again.

Other overtaken jobs run again in full, because the overtaking transaction has replaced rows that
the statement read. The result says why (`details`, `retried`).
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName, data_file, parse_directory_name
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import PartitionInfo, TableInfo, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun, StatementResult, of_earlier_run
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.reading.table_view import is_still_all, reading
from airflow_hiveacid.storage.acid.write.reissue import Reissue, reissue
from airflow_hiveacid.storage.stores.filesystem import make_directory, move
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.publish import StagedDirectory, StagedFile, assemble, misplaced
from airflow_hiveacid.writing.table_write import TableWrite, WriteOrder
from airflow_hiveacid.writing.write import Write, run_unknown, writing

# Up to this and `_FEW_BYTES`, a copy in the driver (1 to 2 ms of CPU per MB) beats tasks of Spark.
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


log = logging.getLogger("hiveacid")

# Each restart means that another transaction has committed. So at least one job makes progress.
# After this many restarts the job fails, so that the user notices.
_MOST_BEGINNINGS: Final = 5
_AGAIN: Final = "; to apply it again, clear the task, or take another key in a program in Python"


@dataclass(slots=True)
class RestartState:
    """The part of a job's state that a restart keeps. Mutable.

    `staged` contains the job's staged and uncommitted files. `not_kept` is the reason why staged
    files cannot be used again, or None. `lost` is the reason for the last restart. `handover`
    contains the transactions that a restart replaces, and the job's rank.
    """

    not_kept: str | None = "it belongs to a program"
    staged: StagedWork | None = None
    lost: str | None = None
    handover: Handover | None = None

    def details(self, why_in_full: str | None) -> dict[str, JsonValue]:
        """Return the result's details about restarts, if any, and why the statements ran again."""
        if self.lost is None:
            return {}
        how = {"how": "metadata"} if why_in_full is None else {"how": "in full", "why": why_in_full}
        return {**how, "lost": self.lost}


def until_not_overtaken(run: Callable[[], JobResult], restart_state: RestartState) -> JobResult:
    """Call `run`; if another transaction overtakes the job, repeat the call, at most four times.

    If the job's own transaction was aborted, the job fails: it cannot distinguish a time-out from
    an abort that a person has requested (docs/decisions/restarts.md).
    """
    try:
        for beginning in itertools.count(1):
            try:
                return run()
            except errors.OvertakenError as error:
                if beginning == _MOST_BEGINNINGS:
                    raise
                restart_state.lost = str(error)
                log.warning("restarting after %d of %d: %s", beginning, _MOST_BEGINNINGS, error)
        raise AssertionError(_MOST_BEGINNINGS)  # unreachable: the last call has raised
    finally:
        if restart_state.handover is not None:
            restart_state.handover.close()


@contextmanager
def begun(
    job: WritingJob,
    accesses: Iterable[TableAccess],
    sources: Iterable[TableInfo],
    restart_state: RestartState,
) -> Iterator[Write]:
    """Run a block as a job's write (see `writing`), cancelled when its transaction is lost."""
    if restart_state.handover is None:
        restart_state.handover = Handover(job.client, job.terms.first_txn_id)
    order = _order(job, accesses, sources, restart_state)
    with job.cancellable() as cancel:
        order = dataclasses.replace(order, terms=dataclasses.replace(job.terms, on_lost=cancel))
        write: Write | None = None
        try:
            with writing(job.client, order) as write:
                yield write
        except errors.CommitStateUnknownError:
            restart_state.staged = None  # the staged files may have been published
            raise
        except BaseException as error:
            if write is not None and order.keeps_staged:
                _keep_or_discard(write, restart_state, error)
            elif restart_state.staged is not None:
                # These files were staged before a restart, and this write did not begin.
                restart_state.staged.write.discard()
                restart_state.staged = None
            raise


def _keep_or_discard(write: Write, restart_state: RestartState, error: BaseException) -> None:
    """Keep the files that this or an earlier write has staged, if an overtaken job may use them."""
    staged = restart_state.staged
    if staged is None or staged.write is not write:
        write.discard()
    if staged is not None and not isinstance(error, errors.OvertakenError):
        staged.write.discard()
        restart_state.staged = None


def _order(
    job: WritingJob,
    accesses: Iterable[TableAccess],
    sources: Iterable[TableInfo],
    restart_state: RestartState,
) -> WriteOrder:
    spec = job.spec
    read = {table.ref: table for table in sources}
    return WriteOrder(
        run=Run(
            generation=spec.generation,
            statement=spec.statement,
            on_rerun=spec.on_rerun,
            batch=job.batch,
        ),
        terms=job.terms,
        accesses=tuple(
            dataclasses.replace(access, policy=job.policy_of(access.table)) for access in accesses
        ),
        reads=tuple(reading(job.client, table) for table in read.values()),
        ledger_retention_s=spec.ledger_retention_s,
        handover=restart_state.handover,
        keeps_staged=restart_state.not_kept is None,
    )


def check_sources(job: WritingJob, write: Write) -> None:
    """Raise OvertakenError if a source table no longer has the partitions that were locked."""
    for access in write.reads:
        if not is_still_all(job.client, access):
            raise errors.OvertakenError(
                table=access.ref,
                txn_id=write.txn.txn_id,
                why="the job reads this table, and its partitions changed",
            )


def already_done(job: WritingJob, write: Write, earlier: LedgerEntry) -> JobResult:
    """Abandon the transaction of a job that is already done; return the earlier run's result."""
    result = _result_of(job, write, earlier)
    log.warning(
        "applying nothing (on_rerun=%s): %s was done by transaction %s at %s (try %d, run %d of"
        " the task)%s",
        job.spec.on_rerun.value,
        job.spec.job_key,
        earlier.txn_id,
        earlier.when,
        earlier.attempt.try_number,
        earlier.generation + 1,
        "" if job.spec.on_rerun is OnRerun.SKIP or write.is_batch else _AGAIN,
    )
    write.txn.abandon()
    return result


def _result_of(job: WritingJob, write: Write, earlier: LedgerEntry) -> JobResult:
    own = job.result(JobStatus.ALREADY_DONE, ", ".join(map(str, write.tables)))
    try:
        return of_earlier_run(earlier.result, dataclasses.replace(own, txn_id=earlier.txn_id))
    except (ValueError, RecursionError) as error:
        unread = f"the result in its ledger entry cannot be read ({error})"
        doubtful = dataclasses.replace(earlier, doubt=unread)
        ref = next(iter(write.tables))
        raise run_unknown(ref, doubtful, is_batch=write.is_batch) from error
