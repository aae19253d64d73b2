"""Restore of a table to a version in this process (`writing.restoring`).

Row IDs of both states are read and compared in memory; insert-only files are copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.arrow.events import EventMaker
from airflow_hiveacid.arrow.limits import Limits
from airflow_hiveacid.arrow.search import FileRows, Search
from airflow_hiveacid.arrow.statements import ArrowStatement
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.errors import SparkNeededError
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.results import JobResult
from airflow_hiveacid.plan.restoring import RestoredPartition, Way
from airflow_hiveacid.reading.table_view import TableView, view_of
from airflow_hiveacid.storage.acid.row_schema import IDENTITY_COLUMNS
from airflow_hiveacid.storage.plain.rows import rows_of
from airflow_hiveacid.storage.stores.threads import each_in_threads
from airflow_hiveacid.writing.event_files import WritePlan, staged_files, write_here
from airflow_hiveacid.writing.job import WritingJob
from airflow_hiveacid.writing.loading import FileToCopy, copied_here
from airflow_hiveacid.writing.publish import StagedFile
from airflow_hiveacid.writing.restoring import Comparison, PlainComparison, Restoring

_EVERY_ROW: Final = Search(reach=None, columns=(), pick=None)
_ROW_BYTES: Final = 256
"""The memory for one row of each state while they are sorted and compared, rounded up."""

Marked = tuple[FileRows, np.ndarray]
"""Live rows of a file, and which of them only this state has."""


def restore(
    job: WritingJob, limits: Limits, run: Callable[[ArrowStatement], JobResult]
) -> JobResult:
    """Restore a version's rows with `run`, or only plan it; see `Restoring.result`."""

    def compare(now: TableView, then: TableView) -> Comparison[TableView]:
        if now.table.kind is TransactionalKind.INSERT_ONLY:
            return _FileComparison(now=now, then=then, limits=limits)
        return _RowComparison(now=now, then=then, limits=limits)

    restoring = Restoring[TableView].of(job, compare)
    table = restoring.table
    if table.constraints.checks or table.constraints.not_null:
        raise SparkNeededError(reason="the table has CHECK or NOT NULL constraints")
    change = ArrowStatement(
        spec=job.spec.job,
        table=table,
        operations=frozenset({DataOperation.OVERWRITE}),
        make_events=None,
        make_files=restoring.stage,
        partitions=restoring.touched,
        empties=lambda _names: (),
        details=restoring.details,
    )
    return restoring.result(
        lambda: run(change),
        lambda snapshot, past: view_of(job.client, table, snapshot, past=past),
    )


