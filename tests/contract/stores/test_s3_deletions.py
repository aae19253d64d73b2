"""What is deleted on S3: by digests that every server knows, and what a dead attempt has begun."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.records import LedgerEntry
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.storage.stores.filesystem import delete_directory, write_bytes
from airflow_hiveacid.storage.stores.job_ledger import Ledger
from airflow_hiveacid.storage.stores.listing import give_up_all, open_uploads
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.s3.handler import StagedUpload
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import remove_abandoned, token_of
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.contract.stores.s3_faults import Faults
from tests.contract.stores.s3_fronts import lists_uploads_by_name, wants_md5
from tests.contract.stores.s3_staged import DELTA, stage
from tests.support.s3_lab import KEYS, MotoS3


def test_deletions_send_content_md5_to_servers_that_require_it(s3: MotoS3, table: str) -> None:
    for number in range(3):
        write_bytes(*open_location(f"{table}/d/{number}"), b"x")
    with s3.behind(wants_md5):
        plain = boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        with pytest.raises(ClientError, match="MissingContentMD5"):  # as boto3 would do it
            plain.delete_objects(Bucket=s3.bucket, Delete={"Objects": [{"Key": "w/t/d/0"}]})
        delete_directory(*open_location(f"{table}/d"))
    assert s3.objects() == []


def test_a_repeated_deletion_sends_content_md5_and_no_other_checksum(
    s3: MotoS3, table: str, faults: Faults
) -> None:
    write_bytes(*open_location(f"{table}/d/0"), b"x")
    faults.refuse["DeleteObjects"] = [(503, "SlowDown")]
    with s3.behind(wants_md5):
        delete_directory(*open_location(f"{table}/d"))
    assert faults.seen.count("DeleteObjects") == 2
    sent = faults.requests["DeleteObjects"][-1]
    assert "Content-MD5" in sent
    assert [name for name in sent if "checksum" in name.lower()] == []
    assert s3.objects() == []


@pytest.fixture
def dead(table: str) -> tuple[Ledger, FakeClient, LedgerEntry]:
    """A job that noted what it was about to publish, and died."""
    client = FakeClient(FakeMetastore(conflicts.MetastoreGeneration.V4, ManualClock()))
    made = client.create_table(
        NewTable(
            ref=TableRef("default", "t"),
            columns=(Column(name="id", type="bigint"),),
            location=table,
        )
    )
    entry = LedgerEntry(
        job_key="dag/run/task/-1",
        generation=0,
        attempt=ids.AttemptId(1, "1" * 12),
        statement={"kind": "insert"},
        table_id=made.table_id,
        txn_id=client.open_txn(),
        write_id=ids.WriteId(1),
        directories=(f"{table}/{DELTA}", f"{table}2/{DELTA}"),
        result="{}",
        recorded_s=1.0,
        retention_s=1000.0,
    )
    ledger = Ledger.of(made)
    ledger.write(entry)
    return ledger, client, entry


def test_uploads_of_a_dead_attempt_are_aborted_and_its_files_removed(
    s3: MotoS3, table: str, dead: tuple[Ledger, FakeClient, LedgerEntry]
) -> None:
    ledger, client, entry = dead
    staging = Staging(location=table, token="7-a")
    published, late = stage(staging, "a"), stage(staging, "b", size=10)
    fs, path = open_location(staging.attempt_path(DELTA, "bucket_00000", "a"))
    fs.handler.publish(path, published)
    other = Staging(location=f"{table}2", token="7-a")
    stage(other, "c")  # where the table was before it was renamed
    bucket = open_location(table)[0].handler._bucket
    bucket.begin_upload("w/t/delta_0000002_0000002_0000/bucket_00000", None)  # another writer's
    remove_abandoned(ledger, client, client.get_table(TableRef("default", "t")), [entry])
    assert sorted(s3.uploads()) == [
        "w/t/delta_0000002_0000002_0000/bucket_00000",
        f"w/t2/{DELTA}/bucket_00000",
    ]
    assert [key for key in s3.objects() if "_tmp_" not in key] == []
    # A frozen attempt that wakes up has nothing left to complete.
    fs, path = open_location(staging.attempt_path(DELTA, "bucket_00000", "b"))
    with pytest.raises(OSError, match="bucket_00000"):
        fs.handler.publish(path, late)
    assert [key for key in s3.objects() if "_tmp_" not in key] == []


@pytest.mark.parametrize("statement", [None, ids.StatementId(2)])
def test_uploads_of_a_dead_attempt_are_aborted_even_if_the_store_does_not_list_them(
    s3: MotoS3,
    table: str,
    dead: tuple[Ledger, FakeClient, LedgerEntry],
    statement: ids.StatementId | None,
) -> None:
    ledger, client, entry = dead
    staging = Staging(location=table, token=token_of(entry.txn_id, entry.attempt, statement))
    late = stage(staging, "a")
    stage(Staging(location=table, token=f"{token_of(entry.txn_id, entry.attempt)}9"), "b")
    fs, path = open_location(staging.attempt_path(DELTA, "bucket_00000", "a"))
    note = StagedUpload.read(fs.handler._bucket, path.partition("/")[2])  # it is about to
    with s3.behind(lists_uploads_by_name):
        assert open_uploads(f"{table}/{DELTA}") == ()
        remove_abandoned(ledger, client, client.get_table(TableRef("default", "t")), [entry])
    with pytest.raises(OSError, match="bucket_00000"):
        note.publish(fs.handler._bucket)
    with pytest.raises(FileNotFoundError):
        fs.handler.publish(path, late)
    assert [key for key in s3.objects() if "_tmp_" not in key] == []
    assert len(s3.uploads()) == 1  # that of another's, whose name begins so


def test_a_retry_works_without_permission_to_list_uploads(
    s3: MotoS3,
    table: str,
    dead: tuple[Ledger, FakeClient, LedgerEntry],
    faults: Faults,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ledger, client, entry = dead
    info = client.get_table(TableRef("default", "t"))
    write_bytes(*open_location(f"{table}/{DELTA}/bucket_00000"), b"x")
    faults.refuse["ListMultipartUploads"] = [(503, "SlowDown")] * 9
    with pytest.raises(errors.StoreUnavailableError, match="SlowDown"):
        remove_abandoned(ledger, client, info, [entry])
    assert ledger.entries(entry.job_key)  # the next attempt has it still
    faults.refuse["ListMultipartUploads"] = [(403, "AccessDenied")]
    remove_abandoned(ledger, client, info, [entry])
    assert "cleaning will abort them" in caplog.text
    assert s3.objects() == []
    assert ledger.entries(entry.job_key) == ()


def test_aborting_uploads_does_nothing_on_a_store_without_uploads(tmp_path: Path) -> None:
    give_up_all(f"file:{tmp_path}")
