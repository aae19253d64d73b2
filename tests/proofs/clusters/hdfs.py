"""HDFS: the cost of its size and operations compared with a local disk, and kills without traces.

The guarantees for tables on it are in tests/contract/stores/ and tests/spark/test_on_hdfs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import VERSION, MiniHdfs
from tests.proofs.clusters.cells import Cell, Trial, tried
from tests.proofs.clusters.costs import (
    DIRECTORIES,
    PARTITIONS,
    THREADS,
    bytes_beside_a_disk,
    file_names,
    listed,
)
from tests.proofs.clusters.lives import Lives, campaign
from tests.proofs.versions import pysparks

_AREA: Final = "HDFS"
_LIFE: Final = "tests/spark/test_on_hdfs.py"
_WHOLE: Final = "test_a_table_on_hdfs_can_be_changed_compacted_and_cleaned"
_MINUTES: Final = 10


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each combination after running it."""
    trial = partial(Trial, area=_AREA, version=VERSION)
    with MiniHdfs.started(folder) as server:
        disk, hdfs = f"file:{folder}/disk", f"{server.uri}/clusters"
        beside = partial(bytes_beside_a_disk, disk, "HDFS", hdfs)
        costs = [
            trial(name="writing and scanning a bucket file", do=beside),
            trial(name="listing 10,000 partitions", do=partial(_listing, hdfs)),
        ]
        yield from tried(costs, only)
    lives = partial(Lives, area=_AREA, version=VERSION)
    yield from lives(tests=("tests/contract/stores/test_hdfs_encryption.py", _LIFE)).cells(
        _made(folder / "lives"), only
    )
    oldest = lives(
        tests=(f"{_LIFE}::{_WHOLE}",),
        modules=pysparks.folder(pysparks.OLDEST),
        options=pysparks.OPTIONS,
        suffix=", PySpark 3.5",
    )
    yield from oldest.cells(_made(folder / "oldest"), only)
    kills = partial(campaign, "--hdfs", "--minutes", str(_MINUTES), "--kills", "20")
    name = f"processes killed at random times, {_MINUTES} minutes"
    yield from tried([trial(name=name, do=kills)], only)


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
            # An empty file has no block, which saves half an hour.
            write_bytes(fs, f"{root}/{name}", b"")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, names))
    files, seconds = listed(names)
    directories = (DIRECTORIES + 1) * PARTITIONS
    return f"{files} files in {directories} directories by {THREADS} threads: {seconds:.0f} s"
