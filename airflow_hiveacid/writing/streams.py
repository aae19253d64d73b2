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
from airflow_hiveacid.format.records import LedgerEntry, doubt_without_twins
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun, RowCounts
from airflow_hiveacid.jobs.statements import StreamBatchSpec, StreamTable
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock
from airflow_hiveacid.plan.arguments import stored_text, table_name
from airflow_hiveacid.plan.reruns import Batch
from airflow_hiveacid.plan.statements.arguments import key_names
from airflow_hiveacid.storage.stores.job_ledger import Ledger, committed
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.write import run_unknown

log = logging.getLogger("hiveacid")

APPEND: Final = "append"
_MODES: Final = (APPEND, "merge")
_LONGEST: Final = 1 << 16
_LOOKS_AGAIN: Final = 4
_REPORT_S: Final = 60.0
_MOST_BATCHES: Final = 1 << 62
"""Fewer than half of the numbers that an entry may have, so the next batches have numbers, too."""
_MOST_SKEW_S: Final = 60.0
"""The largest assumed difference between the clocks of writers and of the metastore."""
_FORGED: Final = "Remove the entry if another program wrote it"
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
    read: JsonValue = json.loads(text, object_pairs_hook=_distinct)
    return read


def _distinct(pairs: Sequence[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return a dict of JSON, or refuse one in which keys of Python, such as 1 and "1", are one."""
    again = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if again:
        raise ConfigurationError(
            f"offsets are ambiguous: as JSON, a dict in them has several keys {again[0]!r}; give"
            " each its own text"
        )
    return dict(pairs)


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Return whether offsets are equal as JSON: 5 and 5.0 are one number, 0 and False are not."""
    return _json_of(one) == _json_of(other)


def _json_of(offsets: JsonValue) -> str:
    read: JsonValue = json.loads(json.dumps(offsets), parse_float=_number)
    return json.dumps(read, sort_keys=True)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


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
        if not stored_text(name, "stream").strip():
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
        newest = self._newest(client, tables)
        for _ in range(_LOOKS_AGAIN):
            if newest is None or newest.is_certain:
                break
            # A copy may have written a batch between the looks at two ledgers.
            newest = self._newest(client, tables)
        if newest is None:
            return LastBatch()
        entry, ref, is_certain = newest
        if not is_certain:
            raise run_unknown(ref, entry, is_batch=True)
        return LastBatch(entry.generation, entry.txn_id, _offsets(entry, ref))

    def _newest(self, client: MetastorePort, tables: Sequence[TableInfo]) -> _Newest | None:
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
            return None
        newest, table = max(found, key=lambda one: _age(one[0]))
        # All tables are committed together, so one certain entry of the transaction is sufficient
        # if the other ledgers have the transaction, too (`Write.earlier_run`).
        twins = [(e, t) for e, t in found if newest.is_twin(e)]
        sure = [(e, t) for e, t in twins if Ledger.of(t).is_certain(e)]
        entry, table = (sure or [(newest, table)])[0]
        lacking = [t.ref for t in tables if not _has_twin(t, entries[t.ref], entry, table)]
        doubt = entry.doubt or doubt_without_twins(lacking) or _doubt_of_number(entry)
        return _Newest(replace(entry, doubt=doubt), table.ref, bool(sure) and not doubt)


class _Newest(NamedTuple):
    """The newest entry of a stream that may be committed, and whether it is."""

    entry: LedgerEntry
    ref: TableRef
    is_certain: bool


def _has_twin(
    table: TableInfo, entries: Sequence[LedgerEntry], newest: LedgerEntry, noted_in: TableInfo
) -> bool:
    """Return True if a table's ledger agrees with the newest entry, of the table `noted_in`.

    A table that was made after that batch has no entry of the stream. Then the batch must have been
    recorded after `noted_in` was made, and before this table was.
    """
    if entries:
        return any(map(newest.is_twin, entries))
    earliest_s, latest_s = noted_in.born_s or 0.0, table.born_s or 0.0
    return earliest_s - _MOST_SKEW_S <= newest.recorded_s <= latest_s + _MOST_SKEW_S


def _doubt_of_number(entry: LedgerEntry) -> str:
    if entry.generation < _MOST_BATCHES:
        return ""
    return f"no stream reaches batch {entry.generation}. {_FORGED}"


def _offsets(entry: LedgerEntry, ref: TableRef) -> JsonValue:
    """Return the offsets in a batch's entry; a release may change the other parts of the result."""
    try:
        offsets: JsonValue = json.loads(entry.result)["details"]["batch"]["offsets"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        doubt = f"its result does not say where the stream continues. {_FORGED}"
        raise run_unknown(ref, replace(entry, doubt=doubt), is_batch=True) from error
    return offsets


def _age(entry: LedgerEntry) -> tuple[int, bool, bool, bool]:
    """Return a key that sorts entries by age, the newest last.

    Of two entries with one number, a damaged one is last: it may be the one that has rows. One
    without rows is of a copy that started at that moment.
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
