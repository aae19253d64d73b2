"""A measurement of readers while another process appends, compacts and overwrites.

The other process has its own Spark. A reader fails if its rows are not those of whole writes.

The control is a process that appends to another table and compacts that table: the same work beside
the readers, but none on their table. So the difference between both is what compactions cost
readers; the rest is the cost of a busy machine. An append has few rows, so that each reader reads
almost the same number of rows. Each compaction is a major one and writes the whole base.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import median
from typing import Final

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from tests.proofs.bench.acid import AcidTable, run_job
from tests.proofs.bench.data import Sizes, generate
from tests.proofs.bench.ground import Ground
from tests.proofs.bench.lab import FOLDER, Lab, session
from tests.proofs.bench.queries import read_everything
from tests.proofs.bench.recorder import WrongRowsError

_PAUSE_S: Final = 1.0
_LONGEST_S: Final = 120.0
_ROUNDS: Final = 2
_FEW: Final = Sizes(rows=10_000)
_COMPACT: Final = "compact"
_OVERWRITE: Final = "overwrite"


def measure_readers(ground: Ground) -> None:
    """Measure readers alone, and beside compactions, OVERWRITEs, both, and the control."""
    rows, count = ground.size(1_000_000, 10_000), ground.size(24, 2)
    base = generate(FOLDER, Sizes(rows=rows)).base
    append = generate(FOLDER, _FEW).appends[0]
    table, other = (AcidTable.create(ground.lab, name) for name in ("readers", "control"))
    readers = _Readers(table=table, base_rows=rows)
    course = _Course(readers=readers, other=other, base=base, append=append)
    table.overwrite(base)
    other.overwrite(base)
    readers.read(count, Progress.none())  # later reads would be faster than the first ones
    # In turn, because the JVM and the machine may become faster or slower meanwhile.
    for _ in range(_ROUNDS):
        for case in _COMPARED:
            course.run(case, -(-count // _ROUNDS))
    for case in _WITH_OVERWRITES:
        course.run(case, count)
    alone = median(course.reads[_ALONE])
    for case in (*_COMPARED[1:], *_WITH_OVERWRITES):
        name = f"readers of {rows:,} rows beside {case.name}"
        ratios = [read / alone for read in course.reads[case]]
        ground.found(name, "of the seconds alone", ratios, 1.2 if case is _COMPACTIONS else None)
        ground.found(f"{name}: the longest wait for a lock", "s", max(course.waits[case]))
        if _COMPACT in case.works:
            ground.found(f"{name}: compactions meanwhile", "committed", course.compacted[case])
    control = median(course.reads[_CONTROL])
    ground.found(
        f"readers of {rows:,} rows: compactions beside the control",
        "of the control's seconds",
        [read / control for read in course.reads[_COMPACTIONS]],
        1.2,
    )
    table.drop()
    other.drop()


@dataclass(frozen=True, slots=True)
class _Case:
    """What the other process does, and whether it does this to the table that is read."""

    name: str
    works: tuple[str, ...] = ()
    is_of_read_table: bool = True


_ALONE: Final = _Case("nothing")
_CONTROL: Final = _Case(
    "compactions of another table, the control", (_COMPACT,), is_of_read_table=False
)
_COMPACTIONS: Final = _Case("compactions", (_COMPACT,))
_COMPARED: Final = (_ALONE, _CONTROL, _COMPACTIONS)
_WITH_OVERWRITES: Final = (
    _Case("OVERWRITEs", (_OVERWRITE,)),
    _Case("compactions and OVERWRITEs", (_OVERWRITE, _COMPACT)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """Runs of the cases. Mutable: it collects seconds of reads and waits, and compactions."""

    readers: _Readers
    other: AcidTable
    base: Path
    append: Path
    reads: defaultdict[_Case, list[float]] = field(default_factory=lambda: defaultdict(list))
    waits: defaultdict[_Case, list[float]] = field(default_factory=lambda: defaultdict(list))
    compacted: Counter[_Case] = field(default_factory=Counter)

    def run(self, case: _Case, count: int) -> None:
        """Read at least this often beside the works of a case.

        Raises:
            WrongRowsError: No compaction was committed.
        """
        table = self.readers.table
        table.overwrite(self.base)
        if not case.works:
            self._add(case, self.readers.read(count, Progress.none()))
            return
        written = table if case.is_of_read_table else self.other
        with _beside(written, self.base, self.append, case.works) as progress:
            before, ends_s = progress.compacted.value, time.monotonic() + _LONGEST_S
            seen = progress if case.is_of_read_table else Progress.none()
            self._add(case, self.readers.read(count, seen))
            # Beside OVERWRITEs, compactions give way.
            while case.works == (_COMPACT,) and progress.compacted.value == before:
                if time.monotonic() > ends_s:
                    raise WrongRowsError(f"no compaction was committed beside {case.name}")
                self._add(case, self.readers.read(1, seen))
            self.compacted[case] += progress.compacted.value - before

    def _add(self, case: _Case, found: tuple[list[float], list[float]]) -> None:
        reads, waits = found
        self.reads[case] += reads
        self.waits[case] += waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The numbers of writes of the other process to its table, shared between the processes.

    Attributes:
        begun: Appends that have begun, or have ended.
        ended: Appends that have ended, or None if OVERWRITEs may have removed their rows.
        compacted: Committed compactions.
    """

    begun: Synchronized[int]
    ended: Synchronized[int] | None
    compacted: Synchronized[int]

    @classmethod
    def none(cls, *, with_overwrites: bool = False) -> Progress:
        """Return the progress of a process that has not begun."""
        context = multiprocessing.get_context("spawn")
        return cls(
            begun=context.Value("i", 0),
            ended=None if with_overwrites else context.Value("i", 0),
            compacted=context.Value("i", 0),
        )

    def least(self) -> int:
        """Return the number of appends whose rows a reader that begins now must see."""
        return 0 if self.ended is None else self.ended.value


