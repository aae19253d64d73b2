"""Knows the course of a measurement: what is done to the tables, in which order, and how often.

Read downwards. Base, ten appends, ten deletes, a MERGE, compactions; scans of four states in
between. What is compared runs in turn, system by system, so that the noise of a machine falls
on all; whatever changes a table is repeated on forks of one state. After every stage the rows
are compared with the workload's truth and with each other, and a difference ends the run.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bench.check import WrongRowsError, fingerprint, require_same, require_sums
from bench.flat import FlatOrc
from bench.queries import QUERIES
from bench.records import FLAT, SPARK, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.contender import Contender
    from bench.data import Sums, Workload
    from bench.lab import Lab
    from bench.queries import Answer, Query
    from bench.spark_compaction import SparkCompaction

_T = TypeVar("_T")


def _size_of(flat: FlatOrc) -> int:
    return flat.size_bytes


def _itself(value: int) -> int:
    return value


def _always(value: int, _result: object) -> int:
    return value


@dataclass(slots=True, kw_only=True)
class Story:
    """One contender against flat files. Mutable: it collects records.

    Attributes:
        lab: Where it happens.
        workload: What is done.
        make: Makes an empty table of the contender.
        name: Begins the names of tables.
        repeats: How often each case is measured.
        say: Is told each stage.
        keep: Is given the records so far, at each stage.
    """

    lab: Lab
    workload: Workload
    make: Callable[[str], Contender]
    name: str
    repeats: int
    say: Callable[[str], None]
    keep: Callable[[Sequence[Record]], None]
    records: list[Record] = field(default_factory=list)

    def run(self) -> list[Record]:
        """Everything, from an empty folder.

        Raises:
            WrongRowsError: A system ended in other rows than it should have.
        """
        truth = self.workload.truth
        table, flat = self._create()
        self._scan("base", table, flat, truth.base)
        flat = self._change(table, flat)
        self._scan("changed", table, flat, truth.changed)
        merged, flat = self._merge(table, flat)
        self._scan("merged", merged, flat, truth.merged)
        for kind in merged.compactions:
            compacted = self._compact(kind, merged, flat)
            if kind == "major":
                self._scan("compacted", compacted, flat, truth.merged)
            compacted.drop()
        merged.drop()
        table.drop()
        shutil.rmtree(self._folder)
        return self.records

    # Stages

    def _create(self) -> tuple[Contender, FlatOrc]:
        """The base, written anew each time; the last one stays."""
        self._begin("create")
        table, flat = self._create_once(0)
        for run in range(1, self.repeats):
            table.drop()
            shutil.rmtree(flat.path)
            table, flat = self._create_once(run)
        self._agree("create", table, flat, self.workload.truth.base)
        return table, flat

    def _create_once(self, run: int) -> tuple[Contender, FlatOrc]:
        source, rows = self.workload.base, self.workload.truth.base.rows
        write = partial(FlatOrc.write, self.lab.spark, source, self._path(f"base-{run}"))
        flat = self._timed(("create", FLAT, run, rows), write, _size_of)
        table = self.make(f"{self.name}_{run}")
        self._timed(("create", table.system, run, rows), partial(table.overwrite, source), _itself)
        return table, flat

    def _change(self, table: Contender, flat: FlatOrc) -> FlatOrc:
        """Ten appends and ten deletes. Flat files are rewritten to delete anything."""
        self._begin("append and delete")
        sizes = self.workload.sizes
        for run, source in enumerate(self.workload.appends):
            for system, append in ((FLAT, flat.append), (table.system, table.append)):
                case = ("append", system, run, sizes.append_rows)
                self._timed(case, partial(append, source), _itself)
        for run, keys in enumerate(self.workload.deletes):
            case = ("delete", table.system, run, sizes.delete_rows)
            self._timed(case, partial(table.delete, keys), _itself)
        rewrite = partial(flat.without, self.workload.deletes[:1], self._path("without-one"))
        one = self._timed(("delete", FLAT, 0, sizes.delete_rows), rewrite, _size_of)
        changed = one.without(self.workload.deletes[1:], self._path("changed"))
        self._agree("append and delete", table, changed, self.workload.truth.changed)
        return changed

    def _merge(self, table: Contender, flat: FlatOrc) -> tuple[Contender, FlatOrc]:
        """The MERGE, each time into the same state; the last results stay."""
        self._begin("merge")
        merged, rewritten = self._merge_once(table, flat, 0)
        for run in range(1, self.repeats):
            merged.drop()
            shutil.rmtree(rewritten.path)
            merged, rewritten = self._merge_once(table, flat, run)
        return merged, rewritten

    def _merge_once(self, table: Contender, flat: FlatOrc, run: int) -> tuple[Contender, FlatOrc]:
        source, rows = self.workload.merge, self.workload.sizes.merge_rows
        rewrite = partial(flat.merged, source, self._path(f"merged-{run}"))
        rewritten = self._timed(("merge", FLAT, run, rows), rewrite, _size_of)
        fork = table.fork(f"{self.name}_merged_{run}")
        self._timed(("merge", table.system, run, rows), partial(fork.merge, source), _itself)
        self._agree("merge", fork, rewritten, self.workload.truth.merged)
        return fork, rewritten

    def _compact(self, kind: str, merged: Contender, flat: FlatOrc) -> Contender:
        """One kind of compaction, each time of the same state; the last result stays."""
        self._begin(f"{kind} compaction")
        compacted = self._compact_once(kind, merged, 0)
        for run in range(1, self.repeats):
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
        self._timed((f"compact.{kind}", fork.system, run, rows), work, _itself)
        return fork

    def _compact_with_spark(self, kind: str, yardstick: SparkCompaction, run: int) -> None:
        rows, folder = self.workload.truth.merged.rows, self._path(f"spark-{kind}-{run}")
        work = partial(yardstick.run, kind, folder)
        self._timed((f"compact.{kind}", SPARK, run, rows), work, _itself)
        if kind == "major":
            found = fingerprint(yardstick.rows(folder))
            require_sums(found, self.workload.truth.merged, "Spark's compaction")
        shutil.rmtree(folder)

    def _scan(self, state: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        """The five questions, to both systems in turn; once each to warm up."""
        self._begin(f"scan {state}")
        sides = ((FLAT, flat), (table.system, table))
        sizes = {system: side.size_bytes for system, side in sides}
        for name, query in QUERIES.items():
            answers = {_ask(side, query) for _, side in sides}
            for run in range(self.repeats):
                for system, side in sides:
                    work = partial(_ask, side, query)
                    case = (f"scan.{state}.{name}", system, run, sums.rows)
                    answers.add(self._timed(case, work, partial(_always, sizes[system])))
            if len(answers) != 1:
                raise WrongRowsError(f"{name} of {state} has several answers: {answers}")

    # What stages are made of

    def _begin(self, stage: str) -> None:
        self.keep(self.records)
        self.say(f"{self.name}: {stage}")

    def _timed(
        self,
        case: tuple[str, str, int, int],
        work: Callable[[], _T],
        size_of: Callable[[_T], int],
    ) -> _T:
        """Measure one run of (case, system, run, rows)."""
        name, system, run, rows = case
        result, took = self.lab.measure(work)
        self.records.append(
            Record.of(name, system, run, took, size_bytes=size_of(result), rows=rows)
        )
        return result

    def _agree(self, stage: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        """Both hold what they should, and the same down to the last value."""
        expected = fingerprint(flat.rows())
        require_sums(expected, sums, f"{FLAT} after {stage}")
        with table.frame() as rows:
            require_same(fingerprint(rows), expected, f"{table.system} after {stage}")

    @property
    def _folder(self) -> Path:
        return self.lab.folder / f"flat-{self.name}"

    def _path(self, name: str) -> Path:
        return self._folder / name


def _ask(side: Contender | FlatOrc, query: Query) -> Answer:
    with side.frame(query.columns) as rows:
        return query.ask(rows)
