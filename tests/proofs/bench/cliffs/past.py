"""A measurement of reading an earlier version, compared with the present, of the same files.

The version is the newest, requested by its number, so that both read the same rows. Each write left
a note, as jobs do; a reader of an earlier version reads these notes, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.records import CommitNote, TimeBounds
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.proofs.bench import acid, files, records
from tests.proofs.bench.cliffs.rows import CLIFF_COLUMNS, DELETED_OF, cliff_rows
from tests.proofs.bench.ground import Ground

_PART: Final = "past"
_DELTAS: Final = 20


def measure_past(ground: Ground) -> None:
    """Measure a base, deltas and a delete delta at present and as of the newest version.

    The present takes the place of flat files.
    """
    size, each = ground.size(1_000_000, 4_000), ground.size(1_000, 100)
    ground.begin(f"an earlier version of {size:,} rows: making the table")
    table = acid.AcidTable.create(ground.lab, f"{ground.name}_past", CLIFF_COLUMNS)
    base = files.inserted(cliff_rows(np.arange(size)), 1)
    files.write_directory(table.folder, files.FIRST_BASE, [base])
    files.write_deltas(table.folder, _DELTAS, each, first_key=size, first_id=2)
    newest = WriteId(_DELTAS + 2)
    which = pa.array(np.arange(size) % DELETED_OF == 0)
    name = files.delta(newest, is_delete=True)
    files.write_directory(table.folder, name, [files.deleted(base, which, newest)])
    table.use_up_write_ids(newest)
    _note(table, newest)
    ground.begin(f"an earlier version of {size:,} rows: scans")
    then = _AsOf(table=table, version=newest)
    ground.ask((_PART, size), size + _DELTAS * each, {records.FLAT: table, records.OURS: then})
    table.drop()
    shutil.rmtree(ground.folder, ignore_errors=True)


def _note(table: acid.AcidTable, newest: WriteId) -> None:
    """Write the notes that our jobs would have left of their commits, one minute apart."""
    notes = VersionNotes.of(table.info)
    for number in range(1, newest + 1):
        notes.note_commit(
            CommitNote(
                table_id=table.info.table_id,
                write_id=WriteId(number),
                txn_id=TxnId(number),
                job_key="bench",
                attempt="1",
                kind="insert",
                directories=(str(files.delta(number)),) if 1 < number < newest else (),
                opened_s=60.0 * number,
                seen=f"{table.info.ref}:{number - 1}:{(1 << 63) - 1}::",
                seen_after_s=60.0 * number + 1,
                seen_by_s=60.0 * number + 2,
                committed=TimeBounds(after_s=60.0 * number + 3, by_s=60.0 * number + 4),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AsOf:
    """A table as of a version."""

    table: acid.AcidTable
    version: WriteId

    @contextmanager
    def frame(self, columns: Sequence[str] | None = None) -> Iterator[DataFrame]:
        with self.table.snapshot() as snapshot:
            yield read_table(
                self.table.lab.spark,
                self.table.name,
                snapshot,
                columns=columns,
                version=self.version,
            )

    @property
    def size_bytes(self) -> int:
        return self.table.size_bytes
