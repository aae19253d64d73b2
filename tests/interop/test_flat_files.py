"""Files that Spark wrote and we put together, read by Hive's readers and by ours, type by type."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.jobs.specs import InsertSpec, SourceSpec
from airflow_hiveacid.storage.acid.write.flat_copy import can_be_flat
from airflow_hiveacid.storage.orc.tail import read_tail
from writer_cases import (
    DATES,
    NUMBERS,
    TEXT,
    WHOLE_EARLY_TIMESTAMPS,
    WriterCase,
    case_of,
    nanoseconds,
)

if TYPE_CHECKING:
    from pathlib import Path

    from spark_lab import Lab
    from tests.interop.conftest import AgreedRows

FS: Final = LocalFileSystem()
JAVA: Final = 0
D: Final = decimal.Decimal
# ZSTD, the default on a 4.x metastore, is nothing for Hive 3.1.
READABLE_BY_3: Final = {"orc.compress": "ZLIB"}
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
LISTS_AND_STRUCTS: Final = case_of(
    "lists and structs",
    ("a", "array<string>", ([], ["x", None, ""], None, ["y"], [None], ["z"])),
    (
        "s",
        "struct<x:int,y:string,z:array<bigint>>",
        (
            {"x": 1, "y": "a", "z": [1]},
            {"x": None, "y": None, "z": None},
            None,
            {"x": 2, "y": "", "z": []},
            None,
            {"x": 3, "y": "c", "z": [None, 3]},
        ),
    ),
    (
        "l",
        "array<struct<x:decimal(10,2),y:array<double>>>",
        (
            [{"x": D("1.50"), "y": [-0.0]}],
            [None, {"x": D("-0.01"), "y": None}],
            None,
            [],
            [None],
            [{"x": None, "y": []}, None, {"x": D(7), "y": [None, 1.5]}],
        ),
    ),
    ("r", "array<array<int>>", ([[1], [], None, [2, None]], None, [], [None], [[]], [[3]])),
)
CASES: Final = (
    NUMBERS,
    TEXT,
    DATES,
    WHOLE_EARLY_TIMESTAMPS,
    MICROSECONDS,
    LISTS_AND_STRUCTS,
)


def insert(lab: Lab, case: WriterCase, folder: Path) -> Path:
    """Insert the rows of a case from Parquet; the one file that they are in."""
    names = {c.name: c.type for c in case.columns}
    lab.table("t", names, parameters=READABLE_BY_3)
    table = pa.Table.from_batches([case.batch()])
    pq.write_table(table, folder / "t.parquet", coerce_timestamps="us")
    source = SourceSpec(format="parquet", location=str(folder / "t.parquet"))
    lab.run(InsertSpec(target=f"{lab.db}.t", source=source))
    (file,) = lab.root("t").glob("delta_*/bucket_*")
    return file


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hive_reads_every_type_as_spark_and_we_wrote_it(
    case: WriterCase, lab4: Lab, tmp_path: Path, agreed_rows: AgreedRows
) -> None:
    assert can_be_flat(case.columns)
    file = insert(lab4, case, tmp_path)
    tail = read_tail(FS, str(file))
    assert tail.footer.writer == JAVA, "Spark did not write it"
    snapshot = lab4.snapshot("t")
    write_ids = snapshot.write_ids(lab4.info("t").ref)
    rows: list[list[Any]] = agreed_rows(
        lab4.root("t"), write_ids.text(), case.schema, txns=snapshot.txns.text()
    )
    assert [row[1:] for row in rows] == case.judged()
    assert [row[0] for row in rows] == [
        {"writeid": 1, "bucketid": 536870912, "rowid": number} for number in range(len(rows))
    ]
