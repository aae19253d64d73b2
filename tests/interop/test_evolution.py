"""Tables whose columns change between writes: every reader finds the same rows.

Each kind of change has a column of its own (`judges.golden_evolution`), so that one life goes
through all of them. What Hive 3.1.3 itself writes into such tables is in the golden directories.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.reading.target import POSITION, resolve_target
from airflow_hiveacid.storage.acid.read.scan import scan
from airflow_hiveacid.storage.values.hive_text import json_lines
from airflow_hiveacid.storage.values.timestamps import TimestampForm
from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.judges.golden_evolution import columns, evolved, selected
from tests.support.spark_lab import Lab
from tests.unit.storage.test_golden import alike


def inserted(ids: Sequence[int], p: int, *, is_new: bool) -> str:
    return f"INSERT INTO {{t}} PARTITION (p={p}) {selected(ids, is_new=is_new)}"


_EVERY: Final = [name for name, _ in columns(is_new=True)]
_MERGE: Final = (
    "MERGE INTO {t} AS t USING"
    f" (SELECT s.*, 1 AS q FROM ({selected([0, 40], is_new=True)}) s) AS s"
    " ON t.id = s.id AND t.p = s.q WHEN MATCHED THEN UPDATE SET c4 = s.c4, c8 = s.c8"
    f" WHEN NOT MATCHED THEN INSERT VALUES ({', '.join(f's.{n}' for n in _EVERY)}, s.q)"
)
EVOLVE: Final = "evolve"
# What is done; and, where all readers are asked, which rows there are then.
LIFE: Final[tuple[tuple[str, set[int] | None], ...]] = (
    (inserted([0, 1, 2, 3], 1, is_new=False), None),
    (inserted([10, 11, 12], 2, is_new=False), None),
    ("DELETE FROM {t} WHERE id = 3", None),
    (EVOLVE, {0, 1, 2, 10, 11, 12}),
    (inserted([20, 21], 1, is_new=True), None),
    (inserted([30, 31], 3, is_new=True), None),
    ("UPDATE {t} SET extra = concat('u', id), c2 = 5000000000 WHERE id IN (1, 10, 20)", None),
    ("DELETE FROM {t} WHERE id IN (11, 21)", {0, 1, 2, 10, 12, 20, 30, 31}),
    (_MERGE, {0, 1, 2, 10, 12, 20, 30, 31, 40}),
    ("minor", {0, 1, 2, 10, 12, 20, 30, 31, 40}),
    ("UPDATE {t} SET extra = 'again' WHERE id IN (2, 12, 40)", None),
    ("major", {0, 1, 2, 10, 12, 20, 30, 31, 40}),
    ("DELETE FROM {t} WHERE id = 0", {1, 2, 10, 12, 20, 30, 31, 40}),
)


@dataclass(frozen=True)
class Ground:
    """One table, who may write it, and who reads it. `bare_3` cannot read Hive 4's file names."""

    lab: Lab
    hive: HiveJudge
    bare_3: BareReader | None
    cascade: bool

    @property
    def name(self) -> str:
        return f"{self.lab.db}.t"

    def do(self, step: str, *, ours: bool) -> None:
        if step == EVOLVE:
            for statement in evolved(cascade=self.cascade):
                self.hive.execute(statement.replace("{t}", self.name))
        elif step in ("minor", "major"):
            if ours:
                self.lab.compact("t", CompactionChoice(step))
            else:
                for p in (1, 2, 3):
                    self.hive.compact(self.name, f"p={p}", step)  # type: ignore[arg-type]
        elif ours:
            self.lab.script(step.replace("{t}", self.name))
        else:
            self.hive.execute(step.replace("{t}", self.name))

    def rows(self) -> list[list[Any]]:
        """The rows without `p`, by ID, on which all readers agree."""
        info, snapshot = self.lab.info("t"), self.lab.snapshot("t")
        types = [parse_type(c.type) for c in info.columns]
        write_ids = snapshot.write_ids(info.ref)
        schema = f"struct<{','.join(f'{c.name}:{c.type}' for c in info.columns)}>"

        def told(rows: list[list[Any]]) -> list[list[Any]]:
            return sorted((alike([None, *r], types)[1:] for r in rows), key=lambda r: r[0])

        expected = told([r[: len(types)] for r in self.hive.rows(self.name)])
        places = [p.location for p in self.lab.client.list_partitions(info)]
        form = TimestampForm.PAIR
        batches = [
            batch
            for place in places
            for batch in scan(place, info.columns, write_ids, snapshot.txns, timestamps=form)
        ]
        found = [json.loads(line) for batch in batches for line in json_lines(batch, types)]
        assert told(found) == expected
        for vectorized in (False, True) if self.bare_3 is not None else ():
            by_hive_3 = [
                row[1:]
                for place in places
                for row in self.bare_3.read(  # type: ignore[union-attr]
                    place.removeprefix("file:"),
                    write_ids.text(),
                    schema,
                    txns=snapshot.txns.text(),
                    vectorized=vectorized,
                )
            ]
            assert told(by_hive_3) == expected, f"3.1.3, vectorized={vectorized}"
        target = resolve_target(self.lab.spark, self.lab.client, info, snapshot)
        names = [c.name for c in info.columns]
        native = target.scan(names).drop("p").collect()
        arrow = target.read_with_arrow(names, position=POSITION).collect()
        assert sorted(map(str, native)) == sorted(map(str, arrow))
        assert len(native) == len(expected)
        return expected


