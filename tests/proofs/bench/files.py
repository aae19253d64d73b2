"""A quick way to bring a table into some state: our own writer makes its files, without a job.

Ten thousand statements would take hours, and are not to be measured. Flat files come from the same
encoder, so the files of both sides differ only in their layout. Local disk only.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs, orc

from airflow_hiveacid.format import ids, names
from airflow_hiveacid.format.table import Column, PartitionName
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter, WriterOptions
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DAY, cliff_rows, day_folder
from tests.proofs.bench.lab import Lab

FIRST_BASE: Final = names.BaseName(write_id=ids.WriteId(1))
OPTIONS: Final = WriterOptions(compression="zstd")
_LOCAL: Final = pafs.LocalFileSystem()
_STATEMENT: Final = ids.StatementId(0)


def delta(write_id: int, *, is_delete: bool = False) -> names.DeltaName:
    """Return the delta that an INSERT with this write ID makes, or the delete delta of a DELETE."""
    own = ids.WriteId(write_id)
    return names.DeltaName(low=own, high=own, statement_id=_STATEMENT, is_delete=is_delete)


def inserted(rows: pa.Table, write_id: int, bucket: int = 0, first: int = 0) -> pa.RecordBatch:
    """Return insert events of one write ID for rows of one bucket, with row IDs from `first`."""
    (batch,) = rows.combine_chunks().to_batches()
    prop = ids.encode(ids.BucketId(bucket), _STATEMENT)
    return insert_events(batch, ids.WriteId(write_id), prop, ids.RowId(first))


def deleted(inserts: pa.RecordBatch, which: pa.Array, write_id: int) -> pa.RecordBatch:
    """Return delete events of a write ID for some of these rows."""
    return delete_events(inserts.filter(which), ids.WriteId(write_id), CLIFF_COLUMNS)


def write_directory(
    root: Path,
    name: names.DirectoryName,
    events: Iterable[pa.RecordBatch | None],
    bucket: int = 0,
    columns: Sequence[Column] = CLIFF_COLUMNS,
) -> None:
    """Write a base, delta or delete delta of one bucket below a table's or partition's root.

    A stripe ends at each None.
    """
    is_delete = not isinstance(name, names.BaseName) and name.is_delete
    path = root / str(name) / names.bucket_file(ids.BucketId(bucket))
    with AcidFileWriter(_LOCAL, str(path), columns, OPTIONS, is_delete=is_delete) as writer:
        for batch in events:
            if batch is None:
                writer.end_stripe()
            else:
                writer.write(batch)
        writer.close()
    path.with_name(names.ACID_VERSION_FILE).write_text("2")


def write_deltas(
    root: Path,
    count: int,
    size: int,
    *,
    first_key: int = 0,
    first_id: int = 1,
    flat: Path | None = None,
) -> None:
    """Write deltas of `size` new rows each, with ascending keys and write IDs.

    Their rows become flat files, too, if there is a folder for these.
    """
    for i in range(count):
        first, write_id = first_key + i * size, first_id + i
        rows = cliff_rows(np.arange(first, first + size))
        write_directory(root, delta(write_id), [inserted(rows, write_id)])
        if flat is not None:
            write_flat(flat / f"part-{i}.orc", rows)


def write_flat(path: Path, rows: pa.Table) -> None:
    """Write one flat ORC file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(rows, str(path), compression="zstd")


def link(source: Path, target: Path) -> None:
    """Copy a folder with everything below it, by hard links."""
    shutil.copytree(source, target, copy_function=os.link, dirs_exist_ok=True)


def partitioned(lab: Lab, name: str, days: Sequence[str], model: Path | None = None) -> AcidTable:
    """Create a table with a partition for each day, which has the directories of the model."""
    table = AcidTable.create(lab, name, CLIFF_COLUMNS, (DAY,))
    table.add_partitions([PartitionName((DAY.name,), (day,)) for day in days])
    if model is not None:
        link_to_days(model, table, days)
    return table


def link_to_days(model: Path, table: AcidTable, days: Sequence[str]) -> None:
    for day in days:
        link(model, table.folder / day_folder(day))
