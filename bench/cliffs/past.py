"""Measures what reading an earlier version costs beside reading the present, of the same files.

The version is the newest, asked for by its number, so that both read the same rows. Each write has
left a note, as those of jobs do: these are what a reader of the past reads besides.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from airflow_hiveacid.format.ids import StatementId, TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName
from airflow_hiveacid.plan.history import Between, CommitNote
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from bench.acid import AcidTable
from bench.cliffs.deltas import delta
from bench.cliffs.files import deleted, inserted, write_directory
from bench.cliffs.rows import CLIFF_COLUMNS, DELETED_OF, cliff_rows
from bench.records import FLAT, OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from bench.cliffs.ground import Ground

_PART: Final = "past"


def measure_past(ground: Ground) -> None:
    """A base, deltas and a delete delta, read as they are and as of the newest version.

    The present stands where flat files stand elsewhere.
    """
    size, count, each = ground.sizes.past_rows, ground.sizes.past_deltas, ground.sizes.delta_rows
    ground.begin(f"an earlier version of {size:,} rows: making the table")
    table = AcidTable.create(ground.lab, f"{ground.name}_past", CLIFF_COLUMNS)
    base = inserted(cliff_rows(np.arange(size)), 1)
    write_directory(table.folder, BaseName(write_id=WriteId(1)), [base])
    for i in range(count):
        rows = cliff_rows(np.arange(size + i * each, size + (i + 1) * each))
        write_directory(table.folder, delta(i + 2), [inserted(rows, i + 2)])
    newest = WriteId(count + 2)
    which = pa.array(np.arange(size) % DELETED_OF == 0)
    name = DeltaName(low=newest, high=newest, statement_id=StatementId(0), is_delete=True)
    write_directory(table.folder, name, [deleted(base, which, newest)])
    table.use_up_write_ids(newest)
    _note(table, newest)
    ground.begin(f"an earlier version of {size:,} rows: scans")
    then = _AsOf(table=table, version=newest)
    ground.ask((_PART, size), size + count * each, {FLAT: table, OURS: then})
    table.drop()
    shutil.rmtree(ground.folder, ignore_errors=True)


def _note(table: AcidTable, newest: WriteId) -> None:
    """What jobs of ours would have noted of their commits, a minute from each other."""
    notes = VersionNotes.of(table.info)
    for number in range(1, newest + 1):
        name = delta(number)
        notes.note_commit(
            CommitNote(
                table_id=table.info.table_id,
                write_id=WriteId(number),
                txn_id=TxnId(number),
                job_key="bench",
                attempt="1",
                kind="insert",
                directories=(str(name),) if 1 < number < newest else (),
                opened_s=60.0 * number,
                seen=f"{table.info.ref}:{number - 1}:{(1 << 63) - 1}::",
                seen_after_s=60.0 * number + 1,
                seen_by_s=60.0 * number + 2,
                committed=Between(after_s=60.0 * number + 3, by_s=60.0 * number + 4),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AsOf:
    """A table as of a version."""

    table: AcidTable
    version: WriteId

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        """Its rows."""
        with self.table.snapshot() as snapshot:
            yield read_table(
                self.table.lab.spark,
                str(self.table.info.ref),
                snapshot,
                columns=columns,
                version=self.version,
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the data files."""
        return self.table.size_bytes
