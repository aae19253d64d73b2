"""Random histories against a row-by-row model: whatever happens, no row is wrong.

A failure prints its seed; HIVEACID_SEED=<seed> runs that history again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.writing import event_files
from tests.support.merge_clauses import matched_delete, matched_update, unmatched_insert
from tests.support.spark_lab import Lab, Row
from tests.support.steps import StopError, stop_at

STEPS = 8
UPSERT = (
    matched_delete("s.v < 0"),
    matched_update({"v": "s.v + t.v"}),
    unmatched_insert("s.v >= 0"),
)


class History:
    """A table and its model: a dict from ID to (v, p)."""

    def __init__(self, lab: Lab, seed: int, *, partitioned: bool, buckets: int) -> None:
        self.lab = lab
        self.random = random.Random(seed)
        self.rows: dict[int, tuple[int, int]] = {}
        self.next_id = 0
        columns = {"id": "bigint", "v": "int"}
        lab.table(
            "t",
            columns if partitioned else {**columns, "p": "int"},
            partition={"p": "int"} if partitioned else None,
            buckets=("id", buckets) if buckets else None,
        )

    def insert(self) -> None:
        new = self.fresh(self.random.randint(1, 8))
        self.lab.insert("t", new, ["id", "v", "p"])
        self.rows |= {int(str(i)): (int(str(v)), int(str(p))) for i, v, p in new}

    def update(self) -> None:
        n = self.random.randint(2, 5)
        self.lab.update("t", {"v": "v * 10 + p"}, f"id % {n} = 0")
        self.rows = {i: ((v * 10 + p) if i % n == 0 else v, p) for i, (v, p) in self.rows.items()}

    def delete(self) -> None:
        n, p = self.random.randint(2, 5), self.random.randint(0, 2)
        self.lab.delete("t", f"id % {n} = 1 AND p = {p}")
        self.rows = {i: r for i, r in self.rows.items() if not (i % n == 1 and r[1] == p)}

    def merge(self) -> None:
        known = self.random.sample(sorted(self.rows), min(4, len(self.rows)))
        source = [(i, self.random.randint(-2, 3), self.rows[i][1]) for i in known]
        source += [(int(str(i)), int(str(v)), int(str(p))) for i, v, p in self.fresh(3)]
        self.lab.merge("t", source, ["id", "v", "p"], ["id"], UPSERT)
        for i, v, p in source:
            if i not in self.rows:
                if v >= 0:
                    self.rows[i] = (v, p)
            elif v < 0:
                del self.rows[i]
            else:
                self.rows[i] = (self.rows[i][0] + v, self.rows[i][1])

    def abort(self) -> None:
        step = self.random.choice(["snapshot", "staged", "registered", "published", "body_done"])
        values = tuple(self.fresh(3))
        source = SourceSpec(values=values, columns=("id", "v", "p"))  # type: ignore[arg-type]
        with pytest.raises(StopError):
            self.lab.run(
                InsertSpec(target=f"{self.lab.db}.t", source=source), on_step=stop_at(step)
            )

    def minor(self) -> None:
        self.lab.compact("t", CompactionChoice.MINOR)

    def major(self) -> None:
        self.lab.compact("t", CompactionChoice.MAJOR)

    def clean(self) -> None:
        self.lab.clean("t", orphan_age_s=0.0)

    def fresh(self, count: int) -> list[Row]:
        start, self.next_id = self.next_id, self.next_id + count
        return [(i, self.random.randint(0, 9), i % 3) for i in range(start, self.next_id)]

    def expected(self) -> list[Row]:
        return sorted((i, v, p) for i, (v, p) in self.rows.items())


@pytest.mark.promise("R1")
@pytest.mark.promise("C3")
@pytest.mark.parametrize(
    ("partitioned", "buckets"),
    [(False, 0), pytest.param(True, 0, marks=pytest.mark.long), (False, 2)],
    ids=["plain", "parts", "buckets"],
)
@pytest.mark.long_cases("4.0.1-plain", "3.1.3-buckets")
def test_a_table_has_the_rows_of_the_model_after_each_step_of_a_random_history(
    lab: Lab, partitioned: bool, buckets: int, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("HIVEACID_SEED") or random.SystemRandom().randint(0, 1 << 30))
    with capsys.disabled():
        print(f"\nhistory seed={seed}")  # noqa: T201 - how a failure is run again
    history = History(lab, seed, partitioned=partitioned, buckets=buckets)
    verbs: list[Callable[[], None]] = [
        *[history.insert] * 3,
        *[history.update] * 2,
        *[history.delete] * 2,
        *[history.merge] * 3,
        history.abort,
        history.minor,
        history.major,
        history.clean,
    ]
    done = ["insert"]
    history.insert()
    for _ in range(STEPS):
        verb = history.random.choice(verbs)
        # Some of the changes are written by the driver, some by tasks.
        few = history.random.choice([0, event_files.MOST_EVENTS])
        done.append(f"{verb.__name__} few={few}")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(event_files, "MOST_EVENTS", few)
            verb()
        assert lab.rows("t") == history.expected(), f"seed {seed}: {done}"
