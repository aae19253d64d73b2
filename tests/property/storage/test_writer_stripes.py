"""However batches are cut and whatever timestamps they hold, a file has their rows and keys."""

from __future__ import annotations

import itertools
import tempfile
from typing import Final

import pyarrow as pa
from hypothesis import given, settings, strategies as st
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid import IDENTITY_COLUMN_IDS, IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WriterOptions, insert_events
from airflow_hiveacid.storage.orc.footer import KEY_INDEX
from airflow_hiveacid.storage.orc.tail import read_tail

FS: Final = LocalFileSystem()
COLUMNS: Final = (
    Column(name="t", type="timestamp"),
    Column(name="s", type="struct<x:int,l:array<string>>"),
)
EARLY: Final = -(10**18) - 1
LATE: Final = 10**18 + 1


def rows(count: int, *, is_early: bool) -> pa.RecordBatch:
    moments = [EARLY if is_early and i % 3 == 0 else LATE + i for i in range(count)]
    structs = [None if i % 5 == 0 else {"x": i, "l": [str(i), None]} for i in range(count)]
    row = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])
    return pa.record_batch(
        {"t": pa.array(moments, pa.timestamp("ns")), "s": pa.array(structs, row)}
    )


@settings(max_examples=settings.default.max_examples * 2 // 5, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 9_000), st.booleans(), st.integers(0, 3)), max_size=6
    ),
    stripe_size_bytes=st.sampled_from([1, 20_000, 1 << 20]),
    compression=st.sampled_from(["none", "zlib"]),
)
def test_rows_and_stripe_keys_do_not_depend_on_the_batch_sizes(
    batches: list[tuple[int, bool, int]], stripe_size_bytes: int, compression: str
) -> None:
    options = WriterOptions(compression=compression, stripe_size_bytes=stripe_size_bytes)
    write_id, expected = 1, []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/bucket_00002"
        with AcidFileWriter(FS, path, COLUMNS, options, is_delete=False) as writer:
            for count, is_early, skipped in batches:
                events = insert_events(
                    rows(count + skipped, is_early=is_early).slice(skipped),
                    WriteId(write_id),
                    encode(BucketId(2)),
                    RowId(skipped),
                )
                writer.write(events)
                expected.append(events)
                write_id += 1
            written = writer.close()
        tail, file = read_tail(FS, path), orc.ORCFile(path)
        found = file.read()
    whole = pa.Table.from_batches(expected, schema=found.schema) if expected else found
    assert found.num_rows == written.rows == whole.num_rows
    assert found.combine_chunks().equals(whole.combine_chunks())
    ends = list(itertools.accumulate(stripe.rows for stripe in tail.stripes))
    keys = [tuple(found[name][end - 1].as_py() for name in IDENTITY_COLUMNS) for end in ends]
    assert tail.user_metadata[KEY_INDEX] == "".join(f"{w},{b},{r};" for w, b, r in keys)
    for column_id, name in zip(IDENTITY_COLUMN_IDS, IDENTITY_COLUMNS, strict=True):
        for at, (start, end) in enumerate(itertools.pairwise([0, *ends])):
            values = found[name].slice(start, end - start).to_pylist()
            assert tail.integer_range(column_id, at) == (min(values), max(values))
