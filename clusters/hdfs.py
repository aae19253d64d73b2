"""HDFS: what its size and its ways cost, beside a local disk, and that kills leave nothing behind.

What a table may count on there is in tests/contract/stores/ and tests/spark/test_on_hdfs.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
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
from clusters.lives import Lives
from contract.stores.mini_hdfs import VERSION, MiniHdfs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusters.cells import Cell

_AREA: Final = "HDFS"
_LIFE: Final = "tests/spark/test_on_hdfs.py"
_WHOLE: Final = "test_a_table_lives_its_whole_life_on_hdfs"
_MINUTES: Final = 10
_OLDEST: Final = str(Path(__file__).resolve().parents[1] / "build" / "oldest-spark")


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
    lives = partial(Lives, area=_AREA, version=VERSION)
    yield from lives(tests=("tests/contract/stores/test_hdfs_encryption.py", _LIFE)).cells(
        _made(folder / "lives"), only
    )
    oldest = lives(
        tests=(f"{_LIFE}::{_WHOLE}",),
        modules=_OLDEST,
        # It asks for the version of pandas in a way that Python is about to forget.
        options=("-W", "ignore:distutils Version classes:DeprecationWarning"),
        suffix=", PySpark 3.5",
    )
    yield from oldest.cells(_made(folder / "oldest"), only)
    name = f"processes killed at random times, {_MINUTES} minutes"
    if only in name:
        asked = ("--hdfs", "--minutes", str(_MINUTES), "--kills", "20")
        yield cell_of(_AREA, VERSION, name, partial(campaign, *asked))


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


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
