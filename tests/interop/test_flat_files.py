"""One table of every type by each way of writing, read by Hive's readers, by Spark's and by ours.

Rows of an INSERT are written by Spark and copied, or pass through Python to our own writer: here
into one bucket, where Spark does not write. What is in the files must not tell which it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write import whole_stripes
from airflow_hiveacid.storage.acid.write.flat_copy import can_be_flat
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.interop.conftest import AgreedRows
from tests.support.spark_lab import Lab, native_files
from tests.support.writer_cases import (
    DATES,
    FAR_MICROSECONDS,
    LISTS_AND_STRUCTS,
    NESTED,
    NUMBERS,
    TEXT,
    WHOLE_EARLY_TIMESTAMPS,
    WriterCase,
    case_of,
    nanoseconds,
    side_by_side,
)
from tests.unit.storage.compacting import compact

if TYPE_CHECKING:
    from pyspark.sql import Row

FS: Final = LocalFileSystem()
JAVA, CPP = 0, 1
MICROSECONDS: Final = case_of(
    "microseconds before and after 1970",
    (
        "t",
        "timestamp",
        tuple(
            nanoseconds(t) if t else None
            for t in (
                "1969-12-31 23:59:58.5",
                "1969-12-31 23:59:58.999999",
                None,
                "1900-01-01 00:00:00.123456",
                "1969-12-31 23:59:59.000999",
                "1970-01-01 00:00:00.000001",
                "2024-03-10 02:30:00.5",
                "2038-01-19 03:14:08.1234",
                "1582-10-15 00:00:00",
                "1883-11-18 12:03:57.9",
                "9999-12-31 23:59:59.999999",
            )
        ),
    ),
    timestamps=pa.timestamp("us"),
)
NOTHING: Final = case_of(
    "nothing but NULL",
    *[
        (f"nothing{i}", type_, (None,))
        for i, type_ in enumerate(
            ("string", "int", "double", "date", "timestamp", "decimal(20,2)", "array<string>")
        )
    ],
)
# Beside old dates and timestamps Spark's reader would not be asked.
NATIVE: Final = (NUMBERS, TEXT, WHOLE_EARLY_TIMESTAMPS, MICROSECONDS, LISTS_AND_STRUCTS, NOTHING)
FLAT: Final = side_by_side(*NATIVE, DATES)
OURS: Final = side_by_side(*NATIVE, DATES, NESTED, FAR_MICROSECONDS)
NATIVE_COLUMNS: Final = [column.name for column in side_by_side(*NATIVE).columns]


def inserted(lab: Lab, case: WriterCase, folder: Path, buckets: int) -> tuple[Path, str]:
    """Insert the rows of a case from Parquet; the one file that they are in, and the source."""
    # ZSTD, the default on a 4.x metastore, is nothing for Hive 3.1.
    lab.table(
        "t",
        {c.name: c.type for c in case.columns},
        buckets=("id", buckets) if buckets else None,
        parameters={"orc.compress": "ZLIB"},
    )
    location = str(folder / "t.parquet")
    pq.write_table(pa.Table.from_batches([case.batch()]), location, coerce_timestamps="us")
    source = SourceSpec(format="parquet", location=location)
    lab.run(InsertSpec(target=f"{lab.db}.t", source=source))
    (file,) = lab.root("t").glob("delta_*/bucket_*")
    return file, location


def told(rows: Iterable[Row]) -> list[str]:
    """Rows as text, in which NaN equals itself and -0.0 no 0.0; maps in one order."""
    return [
        repr([sorted(v.items(), key=repr) if isinstance(v, dict) else v for v in row])
        for row in rows
    ]


@pytest.mark.parametrize(
    ("case", "writer", "buckets"),
    [(FLAT, JAVA, 0), (OURS, CPP, 1)],
    ids=["by Spark and copied", "through Python"],
)
def test_every_reader_reads_every_type_as_it_was_inserted(
    case: WriterCase, writer: int, buckets: int, lab4: Lab, tmp_path: Path, agreed_rows: AgreedRows
) -> None:
    assert can_be_flat(case.columns) is (writer == JAVA)
    file, location = inserted(lab4, case, tmp_path, buckets)
    assert read_tail(FS, str(file)).footer.writer == writer
    source = lab4.spark.read.parquet(location).orderBy("id")
    target = resolve_target(lab4.spark, lab4.client, lab4.info("t"), lab4.snapshot("t"))
    # A char comes without the blanks that its source may end in.
    columns = [c.name for c in case.columns if c.type != "array<char(3)>"]
    ours, native = target.rows(columns), target.rows(NATIVE_COLUMNS)
    assert (len(native_files(ours)), len(native_files(native))) == (0, 1)
    assert told(ours.orderBy("id").collect()) == told(source.select(columns).collect())
    in_turn = native.orderBy("id").collect()
    assert told(in_turn) == told(source.select(NATIVE_COLUMNS).collect())
    read = AcidFile(
        store=LOCAL_STORE,
        path=str(file),
        key=f"delta/{file.name}",
        length=file.stat().st_size,
        kind=FileKind.DATA,
        bucket_id=BucketId(0),
    )
    events = pa.Table.from_batches(
        list(read_events(read, case.columns, timestamps=TimestampForm.PAIR))
    )
    assert events["rowId"].to_pylist() == list(range(len(case.values[0])))
    snapshot = lab4.snapshot("t")
    rows: list[list[Any]] = agreed_rows(
        lab4.root("t"),
        snapshot.write_ids(lab4.info("t").ref).text(),
        case.schema,
        txns=snapshot.txns.text(),
        buckets=buckets or -1,
    )
    assert [row[0] for row in rows] == [
        {"writeid": 1, "bucketid": 536870912, "rowid": number} for number in range(len(rows))
    ]
    assert sorted((row[1:] for row in rows), key=lambda row: int(row[0])) == case.judged()


@pytest.mark.parametrize(
    ("case", "writer", "buckets"),
    [(FLAT, JAVA, 0), (OURS, CPP, 1)],
    ids=["Java's stripe", "C++'s stripe"],
)
@pytest.mark.long_cases("C++'s stripe")
def test_every_reader_reads_a_file_with_a_copied_and_an_encoded_stripe(
    case: WriterCase,
    writer: int,
    buckets: int,
    lab4: Lab,
    tmp_path: Path,
    agreed_rows: AgreedRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, location = inserted(lab4, case, tmp_path, buckets)
    (stripe,) = read_tail(FS, str(file)).stripes
    lab4.insert("t", [(1_000_000,)], ["id"])
    snapshot = lab4.snapshot("t")
    write_ids = snapshot.write_ids(lab4.info("t").ref)
    monkeypatch.setattr(whole_stripes, "LEAST_BYTES", stripe.length)
    assert compact(lab4.root("t"), case.columns, write_ids, snapshot.txns, major=True) == (
        "base_0000002",
    )
    tail = read_tail(FS, str(lab4.root("t") / "base_0000002" / "bucket_00000"))
    assert tail.footer.writer == writer
    first, _ = tail.stripes
    assert first.data_length == stripe.data_length
    rows: list[list[Any]] = agreed_rows(
        lab4.root("t"),
        write_ids.text(),
        case.schema,
        txns=snapshot.txns.text(),
        buckets=buckets or -1,
    )
    copied = [row[1:] for row in rows if row[0]["writeid"] == 1]
    assert sorted(copied, key=lambda row: int(row[0])) == case.judged()
    assert [row[1] for row in rows if row[0]["writeid"] == 2] == [1_000_000]
    native = resolve_target(lab4.spark, lab4.client, lab4.info("t"), snapshot).rows(NATIVE_COLUMNS)
    assert len(native_files(native)) == 1
    source = lab4.spark.read.parquet(location).select(NATIVE_COLUMNS).orderBy("id")
    expected = told(source.collect())
    assert told(native.where("id < 1000000").orderBy("id").collect()) == expected
    assert native.where("id = 1000000").count() == 1
