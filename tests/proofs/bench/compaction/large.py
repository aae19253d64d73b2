"""A measurement of a large bucket: several tasks compact it, and none holds much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import BaseName
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.files import inserted, write_directory
from tests.proofs.bench.compaction.stripes import EIGHT, delete_rows, numbers
from tests.proofs.bench.sales import generator

if TYPE_CHECKING:
    from tests.proofs.bench.compaction.ground import Ground

_CHUNKS: Final = 32


def measure_large(ground: Ground) -> None:
    """Measure a major compaction of one bucket after random deletes, and of one four times larger.

    An idle core is one that neither this job nor another program used.
    """
    peaks = []
    for rows in (ground.size(8_000_000, 3_200), ground.size(32_000_000, 6_400)):
        table = AcidTable.create(ground.lab, f"large_{rows}", EIGHT)
        size = rows // _CHUNKS
        events = (inserted(numbers(size, i), 1, first=i * size) for i in range(_CHUNKS))
        write_directory(table.folder, BaseName(write_id=WriteId(1)), events, columns=EIGHT)
        gone = generator("large").choice(size * _CHUNKS, rows // 100, replace=False)
        delete_rows(table, np.sort(gone), 2)
        table.use_up_write_ids(2)
        case = f"one bucket, {table.size_bytes / 1e6:,.0f} MB, 1 % random deletes"
        took = ground.measure(table.compactions["major"])
        peaks.append(took.worker_peak_bytes)
        cores = ground.lab.spark.sparkContext.defaultParallelism
        busy = (took.cpu_seconds + took.other_cpu_seconds) / took.seconds / cores
        ground.found(f"{case}: idle cores", "of all cores", max(0.0, 1 - busy), 0.2)
        ground.found(f"{case}: the largest worker", "MiB", peaks[-1] / (1 << 20))
        table.drop()
    ground.found(
        "the largest worker for a bucket four times larger",
        "of the memory",
        peaks[1] / peaks[0],
        1.2,
    )
