"""A measurement of readers while another process appends, compacts and overwrites.

The other process has its own Spark. A reader fails if its rows are not those of whole writes.

The control is a process that appends to another table and compacts that table: the same work beside
the readers, but none on their table. So the difference between both is what compactions cost
readers; the rest is the cost of a busy machine.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from tests.proofs.bench.acid import AcidTable, run_job
from tests.proofs.bench.check import WrongRowsError
from tests.proofs.bench.data import generate
from tests.proofs.bench.lab import Lab, session
from tests.proofs.bench.measurement import FOLDER
from tests.proofs.bench.queries import read_everything
from tests.proofs.bench.sizes import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from airflow_hiveacid.format.table import TableInfo
    from tests.proofs.bench.compaction.ground import Ground
    from tests.proofs.bench.data import Workload

_PAUSE_S: Final = 1.0


def measure_readers(ground: Ground) -> None:
    """Measure readers alone, and beside compactions, OVERWRITEs, both, and the control."""
    rows, count = ground.size(1_000_000, 10_000), ground.size(8, 2)
    workload = generate(FOLDER, Sizes(rows=rows))
    table, other = (AcidTable.create(ground.lab, name) for name in ("readers", "control"))
    table.overwrite(workload.base)
    other.overwrite(workload.base)
    readers = _Readers(table=table, workload=workload)
    readers.read(1)
    alone, _ = readers.read(count)
    found = {}
    for name, written, works in (
        ("compactions of another table, the control", other, ("compact",)),
        ("compactions", table, ("compact",)),
        ("OVERWRITEs", table, ("overwrite",)),
        ("compactions and OVERWRITEs", table, ("overwrite", "compact")),
    ):
        with _beside(written, workload, works):
            reads, waits = readers.read(count)
        found[name] = [read / median(alone) for read in reads]
        limit = 1.2 if written is table and "compact" in works else None
        case = f"readers of {rows:,} rows beside {name}"
        ground.found(case, "of the seconds alone", found[name], limit)
        ground.found(f"{case}: the longest wait for a lock", "s", max(waits))
    control, compactions = list(found.values())[:2]
    ground.found(
        f"readers of {rows:,} rows: compactions beside the control",
        "of the control's seconds",
        [ratio / median(control) for ratio in compactions],
        1.2,
    )
    table.drop()
    other.drop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readers:
    """Readers of one table, in turn."""

    table: AcidTable
    workload: Workload

    def read(self, count: int) -> tuple[list[float], list[float]]:
        """Read everything repeatedly; return the seconds of each read, and of its wait for locks.

        The appends make the table larger, so the seconds are those of the rows of the base.

        Raises:
            WrongRowsError: A reader saw a part of a write.
        """
        reads, waits = [], []
        for _ in range(count):
            began = time.monotonic()
            with self.table.snapshot() as snapshot:
                waits.append(time.monotonic() - began)
                ((rows,),) = read_everything(self.table.rows(snapshot, None))
            seconds = time.monotonic() - began
            sizes = self.workload.sizes
            reads.append(seconds * sizes.rows / int(str(rows)))
            if (int(str(rows)) - sizes.rows) % sizes.append_rows:
                raise WrongRowsError(f"a reader saw {rows} rows, which is a part of a write")
        return reads, waits


@contextmanager
def _beside(table: AcidTable, workload: Workload, works: Sequence[str]) -> Iterator[None]:
    """Run a block while another process appends and does these works.

    Raises:
        WrongRowsError: It failed.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    lab = partial(
        Lab,
        endpoint=table.lab.endpoint,
        meter=table.lab.meter,
        folder=table.lab.folder / "beside",
        database=table.lab.database,
    )
    other = context.Process(target=_write, args=(lab, table.info, workload, works, there))
    other.start()
    there.close()
    try:
        here.recv()  # its first round has ended, so its JVM is warm
        yield
    finally:
        here.close()
        other.join()
    if other.exitcode:
        raise WrongRowsError("the process beside the readers failed; it has printed the reason")


def _write(
    lab_of: partial[Lab],
    info: TableInfo,
    workload: Workload,
    works: Sequence[str],
    connection: Connection,
) -> None:
    """Append, then do the works at the same time; repeat until the connection is closed."""
    spark = session(lab_of.keywords["folder"], {"spark.master": "local[1]"})
    table = AcidTable(lab=lab_of(spark=spark), info=info)
    spec = CompactSpec(target=str(info.ref), delta_count=1)
    does: dict[str, Callable[[], object]] = {
        "overwrite": partial(table.overwrite, workload.base),
        "compact": partial(run_job, table.lab, spec),
    }
    is_first = True
    with ThreadPoolExecutor() as pool:
        while is_first or not connection.poll(_PAUSE_S):
            table.append(workload.appends[0])
            for done in [pool.submit(does[work]) for work in works]:
                done.result()
            if is_first:
                connection.send(None)
            is_first = False
    spark.stop()
