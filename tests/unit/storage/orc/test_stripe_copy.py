"""Stripes taken apart and written again, whole, without a stream, and from damaged files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import CorruptFileError, UnsupportedFileError
from airflow_hiveacid.storage.orc import stripe_copy
from airflow_hiveacid.storage.orc.compression import decompress
from airflow_hiveacid.storage.orc.footer import OrcTail
from airflow_hiveacid.storage.orc.gen import orc_acid_pb2 as pb
from airflow_hiveacid.storage.orc.tail import read_tail, serialize_tail

FS = LocalFileSystem()
NOISE = np.random.default_rng(1).integers(0, 1 << 40, 30_000)
ROWS = pa.table({"a": np.arange(30_000), "b": NOISE, "c": np.arange(30_000) % 5})


@pytest.fixture
def tail(tmp_path: Path) -> OrcTail:
    path = str(tmp_path / "t.orc")
    orc.write_table(ROWS, path, compression="zlib", stripe_size=1, batch_size=1024)
    return read_tail(FS, path)


def rewritten(
    tail: OrcTail,
    target: Path,
    change: Callable[[stripe_copy.StripeContent], stripe_copy.StripeContent] = lambda c: c,
) -> str:
    """The file again, with its stripes changed."""
    footer = pb.Footer()
    footer.CopyFrom(tail.footer)
    del footer.stripes[:]
    with FS.open_input_file(tail.path) as source, target.open("wb") as out:
        writer = stripe_copy.StripeWriter(out.write, tail.compression)
        for number in range(len(tail.stripes)):
            content = change(stripe_copy.stripe_content(source, tail, number))
            footer.stripes.append(writer.add(source, tail, content))
        writer.finish(serialize_tail(dataclasses.replace(tail, footer=footer)))
    return str(target)


def test_a_copied_stripe_has_the_same_rows_and_layout(
    tail: OrcTail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(tail.stripes) > 2
    monkeypatch.setattr(stripe_copy, "_WINDOW_BYTES", 100)
    path = rewritten(tail, tmp_path / "u.orc")
    assert orc.read_table(path).equals(ROWS)
    again = read_tail(FS, path)
    places = [(s.offset, s.index_length, s.data_length, s.rows) for s in tail.stripes]
    assert [(s.offset, s.index_length, s.data_length, s.rows) for s in again.stripes] == places


def test_index_streams_are_always_written_before_data_streams(
    tail: OrcTail, tmp_path: Path
) -> None:
    def by_column(content: stripe_copy.StripeContent) -> stripe_copy.StripeContent:
        streams = tuple(sorted(content.streams, key=lambda s: (s.column, not s.is_index)))
        return dataclasses.replace(content, streams=streams)

    path = rewritten(tail, tmp_path / "u.orc", by_column)
    assert orc.read_table(path).equals(ROWS)
    again = read_tail(FS, path)
    with FS.open_input_file(path) as source:
        kinds = [s.is_index for s in stripe_copy.stripe_content(source, again, 0).streams]
    assert kinds == sorted(kinds, reverse=True)


def test_the_other_columns_are_intact_if_a_stream_is_omitted(tail: OrcTail, tmp_path: Path) -> None:
    def without_b(content: stripe_copy.StripeContent) -> stripe_copy.StripeContent:
        streams = tuple(
            s for s in content.streams if s.column != 2 or s.kind == stripe_copy.ROW_INDEX
        )
        return dataclasses.replace(content, streams=streams)

    path = rewritten(tail, tmp_path / "u.orc", without_b)
    assert orc.read_table(path, columns=["a", "c"]).equals(ROWS.select(["a", "c"]))


def test_a_stripe_whose_streams_do_not_add_up_to_its_length_is_refused(tail: OrcTail) -> None:
    for change in (1, -1):
        stripe = tail.footer.stripes[0]
        stripe.index_length += change
        stripe.data_length -= change
        with (
            FS.open_input_file(tail.path) as source,
            pytest.raises(CorruptFileError, match="do not add up"),
        ):
            stripe_copy.stripe_content(source, tail, 0)
        stripe.index_length -= change
        stripe.data_length += change


def test_a_stripe_with_too_few_column_encodings_is_refused(tail: OrcTail, tmp_path: Path) -> None:
    def cut(content: stripe_copy.StripeContent) -> stripe_copy.StripeContent:
        return dataclasses.replace(content, encodings=content.encodings[:-1])

    again = read_tail(FS, rewritten(tail, tmp_path / "u.orc", cut))
    with FS.open_input_file(again.path) as source, pytest.raises(CorruptFileError, match="columns"):
        stripe_copy.stripe_content(source, again, 0)


def test_a_stripe_with_an_unknown_stream_kind_is_refused(tail: OrcTail, tmp_path: Path) -> None:
    def unknown(content: stripe_copy.StripeContent) -> stripe_copy.StripeContent:
        *others, last = content.streams
        return dataclasses.replace(content, streams=(*others, dataclasses.replace(last, kind=9)))

    again = read_tail(FS, rewritten(tail, tmp_path / "u.orc", unknown))
    with (
        FS.open_input_file(again.path) as source,
        pytest.raises(UnsupportedFileError, match="kind 9"),
    ):
        stripe_copy.stripe_content(source, again, 0)


def test_copying_from_a_truncated_file_raises_an_error(tail: OrcTail) -> None:
    with FS.open_input_file(tail.path) as source:
        content = stripe_copy.stripe_content(source, tail, 0)
    cut = pa.BufferReader(b"ORC" + b"\0" * 10)
    with pytest.raises(CorruptFileError, match="ends before"):
        stripe_copy.StripeWriter(lambda _: None, tail.compression).add(cut, tail, content)


def test_a_change_is_applied_to_every_entry_of_a_row_index(tmp_path: Path) -> None:
    path = str(tmp_path / "t.orc")
    orc.write_table(ROWS, path, compression="zlib")
    tail = read_tail(FS, path)
    asked: list[int] = []

    def look(statistics: pb.ColumnStatistics) -> bool:
        asked.append(statistics.integers.minimum)
        return False

    def forget(statistics: pb.ColumnStatistics) -> bool:
        statistics.ClearField("integers")
        return True

    with FS.open_input_file(path) as source:
        content = stripe_copy.stripe_content(source, tail, 0)
        (index,) = [s for s in content.streams if s.kind == stripe_copy.ROW_INDEX and s.column == 1]
        assert stripe_copy.with_row_index(source, tail, index, look) is index
        assert asked == [0, 10_000, 20_000]
        changed = stripe_copy.with_row_index(source, tail, index, forget).content
    assert isinstance(changed, bytes)
    plain = decompress(changed, tail.compression, tail.compression_block_bytes)
    entries = pb.RowIndex.FromString(plain).entries
    assert [e.statistics.HasField("integers") for e in entries] == [False] * 3
