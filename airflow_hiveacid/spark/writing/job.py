"""One transaction, from its checked statements to its result.

`_run` executes these steps in order. The ledger shows whether this job was done before. Events are
made under the transaction's snapshot, one statement after another (`work`). Executors write the
events to staging. Partitions are registered. The write is verified again and recorded in the
ledger. Directories are renamed into place. Leaving the `with` block commits.

`writing.write` handles failures. A killed driver leaves an open transaction. The metastore aborts
such a transaction when the heartbeats stop.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    ContractVersionError,
    EarlierRunUnknownError,
    HiveAcidError,
    OvertakenError,
)
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs.job import OnRerun
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transactions.handover import Handover
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.spark.engine.tasks import job_group
from airflow_hiveacid.spark.reading.access import Touched, is_still_all, nameable, reading
from airflow_hiveacid.spark.writing.order import WriteOrder
from airflow_hiveacid.spark.writing.second_try import (
    StagedWork,
    reissued,
    why_in_full,
    why_not_kept,
)
from airflow_hiveacid.spark.writing.work import CheckedStatement, TransactionWork, naming
from airflow_hiveacid.spark.writing.write import Write, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from airflow_hiveacid.format.codec import JsonValue
    from airflow_hiveacid.format.records.ledger import LedgerEntry
    from airflow_hiveacid.format.table import TableInfo, TableRef
    from airflow_hiveacid.spark.writing.context import JobContext

log = logging.getLogger("hiveacid")

# Each restart means that another transaction has committed. So at least one job makes progress.
# After this many restarts the job fails, so that the user notices.
_MOST_BEGINNINGS: Final = 5


def run_changes(job: JobContext, changes: Sequence[CheckedStatement]) -> JobResult:
    """Run one or more statements, in order, as one transaction.

    If another transaction overtakes the job before the job publishes, the job restarts, at most
    four times. The restarted job keeps its rank among the copies of the job.

    Raises:
        HiveAcidError: the job failed. Nothing was changed, with one exception: after
            `CommitStateUnknownError`, it is unknown whether the transaction was committed.
    """
    restart_state = RestartState(not_kept=why_not_kept(changes))

    def run() -> JobResult:
        touched = _touched(changes)
        accesses, sources = _accesses(changes, touched), _tables_read(job, changes)
        with begun(job, accesses, sources, restart_state) as write:
            result = _run(job, changes, write, touched, restart_state)
        restart_state.staged = None
        return result

    try:
        return until_not_overtaken(run, restart_state)
    finally:
        if restart_state.staged is not None:
            restart_state.staged.write.discard()


def _run(
    job: JobContext,
    changes: Sequence[CheckedStatement],
    write: Write,
    touched: Sequence[Touched],
    restart_state: RestartState,
) -> JobResult:
    """Run the statements and publish their files; leaving `begun` commits them."""
    earlier = write.earlier_run()
    if earlier is not None:
        return already_done(job, write, earlier)
    now = _touched(changes)
    for change, before, after in zip(changes, touched, now, strict=True):
        if before != after:
            raise write.tables[change.table.ref].overtaken("its partitions changed")
    check_sources(job, write)
    write.look_ahead()
    work = TransactionWork(job, write)
    why_not = _take_over(job, write, work, restart_state)
    if why_not is not None:
        for number, (change, scope) in enumerate(zip(changes, now, strict=True), start=1):
            with naming(number, len(changes)):
                work.run(change, scope)
    if restart_state.not_kept is None:
        restart_state.staged = _staged(changes[0], write, work)
    return work.finish(_retried(restart_state, why_not))


def _take_over(
    job: JobContext, write: Write, work: TransactionWork, restart_state: RestartState
) -> str | None:
    """Use the files that were staged before a restart; if this is impossible, return the reason."""
    staged, restart_state.staged = restart_state.staged, None
    if staged is None:
        return restart_state.not_kept or "it had staged nothing"
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


def _staged(change: CheckedStatement, write: Write, work: TransactionWork) -> StagedWork:
    (part,) = write.tables.values()
    return StagedWork(
        write=write,
        write_id=part.write_id,
        directories=part.directories,
        operations=change.operations,
        results=work.results,
    )


def _retried(restart_state: RestartState, why_not: str | None) -> dict[str, JsonValue]:
    """Return the result's details about restarts; empty if the job did not restart."""
    if restart_state.lost is None:
        return {}
    how = {"how": "metadata"} if why_not is None else {"how": "in full", "why": why_not}
    return {**how, "lost": restart_state.lost}


@dataclass(slots=True)
class RestartState:
    """The part of a job's state that a restart keeps, such as the rank among the job's copies.

    Mutable. `staged` contains the job's staged and uncommitted files. `not_kept` is the reason why
    staged files cannot be used again, or None. `lost` is the reason for the last restart.
    `handover` contains the transactions that a restart replaces, and the job's rank.
    """

    not_kept: str | None = "it belongs to a program"
    staged: StagedWork | None = None
    lost: str | None = None
    handover: Handover | None = None


