"""Decide whether an earlier run of a job makes the current run unnecessary.

A job has a key, a statement and a generation. If a user clears the job's task after a success, the
generation increases by one. The earlier runs are those of `job_ledger.committed`.

| earlier run, committed | present run |
| --- | --- |
| same generation, same statement | unnecessary, since a retry must not apply a change twice |
| same generation, other statement | refused |
| older generation | depends on `OnRerun`; a different statement is never skipped |
| newer generation | ends with an error, since the present run is an old copy that was suspended |
| doubtful, and the decision depends on it | not decided: the entry is returned with its `doubt` |

See docs/decisions/ledger.md. Must not access files or a metastore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_hiveacid.format.errors import FencedError, RerunRefusedError, StatementChangedError
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import OnRerun


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The place of a run in a stream, as this copy of the stream knows it.

    `previous_txn_id` is the transaction of the last batch that it knows: 0 if there is none, and
    None if only a checkpoint outside the ledger knows the earlier batches.
    """

    previous_txn_id: TxnId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The current run of a job: what the terms of its transactions do not say."""

    generation: int
    statement: Mapping[str, str]
    on_rerun: OnRerun = field(default=OnRerun.APPLY)
    batch: Batch | None = None


def earlier_run(
    run: Run, committed: Iterable[LedgerEntry], table: TableInfo, txn_id: TxnId
) -> LedgerEntry | None:
    """Return the committed run that makes this run unnecessary, or None if this run is needed.

    If the decision depends on a doubtful entry, the entry is returned. A doubtful entry causes none
    of the errors below.

    Raises:
        FencedError: a run of a newer generation has committed, or another copy of a stream has
            committed a batch instead of this one or the one before it.
        StatementChangedError: an earlier run would make this run unnecessary, but its statement was
            different.
        RerunRefusedError: a run of an older generation has committed, and `on_rerun` is FAIL.
    """
    # Prefer a confirmed entry, even if an old copy of the job has recorded a later entry.
    by_time = sorted(
        committed, key=lambda e: (e.generation, not e.doubt, e.is_confirmed, e.recorded_s)
    )
    if not by_time:
        return None
    last = by_time[-1]
    if last.doubt:
        # A batch continues after the earlier batches, so they must be certain.
        is_older = last.generation < run.generation and run.batch is None
        return None if is_older and run.on_rerun is OnRerun.APPLY else last
    newer = [entry.txn_id for entry in by_time if _is_newer(entry, run)]
    if newer:
        raise FencedError(job_key=last.job_key, txn_id=txn_id, newer_txn_id=newer[-1])
    if last.generation == run.generation or run.on_rerun is OnRerun.SKIP:
        # If the committed statement was different, do not skip this run, because the changes of its
        # statement would be lost without an error.
        differing = differing_parts(run.statement, last.statement)
        if differing and last.is_legible:
            raise StatementChangedError(
                table=table.ref,
                job_key=last.job_key,
                txn_id=last.txn_id,
                when=last.when,
                differing=differing,
            )
        return last
    match run.on_rerun:
        case OnRerun.APPLY:
            return None
        case OnRerun.FAIL:
            raise RerunRefusedError(
                table=table.ref, job_key=last.job_key, txn_id=last.txn_id, when=last.when
            )


def _is_newer(entry: LedgerEntry, run: Run) -> bool:
    """Return True if a newer run has committed or, for a batch, another copy of the stream.

    The generation of a batch is its number. That copy has committed this batch, or rows under the
    number before. Or it has begun with the first number again, because the table was dropped and
    made again meanwhile.
    """
    if run.batch is None or entry.generation > run.generation:
        return entry.generation > run.generation
    if entry.generation == run.generation:
        return entry.is_legible and entry.statement != run.statement
    previous = run.batch.previous_txn_id
    if previous is None:
        return False
    if entry.generation == run.generation - 1:
        return bool(entry.directories) and entry.txn_id != previous
    return entry.txn_id > previous


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sorted names of the parts in which two statements differ.

    Example:
        >>> differing_parts({"where": "1a", "kind": "2b"}, {"where": "3c", "kind": "2b"})
        ('where',)
    """
    return tuple(sorted(p for p in {*one, *other} if one.get(p) != other.get(p)))
