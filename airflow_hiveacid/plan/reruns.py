"""What an earlier run of a job means for the one that begins: a decision, never a deed.

A job's key names the work, its generation grows when its task is cleared after a success, its
statement is the work itself. Takes what this run is, and what the ledger knows to be committed;
gives the run that makes this one needless, or None.

| earlier run, committed | this run |
| --- | --- |
| of the same generation, same statement | not needed: a retry applies nothing twice |
| of the same generation, another statement | refused |
| of an older generation | as `OnRerun` says; another statement is never skipped |
| of a newer generation | withdraws: it is a copy that was lost and has come back |

Must not know files or a metastore.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import FencedError, RerunRefusedError, StatementChangedError
from airflow_hiveacid.jobs.specs import OnRerun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hiveacid.format.attempts import AttemptId
    from airflow_hiveacid.format.ids import TxnId, WriteId
    from airflow_hiveacid.format.table import TableInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One attempt's change of one table.

    `statement` maps each part of the job description to its digest. `table_id` tells a table from
    another one that had its name and place before. `directories` are the URIs that the attempt
    publishes. `result` is the job's result as JSON text. `recorded_s` is seconds since 1970;
    for `retention_s` from then on the entry is kept, whoever prunes. One that is not legible tells
    only whose it is: its text is damaged.
    """

    job_key: str
    generation: int
    attempt: AttemptId
    statement: Mapping[str, str]
    table_id: str
    txn_id: TxnId
    write_id: WriteId
    directories: tuple[str, ...]
    result: str
    recorded_s: float
    retention_s: float
    is_confirmed: bool = False
    is_legible: bool = True

    @property
    def when(self) -> str:
        """The time of recording, for people."""
        return datetime.fromtimestamp(self.recorded_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What this run is."""

    job_key: str
    generation: int
    attempt: AttemptId
    statement: Mapping[str, str]
    on_rerun: OnRerun = field(default=OnRerun.APPLY)


def earlier_run(
    run: Run, committed: Iterable[LedgerEntry], table: TableInfo, txn_id: TxnId
) -> LedgerEntry | None:
    """The committed run that makes this one needless; None if it has to be done.

    Raises:
        FencedError: a newer generation is done.
        StatementChangedError: this generation, or what is to be skipped, was another statement.
        RerunRefusedError: an older generation was done, and that is to be an error.
    """
    # What is confirmed is beyond doubt, whatever a copy that was lost noted later.
    by_time = sorted(committed, key=lambda e: (e.generation, e.is_confirmed, e.recorded_s))
    if not by_time:
        return None
    last = by_time[-1]
    if last.generation > run.generation:
        raise FencedError(job_key=run.job_key, txn_id=txn_id, newer_txn_id=last.txn_id)
    if last.generation == run.generation or run.on_rerun is OnRerun.SKIP:
        # To skip a statement because another one was done would lose it without a word.
        differing = differing_parts(run.statement, last.statement)
        if differing and last.is_legible:
            raise StatementChangedError(
                table=table.ref,
                job_key=run.job_key,
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
                table=table.ref, job_key=run.job_key, txn_id=last.txn_id, when=last.when
            )


def differing_parts(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """The parts of a statement that are not the same in both, sorted.

    Example:
        >>> differing_parts({"where": "1a", "kind": "2b"}, {"where": "3c", "kind": "2b"})
        ('where',)
    """
    return tuple(sorted(p for p in {*one, *other} if one.get(p) != other.get(p)))
