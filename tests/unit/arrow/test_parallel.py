"""Batches that several threads read ahead: their order, their memory, and their errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from airflow_hiveacid.arrow.scan import read_in_order


def batches_of(piece: range) -> Iterator[pa.RecordBatch]:
    for number in piece:
        yield pa.record_batch({"n": [number]})


PIECES = [range(0), range(50), range(50, 51), range(51, 200)]


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [batch["n"][0].as_py() for batch in batches]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("most_bytes", [1, 1 << 20])
def test_batches_come_in_the_order_of_their_pieces(threads: int, most_bytes: int) -> None:
    found = read_in_order(PIECES, batches_of, threads=threads, most_bytes=most_bytes)
    assert numbers(found) == list(range(200))


def test_threads_read_ahead_only_up_to_a_number_of_bytes() -> None:
    read: list[int] = []

    def noted(piece: range) -> Iterator[pa.RecordBatch]:
        for batch in batches_of(piece):
            read.append(batch["n"][0].as_py())
            yield batch

    found = read_in_order(PIECES, noted, threads=4, most_bytes=10 * 8)
    assert numbers(iter([next(found)])) == [0]
    assert len(read) <= 10 + 1 + len(PIECES)
    found.close()  # type: ignore[attr-defined] # it is a generator


def test_an_error_follows_the_batches_before_it() -> None:
    def failing(piece: range) -> Iterator[pa.RecordBatch]:
        yield from batches_of(piece)
        if piece.stop == 51:
            raise ValueError("damaged")

    batches = read_in_order(PIECES, failing, threads=3)
    assert numbers(next(batches) for _ in range(51)) == list(range(51))
    with pytest.raises(ValueError, match="damaged"):
        next(batches)


def test_threads_end_with_an_iterator_that_is_not_read_to_its_end() -> None:
    found = read_in_order(PIECES, batches_of, threads=3, most_bytes=1)
    next(found)
    readers = [t for t in threading.enumerate() if t.name.startswith("reader-")]
    assert readers
    found.close()  # type: ignore[attr-defined] # it is a generator
    for reader in readers:
        reader.join(timeout=10)
        assert not reader.is_alive()


UNFINISHED = r"""
import os
import time
import pyarrow as pa
from airflow_hiveacid.arrow.scan import read_in_order

def read(piece):
    try:
        for number in range(1000):
            yield pa.record_batch({"n": pa.array([] if piece else [number], "int64")})
            time.sleep(0.1)
    finally:
        os.write(1, b"ended %d\n" % piece)

batches = read_in_order([0, 1], read, threads=2)
next(batches)
"""


@pytest.mark.parametrize("last", ["", "batches.close()"])
def test_a_program_that_ends_within_a_scan_waits_for_its_threads(last: str) -> None:
    command = [sys.executable, "-c", UNFINISHED + last]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert sorted(run.stdout.split("\n")) == ["", "ended 0", "ended 1"]


def test_if_a_thread_cannot_start_the_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_two(thread: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(RuntimeError, match="can't start"):
        next(read_in_order(PIECES, batches_of, threads=3, most_bytes=1))
    for thread in started:
        thread.join(timeout=10)
        assert not thread.is_alive()
