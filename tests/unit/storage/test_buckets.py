"""Every row lies in the bucket that its hash says: in files that Hive wrote, and in ours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

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
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WriterOptions
from airflow_hiveacid.storage.hashing import MURMUR, OLD, bucket_ids
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.values.column_types import row_type
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden import GoldenCase, cases
from tests.support.writer_cases import nanoseconds
from tests.unit.storage.orc_tables import acid_file

FS = LocalFileSystem()


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
    columns = [Column(name=name, type=text) for name, text in case.columns]
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


def _moment(text: str) -> dict[str, int]:
    seconds, nanos = divmod(nanoseconds(text), 10**9)
    return {"seconds": seconds, "nanos": nanos}


NUMBERS = [0, 1, -1, 7, 100, -100]
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [*NUMBERS, 127, -128],
    "smallint": [*NUMBERS, 32767, -32768],
    "int": [*NUMBERS, 2**31 - 1, -(2**31)],
    "bigint": [*NUMBERS, 2**63 - 1, -(2**63), 300000000000],
    "float": [0.0, -0.0, 1.5, -2.25, float("inf"), float("nan")],
    "double": [0.0, -0.0, 1.5, 1e300, float("-inf"), float("nan")],
    "string": ["", "a", "ä", "blank ", "强大", "x" * 300],
    "varchar(9)": ["", "a", "ä", "blank "],
    "char(9)": ["", "a", "ä", "blank"],
    "binary": [b"", b"\x00", b"\xff\xfe", b"abc"],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "decimal(10,2)": [Decimal("0.00"), Decimal("-1.28"), Decimal("1.27"), Decimal("99999999.99")],
    "decimal(38,10)": [Decimal("1.2"), Decimal(f"-{'9' * 28}.{'9' * 10}"), Decimal("1e-10")],
    "timestamp": [
        _moment(text)
        for text in (
            "1970-01-01 00:00:00",
            "1969-12-31 23:59:58.25",
            "2024-02-29 12:00:00.123456789",
            "2038-01-19 03:14:08.5",
            "9999-12-31 23:59:59.999999999",
            "0001-01-01 00:00:00",
        )
    ],
    "array<int>": [[], [1], [1, None, 3], [5, 8, 13]],
    "map<string,bigint>": [[], [("k", 1)], [("k", None), ("l", 5)]],
    "struct<a:int,b:string>": [{"a": 1, "b": "x"}, {"a": None, "b": ""}],
}
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
    columns = [Column(name="k", type=text), Column(name="n", type="int")]
    given = [None, *VALUES[text]]
    key_type = row_type(columns).field(0).type
    if text == "timestamp":
        key_type = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    keys, numbers = pa.array(given, key_type), pa.array(range(len(given)), pa.int32())
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
        with AcidFileWriter(FS, path, columns, WriterOptions(), is_delete=False) as writer:
            identity = encode(BucketId(bucket))
            writer.write(insert_events(rows, WriteId(1), identity, RowId(0)))
            written = writer.close()
        file = acid_file(path, bucket_id=BucketId(bucket))
        assert buckets_in(file, columns, by, buckets, version) == {bucket}
        read += written.rows
    assert read == len(given)
