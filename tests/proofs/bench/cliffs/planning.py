"""A measurement of the driver's work before the first task: listing, footers, the plan.

No row is read. All files are hard links to a few, which makes no difference to a driver.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import ACID_VERSION_FILE, BaseName
from airflow_hiveacid.format.table import PartitionName
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.deltas import delta
from tests.proofs.bench.cliffs.files import inserted, link, write_directory
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DAY, cliff_rows, day_names
from tests.proofs.bench.records import OURS

if TYPE_CHECKING:
    from tests.proofs.bench.cliffs.ground import Ground

_PART: Final = "planning"
_BASE: Final = BaseName(write_id=WriteId(1))
_ROWS: Final = 10


def measure_planning(ground: Ground) -> None:
    """Measure many partitions of one file each, the same with many files each, many deltas."""
    _plan_partitions(ground)
    _plan_deltas(ground)
    shutil.rmtree(ground.folder)


def _plan_partitions(ground: Ground) -> None:
    count, buckets = ground.sizes.planned_partitions, ground.sizes.planned_buckets
    ground.begin(f"planning {count:,} partitions")
    table = AcidTable.create(ground.lab, f"{ground.name}_planned", CLIFF_COLUMNS, (DAY,))
    days = day_names(count)
    table.add_partitions([PartitionName((DAY.name,), (day,)) for day in days])
    table.use_up_write_ids(1)
    for first, last in ((0, 1), (1, buckets)):
        model = ground.folder / f"model-{first}"
        for bucket in range(first, last):
            rows = cliff_rows(np.arange(bucket * _ROWS, (bucket + 1) * _ROWS))
            write_directory(model, _BASE, [inserted(rows, 1, bucket)], bucket)
        if first:
            (model / str(_BASE) / ACID_VERSION_FILE).unlink()  # exists already in the target
        for day in days:
            link(model, table.folder / f"{DAY.name}={day}")
        what = "partitions" if last == 1 else "files"
        _plan(ground, table, count * last, what)
    table.drop()


def _plan_deltas(ground: Ground) -> None:
    count = ground.sizes.planned_deltas
    ground.begin(f"planning {count:,} deltas")
    table = AcidTable.create(ground.lab, f"{ground.name}_planned_deltas", CLIFF_COLUMNS)
    for i in range(count):
        rows = cliff_rows(np.arange(i * _ROWS, (i + 1) * _ROWS))
        write_directory(table.folder, delta(i + 1), [inserted(rows, i + 1)])
    table.use_up_write_ids(count)
    _plan(ground, table, count, "deltas")
    table.drop()


def _plan(ground: Ground, table: AcidTable, size: int, what: str) -> None:
    """Measure planning a read, after one run to warm up."""
    ground.begin(f"planning {size:,} {what}")
    _to_plan(table)
    for run in range(ground.recorder.repeats):
        works = {OURS: partial(_to_plan, table)}
        ground.change((_PART, size), what, works, size, run)


def _to_plan(table: AcidTable) -> int:
    """Plan a read of everything from a new connection on, and return 0 bytes written."""
    with table.frame() as rows:
        rows._jdf.queryExecution().executedPlan()
    return 0
