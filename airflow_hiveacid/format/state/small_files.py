"""Counts the small files of a root that a compaction would merge into other files.

After a compaction, the number is 0: files that it would write as small files again do not count.

Example:
    >>> from airflow_hiveacid.format.state.directories import FileEntry
    >>> names = ("base_2/bucket_00000", "delta_3_3/bucket_00000", "delta_4_4/bucket_00001")
    >>> files = [FileEntry(path=name, size_bytes=9) for name in names]
    >>> mergeable(files, TransactionalKind.FULL_ACID, small_file_bytes=10)
    1
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from airflow_hiveacid.format.names import parse_file_name
from airflow_hiveacid.format.state.directories import FileEntry
from airflow_hiveacid.format.table import TransactionalKind

COMBINED_FILE_BYTES: Final = 256 << 20
"""The size up to which a compaction combines files of an insert-only table."""


def mergeable(files: Sequence[FileEntry], kind: TransactionalKind, *, small_file_bytes: int) -> int:
    """Return how many small files a compaction of the files into one directory merges away."""
    if kind is TransactionalKind.INSERT_ONLY:
        numbers = combined([file.size_bytes for file in files])
        results: list[object] = list(numbers)
    else:
        results = [result_of(file.name) for file in files]
    inputs: dict[object, list[FileEntry]] = defaultdict(list)
    for file, result in zip(files, results, strict=True):
        inputs[result].append(file)
    # If all files of a result are small, one of them stands for the result.
    return sum(
        min(sum(file.size_bytes < small_file_bytes for file in together), len(together) - 1)
        for together in inputs.values()
    )


@lru_cache(maxsize=4096)  # all deltas have the same names of files
def result_of(name: str) -> object:
    """Return a key for the result's file that takes the rows of a file: its bucket, or its name."""
    parsed = parse_file_name(name)
    return name if parsed is None else parsed.bucket_id


def combined(sizes: Sequence[int]) -> list[int]:
    """Return, for each file of an insert-only table, the number of the file that takes its rows.

    Consecutive files are combined, up to about `COMBINED_FILE_BYTES`. The numbers ascend, with gaps
    after a larger file.

    Example:
        >>> combined([100 << 20, 200 << 20, 900 << 20, 1 << 20])
        [0, 0, 1, 4]
    """
    ends = itertools.accumulate(sizes)
    return [(end - size) // COMBINED_FILE_BYTES for end, size in zip(ends, sizes, strict=True)]
