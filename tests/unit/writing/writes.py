"""A job that writes one small file to each of its tables, its ends, and what it leaves there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import AttemptId, BucketId, StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName, bucket_file
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.storage.stores.json_files import HIDDEN_DIRECTORY
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import StagedFile, assemble
from airflow_hiveacid.writing.table_write import TableWrite, WriteOrder
from airflow_hiveacid.writing.write import Write, writing
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
FIRST, SECOND, THIRD = (AttemptId(number, str(number) * 12) for number in (1, 2, 3))
WHOLE = PartitionName()


class Killed(BaseException):
    """As SIGKILL, after which nothing is undone."""


def die() -> None:
    """Kill a job at a step."""
    raise Killed


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that writes a row of each of its tables; `at` maps steps to what happens there once."""

    client: FakeClient
    tables: tuple[TableInfo, ...]
    clock: ManualClock
    operation: DataOperation = INSERT
    key: str = "dag/run/task/-1"
    attempt: AttemptId = FIRST
    generation: int = 0
    statement: str = "write"
    at: dict[str, Callable[[], object]] | None = None
    result: str = "{}"

    @property
    def table(self) -> TableInfo:
        """Its first table."""
        return self.tables[0]

    @property
    def server(self) -> FakeMetastore:
        return self.client.server

    def directories(self) -> set[str]:
        """What stands in its table's directory, but for the ledger's."""
        return directories(self.table)

    def notes(self) -> list[str]:
        """The states of the entries in its table's ledger."""
        return notes(self.table)

    def order(self) -> WriteOrder:
        return WriteOrder(
            run=Run(
                generation=self.generation,
                statement={"kind": self.statement},
                on_rerun=OnRerun.APPLY,
            ),
            accesses=tuple(
                TableAccess(table=t, operations=frozenset({self.operation})) for t in self.tables
            ),
            ledger_retention_s=1000.0,
            terms=job_terms(self.key, attempt=self.attempt, clock=self.clock, on_step=self._step),
        )

    def run(self, partition: PartitionName = WHOLE) -> Write:
        with writing(self.client, self.order()) as write:
            if write.earlier_run() is not None:
                write.txn.abandon()
                return write
            self.publish(write, partition)
        return write

    def publish(self, write: Write, partition: PartitionName = WHOLE) -> None:
        is_base = self.operation is OVERWRITE
        for number, part in enumerate(write.tables.values()):
            stage(write, part, number, partition=partition, is_base=is_base)
        finish(write, self.result)

    def kill(self, partition: PartitionName = WHOLE) -> ExitStack:
        """Run up to the commit, or up to a step at which the job dies, and leave all as it is.

        Returns what the test holds until its end: a write that is dropped would be undone.
        """
        never_left = ExitStack()
        write = never_left.enter_context(writing(self.client, self.order()))
        with suppress(Killed, errors.DirectoryExistsError):
            self.publish(write, partition)
        return never_left

    def time_out(self) -> None:
        """Let the metastore abort the transactions of killed jobs."""
        self.clock.sleep(21)
        self.client.server.reap()

    def _step(self, name: str) -> None:
        doing = (self.at or {}).pop(name, None)
        if doing is not None:
            doing()


def stage(
    write: Write,
    part: TableWrite,
    statement: int,
    *,
    partition: PartitionName = WHOLE,
    is_base: bool = False,
    rows: str = "rows",
) -> None:
    """Stage one small file of one statement."""
    number = StatementId(statement)
    delta = DeltaName(low=part.write_id, high=part.write_id, statement_id=number)
    name = str(BaseName(write_id=part.write_id) if is_base else delta)
    location = part.table.default_partition_location(partition)
    staging = Staging.of(part.table, location, part.token(number))
    path = staging.attempt_path(name, bucket_file(BucketId(0)), "a0").removeprefix("file:")
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text(rows)
    file = staged_file(partition, name, len(rows))
    write.stage(part.table.ref, assemble([file], {partition: staging}))


def staged_file(partition: PartitionName, directory: str, size_bytes: int = 4) -> StagedFile:
    return StagedFile(
        partition=partition,
        directory=directory,
        bucket=BucketId(0),
        attempt="a0",
        rows=1,
        size_bytes=size_bytes,
    )


def finish(write: Write, result: str = "{}") -> None:
    write.register()
    write.verify()
    write.note(result)
    write.publish()


def made(client: FakeClient, folder: Path, name: str, partition_column: str = "") -> TableInfo:
    """A new table in a folder, without a partition."""
    (folder / name).mkdir()
    columns = (Column(name=partition_column, type="string"),) if partition_column else ()
    return client.create_table(
        NewTable(
            ref=TableRef("default", name),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=columns,
            location=f"file:{folder}/{name}",
        )
    )


def place(table: TableInfo) -> Path:
    return Path(table.location.removeprefix("file:"))


def hidden(table: TableInfo) -> Path:
    return place(table) / HIDDEN_DIRECTORY


def directories(table: TableInfo) -> set[str]:
    """What stands in the table's directory, but for the ledger's."""
    return {p.name for p in place(table).iterdir() if p.name != HIDDEN_DIRECTORY}


def notes(table: TableInfo) -> list[str]:
    """The states of the ledger's entries."""
    names = [p.name for p in hidden(table).iterdir()] if hidden(table).is_dir() else []
    return sorted(n.split(".")[-2] for n in names if not n.startswith(("_commit_", "_owner")))
