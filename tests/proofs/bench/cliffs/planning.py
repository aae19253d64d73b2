"""A measurement of the driver's work before the first task: listing, footers, the plan.

No row is read. All files are hard links to a few, which makes no difference to a driver.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import Final

import numpy as np

from airflow_hiveacid.format.names import ACID_VERSION_FILE
from tests.proofs.bench import acid, files, records
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, cliff_rows, day_names
from tests.proofs.bench.ground import Ground

_PART: Final = "planning"
_ROWS: Final = 10
_BUCKETS: Final = 10


def measure_planning(ground: Ground) -> None:
    """Measure many partitions of one file each, the same with many files each, many deltas."""
    _plan_partitions(ground, ground.size(10_000))
    _plan_deltas(ground, ground.size(1_000))
    shutil.rmtree(ground.folder)


def _plan_partitions(ground: Ground, count: int) -> None:
    ground.begin(f"planning {count:,} partitions")
    days = day_names(count)
    table = files.partitioned(ground.lab, f"{ground.name}_planned", days)
    table.use_up_write_ids(1)
    for first, last, what in ((0, 1, "partitions"), (1, _BUCKETS, "files")):
        model = ground.folder / f"model-{first}"
        for bucket in range(first, last):
            rows = cliff_rows(np.arange(bucket * _ROWS, (bucket + 1) * _ROWS))
            files.write_directory(
                model, files.FIRST_BASE, [files.inserted(rows, 1, bucket)], bucket
            )
        if first:
            (
                model / str(files.FIRST_BASE) / ACID_VERSION_FILE
            ).unlink()  # exists already in the target
        files.link_to_days(model, table, days)
        _plan(ground, table, count * last, what)
    table.drop()


def _plan_deltas(ground: Ground, count: int) -> None:
    ground.begin(f"planning {count:,} deltas")
    table = acid.AcidTable.create(ground.lab, f"{ground.name}_planned_deltas", CLIFF_COLUMNS)
    files.write_deltas(table.folder, count, _ROWS)
    table.use_up_write_ids(count)
    _plan(ground, table, count, "deltas")
    table.drop()


def _plan(ground: Ground, table: acid.AcidTable, size: int, what: str) -> None:
    """Measure planning a read, after one run to warm up."""
    ground.begin(f"planning {size:,} {what}")
    _to_plan(table)
    for run in range(ground.recorder.repeats):
        ground.change((_PART, size), what, {records.OURS: partial(_to_plan, table)}, size, run)


def _to_plan(table: acid.AcidTable) -> int:
    """Plan a read of everything from a new connection on, and return 0 bytes written."""
    with table.frame() as rows:
        rows._jdf.queryExecution().executedPlan()
    return 0
