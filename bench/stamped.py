"""Knows the course of the second table, which has a timestamp and a char besides.

Base, ten appends, ten deletes, none of it measured; scans before and after, each question without
these two columns and with them. What they cost is the difference.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.flat import FlatOrc
from bench.queries import plain_queries, stamped_queries
from bench.records import FLAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.contender import Contender
    from bench.data import Sums, Workload
    from bench.recorder import Readable, Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedStory:
    """One contender against flat files with the same columns.

    Attributes:
        recorder: Takes it down.
        workload: What is done.
        make: Makes an empty table of the contender.
        name: Begins the names of tables.
    """

    recorder: Recorder
    workload: Workload
    make: Callable[[str], Contender]
    name: str

    def run(self) -> None:
        """Everything, from an empty folder.

        Raises:
            WrongRowsError: A system ended in other rows than it should have.
        """
        self.recorder.begin(f"{self.name}: a timestamp and a char")
        work, truth = self.workload, self.workload.truth
        folder = self.recorder.lab.folder / f"flat-{self.name}"
        flat = FlatOrc.write(self.recorder.lab.spark, work.base, folder / "base")
        table = self.make(self.name)
        table.overwrite(work.base)
        self._scan("", table, flat, truth.base)
        for source in work.appends:
            flat.append(source)
            table.append(source)
        for keys in work.deletes:
            table.delete(keys)
        flat = flat.without(work.deletes, folder / "changed")
        self._scan("-changed", table, flat, truth.changed)
        table.drop()
        shutil.rmtree(folder)

    def _scan(self, suffix: str, table: Contender, flat: FlatOrc, sums: Sums) -> None:
        stage = f"stamped{suffix}"
        self.recorder.begin(f"{self.name}: scan {stage}")
        self.recorder.agree(stage, table, flat, sums)
        sides: Mapping[str, Readable] = {FLAT: flat, table.system: table}
        for kind, queries in (("plain", plain_queries()), ("stamped", stamped_queries())):
            self.recorder.scan(f"{kind}{suffix}", sums.rows, sides, queries)
