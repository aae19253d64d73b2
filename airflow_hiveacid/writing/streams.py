"""The batches of a stream: their numbers, their place in the ledger, and the rank of this copy.

All batches of a stream have one job key, and a batch's number is the job's generation. So the
ledger shows which batches are committed, whatever engine writes them (docs/decisions/streams.md).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple, Self, TypeVar

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.ids import AttemptId, TxnId
from airflow_hiveacid.format.records.ledger import LedgerEntry
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.specs.job import OnRerun
from airflow_hiveacid.jobs.specs.statements import StreamBatchSpec, StreamTable
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.terms import Clock
from airflow_hiveacid.plan.arguments import table_name
from airflow_hiveacid.plan.reruns import Batch
from airflow_hiveacid.plan.statements.arguments import key_names
from airflow_hiveacid.storage.stores.notes.job_ledger import Ledger, committed
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.write import run_unknown

log = logging.getLogger("hiveacid")

APPEND: Final = "append"
_MODES: Final = (APPEND, "merge")
_LONGEST: Final = 1 << 16
_REPORT_S: Final = 60.0
_J = TypeVar("_J", bound=WritingJob)


def stream_tables(
    tables: str | Sequence[StreamTable], mode: str, keys: Sequence[str] | str
) -> tuple[StreamTable, ...]:
    """Return the tables of a stream, or raise a ConfigurationError if they do not fit together."""
    if isinstance(tables, str):
        if mode not in _MODES or (mode == APPEND) is bool(keys):
            raise ConfigurationError(
                f"mode must be 'append' without keys, or 'merge' with keys, found {mode!r}"
            )
        tables = [StreamTable(table=tables, keys=key_names(keys) if keys else ())]
    elif keys or mode != APPEND:
        raise ConfigurationError("with several tables, each StreamTable has its own keys")
    found = tuple(
        StreamTable(table=table_name(t.table), keys=key_names(t.keys) if t.keys else ())
        for t in tables
    )
    if not found or len({each.table for each in found}) < len(found):
        raise ConfigurationError("a stream needs one or more distinct tables")
    return found


def checked_offsets(offsets: JsonValue) -> JsonValue:
    """Return a source's position as it is read again, or raise a ConfigurationError."""
    try:
        text = json.dumps(offsets, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"offsets must be JSON, such as a dict: {error}") from error
    if offsets is None or len(text) > _LONGEST:
        raise ConfigurationError(
            "offsets say where the source continues, so they must not be None, nor exceed"
            f" {_LONGEST} characters as JSON"
        )
    read: JsonValue = json.loads(text)
    return read


class LastBatch(NamedTuple):
    """The newest committed batch: its number, its transaction, and the offsets after it."""

    number: int = -1
    txn_id: TxnId = TxnId(0)
    offsets: JsonValue = None


