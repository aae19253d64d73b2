"""A measurement of tables with many deltas and no compaction: scans, and deletes by key."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.files import inserted, write_directory, write_flat
from tests.proofs.bench.cliffs.ground import QUESTIONS
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DELETED_OF, cliff_rows
from tests.proofs.bench.flat import FlatOrc
from tests.proofs.bench.records import FLAT, OURS
from tests.proofs.bench.sales import KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs.bench.cliffs.ground import Ground

_PART: Final = "deltas"
_EVERYTHING: Final = {"all": QUESTIONS["all"]}


def measure_deltas(ground: Ground) -> None:
    """Measure few deltas, then many; there are as many flat files, which deletes rewrite."""
    for count in ground.sizes.deltas:
        ground.begin(f"{count:,} deltas: making them")
        table = AcidTable.create(ground.lab, f"{ground.name}_deltas_{count}", CLIFF_COLUMNS)
        flat = FlatOrc(spark=ground.lab.spark, path=ground.folder / "deltas")
        size = ground.sizes.delta_rows
        for i in range(count):
            rows = cliff_rows(np.arange(i * size, (i + 1) * size))
            write_directory(table.folder, delta(i + 1), [inserted(rows, i + 1)])
            write_flat(flat.path / f"part-{i}.orc", rows)
        table.use_up_write_ids(count)
        ground.begin(f"{count:,} deltas: scans")
        ground.ask((_PART, count), count * size, {FLAT: flat, OURS: table})
        ground.begin(f"{count:,} deltas: deletes")
        _delete(ground, count, table, flat)
        table.drop()
        shutil.rmtree(ground.folder)


def delta(write_id: int) -> DeltaName:
    """Return the delta that an INSERT with this write ID makes."""
    own = WriteId(write_id)
    return DeltaName(low=own, high=own, statement_id=StatementId(0))


def _delete(ground: Ground, count: int, table: AcidTable, flat: FlatOrc) -> None:
    """Delete as many keys as a delta has rows, spread over the table; others in each run."""
    rows, deleted = count * ground.sizes.delta_rows, []
    for run in range(ground.recorder.repeats):
        keys = np.linspace(run, rows - DELETED_OF + run, ground.sizes.delta_rows).astype(np.int64)
        deleted.append(_keys(ground.folder / f"keys-{run}.parquet", np.unique(keys)))
        path = ground.folder / f"without-{run}"
        works = {
            FLAT: partial(_bytes_without, flat, deleted[-1], path),
            OURS: partial(table.delete, deleted[-1]),
        }
        ground.change((_PART, count), "delete", works, len(keys), run)
        shutil.rmtree(path)
    left = flat.without(deleted, ground.folder / "left")
    ground.ask((_PART, count), rows, {FLAT: left, OURS: table}, _EVERYTHING, "deleted-")


def _keys(path: Path, keys: np.ndarray) -> Path:
    pq.write_table(pa.table({KEY: keys}), path)
    return path


def _bytes_without(flat: FlatOrc, keys: Path, path: Path) -> int:
    return flat.without([keys], path).size_bytes
