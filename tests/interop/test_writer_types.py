"""What we write, read by Hive's readers: both versions, by row and vectorised, in two zones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.names import DeltaName, bucket_file
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.write.writer import (
    AcidFileWriter,
    WriterOptions,
    WrittenFile,
    delete_events,
    insert_events,
)
from airflow_hiveacid.storage.orc.footer import KEY_INDEX
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.interop.conftest import AgreedRows
from tests.judges.bare import BareReader
from tests.support.writer_cases import CASES, NESTED, WriterCase, nanoseconds

FS: Final = LocalFileSystem()
BUCKET: Final = encode(BucketId(0))
SEEN: Final = "db.t:2:9223372036854775807::"
# A split a stripe: there a reader needs the key index and the statistics of every stripe.
SPLIT_BY_STRIPE: Final = {
    "hive.exec.orc.split.strategy": "ETL",
    "mapreduce.input.fileinputformat.split.maxsize": "1",
}
# As small as pieces allow, so that a few thousand rows make many stripes.
SMALL_STRIPES: Final = WriterOptions(compression="none", stripe_size_bytes=1)


def write(
    table: Path,
    columns: Sequence[Column],
    batches: Iterable[pa.RecordBatch],
    *,
    write_id: int = 1,
    is_delete: bool = False,
    options: WriterOptions | None = None,
) -> WrittenFile:
    """One bucket file in the delta of this write ID."""
    name = DeltaName(low=WriteId(write_id), high=WriteId(write_id), is_delete=is_delete)
    path = f"{table}/{name}/{bucket_file(BucketId(0))}"
    with AcidFileWriter(
        FS, path, columns, options or WriterOptions(), is_delete=is_delete
    ) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.close()


def inserts(rows: pa.RecordBatch, first_row_id: int = 0) -> pa.RecordBatch:
    return insert_events(rows, WriteId(1), BUCKET, RowId(first_row_id))


def deletes(row_ids: Sequence[int], columns: Sequence[Column]) -> pa.RecordBatch:
    identity = pa.record_batch(
        {
            "originalTransaction": pa.array([1] * len(row_ids), pa.int64()),
            "bucket": pa.array([BUCKET] * len(row_ids), pa.int32()),
            "rowId": pa.array(row_ids, pa.int64()),
        }
    )
    return delete_events(identity, WriteId(2), columns)


def values(rows: list[list[Any]]) -> list[list[Any]]:
    return [row[1:] for row in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hive_reads_every_type_as_it_was_written(
    case: WriterCase, tmp_path: Path, agreed_rows: AgreedRows
) -> None:
    write(tmp_path, case.columns, [inserts(case.batch())])
    assert values(agreed_rows(tmp_path, SEEN, case.schema)) == case.judged()


@pytest.mark.parametrize("compression", ["none", "snappy", "zlib"])
def test_hive_3_and_4_read_the_older_compressions(
    compression: str, tmp_path: Path, agreed_rows: AgreedRows
) -> None:
    write(
        tmp_path,
        NESTED.columns,
        [inserts(NESTED.batch())],
        options=WriterOptions(compression=compression),
    )
    assert values(agreed_rows(tmp_path, SEEN, NESTED.schema)) == NESTED.judged()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_hive_4_reads_the_newer_compressions(
    compression: str, tmp_path: Path, bare_reader_4: BareReader
) -> None:
    write(
        tmp_path,
        NESTED.columns,
        [inserts(NESTED.batch())],
        options=WriterOptions(compression=compression),
    )
    assert values(bare_reader_4.read(tmp_path, SEEN, NESTED.schema)) == NESTED.judged()


def test_delete_events_hide_rows_of_nested_types(tmp_path: Path, agreed_rows: AgreedRows) -> None:
    write(tmp_path, NESTED.columns, [inserts(NESTED.batch())])
    write(tmp_path, NESTED.columns, [deletes([1, 4], NESTED.columns)], write_id=2, is_delete=True)
    expected = [row for at, row in enumerate(NESTED.judged()) if at not in (1, 4)]
    assert values(agreed_rows(tmp_path, SEEN, NESTED.schema)) == expected


def test_a_file_without_rows_is_read_as_empty(tmp_path: Path, agreed_rows: AgreedRows) -> None:
    write(tmp_path, NESTED.columns, [])
    write(tmp_path, NESTED.columns, [], write_id=2, is_delete=True)
    assert agreed_rows(tmp_path, SEEN, NESTED.schema) == []


def test_deleted_rows_stay_deleted_in_a_split_of_any_stripe(
    tmp_path: Path, bare_reader_4: BareReader, bare_reader_3: BareReader
) -> None:
    columns = (Column(name="id", type="bigint"), Column(name="t", type="string"))
    count, batch_rows = 30_000, 7_000
    written = write(
        tmp_path,
        columns,
        [
            inserts(
                pa.record_batch(
                    {
                        "id": pa.array(range(first, min(first + batch_rows, count)), pa.int64()),
                        "t": [f"row {i}" for i in range(first, min(first + batch_rows, count))],
                    }
                ),
                first,
            )
            for first in range(0, count, batch_rows)
        ],
        options=SMALL_STRIPES,
    )
    assert written.stripes > 5
    # The first and the last row of every stripe, and some between.
    last_ids = [
        int(entry.split(",")[2])
        for entry in read_tail(FS, written.path).user_metadata[KEY_INDEX].split(";")[:-1]
    ]
    gone = sorted({*last_ids, *(last + 1 for last in last_ids[:-1]), 0, *range(5, count, 3)})
    parts = [gone[start : start + 5_000] for start in range(0, len(gone), 5_000)]
    write(
        tmp_path,
        columns,
        [deletes(part, columns) for part in parts],
        write_id=2,
        is_delete=True,
        options=SMALL_STRIPES,
    )
    dead = set(gone)
    expected = [[i, f"row {i}"] for i in range(count) if i not in dead]
    for reader in (bare_reader_4, bare_reader_3):
        for vectorized in (False, True):
            found = reader.read(
                tmp_path,
                SEEN,
                "struct<id:bigint,t:string>",
                vectorized=vectorized,
                settings=SPLIT_BY_STRIPE,
            )
            assert values(found) == expected, (reader.version, vectorized)


def test_stripes_of_both_encoders_are_read_as_one_file(
    tmp_path: Path, agreed_rows: AgreedRows
) -> None:
    columns = (Column(name="id", type="bigint"), Column(name="t", type="timestamp"))
    late = "2020-05-05 05:05:05.123456789"
    early = "1920-05-05 05:05:05.123456789"
    texts = [early if 10 <= i < 20 or i == 5_900 else late for i in range(12_000)]
    rows = pa.record_batch(
        {
            "id": pa.array(range(len(texts)), pa.int64()),
            "t": pa.array([nanoseconds(t) for t in texts], pa.timestamp("ns")),
        }
    )
    events = inserts(rows)
    write(
        tmp_path,
        columns,
        [events.slice(start, 900) for start in range(0, len(texts), 900)],
        options=SMALL_STRIPES,
    )
    found = agreed_rows(tmp_path, SEEN, "struct<id:bigint,t:timestamp>")
    assert values(found) == [[i, text] for i, text in enumerate(texts)]


def test_text_with_nul_characters_is_read_whole(tmp_path: Path, agreed_rows: AgreedRows) -> None:
    columns = (Column(name="s", type="string"),)
    texts = ["a\0c", "a\0b", "\0", "", "a"]
    write(tmp_path, columns, [inserts(pa.record_batch({"s": texts}))])
    assert values(agreed_rows(tmp_path, SEEN, "struct<s:string>")) == [[t] for t in texts]
