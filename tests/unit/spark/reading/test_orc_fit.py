"""Which files a range leaves out, by what their footers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.bucket_codec import encode
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.spark.reading.key_ranges import KeyRange
from airflow_hiveacid.spark.reading.orc_fit import Asked, judged
from airflow_hiveacid.storage.acid.read.acid_file import AcidFile, FileKind
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WriterOptions, insert_events

if TYPE_CHECKING:
    from pathlib import Path

FS = LocalFileSystem()
COLUMNS = (Column(name="s", type="string"),)


def file_of(folder: Path, texts: list[str]) -> AcidFile:
    path = str(folder / "delta_0000001_0000001_0000" / "bucket_00000")
    with AcidFileWriter(FS, path, COLUMNS, WriterOptions(), is_delete=False) as writer:
        rows = pa.record_batch({"s": texts})
        writer.write(insert_events(rows, WriteId(1), encode(BucketId(0)), RowId(0)))
        size = writer.close().size_bytes
    return AcidFile(
        fs=FS,
        path=path,
        key="delta_0000001_0000001_0000/bucket_00000",
        length=size,
        kind=FileKind.DATA,
        bucket_id=BucketId(0),
    )


@pytest.mark.parametrize(
    ("texts", "wanted", "is_outside"),
    [
        (["b", "d"], "a", True),
        (["b", "d"], "c", False),
        (["b", "d"], "😀", True),
        # Java says U+FFFD also of what is greater than any text, and then an emoji may be there.
        (["b", "\ufffd"], "😀", False),
        (["\ufffd", "😀"], "ä", False),
    ],
)
def test_bounds_of_bytes_that_are_no_text_leave_no_file_out(
    texts: list[str], wanted: str, *, is_outside: bool, tmp_path: Path
) -> None:
    asked = Asked(
        table_columns=COLUMNS,
        columns=COLUMNS,
        ranges={"s": KeyRange(low=wanted, high=wanted)},
        in_utc=True,
    )
    (verdict,) = judged(asked, [(file_of(tmp_path, texts), {})])
    assert verdict.why_not is None
    assert verdict.is_outside is is_outside
