"""The system under measurement as users see it: jobs on a full-ACID table, and frames.

Every change is a job with its own connection and transaction, run in this process by the same
functions that the applications run. Every read holds a snapshot.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.names import is_hidden
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import Job, JobResult, JobSpec, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import (
    InsertMode,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    UpdateSpec,
)
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.reading.snapshots import ReadSnapshot, read_snapshot
from airflow_hiveacid.spark.maintenance.prove_erasure import prove_erasure
from airflow_hiveacid.spark.reading.read_changes import read_changes
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.writing.context import JobContext
from airflow_hiveacid.storage.stores.listing import list_table
from spark_apps.clean import clean
from spark_apps.compact import compact
from spark_apps.insert import insert
from spark_apps.merge import merge
from spark_apps.transaction import transaction
from spark_apps.update import update
from tests.proofs.bench import data, recorder, records, sales, yardsticks
from tests.proofs.bench.lab import Lab

DATABASE: Final = "bench"

_JOB_FUNCTIONS: Final[Mapping[str, Callable[[JobContext], JobResult]]] = {
    "insert": insert,
    "merge": merge,
    "update": update,
    "compact": compact,
    "compact_tables": compact,
    "clean": clean,
    "prove_erasure": prove_erasure,
    "transaction": transaction,
}
_CHANGES: Final = tuple(
    MergeClause(when=when, action=action, condition=f"s.{sales.OPERATION} = '{code}'")
    for code, when, action in (
        ("D", MergeWhen.MATCHED, MergeAction.DELETE),
        ("U", MergeWhen.MATCHED, MergeAction.UPDATE),
        ("I", MergeWhen.NOT_MATCHED, MergeAction.INSERT),
    )
)
_UPSERT: Final = (
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
)
_DELETE_KEYS: Final = (MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE),)
_numbers: Final = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class AcidTable:
    lab: Lab
    info: TableInfo

    @classmethod
    def create(
        cls,
        lab: Lab,
        name: str,
        columns: Sequence[Column] = sales.COLUMNS,
        partition_columns: Sequence[Column] = (),
        **layout: Any,  # noqa: ANN401 - fields of `NewTable`
    ) -> AcidTable:
        new = NewTable(
            ref=TableRef(DATABASE, name),
            columns=tuple(columns),
            partition_columns=tuple(partition_columns),
            **layout,
            # Otherwise a minor compaction that meets delete events becomes a major one.
            parameters={ONLY_HIVE_4_READS: "true"},
        )
        with connect(lab.endpoint) as client:
            client.create_database(DATABASE)
            return cls(lab=lab, info=client.create_table(new))

    @contextmanager
    def frame(
        self, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[DataFrame]:
        """Yield its rows, or those that meet a condition, under a snapshot for the block."""
        with self.snapshot() as snapshot:
            yield self.rows(snapshot, columns, where)

    def snapshot(self) -> AbstractContextManager[ReadSnapshot]:
        """Return the snapshot of a reader that starts now."""
        return read_snapshot(self.lab.endpoint, [self.name], job_key=_job_key("read"))

    def rows(
        self, snapshot: ReadSnapshot, columns: Sequence[str] | None, where: str | None = None
    ) -> DataFrame:
        return read_table(self.lab.spark, self.name, snapshot, columns=columns, where=where)

    @contextmanager
    def last_changes(self, *, pre_images: bool = True) -> Iterator[DataFrame]:
        """Yield the changes of its last write: rows before (or their keys) and after."""
        with self.snapshot() as snapshot:
            newest = snapshot.snapshot.write_ids(self.info.ref).high_watermark
            yield read_changes(
                self.lab.spark,
                self.name,
                snapshot,
                since=newest - 1,
                keys=None if pre_images else [sales.KEY],
                pre_images=pre_images,
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the live data files; with partitions, of all existing ones."""
        if self.info.is_partitioned:
            return sum(file.stat().st_size for file in self.folder.rglob("bucket_*"))
        state = self.state()
        live = [*filter(None, [state.base]), *state.deltas, *state.delete_deltas]
        return sum(directory.size_bytes for directory in live)

    @property
    def system(self) -> str:
        return records.OURS

    @property
    def compactions(self) -> Mapping[str, Callable[[], int]]:
        """Both kinds, whether due or not."""
        return {
            "minor": partial(self._compact, CompactionChoice.MINOR),
            "major": partial(self._compact, CompactionChoice.MAJOR),
        }

    def overwrite(self, source: Path) -> int:
        """Overwrite it, which leaves one base."""
        return self._insert(source, InsertMode.OVERWRITE)

    def append(self, source: Path) -> int:
        """Add rows as one more delta."""
        return self._insert(source, InsertMode.APPEND)

    def delete(self, keys: Path) -> int:
        """Delete the rows of these keys as one more delete delta."""
        return self._merge(keys, (sales.KEY,), _DELETE_KEYS)

    def update(self) -> int:
        return self.set_column(*data.RAISE, data.RAISED)

    def set_column(self, column: str, value: str, where: str) -> int:
        """Update one column of some rows, and return the bytes written."""
        return self._run(UpdateSpec(target=self.name, set={column: value}, where=where))

    def upsert(self, source: Path, keys: Sequence[str]) -> int:
        """Merge: update all columns of existing rows, insert the others; return bytes written."""
        return self._merge(source, keys, _UPSERT)

    def merge(self, source: Path) -> int:
        return self._merge(source, (sales.KEY,), _CHANGES)

    def yardstick(self) -> yardsticks.SparkCompaction:
        state = self.state()
        base = state.base.files if state.base is not None else ()
        return yardsticks.SparkCompaction(
            spark=self.lab.spark, root=self.folder, state=state, buckets=max(1, len(base))
        )

    def add_partitions(self, names: Sequence[PartitionName]) -> None:
        """Add partitions to the metastore; their folders have their names."""
        with connect(self.lab.endpoint) as client:
            client.add_partitions(self.info, names)

    def state(self) -> AcidState:
        """Return its directories as a reader that starts now sees them."""
        return resolve(list_table(self.info.location), *self.seen())

    def seen(self) -> tuple[ValidWriteIdList, ValidTxnList]:
        """Return the lists of a reader that starts now."""
        with connect(self.lab.endpoint) as client:
            txns = client.valid_txns()
            return client.valid_write_ids([self.info.ref], txns)[self.info.ref], txns

    def fork(self, name: str) -> AcidTable:
        """Return another table with the same files (hard links) and the same write IDs.

        So one state can be changed repeatedly, and each run starts where the first one started.
        """
        other = AcidTable.create(self.lab, name, self.info.columns)
        write_ids, _ = self.seen()
        other.use_up_write_ids(write_ids.high_watermark)
        for entry in self.folder.iterdir():
            if not is_hidden(entry.name):
                shutil.copytree(entry, other.folder / entry.name, copy_function=os.link)
        return other

    def use_up_write_ids(self, count: int) -> None:
        """Allocate this many write IDs in the metastore, without writing or locking anything."""
        with connect(self.lab.endpoint) as client:
            for _ in range(count):
                txn_id = client.open_txn()
                client.allocate_write_id(txn_id, self.info.ref)
                client.commit_txn(txn_id)

    def drop(self) -> None:
        with connect(self.lab.endpoint) as client:
            client.drop_table(self.info.ref)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        return Path(unquote(urlsplit(self.info.location).path))

    @property
    def name(self) -> str:
        return str(self.info.ref)

    def _compact(self, choice: CompactionChoice) -> int:
        return self._run(CompactSpec.of_table(self.name, choice=choice))

    def _insert(self, source: Path, mode: InsertMode) -> int:
        return self._run(InsertSpec(target=self.name, source=_parquet(source), mode=mode))

    def _merge(self, source: Path, keys: Sequence[str], clauses: tuple[MergeClause, ...]) -> int:
        spec = MergeSpec(
            target=self.name, source=_parquet(source), keys=tuple(keys), clauses=clauses
        )
        return self._run(spec)

    def _run(self, job: Job) -> int:
        result = run_job(self.lab, job)
        if result.status is not JobStatus.COMMITTED:
            raise recorder.WrongRowsError(
                f"the {result.kind} job ended as {result.status.value}: {result}"
            )
        return result.size_bytes


def run_job(lab: Lab, job: Job) -> JobResult:
    """Run a job in the laboratory's session, with its own connection."""
    return run_job_in(lab.spark, lab.endpoint, job, _job_key(type(job).__name__))


def run_job_in(spark: SparkSession, endpoint: MetastoreEndpoint, job: Job, key: str) -> JobResult:
    """Run a job in a session, with its own connection; it is done once for each key."""
    spec = JobSpec(job_key=key, metastore=endpoint, job=job)
    with connect(spec.metastore) as client:
        return _JOB_FUNCTIONS[spec.kind](JobContext.of(spark, spec, client, _ignore_step))


def _parquet(path: Path) -> SourceSpec:
    return SourceSpec(format="parquet", location=str(path))


def _job_key(kind: str) -> str:
    return f"bench/{os.getpid()}/{kind}/{next(_numbers)}"


def _ignore_step(_step: str) -> None:
    pass
