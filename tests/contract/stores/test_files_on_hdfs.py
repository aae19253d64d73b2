"""Files of tables are written, published and read on HDFS as on a disk, in each format."""

from __future__ import annotations

import pickle
from typing import Final

import pyarrow as pa
import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column, FileFormat
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.files import PlainFile
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.plain.write import rows_writer
from airflow_hiveacid.storage.stores.filesystem import exists, make_directory
from airflow_hiveacid.storage.stores.listing import list_files, list_table
from airflow_hiveacid.storage.stores.staging import Staging
from tests.contract.stores.conftest import Hdfs
from tests.unit.storage.orc_tables import ids

COLUMNS: Final = [Column(name="id", type="bigint"), Column(name="name", type="string")]
# More than goes to a name node at once.
ROWS: Final = pa.record_batch(
    {"id": pa.array(range(60_000)), "name": pa.array([f"{i * 7919:032}" for i in range(60_000)])}
)
DELTA: Final = "delta_0000001_0000001_0000"


def test_events_are_staged_published_and_read(hdfs: Hdfs) -> None:
    make_directory(hdfs.fs, f"{hdfs.root}/t")
    staging = Staging(location=f"{hdfs.uri}/t", token="job")
    path = hdfs.path(staging.attempt_path(DELTA, "bucket_00000", "try"))
    options = WriterOptions()
    with AcidFileWriter(hdfs.fs, path, COLUMNS, options, is_delete=False) as writer:
        writer.write(insert_events(ROWS, WriteId(1), encode(BucketId(0)), RowId(0)))
        written = writer.close()
    staging.accept(DELTA, "bucket_00000", "try")
    staging.add_version_file(DELTA)
    staging.publish([DELTA])
    staging.discard()
    state = resolve(list_table(f"{hdfs.uri}/t"), ids(1), None)
    (bucket,) = bucket_files(state, ids(1))
    (file,) = pickle.loads(pickle.dumps(bucket.inserts))  # noqa: S301 - as a task gets it
    assert file.length == written.size_bytes
    found = pa.Table.from_batches(read_events(file, COLUMNS))
    assert found.column("row").combine_chunks().flatten() == ROWS.columns
    assert found.column("rowId").to_pylist() == list(range(len(ROWS)))


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT])
def test_rows_of_each_file_format_are_read_back_unchanged(hdfs: Hdfs, format_: FileFormat) -> None:
    path = f"{hdfs.root}/t/base_0000001/000000_0"
    with rows_writer(format_, hdfs.fs, path, COLUMNS, WriterOptions()) as writer:
        writer.write(ROWS.to_struct_array())
        written = writer.close()
    (listed,) = list_files(hdfs.fs, f"{hdfs.root}/t/base_0000001")
    assert listed.size_bytes == written.size_bytes
    file = PlainFile(store=hdfs.store, path=path, key="k", length=listed.size_bytes, format=format_)
    found = pa.Table.from_batches(read_rows(file, COLUMNS))
    assert [c.combine_chunks() for c in found.columns] == ROWS.columns


def test_an_aborted_file_writer_leaves_no_file(hdfs: Hdfs) -> None:
    path = f"{hdfs.root}/t/delta_1_1/bucket_00000"
    writer = AcidFileWriter(hdfs.fs, path, COLUMNS, WriterOptions(), is_delete=False)
    writer.write(insert_events(ROWS, WriteId(1), encode(BucketId(0)), RowId(0)))
    writer.abort()
    assert not exists(hdfs.fs, path)
