"""INSERT, UPDATE, DELETE and MERGE on every shape of table, on both metastores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.results import JobStatus, RowCounts
from airflow_hiveacid.jobs.specs import MergeAction, MergeClause, MergeWhen

if TYPE_CHECKING:
    from spark_lab import Lab

UPSERT = (
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition="s.op = 'D'"),
    MergeClause(
        when=MergeWhen.MATCHED,
        action=MergeAction.UPDATE,
        set={"name": "s.name"},
        condition="s.op = 'U'",
    ),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT, condition="s.op = 'I'"),
)
SHAPES = {
    "plain": {},
    "partitioned": {"partition": {"p": "int"}},
    "bucketed": {"buckets": ("id", 4)},
    "partitioned and bucketed": {"partition": {"p": "int"}, "buckets": ("id", 3)},
}


@pytest.fixture(params=list(SHAPES), ids=str)
def shape(request: pytest.FixtureRequest) -> dict[str, object]:
    return SHAPES[request.param]


@pytest.mark.promise("W1")
@pytest.mark.promise("W4")
@pytest.mark.promise("W5")
@pytest.mark.promise("W6")
@pytest.mark.promise("D10")
def test_a_table_goes_through_insert_update_delete_and_merge(lab: Lab, shape: dict) -> None:
    columns = {"id": "bigint", "name": "string"}
    extra = shape.get("partition", {})
    lab.table("t", {**columns, **({} if extra else {"p": "int"})}, **shape)
    rows = [(i, f"n{i}", i % 3) for i in range(20)]
    inserted = lab.insert("t", rows, ["id", "name", "p"])
    assert inserted.rows == RowCounts(inserted=20)
    assert lab.rows("t") == sorted(rows)

    updated = lab.update("t", {"name": "concat(name, '!')"}, "id % 5 = 0")
    assert updated.rows == RowCounts(updated=4)
    rows = [(i, f"{n}!" if i % 5 == 0 else n, p) for i, n, p in rows]
    assert lab.rows("t") == sorted(rows)

    deleted = lab.delete("t", "p = 2")
    assert deleted.rows == RowCounts(deleted=6)
    rows = [r for r in rows if r[2] != 2]
    assert lab.rows("t") == sorted(rows)

    source = [(0, "zero", 0, "U"), (1, None, 1, "D"), (100, "new", 4, "I"), (101, "x", 4, "U")]
    merged = lab.merge("t", source, ["id", "name", "p", "op"], ["id"], UPSERT)
    assert merged.status is JobStatus.COMMITTED
    assert merged.rows == RowCounts(inserted=1, updated=1, deleted=1)
    expected = {i: (i, n, p) for i, n, p in rows}
    expected[0] = (0, "zero", 0)
    del expected[1]
    expected[100] = (100, "new", 4)
    assert lab.rows("t") == sorted(expected.values())
