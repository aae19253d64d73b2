"""What is staged on S3 is not seen; what is published is whole, and one attempt's alone."""

from __future__ import annotations

import pickle
from typing import Final

import pyarrow as pa
import pytest
from pyarrow import fs as pafs

from airflow_hiveacid.format import errors, snapshot
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.table import UNPARTITIONED, PartitionInfo, TableInfo, TableRef
from airflow_hiveacid.maintenance.stored_files import stored_files
from airflow_hiveacid.plan.cleaning import plan_uploads
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.stores.filesystem import delete_directory, read_bytes, write_bytes
from airflow_hiveacid.storage.stores.listing import give_up, list_table, open_uploads
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import Publication
from tests.contract.stores.s3_faults import Faults
from tests.contract.stores.s3_staged import COLUMNS, DELTA, ROWS, accepted, stage
from tests.support.s3_lab import MotoS3
from tests.unit.storage.orc_tables import ids


@pytest.fixture
def staging(table: str) -> Staging:
    return Staging(location=table, token="7-a")


def test_readers_see_no_file_before_the_publication_and_all_files_after_it(
    s3: MotoS3, table: str, staging: Staging
) -> None:
    size = stage(staging, "a")
    assert [k for k in s3.objects() if "_tmp_" not in k] == []
    assert s3.uploads() == [f"w/t/{DELTA}/bucket_00000"]
    publication = Publication()
    publication.publish([accepted(staging, "a", size)])
    staging.discard()
    assert s3.objects() == [f"w/t/{DELTA}/_orc_acid_version", f"w/t/{DELTA}/bucket_00000"]
    assert s3.uploads() == []
    state = resolve(list_table(table), ids(1), None)
    (bucket,) = bucket_files(state, ids(1))
    (file,) = pickle.loads(pickle.dumps(bucket.inserts))  # noqa: S301 - as a task gets it
    assert file.length == size
    found = pa.Table.from_batches(read_events(file, COLUMNS))
    assert found.column("row").combine_chunks().flatten() == ROWS.columns


