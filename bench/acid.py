"""Knows the system under measurement as its users have it: jobs on a full-ACID table, and frames.

Every change is a job with its own connection and transaction, run in this process by the same
functions that the applications run; every read holds a snapshot.
"""

from __future__ import annotations

import itertools
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.names import is_hidden
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.results import JobResult, JobStatus
from airflow_hiveacid.jobs.specs import (
    CompactionChoice,
    CompactSpec,
    InsertMode,
    InsertSpec,
    JobSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.spark.reading.tables import read_snapshot, read_table
from airflow_hiveacid.spark.writing.job import JobContext
from airflow_hiveacid.storage.stores.listing import list_table
from bench.check import WrongRowsError
from bench.data import COLUMNS, KEY, OPERATION
from bench.records import OURS
from bench.spark_compaction import SparkCompaction
from spark_apps.compact import compact
from spark_apps.insert import insert
from spark_apps.merge import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_hiveacid.jobs.specs import Job
    from airflow_hiveacid.metastore.port import MetastorePort
    from bench.lab import Lab

DATABASE: Final = "bench"

_STORIES: Final[Mapping[str, Callable[[JobContext], JobResult]]] = {
    "insert": insert,
    "merge": merge,
    "compact": compact,
}
_CHANGES: Final = (
    MergeClause(
        when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition=f"s.{OPERATION} = 'D'"
    ),
    MergeClause(
        when=MergeWhen.MATCHED, action=MergeAction.UPDATE, condition=f"s.{OPERATION} = 'U'"
    ),
    MergeClause(
        when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT, condition=f"s.{OPERATION} = 'I'"
    ),
)
_DELETE_KEYS: Final = (MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE),)
_numbers: Final = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidTable:
    """One unpartitioned, unbucketed table of sales."""

    lab: Lab
    info: TableInfo

    @classmethod
    def create(cls, lab: Lab, name: str) -> AcidTable:
        """Make it, empty."""
        with connect(lab.endpoint) as client:
            client.create_database(DATABASE)
            ref = TableRef(DATABASE, name)
            return cls(lab=lab, info=client.create_table(NewTable(ref=ref, columns=COLUMNS)))

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Its rows, under a snapshot that lasts as long as the block."""
        name = str(self.info.ref)
        with read_snapshot(self.lab.endpoint, [name], job_key=_job_key("read")) as snapshot:
            yield read_table(self.lab.spark, name, snapshot, columns=columns)

    @property
    def size_bytes(self) -> int:
        """Bytes of the live data files."""
        state = self.state()
        live = [*filter(None, [state.base]), *state.deltas, *state.delete_deltas]
        return sum(directory.size_bytes for directory in live)

    @property
    def system(self) -> str:
        """What records call it."""
        return OURS

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Both kinds, due or not."""
        return {
            "minor": partial(self._compact, CompactionChoice.MINOR),
            "major": partial(self._compact, CompactionChoice.MAJOR),
        }

    def overwrite(self, source: Path) -> int:
        """Fill it: the result is one base."""
        return self._run(
            InsertSpec(target=self._name, source=_parquet(source), mode=InsertMode.OVERWRITE)
        )

    def append(self, source: Path) -> int:
        """Add rows: one more delta."""
        return self._run(InsertSpec(target=self._name, source=_parquet(source)))

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys: one more delete delta."""
        return self._run(
            MergeSpec(target=self._name, source=_parquet(keys), keys=(KEY,), clauses=_DELETE_KEYS)
        )

    def merge(self, source: Path) -> int:
        """The MERGE of the workload."""
        return self._run(
            MergeSpec(target=self._name, source=_parquet(source), keys=(KEY,), clauses=_CHANGES)
        )

    def yardstick(self) -> SparkCompaction:
        """Its compaction done by Spark alone."""
        state = self.state()
        base = state.base.files if state.base is not None else ()
        return SparkCompaction(
            spark=self.lab.spark, root=self.folder, state=state, buckets=max(1, len(base))
        )

    def state(self) -> AcidState:
        """Its directories, as a reader who comes now sees them."""
        with connect(self.lab.endpoint) as client:
            txns = client.valid_txns()
            write_ids = client.valid_write_ids([self.info.ref], txns)[self.info.ref]
        return resolve(list_table(self.info.location), write_ids, txns)

    def fork(self, name: str) -> AcidTable:
        """Another table with the same files (hard links) and the same write IDs.

        So one state can be changed several times over, and each run begins with what the first one
        began with.
        """
        other = AcidTable.create(self.lab, name)
        with connect(self.lab.endpoint) as client:
            txns = client.valid_txns()
            refs = [self.info.ref, other.info.ref]
            seen = client.valid_write_ids(refs, txns)
            for _ in range(seen[refs[1]].high_watermark, seen[refs[0]].high_watermark):
                _use_up_a_write_id(client, other.info)
        for entry in self.folder.iterdir():
            if not is_hidden(entry.name):
                shutil.copytree(entry, other.folder / entry.name, copy_function=os.link)
        return other

    def drop(self) -> None:
        """Forget it, and remove its files."""
        with connect(self.lab.endpoint) as client:
            client.drop_table(self.info.ref)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """Where it is on this machine."""
        return Path(unquote(urlsplit(self.info.location).path))

    @property
    def _name(self) -> str:
        return str(self.info.ref)

    def _compact(self, choice: CompactionChoice) -> int:
        return self._run(CompactSpec(target=self._name, choice=choice))

    def _run(self, job: Job) -> int:
        spec = JobSpec(job_key=_job_key(type(job).__name__), metastore=self.lab.endpoint, job=job)
        with connect(spec.metastore) as client:
            context = JobContext(
                spark=self.lab.spark, spec=spec, client=client, on_step=_ignore_step
            )
            result = _STORIES[spec.kind](context)
        if result.status is not JobStatus.COMMITTED:
            raise WrongRowsError(f"the {spec.kind} job ended as {result.status.value}: {result}")
        return result.size_bytes


def _use_up_a_write_id(client: MetastorePort, table: TableInfo) -> None:
    access = TableAccess(table=table, operations=frozenset({DataOperation.INSERT}))
    with begin(client, job_key=_job_key("clone"), reads=[], writes=[access], lock_timeout_s=60.0):
        pass  # committed without a file


def _parquet(path: Path) -> SourceSpec:
    return SourceSpec(format="parquet", location=str(path))


def _job_key(kind: str) -> str:
    return f"bench/{os.getpid()}/{kind}/{next(_numbers)}"


def _ignore_step(_step: str) -> None:
    pass
