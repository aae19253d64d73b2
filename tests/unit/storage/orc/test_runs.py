"""Runs of integers, against what Arrow's writer makes of the same values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.storage.orc.compression import decompress
from airflow_hiveacid.storage.orc.encoders import RunLayout, Series, column_of_runs
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.stripe_copy import DATA, ROW_INDEX, stripe_content
from airflow_hiveacid.storage.orc.tail import read_tail

FS = LocalFileSystem()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib"])
@pytest.mark.parametrize("step", [0, 1, -3])
@pytest.mark.parametrize("first", [0, 536870912, -1, (1 << 62) + 5])
@pytest.mark.parametrize("rows", [12, 512, 10_000, 25_517])
def test_encoded_runs_equal_the_streams_and_row_index_of_arrows_writer(
    rows: int, first: int, step: int, compression: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.orc")
    values = first + step * np.arange(rows, dtype=np.int64)
    orc.write_table(pa.table({"c": values}), path, compression=compression)
    tail = read_tail(FS, path)
    with FS.open_input_file(path) as source:
        streams = {
            s.kind: source.read_at(s.content.length, s.content.offset)
            for s in stripe_content(source, tail, 0).streams
            if s.column == 1
        }
    layout = RunLayout(
        compression=tail.compression, block_bytes=tail.compression_block_bytes, stride=10_000
    )
    made = column_of_runs(Series(first=first, step=step, rows=rows), layout)

    def plain(stored: bytes) -> bytes:
        return decompress(stored, tail.compression, tail.compression_block_bytes)

    assert plain(made.data) == plain(streams[DATA])
    assert pb.RowIndex.FromString(plain(made.row_index)) == pb.RowIndex.FromString(
        plain(streams[ROW_INDEX])
    )
    made.statistics.ClearField("bytes_on_disk")
    assert made.statistics == tail.metadata.stripes[0].columns[1]
