"""Every row lies in the bucket that its hash says: in files that Hive wrote, and in ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.names import bucket_file
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.hashing import MURMUR, OLD, bucket_ids
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden import GoldenCase, cases
from tests.support.cases import tables_of
from tests.support.writer_cases import array_of
from tests.unit.storage.orc_tables import acid_file
from tests.unit.storage.writing import columns_of, write_events


def buckets_in(
    file: AcidFile, columns: Sequence[Column], by: Sequence[str], buckets: int, version: int
) -> set[int]:
    """The buckets that the rows of one file belong to."""
    types = [parse_type(c.type) for name in by for c in columns if c.name == name]
    found: set[int] = set()
    for batch in read_events(file, columns, timestamps=TimestampForm.PAIR):
        row = batch.column("row")
        arrays = [row.field(row.type.get_field_index(name)) for name in by]
        found.update(bucket_ids(arrays, types, buckets, version).to_pylist())
    return found


# ---- Hive's --------------------------------------------------------------------------------------

BUCKETED = [case for case in cases() if case.buckets > 0]


@pytest.mark.promise("D9")
@pytest.mark.parametrize("case", BUCKETED, ids=lambda case: case.id)
def test_rows_that_hive_wrote_are_in_the_buckets_that_we_compute(
    case: GoldenCase, tmp_path: Path
) -> None:
    columns = columns_of(dict(case.columns))
    write_ids, txns = ValidWriteIdList.parse(case.write_ids), ValidTxnList.parse(case.txns)
    # 3.1.3 says version 1 of such a table and hashes by 2 when it inserts; 4.0.1 keeps its word.
    version = MURMUR if case.version == "3.1.3" else int(case.parameters["bucketing_version"])
    table = case.checkout(tmp_path)
    seen = 0
    for location in [p.location for p in case.partitions] or [""]:
        state = resolve(list_table(str(table / location)), write_ids, txns)
        for bucket in bucket_files(state, write_ids):
            for file in bucket.inserts:
                rows = buckets_in(file, columns, case.bucket_columns, case.buckets, version)
                assert rows <= {bucket.bucket_id}, file.key
                seen += len(rows)
    assert seen


# ---- ours ----------------------------------------------------------------------------------------


VALUES = dict(tables_of(__file__)["values"])
UNKNOWN = {("timestamp", OLD), ("binary", MURMUR)}
TYPES = [
    (text, version)
    for text in VALUES
    for version in (OLD, MURMUR)
    if (text, version) not in UNKNOWN
]


@pytest.mark.promise("D9")
@pytest.mark.parametrize("buckets", [1, 4, 32])
@pytest.mark.parametrize(("text", "version"), TYPES)
@pytest.mark.long_cases("*-1-32")
def test_rows_that_we_wrote_hash_to_the_bucket_of_their_file(
    tmp_path: Path, text: str, version: int, buckets: int
) -> None:
    columns = columns_of({"k": text, "n": "int"})
    keys = array_of(text, [None, *VALUES[text]])
    numbers = pa.array(range(len(keys)), pa.int32())
    hive_types = [parse_type(text), parse_type("int")]
    by = ["k", "n"] if buckets == 4 else ["k"]
    arrays = [keys, numbers][: len(by)]
    ids = bucket_ids(arrays, hive_types[: len(by)], buckets, version)
    assert set(ids.to_pylist()) <= set(range(buckets))
    read = 0
    for bucket in sorted(set(ids.to_pylist())):
        mine = pa.array([i for i, found in enumerate(ids.to_pylist()) if found == bucket])
        rows = pa.record_batch([keys.take(mine), numbers.take(mine)], names=["k", "n"])
        path = str(tmp_path / "delta_1_1_0" / bucket_file(BucketId(bucket)))
        identity = encode(BucketId(bucket))
        written = write_events(path, columns, insert_events(rows, WriteId(1), identity, RowId(0)))
        file = acid_file(path, bucket_id=BucketId(bucket))
        assert buckets_in(file, columns, by, buckets, version) == {bucket}
        read += written.rows
    assert read == len(keys)
