"""HDFS: what its size and its ways cost, beside a local disk, and that kills leave nothing behind.

What a table may count on there is in tests/contract/stores/ and tests/spark/test_on_hdfs.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.bucket_codec import encode
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.filesystem import write_bytes
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from clusters.cells import FAILED, RAN, Cell
from contract.stores.mini_hdfs import VERSION, MiniHdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PARTITIONS: Final = 10_000
_THREADS: Final = 16
_ROWS: Final = 2_000_000
_BATCHES: Final = 4
_COLUMNS: Final = [Column(name="id", type="bigint"), Column(name="name", type="string")]
_DELTA: Final = "delta_0000001_0000001_0000"
_REPEATS: Final = 3


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Each combination, as it is done."""
    with MiniHdfs.started(folder) as server:
        disk, hdfs = f"file:{folder}/disk", f"{server.uri}/clusters"
        for name, do in {
            "writing and scanning a bucket file": partial(_bytes, disk, hdfs),
            "listing 10,000 partitions": partial(_listing, hdfs),
        }.items():
            if only in name:
                yield _cell(name, do)
    campaign = "processes killed at random times, 10 minutes"
    if only in campaign:
        yield _cell(campaign, _campaign)


def _cell(name: str, do: Callable[[], str]) -> Cell:
    try:
        outcome, note = RAN, do()
    except Exception as error:  # noqa: BLE001 - it is told in the table
        outcome, note = FAILED, f"{type(error).__name__}: {error}"
    return Cell(area="HDFS", combination=name, version=VERSION, outcome=outcome, note=note)


def _bytes(disk: str, hdfs: str) -> str:
    numbers = pa.array(range(_ROWS // _BATCHES))
    letters = Random(0).randbytes(16 * len(numbers)).hex()  # that no codec makes small
    names = pa.array([letters[at : at + 32] for at in range(0, len(letters), 32)])
    rows = pa.record_batch({"id": numbers, "name": names})
    best: dict[str, float] = {}
    size = 0
    for number in range(_REPEATS):
        for where, location in (("disk", disk), ("HDFS", hdfs)):
            table = f"{location}/t{number}"
            began = time.perf_counter()
            size = _write(table, rows)
            written = time.perf_counter()
            _scan(table)
            for verb, seconds in (
                ("write", written - began),
                ("scan", time.perf_counter() - written),
            ):
                key = f"{verb} {where}"
                best[key] = min(best.get(key, seconds), seconds)
    told = ", ".join(f"{key} {seconds:.2f} s" for key, seconds in sorted(best.items()))
    ratios = (
        f"HDFS takes {best['write HDFS'] / best['write disk']:.2f} of a disk's time to write,"
        f" {best['scan HDFS'] / best['scan disk']:.2f} to scan"
    )
    return f"{_ROWS} rows, {size / 1e6:.0f} MB, best of {_REPEATS}: {told}; {ratios}"


def _write(table: str, rows: pa.RecordBatch) -> int:
    fs, path = open_location(f"{table}/{_DELTA}/bucket_00000")
    with AcidFileWriter(fs, path, _COLUMNS, WriterOptions(), is_delete=False) as writer:
        for number in range(_BATCHES):
            first = RowId(number * len(rows))
            writer.write(insert_events(rows, WriteId(1), encode(BucketId(0)), first))
        return writer.close().size_bytes


def _scan(table: str) -> None:
    write_ids = ValidWriteIdList(table=TableRef("a", "b"), high_watermark=WriteId(1))
    (bucket,) = bucket_files(resolve(list_table(table), write_ids, None), write_ids)
    (file,) = bucket.inserts
    found = sum(len(batch) for batch in read_events(file, _COLUMNS))
    if found != _ROWS:
        raise AssertionError(f"{found} rows came back of {_ROWS}")


def _listing(hdfs: str) -> str:
    """Twelve directories a partition, with a file each."""
    table = f"{hdfs}/parted"
    names = [f"{table}/p={number}" for number in range(_PARTITIONS)]
    fs, _ = open_location(table)

    def fill(partition: str) -> None:
        root = open_location(partition)[1]
        for delta in range(12):
            # An empty file has no block, so that this takes no half hour.
            write_bytes(fs, f"{root}/delta_{delta + 1:07}_{delta + 1:07}_0000/bucket_00000", b"")

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(fill, names))
        began = time.perf_counter()
        listings = list(pool.map(list_table, names))
        seconds = time.perf_counter() - began
    files = sum(len(listing.files) for listing in listings)
    if files != 12 * _PARTITIONS:
        raise AssertionError(f"{files} files were listed of {12 * _PARTITIONS}")
    return f"{files} files in {13 * _PARTITIONS} directories by {_THREADS} threads: {seconds:.0f} s"


def _campaign() -> str:
    command = [sys.executable, "-m", "campaign", "--hdfs", "--minutes", "10", "--kills", "20"]
    done = subprocess.run(
        [*command, "--versions", "4.0.1"], capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0:
        raise AssertionError(" / ".join(lines[-5:]) or done.stderr[-500:])
    return f"{lines[-2].partition('  ')[2]}: {lines[-1].partition('  ')[2]}"
