"""Tables on a fake metastore whose clock stands still, with files of one byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, MetastoreGeneration
from airflow_hiveacid.format.errors import VersionGoneError
from airflow_hiveacid.format.ids import AttemptId, StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.format.records import CommitNote, Keeping, Tag, TimeBounds
from airflow_hiveacid.format.table import (
    Column,
    PartitionName,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance.clean import Cleaner
from airflow_hiveacid.maintenance.overview import Overview, with_past
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import snapshot_now
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.plan.keeping import NO_AUTO_COMPACTION, READABLE_FOR
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.history import history_of
from airflow_hiveacid.versions.keeping import keep, keep_no_more, make_tag
from airflow_hiveacid.versions.past import Past, past_of
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.terms import job_terms


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

    def clean(self, **spec: object) -> None:
        """Run our cleaner."""
        table, overview = with_past(self.client, self.table, plan_only=False)
        self.clean_by(overview, table, **spec)

    def clean_by(self, overview: Overview, table: TableInfo, **spec: object) -> None:
        """Run our cleaner with facts that may be old by now."""
        for info in self.client.list_partitions(table):
            Cleaner(
                client=self.client,
                table=table,
                spec=CleanSpec.of_table(str(table.ref), **spec),  # type: ignore[arg-type]
                on_step=lambda _: None,
                overview=overview,
            ).clean(info)

    def keep(self) -> Keeping:
        return keep(self.client, self.table)

    def keep_no_more(self) -> None:
        keep_no_more(self.client, self.table)

    def tag(self, name: str = "a", *, version: int | None = None, **terms: Any) -> Tag:  # noqa: ANN401
        """Tag a version, or the current one."""
        spec = VersionSpec() if version is None else VersionSpec.of(version=version)
        return make_tag(self.client, self.table, name, spec, **terms)

    def past(self, **asked: object) -> Past:
        """The table as of a version."""
        spec = VersionSpec.of(**asked)  # type: ignore[arg-type]
        snapshot = snapshot_now(self.client, [self.ref])
        taken_s = lambda: server_now(self.client)  # noqa: E731
        return past_of(self.client, self.table, spec, snapshot, taken_s=taken_s)

    def names(self, **asked: object) -> list[str]:
        """The directories that a version reads."""
        past = self.past(**asked)
        roots = self.client.list_partitions(self.table)
        past.check_vanished([info.name for info in roots])
        states = past.states(roots, [list_table(info.location) for info in roots])
        return [d.text for state in states for d in state.live]

    def refuses(self, *versions: int, match: str | None = None) -> VersionGoneError:
        """Checks that none of these versions can be read; gives the error of the last one."""
        for version in versions:
            with pytest.raises(VersionGoneError, match=match) as caught:
                self.names(version=version)
        return caught.value

    def truncate(self, partition: str = "") -> None:
        """As Hive 3.1 does, without a write ID."""
        for path in (self.root / partition).iterdir():
            if not path.name.startswith("_"):
                shutil.rmtree(path)

    def somebody_compacts(self, state: CompactionState = CompactionState.SUCCEEDED) -> int:
        entry_id, queue = self.request(), self.client.server.queue
        queue[entry_id] = replace(queue[entry_id], state=state)
        return entry_id

    def request(self) -> int:
        """Ask for a compaction as another client; return the entry in the queue."""
        return self.client.request_compaction(self.ref, None, CompactionType.MAJOR).entry_id

    def begin(self) -> TxnId:
        """Take the next write ID as another client, which writes nothing yet."""
        txn_id = self.client.open_txn()
        self.client.allocate_write_id(txn_id, self.ref)
        return txn_id

    def drop(self, partition: str) -> None:
        self.client.drop_partitions(self.table, [PartitionName.parse(partition)])

    def add(self, partition: str) -> None:
        self.client.add_partitions(self.table, [PartitionName.parse(partition)])

    def readable(self) -> dict[int, bool]:
        """Which versions the history calls readable."""
        return {v.number: v.is_readable for v in history_of(self.client, self.table).versions}

    def give_up(self) -> None:
        """Somebody takes away a parameter by which the table is kept."""
        self.client.set_table_parameters(self.ref, {NO_AUTO_COMPACTION: None})

    def somebody_writes(self, partition: str = "", *, overwrites: bool = False) -> WriteId:
        txn = self.client.open_txn()
        write_id = self.client.allocate_write_id(txn, self.ref)
        self.put(_name(write_id, overwrites=overwrites), partition)
        self.client.commit_txn(txn)
        return write_id

    def we_write(
        self, partition: str = "", *, overwrites: bool = False, job_key: str = "dag/run/task/-1"
    ) -> WriteId:
        with self.writing(partition, overwrites=overwrites, job_key=job_key) as write_id:
            return write_id

    @contextmanager
    def writing(
        self, partition: str = "", *, overwrites: bool = False, job_key: str = "dag/run/task/-1"
    ) -> Iterator[WriteId]:
        """A write of ours that takes its time."""
        operation = DataOperation.OVERWRITE if overwrites else DataOperation.INSERT
        access = TableAccess(table=self.table, operations=frozenset({operation}))
        with begin(self.client, job_terms(job_key, clock=self.clock), writes=[access]) as txn:
            write_id = txn.write_ids[self.ref]
            self.put(_name(write_id, overwrites=overwrites), partition)
            yield write_id
        times = txn.times
        assert times is not None
        name = _name(write_id, overwrites=overwrites)
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
                directories=(f"{partition}/{name}".removeprefix("/"),),
                opened_s=times.opened_s,
                seen=txn.snapshot.write_ids(self.ref).text(),
                seen_after_s=times.seen.after_s or 0.0,
                seen_by_s=times.seen.by_s or 0.0,
                committed=TimeBounds(after_s=times.committed.after_s, by_s=times.committed.by_s),
            )
        )


@contextmanager
def beside(owner: object, name: str, act: Callable[[], object]) -> Iterator[None]:
    """Let another client act once, right before a function is called."""
    real = getattr(owner, name)

    def called(*args: Any, **terms: Any) -> object:  # noqa: ANN401
        patch.undo()
        act()
        return real(*args, **terms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, called)
        yield


def _name(write_id: WriteId, *, overwrites: bool) -> str:
    if overwrites:
        return str(BaseName(write_id=write_id))
    return str(DeltaName(low=write_id, high=write_id, statement_id=StatementId(0)))


@pytest.fixture(params=[MetastoreGeneration.V3, MetastoreGeneration.V4], ids=["hive3", "hive4"])
def make_bench(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Bench]:
    """Makes a bench, of a table with these properties."""

    def make(
        *,
        parameters: dict[str, str] | None = None,
        partitions: tuple[str, ...] = (),
        kind: TransactionalKind = TransactionalKind.FULL_ACID,
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
                kind=kind,
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


@pytest.fixture
def halves(make_bench: Callable[..., Bench]) -> Bench:
    """A table with two partitions."""
    return make_bench(partitions=("p=1", "p=2"))


@pytest.fixture
def expiring(make_bench: Callable[..., Bench]) -> Bench:
    """A kept table whose versions need not stay readable."""
    bench = make_bench(parameters={READABLE_FOR: "0 seconds"})
    bench.clean()
    return bench
