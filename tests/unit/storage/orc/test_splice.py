"""Pieces of a file shown as one, and a source that is shorter than it was said to be."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_hiveacid.storage.orc.splice import Stretch, splice

CONTENT = bytes(range(256)) * 4096


@pytest.mark.parametrize("size", [1_000, 600_000])
def test_pieces_are_read_one_behind_the_other(size: int) -> None:
    source = pa.BufferReader(CONTENT)
    shown = splice(source, [b"head", Stretch(offset=5, length=size), b"tail"])
    assert shown.read() == b"head" + CONTENT[5 : 5 + size] + b"tail"
    shown.seek(2)
    assert shown.read(4) == b"ad" + CONTENT[5:7]


def test_a_source_that_ends_too_early_is_never_taken_for_shorter_pieces() -> None:
    beyond = Stretch(offset=len(CONTENT) - 10, length=11)
    with pytest.raises(EOFError, match=f"before byte {len(CONTENT) + 1}"):
        splice(pa.BufferReader(CONTENT), [beyond, b"tail"])
    large = splice(pa.BufferReader(CONTENT), [Stretch(offset=0, length=600_000), beyond, b"tail"])
    with pytest.raises(EOFError):
        large.read()
