"""One MERGE that inserts, updates and deletes, with the rows before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.statements import MergeSpec, SourceSpec
from tests.support.merge_clauses import INSERT_ALL, UPDATE_ALL, matched_delete

if TYPE_CHECKING:
    from tests.support.spark_lab import Lab

COLUMNS = {"id": "bigint", "name": "string"}
BEFORE = [(1, "a", 1), (2, "b", 2)]
AFTER = [(1, "A", 1), (3, "c", 3)]
CLAUSES = (matched_delete("s.name = 'gone'"), UPDATE_ALL, INSERT_ALL)


def change(lab: Lab) -> MergeSpec:
    values = ((1, "A", 1), (2, "gone", 2), (3, "c", 3))
    return MergeSpec(
        target=f"{lab.db}.t",
        source=SourceSpec(values=values, columns=("id", "name", "p")),
        keys=("id",),
        clauses=CLAUSES,
    )
