"""The course of a measurement: the changes to the tables, their order, and their repetitions.

Read it from top to bottom. Base, ten appends, ten deletes, an UPDATE, a MERGE, compactions; scans
of four states in between. Every change of a table is repeated on forks of one state. After each
stage the rows are compared with the workload's truth and between systems; a difference ends the
run.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.proofs.bench.check import fingerprint, require_sums
from tests.proofs.bench.data import RAISE, RAISED
from tests.proofs.bench.flat import FlatOrc
from tests.proofs.bench.queries import QUERIES, read_everything
from tests.proofs.bench.recorder import itself
from tests.proofs.bench.records import FLAT, SPARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.proofs.bench.contender import Contender
    from tests.proofs.bench.data import Sums, Workload
    from tests.proofs.bench.recorder import Recorder
    from tests.proofs.bench.spark_compaction import SparkCompaction


def _read_all(open_: Callable[[], AbstractContextManager[DataFrame] | None]) -> None:
    frame = open_()
    if frame is not None:
        with frame as rows:
            read_everything(rows)


def _no_bytes(_: None) -> int:
    return 0


def _size_of(flat: FlatOrc) -> int:
    return flat.size_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One contender against flat files.

    Attributes:
        recorder: Receives the measurements.
        workload: The data and changes.
        make: Creates an empty table of the contender.
        name: Prefix of the names of tables.
        only_changes: True if it ends after the measurement of reading changes.
    """

    recorder: Recorder
    workload: Workload
    make: Callable[[str], Contender]
    name: str
    only_changes: bool = False

    def run(self) -> None:
        """Run the course, from an empty folder.

        Raises:
            WrongRowsError: A system ended with wrong rows.
        """
        truth = self.workload.truth
        table, flat = self._create()
        if self.only_changes:
            self._read_changes(table, flat)
            self._end(table)
            return
        self._scan("base", table, flat, truth.base)
        self._read_changes(table, flat)
        flat = self._change(table, flat)
        self._scan("changed", table, flat, truth.changed)
        self._update(table, flat)
        merged, flat = self._merge(table, flat)
        self._scan("merged", merged, flat, truth.merged)
        for kind in merged.compactions:
            compacted = self._compact(kind, merged, flat)
            if kind == "major":
                self._scan("compacted", compacted, flat, truth.merged)
            compacted.drop()
        merged.drop()
        self._end(table)

    def _end(self, table: Contender) -> None:
        table.drop()
        shutil.rmtree(self._folder)

    # Stages

    def _create(self) -> tuple[Contender, FlatOrc]:
        """Write the base repeatedly, each time new, and return the last one."""
        self._begin("create")
        table, flat = self._create_once(0)
        for run in range(1, self.recorder.repeats):
            table.drop()
            shutil.rmtree(flat.path)
            table, flat = self._create_once(run)
        self._agree("create", table, flat, self.workload.truth.base)
        return table, flat

    def _create_once(self, run: int) -> tuple[Contender, FlatOrc]:
        source, rows = self.workload.base, self.workload.truth.base.rows
        write = partial(FlatOrc.write, self.recorder.lab.spark, source, self._path(f"base-{run}"))
        flat = self.recorder.timed(("create", FLAT, run, rows), write, _size_of)
        table = self.make(f"{self.name}_{run}")
        self.recorder.timed(
            ("create", table.system, run, rows), partial(table.overwrite, source), itself
        )
        return table, flat

    def _read_changes(self, table: Contender, flat: FlatOrc) -> None:
        """Measure reading the changes of single writes on the base, compared with a full scan."""
        fork = table.fork(f"{self.name}_read_changes")
        sizes, truth = self.workload.sizes, self.workload.truth
        rows = {
            "append": sizes.append_rows,
            "update": truth.raised.quantity - truth.changed.quantity,
        }
        writes: dict[str, Callable[[], object]] = {
            "append": partial(fork.append, self.workload.appends[0]),
            "update": fork.update,
        }
        if fork.last_changes() is not None:
            self._begin("read changes")
            for name, write in writes.items():
                write()
                cases: dict[str, Callable[[], AbstractContextManager[DataFrame] | None]] = {
                    f"changes.{name}": fork.last_changes
                }
                if name == "update":
                    cases["changes.keys"] = partial(fork.last_changes, pre_images=False)
                for run, (case, changes) in itertools.product(
                    range(self.recorder.repeats), cases.items()
                ):
                    for system, side in ((FLAT, flat.frame), (table.system, changes)):
                        work = partial(_read_all, side)
                        self.recorder.timed((case, system, run, rows[name]), work, _no_bytes)
        fork.drop()

    def _change(self, table: Contender, flat: FlatOrc) -> FlatOrc:
        """Run ten appends and ten deletes; flat files are rewritten for each delete."""
        self._begin("append and delete")
        sizes, timed = self.workload.sizes, self.recorder.timed
        for run, source in enumerate(self.workload.appends):
            for system, append in ((FLAT, flat.append), (table.system, table.append)):
                case = ("append", system, run, sizes.append_rows)
                timed(case, partial(append, source), itself)
        for run, keys in enumerate(self.workload.deletes):
            case = ("delete", table.system, run, sizes.delete_rows)
            timed(case, partial(table.delete, keys), itself)
        rewrite = partial(flat.without, self.workload.deletes[:1], self._path("without-one"))
        one = timed(("delete", FLAT, 0, sizes.delete_rows), rewrite, _size_of)
        changed = one.without(self.workload.deletes[1:], self._path("changed"))
        self._agree("append and delete", table, changed, self.workload.truth.changed)
        return changed

    def _update(self, table: Contender, flat: FlatOrc) -> None:
        """Run the partial UPDATE repeatedly on the same state; no result stays."""
        self._begin("update")
        truth = self.workload.truth
        rows = truth.raised.quantity - truth.changed.quantity  # one more of each
        for run in range(self.recorder.repeats):
            rewrite = partial(flat.set_column, *RAISE, RAISED, self._path(f"raised-{run}"))
            rewritten = self.recorder.timed(("update", FLAT, run, rows), rewrite, _size_of)
            fork = table.fork(f"{self.name}_raised_{run}")
            self.recorder.timed(("update", table.system, run, rows), fork.update, itself)
            self._agree("update", fork, rewritten, truth.raised)
            fork.drop()
            shutil.rmtree(rewritten.path)

    def _merge(self, table: Contender, flat: FlatOrc) -> tuple[Contender, FlatOrc]:
        """Run the MERGE repeatedly into the same state, and return the last results."""
        self._begin("merge")
        merged, rewritten = self._merge_once(table, flat, 0)
        for run in range(1, self.recorder.repeats):
            merged.drop()
            shutil.rmtree(rewritten.path)
            merged, rewritten = self._merge_once(table, flat, run)
        return merged, rewritten

    def _merge_once(self, table: Contender, flat: FlatOrc, run: int) -> tuple[Contender, FlatOrc]:
        source, rows = self.workload.merge, self.workload.sizes.merge_rows
        rewrite = partial(flat.merged, source, self._path(f"merged-{run}"))
        rewritten = self.recorder.timed(("merge", FLAT, run, rows), rewrite, _size_of)
        fork = table.fork(f"{self.name}_merged_{run}")
        self.recorder.timed(("merge", table.system, run, rows), partial(fork.merge, source), itself)
        self._agree("merge", fork, rewritten, self.workload.truth.merged)
        return fork, rewritten

    def _compact(self, kind: str, merged: Contender, flat: FlatOrc) -> Contender:
        """Run one kind of compaction repeatedly on the same state, and return the last result."""
        self._begin(f"{kind} compaction")
        compacted = self._compact_once(kind, merged, 0)
        for run in range(1, self.recorder.repeats):
            compacted.drop()
            compacted = self._compact_once(kind, merged, run)
        self._agree(f"{kind} compaction", compacted, flat, self.workload.truth.merged)
        return compacted

    def _compact_once(self, kind: str, merged: Contender, run: int) -> Contender:
        rows = self.workload.truth.merged.rows
        yardstick = merged.yardstick()
        if yardstick is not None:
            self._compact_with_spark(kind, yardstick, run)
        fork = merged.fork(f"{self.name}_{kind}_{run}")
        work = fork.compactions[kind]
        self.recorder.timed((f"compact.{kind}", fork.system, run, rows), work, itself)
        return fork

    def _compact_with_spark(self, kind: str, yardstick: SparkCompaction, run: int) -> None:
        rows, folder = self.workload.truth.merged.rows, self._path(f"spark-{kind}-{run}")
        work = partial(yardstick.run, kind, folder)
        self.recorder.timed((f"compact.{kind}", SPARK, run, rows), work, itself)
        if kind == "major":
            found = fingerprint(yardstick.rows(folder))
            require_sums(found, self.workload.truth.merged, "Spark's compaction")
        shutil.rmtree(folder)

    # Parts of stages

    def _begin(self, stage: str) -> None:
        self.recorder.begin(f"{self.name}: {stage}")

    def _scan(self, state: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        """Ask the five questions."""
        self._begin(f"scan {state}")
        self.recorder.scan(state, sums.rows, {FLAT: flat, table.system: table}, QUERIES)

    def _agree(self, stage: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        self.recorder.agree(stage, table, flat, sums)

    @property
    def _folder(self) -> Path:
        return self.recorder.lab.folder / f"flat-{self.name}"

    def _path(self, name: str) -> Path:
        return self._folder / name
