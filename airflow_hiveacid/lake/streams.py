"""Streams of batches into tables, for loops in Python: each batch is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final

import pyarrow as pa

from airflow_hiveacid.arrow.job import run_statements
from airflow_hiveacid.arrow.rows import ArrowStream, rows_of
from airflow_hiveacid.arrow.scan import schema_of
from airflow_hiveacid.arrow.statements import ArrowStatement, planned
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ConfigurationError, FencedError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.lake import statements
from airflow_hiveacid.lake.session import Session, without_spark
from airflow_hiveacid.plan.transactions import numbered
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.streams import (
    Progress,
    Stream,
    StreamReport,
    checked_offsets,
    is_same,
)

Rows = ArrowStream | Mapping[str, ArrowStream]
"""Rows of a stream with one table, or a dict from table to its rows."""

Batches = Callable[[JsonValue], Iterable[tuple[Rows, JsonValue] | None]]
"""A function that yields batches after some offsets; None while there are no rows."""

_STARTS: Final = 5


class StreamWriter:
    """A stream of batches into one or more tables, of which this process is the only writer.

    Each batch is one transaction, and the tables' ledgers store the offsets of the newest one. A
    writer that starts stops older copies of its stream: their next batch raises a FencedError. No
    transaction is open between two batches. Not for several threads. Mutable: it stores the last
    batch, and the offsets of the last batch that it has tried to write.
    """

    def __init__(self, session: Session, stream: Stream) -> None:
        self._session, self._stream = session, stream
        self._tried: JsonValue = None
        for tries in range(1, _STARTS + 1):
            with session.job() as job:
                self._last = stream.last(job.client)
            try:
                # A batch without rows, which each older copy finds.
                self._commit({}, self._last.offsets, is_start=True)
                break
            except FencedError:  # an older copy has just committed a batch with this number
                if tries == _STARTS:
                    raise

    @property
    def offsets(self) -> JsonValue:
        """The offsets of the last committed batch, as JSON; None if there is none."""
        return self._last.offsets

    def write(self, rows: Rows, offsets: JsonValue) -> JobResult:
        """Write a batch as one transaction, and store the offsets with it.

        A batch with the offsets of the last one is applied once (`result.was_done_before`). A batch
        without rows commits nothing; its offsets become part of the next one.

        Args:
            rows: as for `append`; for several tables, a dict from some of them to their rows.
            offsets: a JSON value of at most 64 KiB, not None: where the source continues.

        Raises:
            ConfigurationError: the offsets or tables are invalid; for rows, as for `append`.
            FencedError: a newer copy of this stream has started; end this one.
            CommitStateUnknownError: the answer to the commit was lost. Repeat the same batch, with
                its rows made again.
            HiveAcidError: the batch failed, and nothing was changed.

        Example:
            writer.write(pa.table({"id": [1]}), {"clicks-0": 17})
        """
        return self._commit(self._by_table(rows), checked_offsets(offsets))

    def run(
        self,
        batches: Batches,
        *,
        run_for_s: float | None = None,
        is_ending: Callable[[], bool] = lambda: False,
        on_report: Callable[[StreamReport], None] = lambda _: None,
    ) -> JobResult:
        """Write the batches of a source until it ends, and return the sums.

        Args:
            batches: a function that gets the offsets of the last committed batch, or None, and
                yields `(rows, offsets)` as for `write`; None while there are no rows.
            run_for_s: end at the first batch, or None, after so many seconds.
            is_ending: end at the first batch, or None, after which this is true.
            on_report: called with what the log shows, each minute and at the end.

        Raises:
            HiveAcidError: a batch failed, see `write`; the earlier ones are committed.
        """
        clock = self._session.clock
        progress, source = Progress(clock, on_report), iter(batches(self.offsets))
        try:
            for batch in source:
                if batch is not None:
                    arrived_s = clock.monotonic()
                    progress.add(self.write(*batch), arrived_s)
                progress.tick()
                is_late = (
                    run_for_s is not None and clock.monotonic() - progress.began_s >= run_for_s
                )
                if is_late or is_ending():
                    break
        finally:
            progress.tick(is_last=True)
            if isinstance(source, Generator):
                source.close()  # it may hold a connection
        with self._session.job() as base:
            job = self._stream.batch(base, self._last.number)
            return progress.result(job, {"offsets": self.offsets})

    def _by_table(self, rows: Rows) -> dict[TableRef, pa.Table]:
        refs = [TableRef.parse(name) for name in self._stream.names]
        rows_by_name = rows if isinstance(rows, Mapping) else {self._stream.names[0]: rows}
        batch = {TableRef.parse(name): rows_of(each) for name, each in rows_by_name.items()}
        is_double = len(batch) < len(rows_by_name)  # one table under two spellings
        if is_double or not batch.keys() <= {*refs} or (rows_by_name is not rows and len(refs) > 1):
            raise ConfigurationError(
                f"give rows for one table, or a dict from {', '.join(self._stream.names)} to rows"
            )
        return batch

    def _commit(
        self, batch: Mapping[TableRef, pa.Table], offsets: JsonValue, *, is_start: bool = False
    ) -> JobResult:
        number = self._last.number + 1
        with self._session.job() as base:
            job = self._stream.batch(base, number, after=self._last, offsets=offsets)
            if is_same(offsets, self._last.offsets) and not is_start:
                return job.result(JobStatus.ALREADY_DONE, job.spec.job.target)
            changes = self._statements(job, batch)
            if not any(rows.num_rows for rows in batch.values()) and not is_start:
                if self._tried is not None and is_same(offsets, self._tried):
                    raise ConfigurationError(
                        "the batch with these offsets failed with rows and is repeated without any;"
                        " make its rows again, because a reader of Arrow data can be read once"
                    )
                return job.result(JobStatus.NOTHING_TO_DO, job.spec.job.target)
            self._tried = None if is_start else offsets
            with without_spark(changes[0].table.ref):
                result = run_statements(job, changes, self._session.limits)
        self._last = self._stream.committed(number, result, offsets)
        return result

    def _statements(
        self, job: WritingJob, batch: Mapping[TableRef, pa.Table]
    ) -> list[ArrowStatement]:
        """Return a statement for each table, because each ledger gets an entry."""
        changes = []
        for number, each in enumerate(self._stream.tables, start=1):
            ref, merges = TableRef.parse(each.table), bool(each.keys)
            with numbered(number, len(self._stream.tables)), without_spark(ref):
                name = each.table
                table = (
                    job.changeable_table(name, "MERGE") if merges else job.insertable_table(name)
                )
                table = job.with_constraints(table)
                empty = schema_of(table).empty_table()
                rows = batch.get(ref, empty)
                made = statements.upsertion(table, rows, each.keys) if merges else None
                # Without rows, an INSERT of none is enough for the ledger's entry.
                if made is None or not rows.num_rows:
                    made = statements.insertion(table, empty if merges else rows, overwrites=False)
                changes.append(planned(made.spec, made.work, job.client))
        return changes
