"""Which columns of old rows the writers fetch for a statement; the frame is a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from airflow_hiveacid.jobs.statements import MergeAction, MergeWhen
from airflow_hiveacid.plan.statements.dml import Clause
from airflow_hiveacid.spark.statements.update_delete import as_events
from tests.support.tables import table_of

TABLE: Final = table_of("a int, b int")
OLD_FILES: Final = {7: "an old one"}
UPDATED: Final = frozenset({7})


class Frame:
    """Any frame: grouping it gives it back."""

    def repartition(self, *_: object) -> Frame:
        return self

    def sortWithinPartitions(self, *_: object) -> Frame:  # noqa: N802 -- Spark's
        return self


def clause(action: MergeAction, *columns: str) -> Clause:
    return Clause(
        when=MergeWhen.MATCHED,
        action=action,
        condition=None,
        assignments=dict.fromkeys(columns, "0"),
    )


DELETE: Final = clause(MergeAction.DELETE)


@pytest.mark.parametrize(
    ("clauses", "left_alone"),
    [
        ((DELETE,), ((),)),
        ((DELETE, clause(MergeAction.UPDATE, "a", "b")), ((), ())),
        ((DELETE, clause(MergeAction.UPDATE, "a")), ((), ("b",))),
        ((clause(MergeAction.UPDATE, "b"), DELETE), (("a",), ())),
    ],
)
def test_only_unassigned_columns_are_fetched_from_the_old_rows_of_updated_files(
    clauses: tuple[Clause, ...], left_alone: tuple[tuple[str, ...], ...]
) -> None:
    frame: Any = Frame()
    others = {6: "one that nobody updates", 8: "another"}
    files = [SimpleNamespace(number=n, data=data) for n, data in {**OLD_FILES, **others}.items()]
    target: Any = SimpleNamespace(table=TABLE, files=files)
    events = as_events([frame], target, clauses, UPDATED)
    assert [{"a", "b"} - names for names in events.given] == [set(names) for names in left_alone]
    assert events.old_files == (OLD_FILES if any(left_alone) else {})
