"""Changes far beyond one batch, one block and one file of delete events."""

from __future__ import annotations

from airflow_hiveacid.jobs.job import RowCounts
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from tests.support.spark_lab import Lab

ROWS = 1_100_000


def test_more_than_a_million_rows_can_be_inserted_and_deleted_twice(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "name": "string"})
    every = SourceSpec(query=f"SELECT id, concat('n', id) AS name FROM range({ROWS})", tables={})
    for _ in range(2):
        inserted = lab4.run(InsertSpec(target=f"{lab4.db}.t", source=every))
        assert inserted.rows == RowCounts(inserted=ROWS)
        assert lab4.frame("t").count() == ROWS
        deleted = lab4.delete("t", "id >= 0")
        assert deleted.rows == RowCounts(deleted=ROWS)
        assert lab4.frame("t").count() == 0
    # Nothing was left out because it was one row too many for something.
    lab4.compact("t", CompactionChoice.MINOR)
    assert lab4.rows("t") == []
    lab4.insert("t", [(7, "seven")], ["id", "name"])
    assert lab4.rows("t") == [(7, "seven")]
