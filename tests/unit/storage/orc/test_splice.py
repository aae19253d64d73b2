"""Pieces of a file shown as one, and a source that is shorter than it was said to be."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.errors import CorruptFileError
from airflow_hiveacid.storage.orc import splice as splicing
from airflow_hiveacid.storage.orc.splice import Stretch, in_utc, splice
from airflow_hiveacid.storage.orc.tail import read_tail

CONTENT = bytes(range(256)) * 4096


@pytest.mark.parametrize("size", [1_000, 600_000])
def test_spliced_pieces_are_read_in_sequence(size: int) -> None:
    source = pa.BufferReader(CONTENT)
    shown = splice(source, [b"head", Stretch(offset=5, length=size), b"tail"])
    assert shown.read() == b"head" + CONTENT[5 : 5 + size] + b"tail"
    shown.seek(2)
    assert shown.read(4) == b"ad" + CONTENT[5:7]


def test_a_source_that_ends_too_early_raises_an_error_instead_of_returning_less() -> None:
    beyond = Stretch(offset=len(CONTENT) - 10, length=11)
    with pytest.raises(EOFError, match=f"before byte {len(CONTENT) + 1}"):
        splice(pa.BufferReader(CONTENT), [beyond, b"tail"])
    large = splice(pa.BufferReader(CONTENT), [Stretch(offset=0, length=600_000), beyond, b"tail"])
    with pytest.raises(EOFError):
        large.read()


def test_the_interpreter_waits_a_limited_time_until_arrow_releases_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splicing, "_LONGEST_LAST_WAIT_S", 60.0)
    held = [splice(pa.BufferReader(CONTENT), [Stretch(offset=0, length=600_000)])]
    threading.Timer(0.05, held.clear).start()
    splicing.let_go_of_files()
    assert not held
    kept = splice(pa.BufferReader(CONTENT), [Stretch(offset=0, length=600_000)])
    monkeypatch.setattr(splicing, "_LONGEST_LAST_WAIT_S", 0.01)
    splicing.let_go_of_files()  # and does not wait for ever
    assert kept.size() == 600_000


def test_a_stripe_that_states_too_many_values_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(pa.table({"at": pa.array([0, 1], pa.timestamp("ns"))}), str(path))
    tail = read_tail(LocalFileSystem(), str(path))
    with path.open("rb") as file, pytest.raises(CorruptFileError, match="states"):
        in_utc(pa.PythonFile(file), tail, {1}, lambda _stripe, _column: 1 << 60)
