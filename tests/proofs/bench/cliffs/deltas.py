"""A measurement of tables with many deltas and no compaction: scans, and deletes by key."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DELETED_OF
from tests.proofs.bench.files import write_deltas
from tests.proofs.bench.ground import QUESTIONS, Ground
from tests.proofs.bench.records import FLAT, OURS
from tests.proofs.bench.sales import KEY
from tests.proofs.bench.yardsticks import FlatOrc

_PART: Final = "deltas"
_EVERYTHING: Final = {"all": QUESTIONS["all"]}


def measure_deltas(ground: Ground) -> None:
    """Measure few deltas, then many; there are as many flat files, which deletes rewrite."""
    size = ground.size(1_000, 100)
    for count in (ground.size(100, 3), ground.size(1_000)):
        ground.begin(f"{count:,} deltas: making them")
        table = AcidTable.create(ground.lab, f"{ground.name}_deltas_{count}", CLIFF_COLUMNS)
        flat = FlatOrc(spark=ground.lab.spark, path=ground.folder / "deltas")
        write_deltas(table.folder, count, size, flat=flat.path)
        table.use_up_write_ids(count)
        ground.begin(f"{count:,} deltas: scans")
        ground.ask((_PART, count), count * size, {FLAT: flat, OURS: table})
        ground.begin(f"{count:,} deltas: deletes")
        _delete(ground, count, size, table, flat)
        table.drop()
        shutil.rmtree(ground.folder)


def _delete(ground: Ground, count: int, size: int, table: AcidTable, flat: FlatOrc) -> None:
    """Delete as many keys as a delta has rows, spread over the table; others in each run."""
    rows, deleted = count * size, []
    for run in range(ground.recorder.repeats):
        keys = np.linspace(run, rows - DELETED_OF + run, size).astype(np.int64)
        source, path = ground.folder / f"keys-{run}.parquet", ground.folder / f"without-{run}"
        pq.write_table(pa.table({KEY: np.unique(keys)}), source)
        deleted.append(source)
        works = {
            FLAT: partial(_bytes_without, flat, source, path),
            OURS: partial(table.delete, source),
        }
        ground.change((_PART, count), "delete", works, len(keys), run)
        shutil.rmtree(path)
    left = flat.without(deleted, ground.folder / "left")
    ground.ask((_PART, count), rows, {FLAT: left, OURS: table}, _EVERYTHING, "deleted-")


def _bytes_without(flat: FlatOrc, keys: Path, path: Path) -> int:
    return flat.without([keys], path).size_bytes
