"""Parquet files with decimals in more bytes than needed; Arrow does not write such files."""

from __future__ import annotations

from pathlib import Path


def mark_as_decimal(path: Path, length: int) -> None:
    """State in a file's footer that its column of bytes is a decimal(9,2), as Hive does."""
    content = path.read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - size : -8]
    element = bytes([0x15, 14, 0x15, 2 * length, 0x15, 2, 0x18, 1]) + b"c"
    assert footer.count(element) == 1
    footer = footer.replace(element, element + bytes([0x25, 10, 0x15, 4, 0x15, 18]))
    end = len(footer).to_bytes(4, "little") + b"PAR1"
    path.write_bytes(content[: -8 - size] + footer + end)