@dataclass(frozen=True, kw_only=True)  # no slots, for a cached property
class _RowComparison(Comparison[TableView]):
    """A comparison of rows by row ID; writes and compactions do not change a row's ID."""

    limits: Limits

    def outcomes(self) -> tuple[RestoredPartition, ...]:
        now, then = self._marked
        go, come, all_now = (
            _by_partition(len(self.partitions), counts)
            for counts in (
                ((rows, int(mask.sum())) for rows, mask in now),
                ((rows, int(mask.sum())) for rows, mask in then),
                ((rows, len(mask)) for rows, mask in now),
            )
        )
        return tuple(
            RestoredPartition.of(
                come=come[index],
                go=go[index],
                stay=all_now[index] - go[index],
                is_plain=False,
                partition=str(info.name),
            )
            for index, info in enumerate(self.partitions)
        )

    def files(
        self, plan: WritePlan, delta: WritePlan, outcomes: Sequence[RestoredPartition]
    ) -> tuple[StagedFile, ...]:
        events = EventMaker(self.table, self.table.columns[:1])  # the writer fetches all values
        deltas: list[pa.RecordBatch] = []
        bases: list[pa.RecordBatch] = []
        now, then = self._marked
        for rows, mask in now:
            if outcomes[rows.file.partition].how is Way.DELTA and mask.any():
                deltas.append(events.deletes(self.now, _only(rows, mask)))
        for rows, mask in then:
            how = outcomes[rows.file.partition].how
            if how is Way.DELTA and mask.any():
                deltas.append(events.updates(self.then, _only(rows, mask), {}))
            elif how is Way.BASE:
                bases.append(events.updates(self.then, rows, {}))
        self.limits.check_changes(sum(batch.num_rows for batch in (*deltas, *bases)))
        old_files = {file.number: file.data for file in self.then.files}
        files = [
            file
            for own, batches in ((delta, deltas), (plan, bases))
            for fetching in [dataclasses.replace(own, given=(frozenset(),), old_files=old_files)]
            for file in staged_files(fetching, write_here(fetching, batches))
        ]
        # The writers count an insert event with an old row as an update. But these are inserts.
        return tuple(dataclasses.replace(file, updated=0) for file in files)

    @cached_property
    def _marked(self) -> tuple[list[Marked], list[Marked]]:
        """The rows of both states; raise SparkNeededError if several have one row ID."""
        row_limit = min(self.limits.rows, self.limits.memory_bytes // _ROW_BYTES)
        limits = dataclasses.replace(self.limits, rows=row_limit, changed_rows=row_limit)
        now, then = (_EVERY_ROW.find(view, limits) for view in (self.now, self.then))
        file_rows = [*now, *then]
        if not file_rows:
            return [], []
        sizes = [rows.rows.num_rows for rows in file_rows]
        state = np.repeat([number >= len(now) for number in range(len(file_rows))], sizes)
        keys = [
            np.repeat([rows.file.partition for rows in file_rows], sizes),
            *(
                np.concatenate([rows.rows.column(name).to_numpy() for rows in file_rows])
                for name in IDENTITY_COLUMNS
            ),
        ]
        order = np.lexsort((state, *keys[::-1]))
        is_same = np.ones(len(order) - 1, dtype=bool)
        for key in keys:
            is_same &= key[order[1:]] == key[order[:-1]]
        if (is_same & (state[order[1:]] == state[order[:-1]])).any():
            raise SparkNeededError(reason="several of its rows have the same row ID")
        is_alone = np.ones(len(order), dtype=bool)
        is_alone[order[1:][is_same]] = is_alone[order[:-1][is_same]] = False
        masks = np.split(is_alone, np.cumsum(sizes)[:-1])
        marked = list(zip(file_rows, masks, strict=True))
        return marked[: len(now)], marked[len(now) :]


@dataclass(frozen=True, kw_only=True)
class _FileComparison(PlainComparison[TableView]):
    """A comparison for rows without row IDs, whose files state their number of rows."""

    limits: Limits

    def rows_by_file(self, view: TableView) -> Mapping[int, int]:
        files = [(number, file) for number, file in view.plain_files if file.length]
        if any(file.format is FileFormat.TEXT for _, file in files):
            raise SparkNeededError(reason="text files do not state their number of rows")
        # Each block of an Avro file states its own rows, so counting reads whole files.
        in_blocks = (file.length for _, file in files if file.format is FileFormat.AVRO)
        self.limits.check_files(sum(in_blocks))
        counts = each_in_threads(
            lambda pair: rows_of(pair[1].format)(pair[1].fs, pair[1].path, pair[1].length), files
        )
        return {number: rows for (number, _), rows in zip(files, counts, strict=True) if rows}

    def check(self, past: TableView) -> None:
        """Do nothing, because the table has no constraints."""

    def copied(self, copies: Sequence[FileToCopy]) -> tuple[StagedFile, ...]:
        self.limits.check_files(sum(copy.source.length for copy in copies))
        return copied_here(copies)


def _only(rows: FileRows, mask: np.ndarray) -> FileRows:
    return dataclasses.replace(rows, rows=rows.rows.filter(pa.array(mask)))


def _by_partition(partitions: int, counts: Iterable[tuple[FileRows, int]]) -> list[int]:
    totals = [0] * partitions
    for rows, count in counts:
        totals[rows.file.partition] += count
    return totals
