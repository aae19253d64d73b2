"""A file is skipped only if its footer proves that no value matches."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.reading import KeyRange, ReadRequest
from airflow_hiveacid.reading.orc_fit import is_column, judged
from airflow_hiveacid.storage.acid import ROW_COLUMN_ID
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import parse_tail, read_tail, serialize_tail
from tests.unit.storage import orc_tables

COLUMN = Column(name="s", type="string")
DAY = Column(name="d", type="date")
TEXTS = pa.record_batch({"s": ["m"]})
DAYS = pa.record_batch({"d": [dt.date(2020, 1, 1)]})


def with_statistics(
    folder: Path, column: Column, rows: pa.RecordBatch, change: Callable[[Any], object]
) -> AcidFile:
    """A file whose footer says of its one column what somebody else makes of that."""
    path = folder / "bucket_00000"
    fs = LocalFileSystem()
    with AcidFileWriter(fs, str(path), [column], WriterOptions(), is_delete=False) as writer:
        writer.write(insert_events(rows, WriteId(1), encode(BucketId(0)), RowId(0)))
        writer.close()
    data = path.read_bytes()
    tail = parse_tail(str(path), data, len(data))
    footer = pb.Footer.FromString(tail.footer.SerializeToString())
    change(footer.statistics[ROW_COLUMN_ID + 1])
    (stripe,) = tail.stripes
    rows_end = stripe.offset + stripe.length
    path.write_bytes(data[:rows_end] + serialize_tail(dataclasses.replace(tail, footer=footer)))
    return orc_tables.acid_file(path, key="delta_0000001_0000001_0000/bucket_00000")


def _as_java_writes_it(statistics: Any) -> None:  # noqa: ANN401 - generated
    statistics.strings.minimum = statistics.strings.maximum = "a\ufffd".encode()


@pytest.mark.parametrize(
    ("change", "low", "is_outside"),
    [
        (lambda _: None, "n", True),
        (lambda _: None, "m", False),
        # All values are NULL; a writer that does not count them says nothing.
        (lambda s: s.CopyFrom(pb.ColumnStatistics(values=0)), "a", True),
        (lambda s: s.CopyFrom(pb.ColumnStatistics()), "a", False),
        # The value is x'61ff', greater than the key; Java writes bytes that are no UTF-8 as U+FFFD.
        (_as_java_writes_it, "a\U0001f600", False),
        (_as_java_writes_it, "b", False),
    ],
)
def test_a_file_is_skipped_only_if_its_footer_proves_that_no_value_matches(
    tmp_path: Path, change: Callable[[Any], object], low: str, *, is_outside: bool
) -> None:
    asked = ReadRequest(
        table_columns=(COLUMN,),
        columns=(COLUMN,),
        ranges={"s": KeyRange(low=low, high="z")},
        in_utc=True,
    )
    (verdict,) = judged(asked, [(with_statistics(tmp_path, COLUMN, TEXTS, change), {})])
    assert verdict.why_not is None
    assert verdict.is_outside is is_outside


def test_dates_without_statistics_are_left_to_our_reader(tmp_path: Path) -> None:
    asked = ReadRequest(table_columns=(DAY,), columns=(DAY,), ranges={}, in_utc=True)
    for change, is_native in {
        (lambda _: None): True,
        (lambda s: s.CopyFrom(pb.ColumnStatistics(values=0))): True,
        (lambda s: s.CopyFrom(pb.ColumnStatistics())): False,
    }.items():
        file = with_statistics(tmp_path, DAY, DAYS, change)
        assert (judged(asked, [(file, {})])[0].why_not is None) is is_native


def test_decimals_without_precision_are_left_to_our_reader(tmp_path: Path) -> None:
    path = tmp_path / "f"
    values = pa.array([Decimal("1.1234567890")], pa.decimal128(38, 10))
    orc.write_table(pa.table({"d": values}), path)
    column_type = parse_type("decimal(38,10)")
    assert is_column(read_tail(LocalFileSystem(), str(path)), 1, column_type, in_utc=True)

    def change(footer: pb.Footer, _postscript: pb.PostScript) -> None:
        footer.types[1].ClearField("precision")
        footer.types[1].ClearField("scale")

    orc_tables.with_tail(path, change)
    assert not is_column(read_tail(LocalFileSystem(), str(path)), 1, column_type, in_utc=True)
