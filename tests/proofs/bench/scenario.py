"""The courses of one contender against flat files: the changes to the tables, and their order.

The first course has a base, ten appends, ten deletes, an UPDATE, a MERGE, compactions, and scans of
four states in between. Every change of a table is repeated on forks of one state. After each stage
the rows are compared with the workload's truth and between systems; a difference ends the run.

The second table also has a timestamp and a char, and its changes are not measured. Scans ask each
question without these two columns and with them; the difference is the cost of the columns.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from tests.proofs.bench.contender import Contender
from tests.proofs.bench.data import RAISE, RAISED, Sums, Workload
from tests.proofs.bench.queries import (
    QUERIES,
    Query,
    plain_queries,
    read_everything,
    stamped_queries,
)
from tests.proofs.bench.recorder import Recorder, fingerprint, require_sums
from tests.proofs.bench.records import FLAT, SPARK
from tests.proofs.bench.yardsticks import FlatOrc


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """One contender against flat files.

    Attributes:
        make: Creates an empty table of the contender.
        name: Prefix of the names of tables.
    """

    recorder: Recorder
    workload: Workload
    make: Callable[[str], Contender]
    name: str

    def _begin(self, stage: str) -> None:
        self.recorder.begin(f"{self.name}: {stage}")

    def _scan(
        self,
        state: str,
        table: Contender,
        flat: FlatOrc,
        sums: Sums,
        queries: Mapping[str, Query] = QUERIES,
    ) -> None:
        self.recorder.scan(state, sums.rows, {FLAT: flat, table.system: table}, queries)

    def _flat(self, name: str) -> FlatOrc:
        return FlatOrc(spark=self.recorder.lab.spark, path=self._path(name))

    def _path(self, name: str) -> Path:
        return self._folder / name

    @property
    def _folder(self) -> Path:
        return self.recorder.lab.folder / f"flat-{self.name}"


class Scenario(_Course):
    """The course of all steps; each method is a stage."""

    def run(self) -> None:
        """Run the course, from an empty folder."""
        truth = self.workload.truth
        table, flat = self._create()
        self._scan_state("base", table, flat, truth.base)
        self._read_changes(table, flat)
        flat = self._change(table, flat)
        self._scan_state("changed", table, flat, truth.changed)
        for result in self._update(table, flat):
            result.drop()
        merged, flat = self._merge(table, flat)
        self._scan_state("merged", merged, flat, truth.merged)
        for kind in merged.compactions:
            compacted = self._compact(kind, merged, flat)
            if kind == "major":
                self._scan_state("compacted", compacted, flat, truth.merged)
            compacted.drop()
        merged.drop()
        self._end(table)

    def run_changes(self) -> None:
        """Run only the measurement of reading changes, from an empty folder."""
        table, flat = self._create()
        self._read_changes(table, flat)
        self._end(table)

    def _end(self, table: Contender) -> None:
        table.drop()
        shutil.rmtree(self._folder)

    def _create(self) -> tuple[Contender, FlatOrc]:
        """Write the base repeatedly, each time new, and return the last one."""
        self._begin("create")
        source, sums = self.workload.base, self.workload.truth.base

        def once(run: int) -> tuple[Contender, FlatOrc]:
            flat, table = self._flat(f"base-{run}"), self.make(f"{self.name}_{run}")
            for system, write in ((FLAT, flat.append), (table.system, table.overwrite)):
                self.recorder.timed("create", system, run, sums.rows, partial(write, source))
            return table, flat

        table, flat = self.recorder.last(once)
        self.recorder.agree("create", table, flat, sums)
        return table, flat

    def _read_changes(self, table: Contender, flat: FlatOrc) -> None:
        """Measure reading the changes of single writes on the base, compared with a full scan."""
        fork = table.fork(f"{self.name}_read_changes")
        if fork.last_changes() is not None:
            self._begin("read changes")
            keys = partial(fork.last_changes, pre_images=False)
            fork.append(self.workload.appends[0])
            rows = self.workload.sizes.append_rows
            self._read_in_turn(table.system, flat, rows, {"changes.append": fork.last_changes})
            fork.update()
            self._read_in_turn(
                table.system,
                flat,
                self._raised_rows,
                {"changes.update": fork.last_changes, "changes.keys": keys},
            )
        fork.drop()

    def _read_in_turn(
        self,
        system: str,
        flat: FlatOrc,
        rows: int,
        cases: Mapping[str, Callable[[], AbstractContextManager[DataFrame] | None]],
    ) -> None:
        for run, (case, changes) in itertools.product(range(self.recorder.repeats), cases.items()):
            for side, frame in ((FLAT, flat.frame), (system, changes)):
                self.recorder.timed(case, side, run, rows, partial(_read_all, frame))

    def _change(self, table: Contender, flat: FlatOrc) -> FlatOrc:
        """Run ten appends and ten deletes; flat files are rewritten for each delete."""
        self._begin("append and delete")
        sizes, timed = self.workload.sizes, self.recorder.timed
        for run, source in enumerate(self.workload.appends):
            for system, append in ((FLAT, flat.append), (table.system, table.append)):
                timed("append", system, run, sizes.append_rows, partial(append, source))
        for run, keys in enumerate(self.workload.deletes):
            timed("delete", table.system, run, sizes.delete_rows, partial(table.delete, keys))
        rewrite = partial(flat.without, self.workload.deletes[:1], self._path("without-one"))
        one = timed("delete", FLAT, 0, sizes.delete_rows, rewrite)
        changed = one.without(self.workload.deletes[1:], self._path("changed"))
        self.recorder.agree("append and delete", table, changed, self.workload.truth.changed)
        return changed

    def _update(self, table: Contender, flat: FlatOrc) -> tuple[Contender, FlatOrc]:
        rewrite = partial(flat.set_column, *RAISE, RAISED)
        rows, sums = self._raised_rows, self.workload.truth.raised
        return self._on_forks("update", table, rows, sums, rewrite, lambda fork: fork.update())

    def _merge(self, table: Contender, flat: FlatOrc) -> tuple[Contender, FlatOrc]:
        source = self.workload.merge
        rewrite = partial(flat.merged, source)
        rows, sums = self.workload.sizes.merge_rows, self.workload.truth.merged
        return self._on_forks("merge", table, rows, sums, rewrite, lambda fork: fork.merge(source))

    def _on_forks(
        self,
        step: str,
        table: Contender,
        rows: int,
        sums: Sums,
        rewrite: Callable[[Path], FlatOrc],
        change: Callable[[Contender], int],
    ) -> tuple[Contender, FlatOrc]:
        """Run a change repeatedly on the same state, and return the last results."""
        self._begin(step)

        def once(run: int) -> tuple[Contender, FlatOrc]:
            path = self._path(f"{step}-{run}")
            rewritten = self.recorder.timed(step, FLAT, run, rows, partial(rewrite, path))
            fork = table.fork(f"{self.name}_{step}_{run}")
            self.recorder.timed(step, table.system, run, rows, partial(change, fork))
            self.recorder.agree(step, fork, rewritten, sums)
            return fork, rewritten

        return self.recorder.last(once)

    def _compact(self, kind: str, merged: Contender, flat: FlatOrc) -> Contender:
        """Run one kind of compaction repeatedly on the same state, and return the last result."""
        self._begin(f"{kind} compaction")
        case, sums = f"compact.{kind}", self.workload.truth.merged

        def once(run: int) -> tuple[Contender]:
            self._compact_with_spark(case, kind, merged, run)
            fork = merged.fork(f"{self.name}_{kind}_{run}")
            self.recorder.timed(case, fork.system, run, sums.rows, fork.compactions[kind])
            return (fork,)

        (compacted,) = self.recorder.last(once)
        self.recorder.agree(f"{kind} compaction", compacted, flat, sums)
        return compacted

    def _compact_with_spark(self, case: str, kind: str, merged: Contender, run: int) -> None:
        yardstick, sums = merged.yardstick(), self.workload.truth.merged
        if yardstick is None:
            return
        folder = self._path(f"spark-{kind}-{run}")
        work = partial(yardstick.run, kind, folder)
        self.recorder.timed(case, SPARK, run, sums.rows, work)
        if kind == "major":
            require_sums(fingerprint(yardstick.rows(folder)), sums, "Spark's compaction")
        shutil.rmtree(folder)

    def _scan_state(self, state: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        """Ask the five questions."""
        self._begin(f"scan {state}")
        self._scan(state, table, flat, sums)

    @property
    def _raised_rows(self) -> int:
        """The rows of the UPDATE, which sells one more of each."""
        truth = self.workload.truth
        return truth.raised.quantity - truth.changed.quantity


class StampedScenario(_Course):
    """The course of the second table."""

    def run(self) -> None:
        """Run the course, from an empty folder."""
        self._begin("a timestamp and a char")
        work, truth = self.workload, self.workload.truth
        flat, table = self._flat("base"), self.make(self.name)
        flat.append(work.base)
        table.overwrite(work.base)
        self._ask("", table, flat, truth.base)
        for source in work.appends:
            flat.append(source)
            table.append(source)
        for keys in work.deletes:
            table.delete(keys)
        flat = flat.without(work.deletes, self._path("changed"))
        self._ask("-changed", table, flat, truth.changed)
        table.drop()
        shutil.rmtree(self._folder)

    def _ask(self, suffix: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        stage = f"stamped{suffix}"
        self._begin(f"scan {stage}")
        self.recorder.agree(stage, table, flat, sums)
        self._scan(f"plain{suffix}", table, flat, sums, plain_queries())
        self._scan(f"stamped{suffix}", table, flat, sums, stamped_queries())


def _read_all(open_: Callable[[], AbstractContextManager[DataFrame] | None]) -> int:
    """Read everything, and return 0 bytes written."""
    frame = open_()
    if frame is not None:
        with frame as rows:
            read_everything(rows)
    return 0
