"""Measurements of compactions that copy stripes: beside `cp`, and beside decoding and encoding.

The compaction of a bucket is measured as its Spark task does it, in this process, and as a whole
job, with transaction, queue and Spark. Several tasks compact a large bucket, and none holds much of
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from airflow_hiveacid.format.ids import BucketId, StatementId, WriteId, encode
from airflow_hiveacid.format.names import BaseName, DeltaName, staging_directory
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.storage.acid.events import delete_events
from airflow_hiveacid.storage.acid.read.buckets import bucket_files
from airflow_hiveacid.storage.acid.write import bucket_merge
from airflow_hiveacid.storage.stores.staging import Staging
from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.files import FIRST_BASE, OPTIONS, delta, inserted, write_directory
from tests.proofs.bench.ground import Ground, Work, cpu, ratios, require_rows, rows_of
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.sales import COLUMNS, Ints, generator, sales

_EIGHT: Final = tuple(Column(name=f"c{i}", type="bigint") for i in range(8))
_CHUNKS: Final = 32
_DELTAS: Final = 10
_DAYS: Final = 20
_BASE: Final = WriteId(1)


def measure_minor(ground: Ground) -> None:
    """Measure a minor compaction of ten insert deltas: small ones, and 1 GB."""
    for rows in (ground.size(100_000, 1_000), ground.size(3_000_000, 2_000)):
        table = AcidTable.create(ground.lab, f"minor_{rows}", _EIGHT)
        for i in range(_DELTAS):
            events = inserted(_numbers(rows, i), i + 1)
            write_directory(table.folder, delta(i + 1), [events], columns=_EIGHT)
        table.use_up_write_ids(_DELTAS)
        case = f"minor, {_DELTAS} deltas of {rows:,} rows ({table.size_bytes / 1e6:,.0f} MB)"
        runs = _Runs(table=table, rows=_DELTAS * rows)
        took = ground.in_turn({"task": runs.task, "cp": runs.copy, "job": runs.job})
        is_small = rows == ground.size(100_000, 1_000)
        ground.found(f"{case}: a task", "CPU s", cpu(took["task"]), 0.2 if is_small else None)
        ratio = ratios(took["task"], took["cp"])
        ground.found(f"{case}: a task", "of the CPU of cp and sync", ratio, None if is_small else 2)
        ground.found(f"{case}: the whole job", "CPU s", cpu(took["job"]))
        runs.end()


def measure_major(ground: Ground) -> None:
    """Measure a major compaction of sales, with deletes in one day, then all over the table."""
    draw, rows = generator("compaction"), ground.size(4_000_000, 20_000)
    count, day = rows // 100, rows // _DAYS
    for name, gone, most in (
        ("deletes in one day", np.arange(7 * day, 7 * day + day)[:: day // count], 0.125),
        ("random deletes", np.sort(draw.choice(rows, count, replace=False)), None),
    ):
        table = _sales_table(ground, f"major_{name[0]}", rows, gone)
        case = f"major, {name} of {rows:,} rows"
        left = rows + _DELTAS * (rows // 40) - len(gone)
        runs = _Runs(table=table, rows=left, gone=gone)
        took = ground.in_turn({"task": runs.task, "recode": runs.recode, "job": runs.job})
        ratio = ratios(took["task"], took["recode"])
        ground.found(f"{case}: a task", "of pyarrow's CPU", ratio, most)
        ground.found(f"{case}: the whole job", "CPU s", cpu(took["job"]))
        ground.found(case, "of the bytes decoded", runs.decoded(), most and 0.06)
        runs.end()


def measure_large(ground: Ground) -> None:
    """Measure a major compaction of one bucket after random deletes, and of one four times larger.

    An idle core is one that neither this job nor another program used.
    """
    peaks = []
    for rows in (ground.size(8_000_000, 3_200), ground.size(32_000_000, 6_400)):
        table = AcidTable.create(ground.lab, f"large_{rows}", _EIGHT)
        size = rows // _CHUNKS
        events = (inserted(_numbers(size, i), 1, first=i * size) for i in range(_CHUNKS))
        write_directory(table.folder, FIRST_BASE, events, columns=_EIGHT)
        gone = generator("large").choice(size * _CHUNKS, rows // 100, replace=False)
        _delete_rows(table, np.sort(gone), 2)
        table.use_up_write_ids(2)
        case = f"one bucket, {table.size_bytes / 1e6:,.0f} MB, 1 % random deletes"
        took = ground.measure(table.compactions["major"])
        peaks.append(took.worker_peak_bytes)
        cores = ground.lab.spark.sparkContext.defaultParallelism
        busy = (took.cpu_seconds + took.other_cpu_seconds) / took.seconds / cores
        ground.found(f"{case}: idle cores", "of all cores", max(0.0, 1 - busy), 0.2)
        ground.found(f"{case}: the largest worker", "MiB", peaks[-1] / (1 << 20))
        table.drop()
    ground.found(
        "the largest worker for a bucket four times larger",
        "of the memory",
        peaks[1] / peaks[0],
        1.2,
    )


def _sales_table(ground: Ground, name: str, rows: int, gone: Ints) -> AcidTable:
    """Return a table of sales: a base with a stripe a day, ten appends, and these rows deleted."""
    table = AcidTable.create(ground.lab, name)
    day = rows // _DAYS

    def base() -> Iterator[pa.RecordBatch | None]:
        for first in range(0, rows, day):
            drawn = sales(np.arange(first, first + day), "base", first, columns=COLUMNS)
            yield inserted(drawn, _BASE, first=first)
            yield None

    write_directory(table.folder, FIRST_BASE, base(), columns=COLUMNS)
    for i in range(_DELTAS):
        keys = np.arange(rows + i * rows // 40, rows + (i + 1) * rows // 40)
        events = inserted(sales(keys, "append", i, columns=COLUMNS), i + 2)
        write_directory(table.folder, delta(i + 2), [events], columns=COLUMNS)
    _delete_rows(table, gone, _DELTAS + 2)
    table.use_up_write_ids(_DELTAS + 2)
    return table


def _delete_rows(table: AcidTable, gone: Ints, write_id: int) -> None:
    """Write delete events for rows of the first write, given by row ID in ascending order."""
    name = delta(write_id, is_delete=True)
    bucket = np.full(len(gone), encode(BucketId(0), StatementId(0)), np.int32)
    identities = {"originalTransaction": np.full(len(gone), _BASE), "bucket": bucket, "rowId": gone}
    events = delete_events(pa.record_batch(identities), WriteId(write_id), table.info.columns)
    write_directory(table.folder, name, [events], columns=table.info.columns)


def _numbers(rows: int, seed: int) -> pa.Table:
    draw = generator("numbers", seed)
    return pa.table({c.name: pa.array(draw.integers(0, 1 << 32, rows)) for c in _EIGHT})


@dataclass(slots=True, kw_only=True)
class _Runs:
    """The compaction of a table of one bucket, in several ways. Mutable: it holds the last fork.

    `rows` is the number of rows of the result; `gone` are the deleted rows of the first write.
    Each method with a work as its result prepares one run.
    """

    table: AcidTable
    rows: int
    gone: Ints | None = None
    fork: AcidTable | None = None

    def task(self) -> Work:
        """Compact the bucket as a task does."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        work = self.compaction()

        def run() -> None:
            (file,) = bucket_merge.compact_bucket(work, "attempt")
            self._check(file.rows)
            _sync(self._scratch)

        return run

    def job(self) -> Work:
        """Compact a copy of the table in a job."""
        if self.fork is not None:
            self.fork.drop()
        self.fork = self.table.fork(f"{self.table.info.ref.name}_fork")
        return self.fork.compactions["minor" if self.gone is None else "major"]

    def copy(self) -> Work:
        """Copy the files with `cp`."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        deltas = [*self.table.folder.glob("delta_*")]
        command = ["cp", "--reflink=never", "--recursive"]

        def run() -> None:
            subprocess.run([*command, *deltas, self._scratch], check=True)
            _sync(self._scratch)

        return run

    def recode(self) -> Work:
        """Decode everything with PyArrow, drop the deleted rows, and encode the others."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        files = [str(self.table.folder / file.key) for file in self.compaction().inserts]
        gone = pa.array([] if self.gone is None else self.gone, pa.int64())

        def run() -> None:
            rows = 0
            with orc.ORCWriter(str(self._scratch / "recoded"), compression="zstd") as writer:
                for batch in _stripes(files):
                    is_base = pc.equal(batch["originalTransaction"], pa.scalar(_BASE, pa.int64()))
                    is_gone = pc.and_(is_base, pc.is_in(batch["rowId"], gone))
                    kept = batch.filter(pc.invert(is_gone))
                    writer.write(pa.Table.from_batches([kept]))
                    rows += kept.num_rows
            self._check(rows)
            _sync(self._scratch)

        return run

    def end(self) -> None:
        """Check the rows of the last job, and drop all tables."""
        if self.fork is not None:
            require_rows(self.fork, rows_of(self.table))
            self.fork.drop()
        self.table.drop()

    def decoded(self) -> float:
        """Return the share of the bytes with rows that the compaction decodes."""
        work = self.compaction()
        whole = bucket_merge.stripes_to_copy(work)
        copied = sum(one.tail.stripes[one.number].length for one in whole)
        return 1 - copied / sum(file.length for file in work.inserts)

    def compaction(self) -> bucket_merge.BucketCompaction:
        """Return the work of the table's only bucket."""
        write_ids, _ = self.table.seen()
        (bucket,) = bucket_files(self.table.state(), write_ids)
        high = write_ids.high_watermark
        output = DeltaName(low=_BASE, high=high) if self.gone is None else BaseName(write_id=high)
        return bucket_merge.BucketCompaction(
            table=self.table.info.ref,
            columns=self.table.info.columns,
            bucket_id=bucket.bucket_id,
            inserts=bucket.inserts,
            deletes=bucket.deletes,
            write_ids=write_ids,
            outputs=(output,),
            staging=Staging(location=self.table.info.location, token="bench"),
            options=OPTIONS,
        )

    def _check(self, rows: int) -> None:
        if rows != self.rows:
            raise WrongRowsError(f"{self.table.info.ref}: {rows} rows instead of {self.rows}")

    @property
    def _scratch(self) -> Path:
        return self.table.folder / staging_directory("bench")


def _stripes(files: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for file in map(orc.ORCFile, files):
        for number in range(file.nstripes):
            yield file.read_stripe(number)


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
