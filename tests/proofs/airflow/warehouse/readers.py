"""The readers of the play `warehouse`, and which of their readings were wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Final, Protocol

import pyarrow as pa

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.snapshot import Snapshot, ValidWriteIdList
from airflow_hiveacid.format.table import FileFormat
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.plain.rows import scan_plain
from tests.judges.engine import SqlEngine
from tests.proofs.airflow.warehouse.tables import COLUMNS, SUMS, Sums, Table

TRINO: Final = "Trino"
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The sums of one table, and how many writes were recorded before and after the read.

    `write_ids` are those of the reader's snapshot, if it is known. Times are seconds since 1970.
    """

    reader: str
    table: Table
    sums: Sums
    before: int
    after: int
    began_s: float
    ended_s: float
    write_ids: ValidWriteIdList | None = None

    @property
    def violation(self) -> str:
        """Why the sums are wrong, or an empty string; all writes must be recorded by now."""
        allowed = self._allowed()
        if self.table.is_doubtful or self.sums in allowed:
            return ""
        return f"{self.reader} read {self.table.name} as {self.sums}, not as {allowed}"

    def _allowed(self) -> list[Sums]:
        states, seen = self.table.states, self.write_ids
        if seen is None or any(write_id is None for write_id, _ in states[1:]):
            # A write is recorded some time after its commit.
            return [sums for _, sums in states[self.before - 1 : self.after + 1]]
        return [sums for write_id, sums in states if write_id and seen.is_visible(write_id)][-1:]


def is_about_a_manifest(error: str) -> bool:
    """Return True if Trino took a manifest of a running INSERT of Hive 4 for an original file."""
    return error.startswith(f"{TRINO},") and "OriginalFile" in error and "/-tmp.delta_" in error


class Reader(Protocol):
    """One way to read a table."""

    @property
    def name(self) -> str: ...

    def read(self, table: Table) -> tuple[Sums, ValidWriteIdList | None]:
        """Return the sums, and the snapshot if it is known."""


@dataclass(kw_only=True)
class Looking:
    """A thread that reads random tables. Mutable: it keeps readings."""

    reader: Reader
    tables: Sequence[Table]
    over: Event
    random: Random
    readings: list[Reading] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Read until it is over."""
        while not self.over.is_set():
            self.look(self.random.choice(self.tables))
            self.over.wait(_PAUSE_S)

    def look(self, table: Table) -> None:
        before, began_s = len(table.states), time.time()
        try:
            sums, write_ids = self.reader.read(table)
        except Exception as error:  # noqa: BLE001 - each is a finding
            self.errors.append(f"{self.reader.name}, {table.name}: {type(error).__name__}: {error}")
            return
        self.readings.append(
            Reading(
                reader=self.reader.name,
                table=table,
                sums=sums,
                before=before,
                after=len(table.states),
                began_s=began_s,
                ended_s=time.time(),
                write_ids=write_ids,
            )
        )


@dataclass(frozen=True, kw_only=True)
class FileReader:
    """Our reader without Spark, in a read transaction."""

    client: MetastorePort
    name: str = "our reader"

    def read(self, table: Table) -> tuple[Sums, ValidWriteIdList | None]:
        """Read all partitions under one snapshot."""
        access = TableAccess(table=table.info, operations=frozenset({DataOperation.SELECT}))
        with begin(
            self.client, JobTerms(job_key=None, lock_timeout_s=120.0), reads=[access]
        ) as txn:
            batches = _batches(table, txn.snapshot)
            rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
            return _sums(rows), txn.snapshot.write_ids(table.info.ref)


def _batches(table: Table, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    write_ids, txns = snapshot.write_ids(table.info.ref), snapshot.txns
    for partition in table.partitions:
        if table.is_insert_only:
            yield from scan_plain(partition.location, COLUMNS, FileFormat.ORC, write_ids, txns)
        else:
            yield from scan(partition.location, COLUMNS, write_ids, txns)


def _sums(rows: Sequence[tuple[int, int, str | None]]) -> Sums:
    return Sums(
        rows=len(rows),
        ids=sum(row[0] for row in rows),
        values=sum(row[1] for row in rows),
        products=sum(row[0] * row[1] for row in rows),
        note_chars=sum(len(row[2] or "") for row in rows),
    )


@dataclass(frozen=True, kw_only=True)
class SqlReader:
    """Trino or Hive. Hive returns the rows, because it would compute sums in a job."""

    name: str
    engine: SqlEngine
    with_rows: bool = False

    def read(self, table: Table) -> tuple[Sums, ValidWriteIdList | None]:
        if self.with_rows:
            rows = self.engine.execute(f"select id, v, note from {table.name}")
            return _sums([(row[0], row[1], row[2]) for row in rows]), None
        (found,) = self.engine.execute(f"select {SUMS} from {table.name}")
        return Sums(*found), None
