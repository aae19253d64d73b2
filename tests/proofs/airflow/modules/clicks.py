"""The module that the example of a stream expects: a source of three batches, each with a row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def batches(offsets: int | None) -> Iterator[tuple[pa.Table, int]]:
    """Yield the batches after these offsets."""
    for number in range((offsets or 0) + 1, 4):
        yield pa.table({"id": [number], "page": [f"/{number}"]}), number
