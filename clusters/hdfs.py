"""HDFS: what its size and its ways cost, beside a local disk, and that kills leave nothing behind.

What a table may count on there is in tests/contract/stores/ and tests/spark/test_on_hdfs.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from clusters.campaigns import campaign
from clusters.costs import (
    DIRECTORIES,
    PARTITIONS,
    THREADS,
    bytes_beside_a_disk,
    cell_of,
    file_names,
    listed,
)
from contract.stores.mini_hdfs import VERSION, MiniHdfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusters.cells import Cell

_AREA: Final = "HDFS"


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Each combination, as it is done."""
    with MiniHdfs.started(folder) as server:
        disk, hdfs = f"file:{folder}/disk", f"{server.uri}/clusters"
        for name, do in {
            "writing and scanning a bucket file": partial(bytes_beside_a_disk, disk, "HDFS", hdfs),
            "listing 10,000 partitions": partial(_listing, hdfs),
        }.items():
            if only in name:
                yield cell_of(_AREA, VERSION, name, do)
    name = "processes killed at random times, 10 minutes"
    if only in name:
        asked = ("--hdfs", "--minutes", "10", "--kills", "20")
        yield cell_of(_AREA, VERSION, name, partial(campaign, *asked))


def _listing(hdfs: str) -> str:
    table = f"{hdfs}/parted"
    names = [f"{table}/p={number}" for number in range(PARTITIONS)]
    fs, _ = open_location(table)

    def fill(partition: str) -> None:
        root = open_location(partition)[1]
        for name in file_names():
            # An empty file has no block, so that this takes no half hour.
            write_bytes(fs, f"{root}/{name}", b"")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, names))
    files, seconds = listed(names)
    directories = (DIRECTORIES + 1) * PARTITIONS
    return f"{files} files in {directories} directories by {THREADS} threads: {seconds:.0f} s"
