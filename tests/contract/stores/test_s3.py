"""S3 as a file system: files that appear whole, and directories that are what keys share."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.format.errors import ConfigurationError, LocationPermissionError, StorageError
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain import files, loadable, rows, write
from airflow_hiveacid.storage.stores import filesystem
from airflow_hiveacid.storage.stores.listing import (
    every_file,
    files_below,
    give_up,
    list_directories,
    list_files,
    list_table,
    open_uploads,
    tree_size,
)
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.s3 import bucket as s3_bucket
from airflow_hiveacid.storage.stores.staging import Staging
from tests.contract.stores.s3_faults import Faults
from tests.contract.stores.s3_staged import COLUMNS, DELTA, MIB, ROWS
from tests.support.s3_lab import MotoS3


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT])
def test_rows_of_each_file_format_are_read_back_unchanged(s3: MotoS3, format_: FileFormat) -> None:
    fs, path = open_location(f"s3a://{s3.bucket}/t/base_0000001/000000_0")
    with write.rows_writer(format_, fs, path, COLUMNS, WriterOptions()) as writer:
        writer.write(ROWS.to_struct_array())
        written = writer.close()
    (listed,) = list_files(fs, f"{s3.bucket}/t/base_0000001")
    assert listed.size_bytes == written.size_bytes
    file = files.PlainFile(
        store=f"s3://{s3.bucket}", path=path, key="k", length=listed.size_bytes, format=format_
    )
    found = pa.Table.from_batches(rows.read_rows(file, COLUMNS))
    assert [c.combine_chunks() for c in found.columns] == ROWS.columns


@pytest.mark.parametrize("size", [0, 1, 8 * MIB, 17 * MIB + 5])
def test_files_of_any_size_are_read_back_unchanged(table: str, size: int) -> None:
    content = bytes(i * 31 % 251 for i in range(4096)) * (size // 4096 + 1)
    fs, path = open_location(f"{table}/f")
    filesystem.write_bytes(fs, path, content[:size])
    assert filesystem.read_bytes(fs, path) == content[:size]
    staging = Staging(location=table, token="7-a")
    place = staging.attempt_path(DELTA, "bucket_00000", "a")
    with fs.open_output_stream(open_location(place)[1]) as out:
        out.write(content[:size])
    assert not filesystem.exists(fs, open_location(f"{table}/{DELTA}")[1])
    fs.handler.publish(open_location(place)[1], size)
    assert filesystem.read_bytes(*open_location(f"{table}/{DELTA}/bucket_00000")) == content[:size]


def test_a_failed_or_abandoned_stream_completes_no_upload(
    s3: MotoS3, table: str, faults: Faults
) -> None:
    fs, path = open_location(f"{table}/f")
    stream = fs.open_output_stream(path)
    stream.write(b"x" * 9 * MIB)
    del stream
    gc.collect()
    assert s3.objects() == []
    give_up(table, open_uploads(table))
    failing = fs.open_output_stream(path)
    faults.refuse["UploadPart"] = [(403, "AccessDenied")]
    with pytest.raises(OSError, match="AccessDenied"):
        failing.write(b"x" * 9 * MIB)
    with pytest.raises(OSError, match="an earlier write to it failed"):
        failing.write(b"x")
    with pytest.raises(OSError, match="an earlier write to it failed"):
        failing.close()
    assert (s3.objects(), s3.uploads()) == ([], [])


def test_an_aborted_file_writer_leaves_no_file_and_no_upload(s3: MotoS3, table: str) -> None:
    staging = Staging(location=table, token="7-a")
    fs, path = open_location(staging.attempt_path(DELTA, "bucket_00000", "a"))
    writer = AcidFileWriter(fs, path, COLUMNS, WriterOptions(), is_delete=False)
    writer.write(insert_events(ROWS, WriteId(1), encode(BucketId(0)), RowId(0)))
    writer.abort()
    assert (s3.objects(), s3.uploads()) == ([], [])


def test_a_reader_detects_that_its_open_file_was_replaced(table: str) -> None:
    fs, path = open_location(f"{table}/f")
    filesystem.write_bytes(fs, path, b"a" * 3 * MIB)
    with fs.open_input_file(path) as file:
        assert file.read(5) == b"aaaaa"
        filesystem.write_bytes(fs, path, b"b" * 3 * MIB)
        file.seek(2 * MIB)
        with pytest.raises(OSError, match="PreconditionFailed"):
            file.read(5)


def test_load_data_detects_a_file_that_changed_during_the_copy(
    s3: MotoS3, table: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows")
    content = (tmp_path / "rows").read_bytes()
    source = loadable.LoadableFile(uri=f"file:{tmp_path}/rows", length=len(content), rows=2)
    staging = Staging(location=table, token="7-a")
    place = staging.attempt_path(DELTA, "000000_0", "a")
    loadable.copy_file(source, place, FileFormat.PARQUET)
    fs, path = open_location(place)
    fs.handler.publish(path, len(content))
    assert filesystem.read_bytes(*open_location(f"{table}/{DELTA}/000000_0")) == content
    with pytest.raises(Exception, match="changed while it was copied"):
        loadable.copy_file(
            replace(source, rows=3),
            staging.attempt_path(DELTA, "000001_0", "a"),
            FileFormat.PARQUET,
        )
    assert s3.uploads() == []


def test_one_request_lists_all_files_and_directories_of_a_table(table: str, faults: Faults) -> None:
    fs, root = open_location(table)
    names = [
        "base_0000002/bucket_00000",
        "delta_0000003_0000003_0000/bucket_00000",
        "p=1/delta_0000001_0000001_0000/bucket_00000",
        "_hiveacid/_x.json",
        "_tmp_hiveacid_7-a/_attempts/a/base_0000009/bucket_00000",
        ".hidden",
    ]
    for name in names:
        fs.handler._bucket.put(f"{root.partition('/')[2]}/{name}", b"x")
    fs.handler._bucket.put(f"{root.partition('/')[2]}/p=2/", b"")  # S3A's mark of a directory
    fs.handler._bucket.put(f"{root.partition('/')[2]}/p=3_$folder$", b"")
    faults.seen.clear()
    listed = list_table(table)
    assert faults.seen == ["ListObjectsV2"]
    assert [f.path for f in listed.files] == [".hidden", *sorted(names[:3])]
    assert listed.directories == (
        "_hiveacid",
        "_tmp_hiveacid_7-a",
        "base_0000002",
        "delta_0000003_0000003_0000",
        "p=1",
        "p=1/delta_0000001_0000001_0000",
        "p=2",
    )
    assert list_directories(fs, root) == tuple(d for d in listed.directories if d.count("/") == 0)
    assert [f.path for f in files_below(table, "base_0000002")] == ["base_0000002/bucket_00000"]
    assert tree_size(fs, f"{root}/p=1")[0] == 1
    hidden = [f for f in every_file(table) if f not in listed.files]
    assert {f.path.partition("/")[0] for f in hidden} == {"_hiveacid", "_tmp_hiveacid_7-a"}
    assert {*listed.files} < {*every_file(table)}
    assert every_file(f"{table}/none") == ()


def test_all_listings_return_the_same_modification_time_for_a_file(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, root = open_location(table)
    filesystem.write_bytes(fs, f"{root}/000000_0", b"x")
    api = fs.handler._bucket._api
    ask = api.list_objects_v2

    def tell_milliseconds(**asked: object) -> object:  # as MinIO and Ceph
        page = ask(**asked)
        for item in page.get("Contents", ()):
            item["LastModified"] = item["LastModified"].replace(microsecond=345_000)
        return page

    monkeypatch.setattr(api, "list_objects_v2", tell_milliseconds)
    assert files_below(table, "000000_0") == list_table(table).files == list_files(fs, root)


def test_a_table_without_files_is_empty_and_a_file_as_location_is_an_error(table: str) -> None:
    assert (list_table(table).files, list_table(table).directories) == ((), ())
    filesystem.write_bytes(*open_location(f"{table}/f"), b"x")
    with pytest.raises(ConfigurationError, match="is a file"):
        list_table(f"{table}/f")


def test_listings_and_deletions_of_several_pages_include_every_object(
    table: str, s3: MotoS3, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_bucket, "_PAGE", 3)
    fs, root = open_location(table)
    for number in range(10):
        fs.handler._bucket.put(f"w/t/d/{number:05}", b"")
    filesystem.write_bytes(fs, f"{root}/d2/keep", b"")
    assert len(list_files(fs, f"{root}/d")) == 10
    faults.seen.clear()
    filesystem.delete_directory(fs, f"{root}/d")
    assert (faults.seen.count("ListObjectsV2"), faults.seen.count("DeleteObjects")) == (4, 4)
    assert s3.objects() == ["w/t/d2/keep"]
    filesystem.delete_directory(fs, f"{root}/d")  # once more is no error


def test_a_refused_deletion_of_one_among_many_objects_raises_an_error(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, root = open_location(table)
    filesystem.write_bytes(fs, f"{root}/d/f", b"")
    api = fs.handler._bucket._api
    monkeypatch.setattr(
        api, "delete_objects", lambda **_: {"Errors": [{"Key": "f", "Code": "AccessDenied"}]}
    )
    with pytest.raises(LocationPermissionError, match="DeleteObject"):
        filesystem.delete_directory(fs, f"{root}/d")


def test_a_whole_bucket_is_never_deleted(s3: MotoS3) -> None:
    fs, root = open_location(f"s3a://{s3.bucket}/")
    filesystem.write_bytes(fs, f"{root}/f", b"")
    with pytest.raises(NotImplementedError):
        fs.delete_dir(root)
    assert s3.objects() == ["f"]


def test_a_small_file_is_written_under_its_final_name_and_never_renamed(
    s3: MotoS3, table: str
) -> None:
    fs, path = open_location(f"{table}/_hiveacid/_e.json")
    filesystem.write_new(fs, path, b"1")
    filesystem.write_new(fs, path, b"2")
    assert (s3.objects(), filesystem.read_bytes(fs, path)) == (["w/t/_hiveacid/_e.json"], b"2")
    filesystem.delete_file(fs, path)
    filesystem.delete_file(fs, path)
    with pytest.raises(FileNotFoundError):
        filesystem.read_bytes(fs, path)
    with pytest.raises(StorageError, match="S3 cannot rename it"):
        filesystem.move(fs, path, f"{path}2")


def test_missing_write_permission_is_reported_before_the_job_starts(
    table: str, s3: MotoS3, faults: Faults
) -> None:
    filesystem.check_writable(table)
    assert s3.objects() == []
    faults.refuse["PutObject"] = [(403, "AccessDenied")]
    with pytest.raises(LocationPermissionError, match="PutObject"):
        filesystem.check_writable(table)
