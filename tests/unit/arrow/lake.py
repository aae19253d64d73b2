"""A table with real files over a fake metastore, and the jobs that one process runs on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.arrow import TASK_LIMITS, Limits
from airflow_hiveacid.arrow.job import run_in_process
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.partition_values import partition_texts
from airflow_hiveacid.writing.job import WritingJob
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="name", type="string"),
    Column(name="price", type="decimal(8,2)"),
)
ROW = row_type(COLUMNS)
DAY = (Column(name="day", type="date"), Column(name="part", type="int"))
UPDATE_ALL = MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE)
DELETE_ALL = MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE)
INSERT_ALL = MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT)

# What a process that dies no longer asks of the metastore.
_LAST_CALLS: Final = ("mark_refused", "mark_failed", "abort_txn")

Row = tuple[Any, ...]
Make = Callable[..., "Lake"]
"""A function that creates a table like `made`."""


class KilledError(BaseException):
    """The end of a process; nothing of it runs afterwards."""


@dataclass(kw_only=True)
class Lake:
    """A table and the jobs on it; `at` says what happens at a job's next step. Mutable."""

    server: FakeMetastore
    clock: ManualClock
    table: TableInfo
    jobs: int = 0
    at: dict[str, Callable[[], object]] = field(default_factory=dict)

    @property
    def client(self) -> FakeClient:
        return FakeClient(self.server)

    def run(self, job: Job, *, limits: Limits = TASK_LIMITS, **others: Any) -> JobResult:  # noqa: ANN401
        return run_in_process(self.job(job, **others), limits)

    def job(
        self,
        job: Job,
        *,
        key: str | None = None,
        attempt: int = 1,
        **others: Any,  # noqa: ANN401
    ) -> WritingJob:
        self.jobs += 1
        spec = JobSpec(
            job_key=key or f"job {self.jobs}",
            metastore=MetastoreEndpoint(uris=("thrift://h:1",)),
            job=job,
            attempt=str(AttemptId(attempt, f"{self.jobs:012d}")),
            lock_timeout_s=5.0,
            **others,
        )
        terms = JobTerms.of(spec, on_step=lambda step: self.at.pop(step, lambda: None)())
        terms = dataclasses.replace(terms, clock=self.clock)
        return WritingJob(spec=spec, client=self.client, terms=terms)

    def insert(self, *rows: Row, **others: Any) -> JobResult:  # noqa: ANN401
        return self.run(InsertSpec(target="default.s", source=values(self.table, *rows)), **others)

    def delete(self, where: str | None, **others: Any) -> JobResult:  # noqa: ANN401
        return self.run(DeleteSpec(target="default.s", where=where), **others)

    def merge(self, *rows: Row, clauses: Iterable[MergeClause], **others: Any) -> JobResult:  # noqa: ANN401
        keys = others.pop("keys", ("id",))
        source = values(self.table, *rows)
        spec = MergeSpec(target="default.s", source=source, keys=keys, clauses=tuple(clauses))
        return self.run(spec, **others)

    @property
    def rows(self) -> list[Row]:
        """The live rows of all partitions, sorted, with their partition values as text."""
        ref = self.table.ref
        write_ids = self.client.valid_write_ids([ref], self.client.valid_txns())[ref]
        found: list[Row] = []
        for info in self.client.list_partitions(self.table):
            texts = partition_texts(self.table.partition_columns, info.name)
            for batch in scan(info.location, self.table.columns, write_ids):
                found += [(*row.values(), *texts) for row in batch.to_pylist()]
        return sorted(found, key=str)

    @property
    def root(self) -> Path:
        return Path(self.table.location.removeprefix("file:"))

    @property
    def files(self) -> list[str]:
        """The data files, without those of `_hiveacid` and the version files."""
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("bucket_*"))

    @property
    def directories(self) -> list[str]:
        """The directories of the data files."""
        return sorted({path.rpartition("/")[0] for path in self.files})

    def other(self) -> Lake:
        """The table for the jobs of another program."""
        return Lake(server=self.server, clock=self.clock, table=self.table, jobs=100)


def values(table: TableInfo, *rows: Row) -> SourceSpec:
    return SourceSpec(columns=table.column_names, values=rows)


def made(
    server: FakeMetastore,
    clock: ManualClock,
    tmp_path: Path,
    **others: Any,  # noqa: ANN401
) -> Lake:
    (tmp_path / "s").mkdir()
    others = {"columns": COLUMNS, **others}
    new = NewTable(ref=TableRef("default", "s"), location=f"file:{tmp_path}/s", **others)
    return Lake(server=server, clock=clock, table=FakeClient(server).create_table(new))


def die(lake: Lake, step: str, work: Callable[[], object], *, aborts: bool = False) -> None:
    """Do some work in a process that is killed at a step; with `aborts`, it can still clean up."""

    def killed() -> None:
        for method in () if aborts else _LAST_CALLS:
            lake.server.break_next(method, KilledError(), is_done=False)  # type: ignore[arg-type]
        raise KilledError

    lake.at[step] = killed
    with pytest.raises(KilledError):
        work()
    lake.server.faults.clear()
    assert bool(lake.client.valid_txns().open) is not aborts
    assert bool(lake.server.locks) is not aborts or step == "opened"