@dataclass(slots=True, kw_only=True)
class Stream:
    """One copy of a stream. Mutable: it stores its rank, which its first batch sets."""

    name: str
    tables: tuple[StreamTable, ...]
    attempt: AttemptId = field(default_factory=AttemptId.new)
    first_txn_id: TxnId | None = None

    @classmethod
    def named(cls, name: str, tables: tuple[StreamTable, ...]) -> Self:
        """Return a stream with the name that a user has given it."""
        if not name.strip():
            raise ConfigurationError(
                "stream is blank; name the stream, such as 'clicks from kafka'"
            )
        return cls(name=name, tables=tables)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(each.table for each in self.tables)

    @property
    def _key(self) -> str:
        return f"stream/{self.name}"

    def batch(
        self,
        job: _J,
        number: int,
        *,
        after: LastBatch | None = None,
        offsets: JsonValue = None,
        plan: str = "",
    ) -> _J:
        """Return a job that writes a batch, with the metastore and time limits of `job`.

        `after` is the last batch that this copy knows, or None if only a checkpoint knows it. With
        a checkpoint, `plan` is a digest of what it says about this batch.
        """
        spec = StreamBatchSpec(targets=self.names, offsets=offsets, plan=plan)
        own: Any = {"job_key": self._key}
        return replace(
            job,
            spec=replace(
                job.spec,
                **own,
                attempt=str(self.attempt),
                generation=number,
                on_rerun=OnRerun.APPLY,  # that of the task would skip every batch after the first
                job=spec,
            ),
            terms=replace(job.terms, **own, attempt=self.attempt, first_txn_id=self.first_txn_id),
            batch=Batch(previous_txn_id=None if after is None else after.txn_id),
        )

    def committed(self, number: int, result: JobResult, offsets: JsonValue = None) -> LastBatch:
        """Note the result of a batch, and return the batch."""
        txn_id = TxnId(result.txn_id or 0)
        if self.first_txn_id is None and not result.was_done_before:
            self.first_txn_id = txn_id
        return LastBatch(number, txn_id, offsets)

    def last(self, client: MetastorePort) -> LastBatch:
        """Return the newest committed batch, as the ledgers of the tables show it now.

        Raises:
            EarlierRunUnknownError: the newest batch may be committed, but no proof is left.
        """
        tables = [client.get_table(TableRef.parse(name)) for name in self.names]
        # In this order, the metastore knows the outcome of each transaction that has an entry.
        entries = {table.ref: Ledger.of(table).entries(self._key) for table in tables}
        txns = client.valid_txns()
        write_ids = client.valid_write_ids(entries, txns)
        found = [
            (entry, table)
            for table in tables
            for entry in committed(entries[table.ref], write_ids[table.ref], txns)
        ]
        if not found:
            return LastBatch()
        newest, table = max(found, key=lambda one: _age(one[0]))
        # All tables are committed together, so one certain entry of its transaction is sufficient.
        sure = [e for e, t in found if e.txn_id == newest.txn_id and Ledger.of(t).is_certain(e)]
        if not sure:
            raise run_unknown(table.ref, newest, is_batch=True)
        newest = sure[0]
        batch: Any = JobResult.parse(newest.result).details["batch"]
        return LastBatch(newest.generation, newest.txn_id, batch["offsets"])


def _age(entry: LedgerEntry) -> tuple[int, bool, bool, bool]:
    """Return a key that sorts entries by age, the newest last.

    Of two entries with one number, that without rows is of a copy that started at that moment.
    """
    is_sure = entry.is_confirmed and not entry.doubt
    return entry.generation, not entry.is_legible, bool(entry.directories), is_sure


class StreamReport(NamedTuple):
    """What a stream did since its last report; `lag_s` is from a batch's arrival to its commit."""

    batches: int
    rows: int
    rows_per_s: float
    lag_s: float
    idle_s: float


class Progress:
    """The sums of one run of a stream, reported each minute. Mutable: it counts."""

    def __init__(
        self, clock: Clock, on_report: Callable[[StreamReport], None] = lambda _: None
    ) -> None:
        self._clock, self._on_report = clock, on_report
        self.began_s = self._told_s = self._committed_s = clock.monotonic()
        self._counts, self._told, self._lag_s = Counter[str](), Counter[str](), 0.0
        self._last: JobResult | None = None

    def add(self, result: JobResult, arrived_s: float) -> None:
        """Count a batch that arrived at this time of the clock; ignore one without a commit."""
        if result.status is JobStatus.COMMITTED:
            self._counts.update(asdict(result.rows), batches=1)
            self._last, self._committed_s = result, self._clock.monotonic()
            self._lag_s = max(self._lag_s, self._committed_s - arrived_s)

    def tick(self, *, is_last: bool = False) -> None:
        """Report what the stream did, if a minute is over or the stream ends."""
        now_s = self._clock.monotonic()
        passed_s = now_s - self._told_s
        if passed_s < _REPORT_S and not is_last:
            return
        new, idle_s = self._counts - self._told, now_s - self._committed_s
        batches, rows = new.pop("batches", 0), new.total()
        report = StreamReport(batches, rows, rows / max(passed_s, 1e-3), self._lag_s, idle_s)
        log.info(
            "stream batches=%d rows=%d rows_per_s=%.1f lag_s=%.1f last_commit_s_ago=%.1f", *report
        )
        self._told, self._told_s, self._lag_s = self._counts.copy(), now_s, 0.0
        self._on_report(report)

    def result(self, job: WritingJob, details: Mapping[str, JsonValue]) -> JobResult:
        """Return the result of the whole run."""
        last, rows = self._last, self._counts.copy()
        details = {"batches": rows.pop("batches", 0), **details}
        status = JobStatus.NOTHING_TO_DO if last is None else JobStatus.COMMITTED
        return replace(
            job.result(status, job.spec.job.target, details),
            txn_id=None if last is None else last.txn_id,
            write_ids={} if last is None else last.write_ids,
            rows=RowCounts(**rows),
        )
