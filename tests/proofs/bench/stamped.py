"""The course of the second table, which also has a timestamp and a char.

The base, ten appends and ten deletes are not measured. Scans before and after them ask each
question without these two columns and with them; the difference is the cost of the columns.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.proofs.bench.flat import FlatOrc
from tests.proofs.bench.queries import plain_queries, stamped_queries
from tests.proofs.bench.records import FLAT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.proofs.bench.contender import Contender
    from tests.proofs.bench.data import Sums, Workload
    from tests.proofs.bench.recorder import Readable, Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedScenario:
    """One contender against flat files with the same columns.

    Attributes:
        recorder: Receives the measurements.
        workload: The data and changes.
        make: Creates an empty table of the contender.
        name: Prefix of the names of tables.
    """

    recorder: Recorder
    workload: Workload
    make: Callable[[str], Contender]
    name: str

    def run(self) -> None:
        """Run the course, from an empty folder.

        Raises:
            WrongRowsError: A system ended with wrong rows.
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
