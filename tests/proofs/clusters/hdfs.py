"""HDFS: the cost of its size and operations compared with a local disk, and kills without traces.

The guarantees for tables on it are in tests/contract/stores/ and tests/spark/test_on_hdfs.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import VERSION, MiniHdfs
from tests.proofs.clusters.campaigns import campaign
from tests.proofs.clusters.costs import (
    DIRECTORIES,
    PARTITIONS,
    THREADS,
    bytes_beside_a_disk,
    cell_of,
    file_names,
    listed,
)
from tests.proofs.clusters.lives import Lives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proofs.clusters.cells import Cell

_AREA: Final = "HDFS"
_LIFE: Final = "tests/spark/test_on_hdfs.py"
_WHOLE: Final = "test_a_table_on_hdfs_can_be_changed_compacted_and_cleaned"
_MINUTES: Final = 10
_OLDEST: Final = str(Path(__file__).resolve().parents[3] / "build" / "oldest-spark")


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each combination after running it."""
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
        # It reads the version of pandas in a way that Python will remove.
        options=(
            *("-W", "ignore:distutils Version classes:DeprecationWarning"),
            *("-W", "ignore:is_categorical_dtype is deprecated:DeprecationWarning"),
        ),
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
            # An empty file has no block, which saves half an hour.
            write_bytes(fs, f"{root}/{name}", b"")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(fill, names))
    files, seconds = listed(names)
    directories = (DIRECTORIES + 1) * PARTITIONS
    return f"{files} files in {directories} directories by {THREADS} threads: {seconds:.0f} s"
