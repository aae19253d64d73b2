"""The story of one transaction, from its checked statements to its result.

Read `_run` downwards: the ledger says whether this job was done before; the statements' events are
made under the transaction's snapshot, one statement after another (`work`); executors write them to
staging; the partitions are registered; once more everything is verified and noted; directories are
renamed into place; leaving the `with` block commits.

What becomes of a failure is `writing.write`'s affair. A killed driver leaves an open transaction,
which the metastore aborts when its heartbeats stop.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    OvertakenError,
)
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import OnRerun
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.succession import Succession
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.spark.reading.access import Touched, is_still_all, nameable, reading
from airflow_hiveacid.spark.tasks import job_group
from airflow_hiveacid.spark.writing.order import WriteOrder
from airflow_hiveacid.spark.writing.second_try import (
    StagedWork,
    reissued,
    why_in_full,
    why_not_kept,
)
from airflow_hiveacid.spark.writing.work import Change, Work, naming
from airflow_hiveacid.spark.writing.write import Write, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow_hiveacid.format.ids import TxnId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList
    from airflow_hiveacid.format.table import TableInfo, TableRef
    from airflow_hiveacid.jobs.codec import JsonValue
    from airflow_hiveacid.plan.reruns import LedgerEntry
    from airflow_hiveacid.spark.writing.context import JobContext

log = logging.getLogger("hiveacid")

# Each time somebody has committed meanwhile, so there is progress; but somebody has to say so.
_MOST_BEGINNINGS: Final = 5


def run_changes(job: JobContext, changes: Sequence[Change]) -> JobResult:
    """Run statements, one or several, in order, as one transaction.

    Whoever is overtaken before it could publish begins anew, a few times, under its old rank.

    Raises:
        HiveAcidError: nothing was changed, except after `CommitStateUnknownError`.
    """
    rank = Rank(not_kept=why_not_kept(changes))

    def run() -> JobResult:
        touched = _touched(changes)
        accesses, sources = _accesses(changes, touched), _tables_read(job, changes)
        with begun(job, accesses, sources, rank) as write:
            result = _run(job, changes, write, touched, rank)
        rank.staged = None
        return result

    try:
        return until_not_overtaken(run, rank)
    finally:
        if rank.staged is not None:
            rank.staged.write.discard()


def _run(
    job: JobContext,
    changes: Sequence[Change],
    write: Write,
    touched: Sequence[Touched],
    rank: Rank,
) -> JobResult:
    """The story itself; leaving `begun` commits."""
    earlier = write.earlier_run()
    if earlier is not None:
        return already_done(job, write, earlier)
    now = _touched(changes)
    for change, before, after in zip(changes, touched, now, strict=True):
        if before != after:
            raise write.tables[change.table.ref].overtaken("it has other partitions now")
    check_sources(job, write)
    write.look_ahead()
    work = Work(job, write)
    why_not = _take_over(job, write, work, rank)
    if why_not is not None:
        for number, (change, scope) in enumerate(zip(changes, now, strict=True), start=1):
            with naming(number, len(changes)):
                work.run(change, scope)
    if rank.not_kept is None:
        rank.staged = _staged(changes[0], write, work)
    return work.finish(_retried(rank, why_not))


def _take_over(job: JobContext, write: Write, work: Work, rank: Rank) -> str | None:
    """Take over what an earlier beginning has staged; answers why not, if that cannot be."""
    staged, rank.staged = rank.staged, None
    if staged is None:
        return rank.not_kept or "none of its work was done"
    (part,) = write.tables.values()
    try:
        why_not = why_in_full(job.client, part.table, staged)
        if why_not is None:
            directories = reissued(job.spark, staged, part)
            work.take_over(part.table.ref, directories, staged.operations, staged.results)
    except HiveAcidError as error:
        why_not = str(error)
    finally:
        staged.write.discard()
    return why_not


def _staged(change: Change, write: Write, work: Work) -> StagedWork:
    (part,) = write.tables.values()
    return StagedWork(
        write=write,
        write_id=part.write_id,
        directories=part.directories,
        operations=change.operations,
        results=work.results,
    )


def _retried(rank: Rank, why_not: str | None) -> dict[str, JsonValue]:
    """What a result says of beginnings that were lost; nothing if none was."""
    if rank.lost is None:
        return {}
    how = {"how": "metadata"} if why_not is None else {"how": "in full", "why": why_not}
    return {**how, "lost": rank.lost}


@dataclass(slots=True)
class Rank:
    """The rank of a job among its copies, and since when it counts as begun.

    Mutable: both are known once it has a transaction, and last when it begins anew. `staged`
    is what it has staged and not committed, and `lost` why, unless `not_kept` says why that is of
    no use. `succession` has the transactions out of which it begins anew.
    """

    first_txn_id: TxnId | None = None
    began: Mapping[TableRef, ValidWriteIdList] | None = None
    not_kept: str | None = "it is a program's"
    staged: StagedWork | None = None
    lost: str | None = None
    succession: Succession | None = None


def until_not_overtaken(run: Callable[[], JobResult], rank: Rank) -> JobResult:
    """Run this, and again each time that somebody overtakes it, a few times.

    Whose transaction was ended by others ends, too, after however long a silence: it may have been
    an order, and nobody could tell (docs/adr/0057).

    Raises:
        HiveAcidError: what it raises.
    """
    try:
        for beginning in itertools.count(1):
            try:
                return run()
            except OvertakenError as error:
                if beginning == _MOST_BEGINNINGS:
                    raise
                rank.lost = str(error)
                log.warning("beginning anew, %d of %d: %s", beginning, _MOST_BEGINNINGS, error)
        raise AssertionError(_MOST_BEGINNINGS)  # the last round has raised
    finally:
        if rank.succession is not None:
            rank.succession.close()


@contextmanager
def begun(
    job: JobContext, accesses: Iterable[TableAccess], sources: Iterable[TableInfo], rank: Rank
) -> Iterator[Write]:
    """Run a body as a job's write of these tables, which reads those; see `writing`.

    Spark's work in it is stopped when the transaction is lost.

    Raises:
        HiveAcidError: as `writing`.
    """
    rank.succession = rank.succession or Succession(job.client)
    order = _order(job, accesses, sources, rank)
    with job_group(job.spark, str(order.run.attempt)) as cancel:
        order = dataclasses.replace(order, on_lost=cancel)
        write: Write | None = None
        try:
            with writing(job.client, order) as write:
                rank.first_txn_id = write.txn.first_txn_id
                rank.began = write.txn.began
                yield write
        except CommitStateUnknownError:
            rank.staged = None  # it may be in place
            raise
        except BaseException as error:
            if write is not None and order.keeps_staged:
                _keep_or_discard(write, rank, error)
            elif rank.staged is not None:  # of an earlier beginning; this one had not begun
                rank.staged.write.discard()
                rank.staged = None
            raise


def _keep_or_discard(write: Write, rank: Rank, error: BaseException) -> None:
    """Keep what is staged, by this write or an earlier one, if the next beginning may take it over.

    Only who was overtaken begins anew.
    """
    staged = rank.staged
    if staged is None or staged.write is not write:
        write.discard()
    if staged is not None and not isinstance(error, OvertakenError):
        staged.write.discard()
        rank.staged = None


def _order(
    job: JobContext, accesses: Iterable[TableAccess], sources: Iterable[TableInfo], rank: Rank
) -> WriteOrder:
    spec = job.spec
    read = {table.ref: table for table in sources}
    return WriteOrder(
        run=Run(
            job_key=spec.job_key,
            generation=spec.generation,
            attempt=AttemptId.parse(spec.attempt),
            statement=spec.statement,
            on_rerun=spec.on_rerun,
        ),
        accesses=tuple(
            dataclasses.replace(access, policy=job.policy_of(access.table)) for access in accesses
        ),
        reads=tuple(reading(job.client, table) for table in read.values()),
        lock_timeout_s=spec.lock_timeout_s,
        heartbeat_s=spec.heartbeat_s,
        ledger_retention_s=spec.ledger_retention_s,
        first_txn_id=rank.first_txn_id,
        began=rank.began,
        succession=rank.succession,
        keeps_staged=rank.not_kept is None,
        on_step=job.on_step,
    )


def check_sources(job: JobContext, write: Write) -> None:
    """See that the tables that are only read still have the partitions that were locked.

    Raises:
        OvertakenError: one has others; begin anew.
    """
    for access in write.reads:
        if not is_still_all(job.client, access):
            raise OvertakenError(
                table=access.ref,
                txn_id=write.txn.txn_id,
                why="it is read, and has other partitions now",
            )


def already_done(job: JobContext, write: Write, earlier: LedgerEntry) -> JobResult:
    """Give up the transaction: its job was done before; answers what that run did."""
    log.warning(
        "nothing is applied (on_rerun=%s): %s was done by transaction %s at %s (try %d, run %d of"
        " the task)%s",
        job.spec.on_rerun.value,
        job.spec.job_key,
        earlier.txn_id,
        earlier.when,
        earlier.attempt.try_number,
        earlier.generation + 1,
        "" if job.spec.on_rerun is OnRerun.SKIP else "; clear the task to apply it again",
    )
    write.txn.abandon()
    return dataclasses.replace(JobResult.parse(earlier.result), status=JobStatus.ALREADY_DONE)


def _touched(changes: Sequence[Change]) -> list[Touched]:
    """The only partitions that each statement can touch, as they are now.

    What is found by looking at a table's partitions is not right for a table that an earlier
    statement adds some to. Then only what the statement itself names counts.
    """
    count = Counter(change.table.ref for change in changes)
    found = [change.partitions() for change in changes]
    return [
        touched if count[change.table.ref] == 1 else Touched(names=change.fixed, seen=touched.seen)
        for change, touched in zip(changes, found, strict=True)
    ]


def _accesses(changes: Sequence[Change], touched: Sequence[Touched]) -> list[TableAccess]:
    """What is done to each table by all statements together, in the order of the first ones."""
    found: dict[TableRef, TableAccess] = {}
    for change, scope in zip(changes, touched, strict=True):
        access = TableAccess(
            table=change.table, operations=change.operations, partitions=scope.names
        )
        earlier = found.get(access.ref)
        found[access.ref] = access if earlier is None else _both(earlier, access)
    return list(found.values())


def _both(one: TableAccess, other: TableAccess) -> TableAccess:
    names = None
    if one.partitions is not None and other.partitions is not None:
        names = nameable(tuple(sorted({*one.partitions, *other.partitions}, key=str)))
    return dataclasses.replace(one, operations=one.operations | other.operations, partitions=names)


def _tables_read(job: JobContext, changes: Sequence[Change]) -> list[TableInfo]:
    return [
        table
        for change in changes
        for tables in (job.source_tables(change.source), job.tables(change.tables))
        for table in tables.values()
    ]
