"""The cost of a store compared with a disk: writing and scanning files, listing partitions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final

import pyarrow as pa

from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.ids import BucketId, RowId, WriteId, encode
from airflow_hiveacid.format.snapshot import ValidWriteIdList
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.storage.acid.events import insert_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.read.reader import read_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location

PARTITIONS: Final = 10_000
DIRECTORIES: Final = 12
"""The directories of a partition, each with one file."""
THREADS: Final = 16
_ROWS: Final = 2_000_000
_BATCHES: Final = 4
_COLUMNS: Final = [Column(name="id", type="bigint"), Column(name="name", type="string")]
_DELTA: Final = "delta_0000001_0000001_0000"
_REPEATS: Final = 3


def bytes_beside_a_disk(disk: str, name: str, location: str) -> str:
    """Return how long writing and scanning a bucket file take on both, best of three.

    `disk` is a location on a local disk, `location` one in the store of this name.
    """
    numbers = pa.array(range(_ROWS // _BATCHES))
    letters = Random(0).randbytes(16 * len(numbers)).hex()  # incompressible
    names = pa.array([letters[at : at + 32] for at in range(0, len(letters), 32)])
    rows = pa.record_batch({"id": numbers, "name": names})
    best: dict[str, float] = {}
    size = 0
    for number in range(_REPEATS):
        for where, place in (("disk", disk), (name, location)):
            table = f"{place}/t{number}"
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
        f"{name} takes {best[f'write {name}'] / best['write disk']:.2f} of a disk's time to write,"
        f" {best[f'scan {name}'] / best['scan disk']:.2f} to scan"
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


def file_names() -> list[str]:
    return [f"delta_{n:07}_{n:07}_0000/bucket_00000" for n in range(1, DIRECTORIES + 1)]


def listed(partitions: Sequence[str]) -> tuple[int, float]:
    """Return the number of files in partitions, listed by a job's threads, and the seconds."""
    with ThreadPoolExecutor(THREADS) as pool:
        began = time.perf_counter()
        listings = list(pool.map(list_table, partitions))
        seconds = time.perf_counter() - began
    files = sum(len(listing.files) for listing in listings)
    if files != DIRECTORIES * len(partitions):
        raise AssertionError(f"{files} files were listed of {DIRECTORIES * len(partitions)}")
    return files, seconds
