"""Knows the course of a measurement: what is done to the tables, in which order, and how often.

Read downwards. Base, ten appends, ten deletes, an UPDATE, a MERGE, compactions; scans of four
states in between. Whatever changes a table is repeated on forks of one state. After every stage the
rows are compared with the workload's truth and with each other, and a difference ends the run.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.check import fingerprint, require_sums
from bench.data import RAISE, RAISED
from bench.flat import FlatOrc
from bench.queries import QUERIES, read_everything
from bench.recorder import itself
from bench.records import FLAT, SPARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.contender import Contender
    from bench.data import Sums, Workload
    from bench.recorder import Recorder
    from bench.spark_compaction import SparkCompaction


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
class Story:
    """One contender against flat files.

    Attributes:
        recorder: Takes it down.
        workload: What is done.
        make: Makes an empty table of the contender.
        name: Begins the names of tables.
        only_changes: Whether it ends with what reading changes costs.
    """

    recorder: Recorder
    workload: Workload
    make: Callable[[str], Contender]
    name: str
    only_changes: bool = False

    def run(self) -> None:
        """Everything, from an empty folder.

        Raises:
            WrongRowsError: A system ended in other rows than it should have.
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
        """The base, written anew each time; the last one stays."""
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
        """What single writes on top of the base have changed, beside a scan of all."""
        fork = table.fork(f"{self.name}_read_changes")
        sizes, truth = self.workload.sizes, self.workload.truth
        rows = {
            "append": sizes.append_rows,
            "update": truth.raised.quantity - truth.changed.quantity,
        }
        writes = {"append": partial(fork.append, self.workload.appends[0]), "update": fork.update}
        if fork.last_changes() is not None:
            self._begin("read changes")
            for name, write in writes.items():
                write()
                cases = {f"changes.{name}": fork.last_changes}
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
        """Ten appends and ten deletes. Flat files are rewritten to delete anything."""
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
        """The partial UPDATE, each time of the same state; no result stays."""
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
        """The MERGE, each time into the same state; the last results stay."""
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
        """One kind of compaction, each time of the same state; the last result stays."""
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

    # What stages are made of

    def _begin(self, stage: str) -> None:
        self.recorder.begin(f"{self.name}: {stage}")

    def _scan(self, state: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        """The five questions."""
        self._begin(f"scan {state}")
        self.recorder.scan(state, sums.rows, {FLAT: flat, table.system: table}, QUERIES)

    def _agree(self, stage: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        self.recorder.agree(stage, table, flat, sums)

    @property
    def _folder(self) -> Path:
        return self.recorder.lab.folder / f"flat-{self.name}"

    def _path(self, name: str) -> Path:
        return self._folder / name