def test_a_compaction_publishes_its_rows_before_its_metadata_file(
    s3: MotoS3, table: str, staging: Staging, faults: Faults
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"), is_compacted=True)
    faults.seen.clear()
    Publication().publish([staged])
    made = [n for n in faults.seen if n in ("CompleteMultipartUpload", "PutObject")]
    assert made == ["CompleteMultipartUpload", "PutObject", "PutObject"]
    assert f"w/t/{DELTA}/_metadata_acid" in s3.objects()
    assert list_table(table).metadata == {DELTA: "compacted"}


def test_undoing_a_publication_leaves_no_objects_and_no_uploads(
    s3: MotoS3, staging: Staging
) -> None:
    publication = Publication()
    publication.publish([accepted(staging, "a", stage(staging, "a"), is_compacted=True)])
    publication.take_back()
    staging.discard()
    assert (s3.objects(), s3.uploads()) == ([], [])


def test_a_late_task_attempt_is_never_published_and_its_upload_is_aborted(
    s3: MotoS3, table: str, staging: Staging
) -> None:
    size = stage(staging, "counts")
    stage(staging, "late", size=10)
    Publication().publish([accepted(staging, "counts", size)])
    staging.discard()
    assert s3.uploads() == []
    (file,) = [f for f in list_table(table).files if f.name == "bucket_00000"]
    assert file.size_bytes == size


def test_publishing_does_not_overwrite_the_file_of_a_different_attempt(
    s3: MotoS3, table: str, staging: Staging
) -> None:
    size, late = stage(staging, "first"), stage(staging, "late", size=10)
    Publication().publish([accepted(staging, "first", size)])
    fs, path = open_location(staging.attempt_path(DELTA, "bucket_00000", "late"))
    with pytest.raises(FileExistsError, match="PreconditionFailed"):
        fs.handler.publish(path, late)
    publication = Publication()
    with pytest.raises(errors.DirectoryExistsError):
        publication.publish([accepted(staging, "late", late)])
    publication.take_back()
    assert f"w/t/{DELTA}/bucket_00000" in s3.objects()
    (file,) = [f for f in list_table(table).files if f.name == "bucket_00000"]
    assert file.size_bytes == size


def test_publishing_does_not_overwrite_a_file_that_a_different_client_just_created(
    s3: MotoS3, table: str, staging: Staging, faults: Faults
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    key = f"w/t/{DELTA}/bucket_00000"

    def come() -> None:
        s3.client().put_object(Bucket=s3.bucket, Key=key, Body=b"x")

    faults.before["CompleteMultipartUpload"] = come
    publication = Publication()
    with pytest.raises(errors.DirectoryExistsError):
        publication.publish([staged])
    publication.take_back()
    assert s3.objects()[:1] == [f"w/t/_tmp_hiveacid_7-a/_attempts/a/{DELTA}/bucket_00000"]
    assert read_bytes(*open_location(f"{table}/{DELTA}/bucket_00000")) == b"x"
    assert s3.uploads() == []


def test_a_file_that_differs_from_the_report_of_its_task_is_not_published(
    table: str, staging: Staging
) -> None:
    size = stage(staging, "a")
    with pytest.raises(errors.StorageError, match="its task reported"):
        Publication().publish([accepted(staging, "a", size + 1)])
    with pytest.raises(errors.StorageError, match="it does not exist"):
        Publication().publish([accepted(staging, "never", size)])
    write_bytes(*open_location(f"{table}/_tmp_hiveacid_7-a/x"), b"{}")


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"parts": 3}', b"\xff"])
def test_a_damaged_upload_note_raises_an_error(s3: MotoS3, staging: Staging, text: bytes) -> None:
    size = stage(staging, "a")
    key = f"w/t/_tmp_hiveacid_7-a/_attempts/a/{DELTA}/bucket_00000"
    s3.client().put_object(Bucket=s3.bucket, Key=key, Body=text)
    with pytest.raises(errors.StorageError, match="is not the note of an upload"):
        Publication().publish([accepted(staging, "a", size)])


def test_files_staged_below_the_table_are_published_into_their_partition(
    s3: MotoS3, table: str
) -> None:
    place = f"{table}/p=a%2Fb c%3D1 %252F"
    staging = Staging(location=place, token="7-a", home=table)
    Publication().publish([accepted(staging, "a", stage(staging, "a"))])
    staging.discard()
    assert f"w/t/p=a%2Fb c%3D1 %252F/{DELTA}/bucket_00000" in s3.objects()
    assert [f.path for f in list_table(place).files] == [
        f"{DELTA}/_orc_acid_version",
        f"{DELTA}/bucket_00000",
    ]


def test_an_aborted_upload_is_not_published_and_the_error_is_retryable(
    s3: MotoS3, table: str, staging: Staging, faults: Faults
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    give_up(table, open_uploads(table))
    faults.refuse["CompleteMultipartUpload"] = [(404, "NoSuchUpload")]  # moto stumbles
    with pytest.raises(errors.StoreUnavailableError, match=r"aborted meanwhile.*Run the job again"):
        Publication().publish([staged])
    assert [key for key in s3.objects() if "_tmp_" not in key] == []


class KilledError(Exception):
    """The process ends here."""


BORDERS: Final = ["GetObject", "CompleteMultipartUpload", "PutObject"]


@pytest.mark.parametrize("border", BORDERS)
def test_removing_the_delta_and_staged_files_of_a_killed_publisher_leaves_nothing(
    s3: MotoS3, table: str, staging: Staging, faults: Faults, border: str
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))

    def die() -> None:
        raise KilledError

    faults.before[border] = die
    with pytest.raises(KilledError):
        Publication().publish([staged])
    # Nobody takes anything back; the transaction is aborted by its silence.
    delete_directory(*open_location(f"{table}/{DELTA}"))
    staging.discard()
    assert (s3.objects(), s3.uploads()) == ([], [])


@pytest.mark.parametrize("border", BORDERS)
def test_undoing_a_failed_publication_removes_all_its_files_and_uploads(
    s3: MotoS3, staging: Staging, faults: Faults, border: str
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    publication = Publication()
    faults.refuse[border] = [(403, "AccessDenied")]
    with pytest.raises(errors.LocationPermissionError, match=r"credentials: env\).*PutObject"):
        publication.publish([staged])
    publication.take_back()
    staging.discard()
    assert (s3.objects(), s3.uploads()) == ([], [])


@pytest.mark.parametrize(
    "call", ["CompleteMultipartUpload", "PutObject", "UploadPart", "CreateMultipartUpload"]
)
def test_publishing_succeeds_although_one_reply_of_s3_is_lost(
    s3: MotoS3, table: str, staging: Staging, faults: Faults, call: str
) -> None:
    faults.lose[call] = 1
    publication = Publication()
    publication.publish([accepted(staging, "a", stage(staging, "a"), is_compacted=True)])
    assert faults.lose[call] == 0
    (file,) = [f for f in list_table(table).files if f.name == "bucket_00000"]
    assert file.size_bytes > 0
    publication.take_back()
    staging.discard()
    assert s3.objects() == []


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        ("CompleteMultipartUpload", 404, "NoSuchUpload"),
        ("CompleteMultipartUpload", 412, "PreconditionFailed"),
        ("PutObject", 412, "PreconditionFailed"),
    ],
)
def test_publishing_recognizes_its_own_object_after_a_lost_reply(
    table: str, staging: Staging, faults: Faults, call: str, status: int, code: str
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    faults.lose[call], faults.then[call] = 1, (status, code)
    Publication().publish([staged])
    assert faults.lose[call] == 0
    assert [f.name for f in list_table(table).files] == ["_orc_acid_version", "bucket_00000"]


def test_an_upload_completed_without_any_reply_raises_and_can_be_undone(
    s3: MotoS3, staging: Staging, faults: Faults
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    faults.lose["CompleteMultipartUpload"] = 99
    faults.before["CompleteMultipartUpload"] = lambda: faults.lose.update(HeadObject=99)
    publication = Publication()
    with pytest.raises(errors.StoreUnavailableError):
        publication.publish([staged])
    faults.lose.clear()
    assert f"w/t/{DELTA}/bucket_00000" in s3.objects()
    publication.take_back()
    staging.discard()
    assert (s3.objects(), s3.uploads()) == ([], [])


def test_publishing_waits_for_a_concurrent_conditional_write_of_the_same_name(
    table: str, staging: Staging, faults: Faults
) -> None:
    staged = accepted(staging, "a", stage(staging, "a"))
    conflict = (409, "ConditionalRequestConflict")
    faults.refuse["CompleteMultipartUpload"] = [conflict, conflict]
    Publication().publish([staged])
    faults.refuse["CompleteMultipartUpload"] = [conflict] * 9
    other = Staging(location=f"{table}2", token="7-b")
    with pytest.raises(errors.StoreUnavailableError, match="ConditionalRequestConflict"):
        Publication().publish([accepted(other, "b", stage(other, "b"))])


def test_cleaning_aborts_uploads_of_dead_workers_but_not_of_live_workers(
    s3: MotoS3, table: str
) -> None:
    fs, root = open_location(table)
    bucket = fs.handler._bucket
    names = [
        "delta_0000001_0000001_0000/bucket_00000",  # committed
        "delta_0000002_0000002_0000/bucket_00000",  # open
        "p=1/base_0000009/bucket_00000",  # begun a moment ago
        "base_0000001_v0000004/bucket_00000",  # an open compaction's
        "base_0000001_v0000003/bucket_00000",
        "_tmp_hiveacid_4-x/_flat/part",
        "_tmp_hiveacid_3-x/_flat/part",
        "somebody.else",
    ]
    for name in names:
        bucket.begin_upload(f"{root.partition('/')[2]}/{name}", None)
    txns = snapshot.ValidTxnList(high_watermark=TxnId(5), open=(TxnId(4),), aborted=(TxnId(3),))
    write_ids = snapshot.ValidWriteIdList(table=None, high_watermark=WriteId(3), open=(WriteId(2),))
    found = plan_uploads(open_uploads(table), txns, write_ids, now_s=2e9, orphan_age_s=86400.0)
    assert sorted(removal.path for _, removal in found) == sorted([names[0], names[4], names[6]])
    give_up(table, [upload for upload, _ in found])
    assert len(s3.uploads()) == len(names) - 3
    young = open_uploads(table)
    assert plan_uploads(young, txns, write_ids, now_s=young[0].begun_s, orphan_age_s=1.0) == ()
    late = snapshot.ValidTxnList(high_watermark=TxnId(3))
    again = plan_uploads(open_uploads(table), late, write_ids, now_s=2e9, orphan_age_s=1.0)
    assert [r.path for _, r in again] == []


@pytest.mark.promise("K10")
def test_an_unfinished_upload_counts_as_a_file_that_cannot_be_read(table: str) -> None:
    fs, root = open_location(table)
    fs.handler._bucket.begin_upload(f"{root.partition('/')[2]}/{DELTA}/bucket_00000", None)
    whole = PartitionInfo(name=UNPARTITIONED, location=table)
    info = TableInfo(ref=TableRef("d", "t"), location=table, columns=())
    (file,) = stored_files(info, [whole], [])
    assert file.why_not == "it is an upload that its writer has not finished"
    assert file.below.startswith(f"{DELTA}/bucket_00000?uploadId=")
    assert file.partition == whole


def test_aborting_an_upload_twice_is_not_an_error(table: str) -> None:
    fs, root = open_location(table)
    upload_id = fs.handler._bucket.begin_upload(f"{root.partition('/')[2]}/x", None)
    fs.handler.give_up(f"{root}/x", upload_id)
    fs.handler.give_up(f"{root}/x", upload_id)


def test_a_file_selector_returns_the_direct_children_of_a_directory(table: str) -> None:
    fs, root = open_location(table)
    write_bytes(fs, f"{root}/a/b", b"x")
    (info,) = fs.get_file_info(pafs.FileSelector(root))
    assert (info.path, info.type) == (f"{root}/a", pafs.FileType.Directory)
    assert fs.get_file_info(pafs.FileSelector(f"{root}/none")) == []


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (503, "SlowDown", errors.StoreUnavailableError),
        (403, "AccessDenied", errors.LocationPermissionError),
    ],
)
@pytest.mark.parametrize("call", ["CreateMultipartUpload", "UploadPart", "PutObject"])
def test_a_failed_write_raises_the_reason_and_leaves_no_upload(
    s3: MotoS3,
    table: str,
    faults: Faults,
    call: str,
    status: int,
    code: str,
    error: type[errors.StorageError],
) -> None:
    faults.refuse[call] = [(status, code)] * 9
    with pytest.raises(error, match=code):
        stage(Staging(location=table, token="7-a"), "a")
    assert (s3.objects(), s3.uploads()) == ([], [])
