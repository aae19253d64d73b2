"""Compactions on S3: of two of one range, and of a large bucket by several tasks."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest

from airflow_hiveacid.format import errors, names, snapshot
from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.ids import BucketId, BucketProperty, RowId, TxnId, WriteId
from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.compaction import Appearance, CompactionPlan, plan_compaction
from airflow_hiveacid.plan.thresholds import CompactionPolicy
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write.bucket_merge import BucketCompaction
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import AcceptedFile, Staging
from airflow_hiveacid.writing.publish import Replacement, assemble
from tests.contract.stores.s3_faults import Faults
from tests.contract.stores.s3_staged import staged_file
from tests.support.s3_lab import MotoS3
from tests.unit.storage.compacting import compacted_files
from tests.unit.storage.orc_tables import B0, ids

LATE, OWN = TxnId(12), TxnId(15)
BUCKET: Final = "bucket_00000"
INSERTS: Final = [f"delta_{w:07d}_{w:07d}_0000" for w in (1, 2, 3)]


def compaction(table: str, txn_id: TxnId, choice: CompactionChoice) -> Replacement:
    """What a compactor has staged, of a table that Trino may read, right before it publishes."""
    aborted = (LATE,) if txn_id == OWN else ()
    txns = snapshot.ValidTxnList(high_watermark=txn_id, open=(txn_id,), aborted=aborted)

    def look() -> AcidState:
        return resolve(list_table(table), snapshot.CompactorWriteIdList.of(ids(3)), txns)

    plan = plan_compaction(
        look(),
        choice,
        CompactionPolicy(),
        can_hide_until_commit=False,
        appears=Appearance.FILE_BY_FILE_HIDDEN_FROM_HIVE,
    )
    assert isinstance(plan, CompactionPlan)
    (name,) = plan.outputs(txn_id)
    staging, attempt = Staging(location=table, token=f"{txn_id}-a"), f"a{txn_id}"
    write_bytes(*open_location(staging.attempt_path(name, BUCKET, attempt)), b"rows")
    file = staged_file(name, attempt, size_bytes=4)
    staged = assemble([file], {PartitionName(): staging}, is_compacted=plan.is_major)
    return Replacement(plan=plan, directories=staged, look=look)


def shown(s3: MotoS3) -> list[str]:
    return [key.removeprefix("w/t/") for key in s3.objects() if "_tmp_" not in key]


@pytest.mark.parametrize(
    ("choice", "result"),
    [
        (CompactionChoice.MINOR, "delta_0000001_0000003_v0000015"),
        (CompactionChoice.MAJOR, "base_0000003_v0000015"),
    ],
)
def test_a_delayed_compaction_publishes_nothing_after_its_successor(
    s3: MotoS3, table: str, choice: CompactionChoice, result: str
) -> None:
    for name in INSERTS:
        write_bytes(*open_location(f"{table}/{name}/{BUCKET}"), b"rows")
    late, own = compaction(table, LATE, choice), compaction(table, OWN, choice)
    own.remove_dead_siblings()
    own.publish()
    before = shown(s3)
    assert f"{result}/{BUCKET}" in before
    # Trino would read `delta_1_3_v12` and `delta_1_3_v15`, and every row twice.
    with pytest.raises(errors.StorageError):  # S3 says NoSuchUpload, moto stumbles
        late.publish()
    late.take_back()
    assert shown(s3) == before


def test_a_result_that_a_dead_compaction_publishes_late_is_removed(
    s3: MotoS3, table: str, faults: Faults
) -> None:
    for name in INSERTS:
        write_bytes(*open_location(f"{table}/{name}/{BUCKET}"), b"rows")
    late, own = (compaction(table, t, CompactionChoice.MINOR) for t in (LATE, OWN))
    faults.before["ListMultipartUploads"] = late.publish
    own.remove_dead_siblings()
    own.publish()
    results = {key.partition("/")[0] for key in shown(s3)} - set(INSERTS)
    assert results == {"delta_0000001_0000003_v0000015"}


def test_uploads_of_running_writers_are_not_removed(s3: MotoS3, table: str) -> None:
    for name in INSERTS:
        write_bytes(*open_location(f"{table}/{name}/{BUCKET}"), b"rows")
    writer = Staging(location=table, token="16-a").attempt_path("base_0000004", BUCKET, "w")
    write_bytes(*open_location(writer), b"rows")
    own = compaction(table, OWN, CompactionChoice.MAJOR)
    own.remove_dead_siblings()
    assert sorted(s3.uploads()) == [
        f"w/t/base_0000003_v0000015/{BUCKET}",
        f"w/t/base_0000004/{BUCKET}",
    ]


def test_one_task_joins_the_parts_that_other_tasks_wrote(s3: MotoS3, table: str) -> None:
    columns = (Column(name="id", type="bigint"),)
    for write_id, name in enumerate(INSERTS, 1):
        events = insert_events(
            pa.record_batch({"id": [write_id]}), WriteId(write_id), BucketProperty(B0), RowId(0)
        )
        place = open_location(f"{table}/{name}/{BUCKET}")
        with AcidFileWriter(*place, columns, WriterOptions(), is_delete=False) as writer:
            writer.write(events)
            writer.close()
    (bucket,) = bucket_files(resolve(list_table(table), ids(3), None))
    base, staging = names.BaseName(write_id=WriteId(3)), Staging(location=table, token="t")
    work = BucketCompaction(
        table=TableRef("default", "t"),
        columns=columns,
        bucket_id=BucketId(0),
        inserts=bucket.inserts,
        deletes=(),
        write_ids=ids(3),
        outputs=(base,),
        staging=staging,
        options=WriterOptions(),
    )
    (file,) = compacted_files(work, part_bytes=1)
    assert shown(s3) == [f"{name}/{BUCKET}" for name in INSERTS]
    accepted = AcceptedFile(name=BUCKET, attempt=file.attempt, size_bytes=file.size_bytes)
    staging.publish_files(base, [accepted], [])
    staging.discard()
    (bucket,) = bucket_files(resolve(list_table(table), ids(3), None))
    (batch,) = read_events(bucket.inserts[0], columns)
    assert batch.column("row").field("id").to_pylist() == [1, 2, 3]
    assert not s3.uploads()
    assert not [key for key in s3.objects() if "_tmp_" in key]
