"""Tables on a fake metastore whose clock stands still, with files of one byte."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.attempts import AttemptId
from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.ids import StatementId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.table import Column, PartitionName, TableRef, TransactionalKind
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.transaction import begin
from airflow_hiveacid.plan.history import Between, CommitNote
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from contract.fake_client import FakeClient
from contract.fake_metastore import FakeMetastore
from contract.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hiveacid.format.ids import WriteId
    from airflow_hiveacid.format.table import TableInfo


@dataclass
class Bench:
    """A table, and writes to it as ours or as somebody else's."""

    client: FakeClient
    clock: ManualClock
    ref: TableRef

    @property
    def table(self) -> TableInfo:
        return self.client.get_table(self.ref)

    @property
    def notes(self) -> VersionNotes:
        return VersionNotes.of(self.table)

    @property
    def root(self) -> Path:
        return Path(self.table.location.removeprefix("file:"))

    def put(self, name: str, partition: str = "") -> None:
        directory = self.root / partition / name
        directory.mkdir(parents=True)
        (directory / "bucket_00000").write_bytes(b"x")

    def somebody_writes(self, *, overwrites: bool = False) -> WriteId:
        txn = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn, self.ref)
        self.put(_name(write_id, overwrites=overwrites))
        self.client.commit_txn(txn)
        return write_id

    def we_write(
        self, *, overwrites: bool = False, job_key: str = "dag/run/task/-1", partition: str = ""
    ) -> WriteId:
        with self.writing(
            overwrites=overwrites, job_key=job_key, partition=partition
        ) as write_id:
            return write_id

    @contextmanager
    def writing(
        self, *, overwrites: bool = False, job_key: str = "dag/run/task/-1", partition: str = ""
    ) -> Iterator[WriteId]:
        """A write of ours that takes its time."""
        operation = DataOperation.OVERWRITE if overwrites else DataOperation.INSERT
        access = TableAccess(table=self.table, operations=frozenset({operation}))
        with begin(
            self.client, job_key=job_key, writes=[access], lock_timeout_s=5, clock=self.clock
        ) as txn:
            write_id = txn.write_ids[self.ref]
            self.put(_name(write_id, overwrites=overwrites), partition)
            yield write_id
        times = txn.times
        assert times is not None
        self.notes.note_commit(
            CommitNote(
                table_id=self.table.table_id,
                write_id=write_id,
                txn_id=txn.txn_id,
                job_key=job_key,
                attempt=str(AttemptId.new()),
                kind=operation.name.lower(),
                inserted=3,
                files=1,
                size_bytes=1,
                partitions=(partition,) if partition else (),
                directories=(str(Path(partition, _name(write_id, overwrites=overwrites))),),
                opened_s=times.opened_s,
                seen=txn.snapshot.write_ids(self.ref).text(),
                seen_after_s=times.seen.after_s or 0.0,
                seen_by_s=times.seen.by_s or 0.0,
                committed=Between(after_s=times.committed.after_s, by_s=times.committed.by_s),
            )
        )


def _name(write_id: WriteId, *, overwrites: bool) -> str:
    if overwrites:
        return str(BaseName(write_id=write_id))
    return str(DeltaName(low=write_id, high=write_id, statement_id=StatementId(0)))


@pytest.fixture(params=[MetastoreGeneration.V3, MetastoreGeneration.V4], ids=["hive3", "hive4"])
def make_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Bench]:
    """Makes a bench, of a table with these properties."""

    def make(
        *, parameters: dict[str, str] | None = None, partitions: tuple[str, ...] = ()
    ) -> Bench:
        clock = ManualClock()
        client = FakeClient(FakeMetastore(request.param, clock, txn_timeout_s=1e6))
        ref = TableRef("default", "t")
        (tmp_path / "t").mkdir()
        client.create_table(
            NewTable(
                ref=ref,
                columns=(Column(name="id", type="bigint"),),
                partition_columns=(Column(name="p", type="int"),) if partitions else (),
                kind=TransactionalKind.FULL_ACID,
                location=f"file:{tmp_path}/t",
                parameters=parameters or {},
            )
        )
        bench = Bench(client=client, clock=clock, ref=ref)
        names = [PartitionName.parse(text) for text in partitions]
        for info in client.add_partitions(bench.table, names) if names else ():
            Path(info.location.removeprefix("file:")).mkdir(parents=True, exist_ok=True)
        return bench

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()
