"""What a task does with events, without Spark: the batches are made here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MergeCardinalityError
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.spark.failures import _CarriedError
from airflow_hiveacid.spark.writing.writers import WritePlan, write_events, writer_options

if TYPE_CHECKING:
    from pathlib import Path

INSERT, DELETE = 1, 0


def plan_at(path: Path) -> WritePlan:
    table = TableInfo(
        ref=TableRef("d", "t"),
        location=f"file:{path}",
        columns=(Column(name="v", type="int"),),
    )
    delta = DeltaName(low=WriteId(7), high=WriteId(7), statement_id=StatementId(0))
    return WritePlan(
        table=table,
        write_id=WriteId(7),
        statement_id=StatementId(0),
        token="token",
        insert_directory=delta,
        delete_directory=DeltaName(
            low=WriteId(7), high=WriteId(7), statement_id=StatementId(0), is_delete=True
        ),
        options=writer_options(table, MetastoreGeneration.V4, is_base=False),
        given=(frozenset({"v"}),),
    )


def batch_of(kind: int, *row_ids: int | None) -> pa.RecordBatch:
    count = len(row_ids)
    is_old = [r is not None for r in row_ids]
    columns: dict[str, Any] = {
        "_partition": pa.array(["[]"] * count),
        "_kind": pa.array([kind] * count, pa.int8()),
        "_bucket": pa.array([0] * count, pa.int32()),
        "_file": pa.array(["f" if old else None for old in is_old]),
        "_clause": pa.array([0] * count, pa.int32()),
        "originalTransaction": pa.array([1 if old else None for old in is_old], pa.int64()),
        "bucket": pa.array([536870912 if old else None for old in is_old], pa.int32()),
        "rowId": pa.array(row_ids, pa.int64()),
        "row": pa.array([{"v": 1}] * count, pa.struct([("v", pa.int32())])),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("kind", [INSERT, DELETE], ids=["insert events", "delete events"])
@pytest.mark.parametrize(
    "batches",
    [[(0, 1, 1, 2)], [(0, 1), (1, 2)]],
    ids=["in one batch", "in two"],
)
def test_two_events_of_one_old_row_are_refused(
    tmp_path: Path, kind: int, batches: list[tuple[int, ...]]
) -> None:
    events = (batch_of(kind, *rows) for rows in batches)
    with pytest.raises(_CarriedError, match="1 target row") as caught:
        list(write_events(events, plan=plan_at(tmp_path)))
    assert isinstance(caught.value.__cause__, MergeCardinalityError)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_new_rows_have_no_old_one_to_share(tmp_path: Path) -> None:
    events = iter([batch_of(INSERT, None, None, 3, 4), batch_of(INSERT, 5, 6)])
    (written,) = list(write_events(events, plan=plan_at(tmp_path)))
    assert written.column("rows").to_pylist() == [6]
    assert written.column("updated").to_pylist() == [4]
