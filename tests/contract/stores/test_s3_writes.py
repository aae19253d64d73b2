"""A write of a table on S3 that ends at each of its borders: nothing lost, nothing half visible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from airflow_hiveacid.format import conflicts, errors, ids, names
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.table import Column, PartitionName, TableInfo, TableRef
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.plan.reruns import Run
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import assemble
from airflow_hiveacid.writing.table_write import WriteOrder
from airflow_hiveacid.writing.write import Write, WriteState, writing
from tests.contract import fake_client, fake_metastore, manual_clock
from tests.contract.stores.s3_staged import staged_file
from tests.support.s3_lab import MotoS3
from tests.support.terms import job_terms

_, INSERT, _, _, OVERWRITE = conflicts.DataOperation
FIRST, SECOND = ids.AttemptId(1, "1" * 12), ids.AttemptId(2, "2" * 12)
COLUMNS = (Column(name="id", type="bigint"),)


class KilledError(BaseException):
    """The process ends here, and does nothing any more."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that writes one row; `at` is the border at which `then` happens."""

    client: fake_client.FakeClient
    table: TableInfo
    clock: manual_clock.ManualClock
    operation: conflicts.DataOperation = INSERT
    attempt: ids.AttemptId = FIRST
    at: str = ""
    then: Callable[[], object] = print

    def order(self) -> WriteOrder:
        def on_step(name: str) -> None:
            if name == self.at:
                self.then()

        return WriteOrder(
            run=Run(
                generation=0,
                statement={"kind": self.operation.value},
                on_rerun=OnRerun.APPLY,
            ),
            accesses=(TableAccess(table=self.table, operations=frozenset({self.operation})),),
            ledger_retention_s=1000.0,
            terms=job_terms(
                "dag/run/task/-1", attempt=self.attempt, clock=self.clock, on_step=on_step
            ),
        )

    def run(self) -> Write:
        with writing(self.client, self.order()) as write:
            if write.earlier_run() is not None:
                write.txn.abandon()
                return write
            self.go(write)
        return write

    def go(self, write: Write) -> None:
        self.stage(write)
        write.register()
        write.verify()
        write.note("{}")
        write.publish()

    def stage(self, write: Write) -> None:
        (part,) = write.tables.values()
        write_id, bucket = part.write_id, ids.BucketId(0)
        name = (
            names.BaseName(write_id=write_id)
            if self.operation is OVERWRITE
            else names.DeltaName(low=write_id, high=write_id, statement_id=ids.StatementId(0))
        )
        staging = Staging.of(part.table, part.table.location, part.token(ids.StatementId(0)))
        fs, path = open_location(staging.attempt_path(name, names.bucket_file(bucket), "a0"))
        rows = pa.record_batch({"id": pa.array([int(write_id)])})
        with AcidFileWriter(fs, path, COLUMNS, WriterOptions(), is_delete=False) as writer:
            writer.write(insert_events(rows, write_id, ids.encode(bucket), ids.RowId(0)))
            size = writer.close().size_bytes
        file = staged_file(name, "a0", size)
        write.stage(part.table.ref, assemble([file], {PartitionName(): staging}))


@pytest.fixture
def clock() -> manual_clock.ManualClock:
    return manual_clock.ManualClock()


@pytest.fixture
def server(clock: manual_clock.ManualClock) -> fake_metastore.FakeMetastore:
    return fake_metastore.FakeMetastore(conflicts.MetastoreGeneration.V4, clock)


@pytest.fixture
def job(server: fake_metastore.FakeMetastore, clock: manual_clock.ManualClock, s3: MotoS3) -> Job:
    client = fake_client.FakeClient(server)
    new = NewTable(ref=TableRef("default", "t"), columns=COLUMNS, location=f"s3a://{s3.bucket}/w/t")
    return Job(client=client, table=client.create_table(new), clock=clock)


def seen(job: Job) -> list[str]:
    """What a reader that begins now reads."""
    txns = job.client.valid_txns()
    write_ids = job.client.valid_write_ids([job.table.ref], txns)[job.table.ref]
    state = resolve(list_table(job.table.location), write_ids, txns)
    return [d.text for d in state.live]


BORDERS = ["staged", "registered", "verified", "noted", "published"]


@pytest.mark.parametrize("operation", [INSERT, OVERWRITE])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.long_cases("[!p]*.OVERWRITE")
def test_a_write_that_fails_at_any_step_leaves_no_files_and_can_be_repeated(
    job: Job, s3: MotoS3, border: str, operation: conflicts.DataOperation
) -> None:
    looks: list[list[str]] = []

    def fail() -> None:
        looks.append(seen(job))
        raise OSError(border)

    with pytest.raises(OSError, match=border):
        replace(job, operation=operation, at=border, then=fail).run()
    assert looks == [[]]
    assert (s3.objects(), s3.uploads()) == ([], [])
    assert job.run().state is WriteState.COMMITTED
    assert seen(job) == ["delta_0000002_0000002_0000"]


@pytest.mark.parametrize("border", BORDERS)
def test_a_write_killed_at_any_step_is_never_visible_and_the_retry_applies_it_once(
    job: Job, s3: MotoS3, border: str
) -> None:
    def die() -> None:
        raise KilledError

    killed = replace(job, at=border, then=die)
    context = writing(killed.client, killed.order())
    write = context.__enter__()
    with pytest.raises(KilledError):
        killed.go(write)
    assert seen(job) == []
    is_published = border == "published"
    assert ("w/t/delta_0000001_0000001_0000/bucket_00000" in s3.objects()) is is_published
    job.client.abort_txn(write.txn.txn_id)
    assert replace(job, attempt=SECOND).run().state is WriteState.COMMITTED
    assert seen(job) == ["delta_0000002_0000002_0000"]
    assert len([k for k in s3.objects() if k.endswith("bucket_00000") and "_tmp_" not in k]) == 1


def test_after_a_commit_with_a_lost_reply_the_retry_finds_that_the_job_is_done(
    job: Job, server: fake_metastore.FakeMetastore
) -> None:
    lost = errors.MetastoreUnavailableError(uris=("u",), method="commit_txn", reason="lost")
    server.break_next("commit_txn", lost, is_done=True)
    assert job.run().state is WriteState.COMMITTED
    assert seen(job) == ["delta_0000001_0000001_0000"]
    assert replace(job, attempt=SECOND).run().state is WriteState.ABORTED  # nothing to do
    assert seen(job) == ["delta_0000001_0000001_0000"]