@pytest.mark.promise("D11", "R15")
@pytest.mark.parametrize(
    ("in_turns", "cascade"), [(False, False), (True, True)], ids=["ours", "in turns, CASCADE"]
)
@pytest.mark.long_cases("ours")
def test_every_reader_returns_the_same_rows_of_a_table_whose_columns_change(
    lab4: Lab, hive_judge: HiveJudge, bare_reader_3: BareReader, *, in_turns: bool, cascade: bool
) -> None:
    lab4.table(
        "t",
        dict(columns(is_new=False)),
        partition={"p": "int"},
        parameters={"orc.compress": "ZLIB"},
    )
    ground = Ground(lab4, hive_judge, None if in_turns else bare_reader_3, cascade)
    for number, (step, ids) in enumerate(LIFE):
        ground.do(step, ours=not in_turns or number % 2 == 0)
        if ids is not None:
            assert {row[0] for row in ground.rows()} == ids, step


@pytest.mark.promise("R15")
@pytest.mark.parametrize("now", ["c int, b string, a int", "a int, title string, c int"])
def test_columns_that_hive_versions_read_differently_are_refused_until_hive_compacts(
    lab4: Lab, hive_judge: HiveJudge, now: str
) -> None:
    """Hive 4.0.1 goes by place, 3.1.3 by name: `swapped` and `renamed` columns of one type."""
    lab4.table("t", {"a": "int", "b": "string", "c": "int"})
    lab4.insert("t", [(1, "x", 10), (2, "y", 20)], ["a", "b", "c"])
    hive_judge.execute(f"alter table {lab4.db}.t replace columns ({now})")
    lab4.insert("t", [(3, "z", 30)], [one.split()[0] for one in now.split(", ")])
    seen = hive_judge.rows(f"{lab4.db}.t")
    assert seen == [[1, "x", 10], [2, "y", 20], [3, "z", 30]]
    for read in (lambda: lab4.rows("t"), lambda: lab4.update("t", {"c": "c + 1"})):
        with pytest.raises(UnsupportedFileError, match="read different values"), typed_failures():
            read()
    hive_judge.compact(f"{lab4.db}.t")
    assert hive_judge.rows(f"{lab4.db}.t") == seen
    assert [list(row) for row in lab4.rows("t")] == seen
