"""The writers of the play `warehouse`: three routes, each in a thread with its own tables."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import (
    AttemptId,
    BucketId,
    BucketProperty,
    RowId,
    StatementId,
    WriteId,
    decode,
    encode,
)
from airflow_hiveacid.format.names import DeltaName, bucket_file
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.jobs import job, statements
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import JobTerms
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.acid import IDENTITY_COLUMNS
from airflow_hiveacid.storage.acid.events import delete_events, insert_events
from airflow_hiveacid.storage.acid.read.scan import IDENTITY, scan
from airflow_hiveacid.storage.acid.write.writer import AcidFileWriter
from airflow_hiveacid.storage.orc.encoders import WriterOptions
from tests.judges.engine import HiveJudge
from tests.proofs.airflow.warehouse.tables import (
    BASE_ROWS,
    COLUMNS,
    NOTE_CHARS,
    PARTITION_COLUMN,
    PARTITIONS,
    Change,
    Table,
)
from tests.proofs.campaign.process import CampaignProcess

_OPERATIONS: Final = {
    "insert": {DataOperation.INSERT},
    "update": {DataOperation.UPDATE},
    "delete": {DataOperation.DELETE},
    "merge": {DataOperation.INSERT, DataOperation.UPDATE},
}
_SPARK_S: Final = 300.0
_BUSY: Final = 6
"""How often a busy table is written for each write of another table."""


class Writer(Protocol):
    def write(self, table: Table, change: Change) -> WriteId | None:
        """Commit a change; return its write ID if it is known."""


@dataclass(kw_only=True)
class Writing:
    """A thread that changes its tables, one every `pause_s` seconds. Mutable: it counts."""

    writer: Writer
    tables: Sequence[Table]
    pause_s: float
    over: Event
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Write until it is over. A table whose write fails is left alone from then on."""
        weights = [_BUSY if number % 5 == 0 else 1 for number in range(len(self.tables))]
        due_s = time.monotonic()
        while not self.over.is_set():
            (table,) = self.random.choices(self.tables, weights)
            if not table.is_doubtful:
                self._change(table)
            due_s = max(due_s + self.pause_s, time.monotonic() - self.pause_s)
            self.over.wait(max(0.0, due_s - time.monotonic()))

    def _change(self, table: Table) -> None:
        change = table.draw(self.random)
        try:
            table.record(change, self.writer.write(table, change))
            self.counts[change.kind] += 1
        except Exception as error:  # noqa: BLE001 - each is a finding
            table.is_doubtful = True
            self.errors.append(f"{change.kind} of {table.name}: {type(error).__name__}: {error}")


@dataclass(frozen=True, kw_only=True)
class FileWriter:
    """Our transactions and our storage code, without Spark."""

    client: MetastorePort

    def write(self, table: Table, change: Change) -> WriteId:
        """Commit a change, with one delta and one delete delta in each changed partition."""
        ref, operations = table.info.ref, frozenset(_OPERATIONS[change.kind])
        access = TableAccess(table=table.info, operations=operations)
        with begin(
            self.client, JobTerms(job_key=None, lock_timeout_s=120.0), writes=[access]
        ) as txn:
            write_id = txn.write_ids[ref]
            ids = {*change.inserted, *change.updated, *change.deleted}
            changed = [one for one in table.partitions if any(_is_in(one, i) for i in ids)]
            if table.info.is_partitioned:
                txn.register_partitions(ref, [one.name for one in changed], operations)
            for partition in changed:
                if table.is_insert_only:
                    _write_plain(partition, write_id, change)
                else:
                    _write_events(partition, write_id, change, txn.snapshot, table)
        return write_id


def _write_plain(partition: PartitionInfo, write_id: WriteId, change: Change) -> None:
    path = Path(_delta(partition, write_id), "000000_0")
    path.parent.mkdir()
    orc.write_table(pa.Table.from_batches([_rows(partition, change.inserted, {})]), path)


def _write_events(
    partition: PartitionInfo, write_id: WriteId, change: Change, snapshot: Snapshot, table: Table
) -> None:
    gone = {*change.updated, *change.deleted}
    ids, notes = [], dict[int, str | None]()
    if any(_is_in(partition, one) for one in gone):
        write_ids = snapshot.write_ids(table.info.ref)
        for batch in scan(
            partition.location, COLUMNS, write_ids, snapshot.txns, with_identity=True
        ):
            for row in batch.filter(pc.is_in(batch["id"], pa.array(gone))).to_pylist():
                ids.append(tuple(row[IDENTITY].values()))
                notes[row["id"]] = row["note"]
    for bucket_id in {decode(BucketProperty(one[1])).bucket_id for one in ids}:
        own = sorted(one for one in ids if decode(BucketProperty(one[1])).bucket_id == bucket_id)
        types = (pa.int64(), pa.int32(), pa.int64())
        columns = [
            pa.array(numbers, t) for numbers, t in zip(zip(*own, strict=True), types, strict=True)
        ]
        keys = pa.RecordBatch.from_arrays(columns, names=list(IDENTITY_COLUMNS))
        events = delete_events(keys, write_id, COLUMNS)
        _put(_delta(partition, write_id, is_delete=True), bucket_id, events, is_delete=True)
    rows = _rows(partition, {**change.updated, **change.inserted}, notes)
    if rows.num_rows:
        bucket = encode(BucketId(0), StatementId(0))
        events = insert_events(rows, write_id, bucket, RowId(0))
        _put(_delta(partition, write_id), BucketId(0), events, is_delete=False)


