"""Measurements of compactions of many partitions and of many tables, each in one job."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np

from airflow_hiveacid.jobs.job import Job, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactSpec
from tests.proofs.bench import acid, files, recorder
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, cliff_rows, day_names
from tests.proofs.bench.ground import Ground

_DELTAS: Final = 10
_ROWS: Final = 100
_FEW: Final = 4
_MIB: Final = 1 << 20


def measure_partitions(ground: Ground) -> None:
    """Measure a compaction of all partitions, beyond that of very few."""
    model = _deltas(ground)
    seconds = []
    for name, count in (("warm", _FEW), ("few", _FEW), ("many", _FEW + ground.size(400))):
        table = files.partitioned(ground.lab, f"partitions_{name}", day_names(count), model)
        table.use_up_write_ids(_DELTAS)
        seconds.append(_compacted(ground, CompactSpec.of_table(table.name), count))
        table.drop()
    _found(ground, "partitions with 10 deltas, one job", seconds, count)


def measure_tables(ground: Ground) -> None:
    """Measure a compaction of all tables, beyond that of very few."""
    model = _deltas(ground)
    seconds = []
    for name, count in (("warm", _FEW), ("few", _FEW), ("many", _FEW + ground.size(200))):
        tables = []
        for i in range(count):
            tables.append(acid.AcidTable.create(ground.lab, f"tables_{name}_{i}", CLIFF_COLUMNS))
            tables[-1].use_up_write_ids(_DELTAS)
            files.link(model, tables[-1].folder)
        spec = CompactSpec(tables=(f"{acid.DATABASE}.tables_{name}_*",))
        seconds.append(_compacted(ground, spec, count))
        for table in tables:
            table.drop()
    _found(ground, "tables with 10 deltas, one driver", seconds, count)


def measure_planning(ground: Ground) -> None:
    """Measure the plan of a compaction of very many partitions, each with a base and a delta."""
    model = _empty(ground)
    rows = cliff_rows(np.arange(_ROWS))
    files.write_directory(model, files.FIRST_BASE, [files.inserted(rows, 1)])
    files.write_directory(model, files.delta(2), [files.inserted(rows.slice(0, 1), 2)])
    count = ground.size(10_000)
    table = files.partitioned(ground.lab, "planned", day_names(count), model)
    table.use_up_write_ids(_DELTAS)
    spec = CompactSpec.of_table(table.name, plan_only=True)
    took = ground.in_turn({"plan": lambda: lambda: acid.run_job(ground.lab, spec)})["plan"]
    case = f"plan of {count:,} partitions"
    ground.found(case, "s", [one.seconds for one in took], 20)
    ground.found(f"{case}: the driver", "MiB", max(o.driver_peak_bytes for o in took) / _MIB, 1024)
    table.drop()


def _deltas(ground: Ground) -> Path:
    """Write ten small deltas into a folder, and return it."""
    model = _empty(ground)
    files.write_deltas(model, _DELTAS, _ROWS)
    return model


def _empty(ground: Ground) -> Path:
    model = ground.lab.folder / "model"
    shutil.rmtree(model, ignore_errors=True)
    return model


def _compacted(ground: Ground, spec: Job, count: int) -> float:
    """Compact everything, and return the CPU seconds.

    Raises:
        WrongRowsError: Something was not compacted.
    """
    results = []
    took = ground.measure(lambda: results.append(acid.run_job(ground.lab, spec)))
    if results[0].status is not JobStatus.COMMITTED or results[0].files != count:
        raise recorder.WrongRowsError(
            f"{results[0].files} of {count} partitions or tables were compacted"
        )
    return took.cpu_seconds


def _found(ground: Ground, what: str, seconds: list[float], count: int) -> None:
    _, few, many = seconds
    ground.found(f"{count - _FEW} {what}", "CPU s each", (many - few) / (count - _FEW), 0.1)
    ground.found(f"{_FEW} {what}: the fixed cost", "CPU s", few)
