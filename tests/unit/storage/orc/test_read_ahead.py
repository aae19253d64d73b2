"""How much of a file is read, and in how few pieces; never anything but what is there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hiveacid.storage.orc import view
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.orc.view import ColumnView, ReadAhead, read_view
from tests.unit.storage.counting import LOCAL, counting
from tests.unit.storage.orc_tables import write_tables

COLUMNS: Final = 12
ROWS: Final = 60_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three stripes of some megabytes, in which nothing can be compressed."""
    numbers = np.random.default_rng(1)
    tables = [
        pa.table(
            {f"n{i}": numbers.integers(0, 1 << 60, ROWS) for i in range(COLUMNS)}
            | {"s": pa.array([{"t": f"{i}"} for i in range(ROWS)])}
        )
        for _ in range(3)
    ]
    path = tmp_path_factory.mktemp("ahead") / "t.orc"
    return write_tables(path, tables, tables[0].schema)


def size_of_column(path: Path, name: str) -> int:
    """What a column takes in a file with no other one."""
    sink = pa.BufferOutputStream()
    orc.write_table(orc.ORCFile(str(path)).read(columns=[name]), sink, compression="zlib")
    return int(sink.tell())


def test_a_file_is_read_in_two_requests_per_stripe(file: Path) -> None:
    fs, asked = counting()
    tail = read_tail(LOCAL, str(file))
    shown = ColumnView(columns=tuple(tail.types[0].children))
    rows = pa.Table.from_batches(read_view(fs, tail, shown))
    assert rows.columns == orc.ORCFile(str(file)).read().columns
    data = sum(stripe.length for stripe in tail.stripes)
    assert data > 12 << 20
    assert asked.bytes_read <= data
    # A stripe's footer, and its streams in one go.
    assert len(asked.reads) == 2 * len(tail.stripes)


def test_reading_one_column_requests_little_more_than_its_bytes(file: Path) -> None:
    fs, asked = counting()
    tail = read_tail(LOCAL, str(file))
    (column_id,) = [tail.types[0].by_name["n5"]]
    batches = read_view(fs, tail, ColumnView(columns=(column_id,)))
    rows = pa.Table.from_batches(batches)
    assert rows.column(0) == orc.ORCFile(str(file)).read(columns=["n5"]).column(0)
    assert asked.bytes_read < 1.1 * size_of_column(file, "n5")
    assert len(asked.reads) == 2 * len(tail.stripes)


def test_an_unselected_stripe_is_not_read(file: Path) -> None:
    fs, asked = counting()
    tail = read_tail(LOCAL, str(file))
    assert list(read_view(fs, tail, ColumnView(columns=(1,), stripes=(1,))))
    chosen = tail.stripes[1]
    assert asked.reads
    for offset, size in asked.reads:
        assert chosen.offset <= offset < offset + size <= chosen.offset + chosen.length


def test_streams_too_large_for_the_read_ahead_are_each_read_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "HELD_BYTES", 2 << 20)
    fs, asked = counting()
    tail = read_tail(LOCAL, str(file))
    rows = pa.Table.from_batches(
        read_view(fs, tail, ColumnView(columns=tuple(tail.types[0].children)))
    )
    assert rows.columns == orc.ORCFile(str(file)).read().columns
    assert asked.bytes_read <= sum(stripe.length for stripe in tail.stripes)
    assert max(size for _, size in asked.reads) < 1 << 20


@pytest.mark.parametrize("held", [0, 1 << 20, 32 << 20])
@pytest.mark.parametrize("damaged", [False, True])
def test_read_ahead_returns_the_bytes_of_the_file_for_any_range(
    file: Path, monkeypatch: pytest.MonkeyPatch, held: int, *, damaged: bool
) -> None:
    monkeypatch.setattr(view, "HELD_BYTES", held)
    tail = read_tail(LOCAL, str(file))
    content = bytearray(file.read_bytes())
    if damaged:
        for stripe in tail.stripes:
            end = stripe.offset + stripe.length
            content[end - stripe.footer_length : end] = b"\xff" * stripe.footer_length
    source = pa.BufferReader(bytes(content))
    ahead = ReadAhead(source, tail, (1, 7))
    dice = random.Random(held)
    for _ in range(300):
        at = dice.randrange(len(content))
        size = dice.choice([1, 100, 128 << 10, 3 << 20])
        assert ahead.read_at(size, at) == content[at : at + size]


def test_a_small_file_is_read_in_one_request(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    table = pa.table({"n": range(1000), "t": [f"text {n}" for n in range(1000)]})
    orc.write_table(table, str(path), compression="zlib")
    fs, asked = counting()
    tail = read_tail(fs, str(path))
    for columns in ((1,), (1, 2)):
        rows = pa.Table.from_batches(read_view(fs, tail, ColumnView(columns=columns)))
        assert rows.columns == table.columns[: len(columns)]
    assert asked.opened == [str(path)]
    assert asked.reads == [(0, path.stat().st_size)]


def test_only_the_committed_part_of_a_streaming_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"n": range(1000)}), str(path))
    committed = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"half a stripe of what comes next")
    tail = read_tail(LOCAL, str(path), committed)
    assert sum(batch.num_rows for batch in read_view(LOCAL, tail, ColumnView(columns=(1,)))) == 1000