def _put(folder: str, bucket_id: BucketId, events: pa.RecordBatch, *, is_delete: bool) -> None:
    path, options = f"{folder}/{bucket_file(bucket_id)}", WriterOptions()
    with AcidFileWriter(LocalFileSystem(), path, COLUMNS, options, is_delete=is_delete) as writer:
        writer.write(events)
        writer.close()


def _rows(
    partition: PartitionInfo, values: Mapping[int, int], notes: Mapping[int, str | None]
) -> pa.RecordBatch:
    own = {one: value for one, value in values.items() if _is_in(partition, one)}
    texts = [notes.get(one, _note(one)) for one in own]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(own.keys(), pa.int64()),
            pa.array(own.values(), pa.int64()),
            pa.array(texts, pa.string()),
        ],
        names=[column.name for column in COLUMNS],
    )


def _note(row_id: int) -> str | None:
    """Return a row's note, which does not compress well; only the first rows have one."""
    if row_id >= BASE_ROWS:
        return None
    return f"{Random(row_id).getrandbits(4 * NOTE_CHARS):0{NOTE_CHARS}x}"


def _delta(partition: PartitionInfo, write_id: WriteId, *, is_delete: bool = False) -> str:
    name = DeltaName(low=write_id, high=write_id, statement_id=StatementId(0), is_delete=is_delete)
    return f"{partition.location.removeprefix('file:')}/{name}"


def _is_in(partition: PartitionInfo, row_id: int) -> bool:
    values = partition.name.values
    return not values or int(values[0] or 0) == row_id % PARTITIONS


@dataclass(frozen=True, kw_only=True)
class SparkWriter:
    """Our Spark jobs, in one driver that runs job after job."""

    process: CampaignProcess
    endpoint: MetastoreEndpoint

    def write(self, table: Table, change: Change) -> WriteId:
        """Commit a change as an operator's job does."""
        attempt = str(AttemptId.new())
        spec = job.JobSpec(
            job_key=f"writers/{attempt}/write/-1",
            metastore=self.endpoint,
            job=_job(table, change),
            attempt=attempt,
            result_uri=self.process.box.answer_of(attempt).as_uri(),
        )
        self.process.box.give(spec)
        give_up_s = time.monotonic() + _SPARK_S
        while (result := self.process.box.answer(attempt)) is None:
            if time.monotonic() > give_up_s or self.process.has_ended:
                raise TimeoutError("no answer from the driver")
            time.sleep(0.05)
        if result.error is not None:
            raise RuntimeError(str(result.error))
        return WriteId(result.write_ids[table.name])


def _job(table: Table, change: Change) -> job.Job:
    columns = ["id", "v", *([PARTITION_COLUMN.name] if table.info.is_partitioned else [])]
    rows = [_values(table, *row) for row in (*change.updated.items(), *change.inserted.items())]
    source = statements.SourceSpec(values=tuple(rows), columns=tuple(columns))
    match change.kind:
        case "insert":
            return statements.InsertSpec(target=table.name, source=source, columns=tuple(columns))
        case "update":
            return statements.UpdateSpec(
                target=table.name, set={"v": _case(change)}, where=_where(change)
            )
        case "delete":
            return statements.DeleteSpec(target=table.name, where=_where(change))
        case _:
            return statements.MergeSpec(
                target=table.name,
                source=source,
                keys=("id",),
                clauses=(
                    statements.MergeClause(
                        when=statements.MergeWhen.MATCHED,
                        action=statements.MergeAction.UPDATE,
                        set={"v": "s.v"},
                    ),
                    statements.MergeClause(
                        when=statements.MergeWhen.NOT_MATCHED,
                        action=statements.MergeAction.INSERT,
                        set={name: f"s.{name}" for name in columns},
                    ),
                ),
            )


def _values(table: Table, row_id: int, value: int) -> tuple[int, ...]:
    own = (row_id, value)
    return (*own, row_id % PARTITIONS) if table.info.is_partitioned else own


def _where(change: Change) -> str:
    return f"id IN ({_listed((*change.updated, *change.deleted))})"


def _case(change: Change) -> str:
    whens = " ".join(f"WHEN {one} THEN {value}" for one, value in change.updated.items())
    return f"CASE id {whens} END"


@dataclass(frozen=True, kw_only=True)
class HiveWriter:
    """Statements of Hive's own engine."""

    hive: HiveJudge

    def write(self, table: Table, change: Change) -> None:
        """Commit a change; Hive does not tell the write ID."""
        self.hive.execute(_statement(table, change))


def _statement(table: Table, change: Change) -> str:
    match change.kind:
        case "insert":
            where = f"partition ({PARTITION_COLUMN.name}) " if table.info.is_partitioned else ""
            rows = [
                "(" + _listed((*row[:2], "cast(null as string)", *row[2:])) + ")"
                for row in (_values(table, *one) for one in change.inserted.items())
            ]
            return f"insert into {table.name} {where}values {_listed(rows)}"
        case "update":
            return f"update {table.name} set v = {_case(change)} where {_where(change)}"
        case "delete":
            return f"delete from {table.name} where {_where(change)}"
        case _:
            given = (*change.updated.items(), *change.inserted.items())
            source = " union all ".join(f"select {i} as id, {v} as v" for i, v in given)
            new = ["s.id", "s.v", "null", *(["s.id % 2"] if table.info.is_partitioned else [])]
            return (
                f"merge into {table.name} t using ({source}) s on t.id = s.id"
                " when matched then update set v = s.v"
                f" when not matched then insert values ({_listed(new)})"
            )


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