def require_whole_writes(rows: int, base_rows: int, least: int, most: int) -> None:
    """Check that these are the rows of the base and of whole appends.

    Raises:
        WrongRowsError: they are not, or the number of appends is not between `least` and `most`.
    """
    appends, part = divmod(rows - base_rows, _FEW.append_rows)
    if part or not least <= appends <= most:
        raise WrongRowsError(
            f"a reader saw {rows} rows: not those of a base of {base_rows} rows and of {least} to"
            f" {most} appends of {_FEW.append_rows} rows"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readers:
    """Readers of one table, in turn."""

    table: AcidTable
    base_rows: int

    def read(self, count: int, progress: Progress) -> tuple[list[float], list[float]]:
        """Read everything repeatedly; return the seconds of reads, and of their waits for locks."""
        reads, waits = [], []
        for _ in range(count):
            least = progress.least()
            began = time.monotonic()
            with self.table.snapshot() as snapshot:
                waits.append(time.monotonic() - began)
                ((rows,),) = read_everything(self.table.rows(snapshot, None))
            reads.append(time.monotonic() - began)
            require_whole_writes(int(str(rows)), self.base_rows, least, progress.begun.value)
        return reads, waits


@contextmanager
def _beside(table: AcidTable, base: Path, append: Path, works: Sequence[str]) -> Iterator[Progress]:
    """Run a block while another process appends and does these works."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    progress = Progress.none(with_overwrites=_OVERWRITE in works)
    lab = partial(
        Lab,
        endpoint=table.lab.endpoint,
        meter=table.lab.meter,
        folder=table.lab.folder / "beside",
        database=table.lab.database,
    )
    other = context.Process(
        target=_write, args=(lab, table.info, base, append, works, progress, there)
    )
    other.start()
    there.close()
    try:
        here.recv()  # its first round has ended, so its JVM is warm
        yield progress
    finally:
        here.close()
        other.join()
        if other.exitcode:
            raise WrongRowsError("the process beside the readers failed; it has printed the reason")


def _write(
    lab_of: partial[Lab],
    info: TableInfo,
    base: Path,
    append: Path,
    works: Sequence[str],
    progress: Progress,
    connection: Connection,
) -> None:
    """Append, then do the works at the same time; repeat until the connection is closed."""
    spark = session(lab_of.keywords["folder"], {"spark.master": "local[1]"})
    table = AcidTable(lab=lab_of(spark=spark), info=info)
    does: dict[str, Callable[[], object]] = {
        _OVERWRITE: partial(table.overwrite, base),
        _COMPACT: partial(_compact, table, progress, must_commit=_OVERWRITE not in works),
    }
    is_first = True
    with ThreadPoolExecutor() as pool:
        while is_first or not connection.poll(_PAUSE_S):
            progress.begun.value += 1
            table.append(append)
            if progress.ended is not None:
                progress.ended.value += 1
            for done in [pool.submit(does[work]) for work in works]:
                done.result()
            if is_first:
                connection.send(None)
            is_first = False
    spark.stop()


def _compact(table: AcidTable, progress: Progress, *, must_commit: bool) -> None:
    """Run a major compaction. Beside an OVERWRITE, it may have nothing to do."""
    spec = CompactSpec.of_table(table.name, choice=CompactionChoice.MAJOR)
    result = run_job(table.lab, spec)
    if result.status is JobStatus.COMMITTED:
        progress.compacted.value += 1
    elif must_commit:
        raise WrongRowsError(f"a compaction ended as {result.status.value}: {result}")
