"""Several files become one with the very same rows, of whatever Hive wrote."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.errors import TypeMismatchError, UnsupportedFileError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.names import STAGING_PREFIX
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import Column, FileFormat, TableRef, TransactionalKind
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.plain.compact import PlainCompaction, compact_plain, put_together
from airflow_hiveacid.storage.plain.files import PlainFile, plain_files
from airflow_hiveacid.storage.plain.rows import read_rows
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.golden_plain import PlainCase, plain_cases
from tests.unit.storage.orc_tables import plain_file
from tests.unit.storage.writing import columns_of, lines_of, write_rows

CASES: Final = [
    case
    for case in plain_cases()
    if not case.partitions
    and not case.name.startswith(("stray", "renamed_orc", "nothing", "header"))
]
OLD: Final = [c for c in CASES if re.match("ancient_(parquet|avro)", c.name)]


def compaction(
    folder: Path,
    files: tuple[PlainFile, ...],
    columns: tuple[Column, ...],
    format_: FileFormat,
) -> PlainCompaction:
    return PlainCompaction(
        table=TableRef("default", "t"),
        files=files,
        columns=columns,
        format=format_,
        number=BucketId(3),
        directory="base_0000009",
        staging=Staging(location=str(folder), token="t"),
        options=WriterOptions(),
    )


def compacted(case: PlainCase, folder: Path) -> tuple[list[str], list[str], str]:
    """The rows before and after, and where the latter are."""
    columns, format_ = columns_of(dict(case.columns)), FileFormat[case.format.upper()]
    state = resolve(
        list_table(str(case.folder / "table")),
        ValidWriteIdList.parse(case.write_ids),
        ValidTxnList.parse(case.txns),
        TransactionalKind.INSERT_ONLY,
    )
    files = plain_files(state, format_, with_originals=False)
    work = compaction(folder, files, columns, format_)
    written = compact_plain(work, "attempt")
    path = work.staging.attempt_path("base_0000009", "000003_0", "attempt")
    made = plain_file(path, format_)

    def rows(files: tuple[PlainFile, ...]) -> list[str]:
        return [
            line
            for file in files
            for line in lines_of(read_rows(file, columns, timestamps=TimestampForm.PAIR), columns)
        ]

    after = rows((made,))
    assert written.rows == len(after)
    return rows(work.files), after, path


@pytest.mark.promise("C14")
@pytest.mark.parametrize(
    "case", [c for c in CASES if c not in OLD], ids=lambda c: f"{c.version} {c.name}"
)
def test_a_compaction_keeps_every_row(case: PlainCase, tmp_path: Path) -> None:
    before, after, _ = compacted(case, tmp_path)
    assert before == after
    assert before


@pytest.mark.parametrize("case", OLD, ids=lambda c: f"{c.version} {c.name}")
def test_files_with_values_that_cannot_be_written_again_are_not_compacted(
    case: PlainCase, tmp_path: Path
) -> None:
    # Parquet's nanoseconds reach no further than 1677, its microseconds are of two calendars.
    with pytest.raises((TypeMismatchError, UnsupportedFileError)) as caught:
        compacted(case, tmp_path)
    assert STAGING_PREFIX not in str(caught.value)
    assert not list(tmp_path.rglob("000003_0"))


def test_a_compaction_keeps_nanoseconds_in_parquet(tmp_path: Path) -> None:
    case = next(c for c in CASES if c.name == "types_parquet")
    *_, path = compacted(case, tmp_path)
    stored = pq.read_table(path).column("ts").cast(pa.int64()).to_pylist()
    assert {n % 1000 for n in stored} == {789, 0, 999}


def test_a_compaction_keeps_timestamps_of_the_year_9999_in_parquet(tmp_path: Path) -> None:
    far = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - a wall clock's
    columns, source = columns_of({"t": "timestamp"}), tmp_path / "000000_0"
    rows = pa.array([{"t": far}], pa.struct([("t", pa.timestamp("us"))]))
    write_rows(source, FileFormat.PARQUET, columns, rows)
    file = plain_file(source, FileFormat.PARQUET)
    work = compaction(tmp_path, (file,), columns, FileFormat.PARQUET)
    compact_plain(work, "attempt")
    made = work.staging.attempt_path("base_0000009", "000003_0", "attempt")
    stored = pq.ParquetFile(made, coerce_int96_timestamp_unit="us").read()
    assert stored.column("t").to_pylist() == [far]


def test_adjacent_files_are_grouped_up_to_a_target_size() -> None:
    sizes = [100 << 20, 100 << 20, 100 << 20, 1, 300 << 20, 1]
    files = [
        PlainFile(store=LOCAL_STORE, path=str(at), key=str(at), length=size, format=FileFormat.ORC)
        for at, size in enumerate(sizes)
    ]
    groups = [[file.key for file in group] for group in put_together(files)]
    assert [key for group in groups for key in group] == ["0", "1", "2", "3", "4", "5"]
    assert groups == [["0", "1", "2"], ["3", "4"], ["5"]]


def test_instants_of_64_bits_are_not_made_into_times_of_one_zone(tmp_path: Path) -> None:
    path = tmp_path / "t/000000_0"
    path.parent.mkdir()
    times = pa.array([dt.datetime(2024, 1, 5, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": times}), path)
    file = plain_file(path, FileFormat.PARQUET)
    work = compaction(tmp_path, (file,), columns_of({"at": "timestamp"}), FileFormat.PARQUET)
    with pytest.raises(UnsupportedFileError, match=r"isAdjustedToUTC.*INSERT OVERWRITE"):
        compact_plain(work, "a")