def until_not_overtaken(run: Callable[[], JobResult], restart_state: RestartState) -> JobResult:
    """Call `run`; if another transaction overtakes the job, repeat the call, at most four times.

    If the job's own transaction was aborted, the job fails, even if the only reason was missed
    heartbeats. The job cannot distinguish a time-out from an abort that a person has requested
    (docs/decisions/restarts.md).

    Raises:
        HiveAcidError: what `run` raises.
    """
    try:
        for beginning in itertools.count(1):
            try:
                return run()
            except OvertakenError as error:
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
    job: JobContext,
    accesses: Iterable[TableAccess],
    sources: Iterable[TableInfo],
    restart_state: RestartState,
) -> Iterator[Write]:
    """Run a block as a job's write to the tables of `accesses`, reading `sources`; see `writing`.

    Spark jobs in the block are cancelled when the transaction is lost.

    Raises:
        HiveAcidError: as `writing`.
    """
    restart_state.handover = restart_state.handover or Handover(job.client)
    order = _order(job, accesses, sources, restart_state)
    with job_group(job.spark, str(job.terms.attempt)) as cancel:
        order = dataclasses.replace(order, terms=dataclasses.replace(job.terms, on_lost=cancel))
        write: Write | None = None
        try:
            with writing(job.client, order) as write:
                yield write
        except CommitStateUnknownError:
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
    """Keep the files that this or an earlier write has staged, if a restart may use them.

    Only an overtaken job restarts.
    """
    staged = restart_state.staged
    if staged is None or staged.write is not write:
        write.discard()
    if staged is not None and not isinstance(error, OvertakenError):
        staged.write.discard()
        restart_state.staged = None


def _order(
    job: JobContext,
    accesses: Iterable[TableAccess],
    sources: Iterable[TableInfo],
    restart_state: RestartState,
) -> WriteOrder:
    spec = job.spec
    read = {table.ref: table for table in sources}
    return WriteOrder(
        run=Run(generation=spec.generation, statement=spec.statement, on_rerun=spec.on_rerun),
        terms=job.terms,
        accesses=tuple(
            dataclasses.replace(access, policy=job.policy_of(access.table)) for access in accesses
        ),
        reads=tuple(reading(job.client, table) for table in read.values()),
        ledger_retention_s=spec.ledger_retention_s,
        handover=restart_state.handover,
        keeps_staged=restart_state.not_kept is None,
    )


def check_sources(job: JobContext, write: Write) -> None:
    """Check that the source tables still have the partitions that were locked.

    Raises:
        OvertakenError: the partitions of a source table have changed, so the job must restart.
    """
    for access in write.reads:
        if not is_still_all(job.client, access):
            raise OvertakenError(
                table=access.ref,
                txn_id=write.txn.txn_id,
                why="the job reads this table, and its partitions changed",
            )


def already_done(job: JobContext, write: Write, earlier: LedgerEntry) -> JobResult:
    """Abandon the transaction of a job that is already done, and return the earlier run's result.

    Raises:
        EarlierRunUnknownError: the ledger's entry has no readable result.
    """
    result = _result_of(write, earlier)
    log.warning(
        "applying nothing (on_rerun=%s): %s was done by transaction %s at %s (try %d, run %d of"
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
    return dataclasses.replace(result, status=JobStatus.ALREADY_DONE)


def _result_of(write: Write, earlier: LedgerEntry) -> JobResult:
    """Return a ledger entry's result.

    Raises:
        EarlierRunUnknownError: the entry has no readable result.
    """
    try:
        return JobResult.parse(earlier.result)
    except ContractVersionError as error:
        raise EarlierRunUnknownError(
            table=next(iter(write.tables)),
            job_key=earlier.job_key,
            txn_id=earlier.txn_id,
            when=earlier.when,
            why="the result in its ledger entry cannot be read"
            f" ({error.detail or f'version {error.found!r}'})",
        ) from error


def _touched(changes: Sequence[CheckedStatement]) -> list[Touched]:
    """Return the partitions that each statement can touch now.

    If several statements change a table, an earlier statement may add partitions that the metastore
    does not list yet. So each of these statements gets only the partitions that the statement
    itself specifies.
    """
    count = Counter(change.table.ref for change in changes)
    found = [change.partitions() for change in changes]
    return [
        touched if count[change.table.ref] == 1 else Touched(names=change.fixed, seen=touched.seen)
        for change, touched in zip(changes, found, strict=True)
    ]


def _accesses(changes: Sequence[CheckedStatement], touched: Sequence[Touched]) -> list[TableAccess]:
    """Return the combined operations of all statements on each table, in order of first use."""
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


def _tables_read(job: JobContext, changes: Sequence[CheckedStatement]) -> list[TableInfo]:
    return [
        table
        for change in changes
        for tables in (job.source_tables(change.source), job.tables(change.tables))
        for table in tables.values()
    ]
