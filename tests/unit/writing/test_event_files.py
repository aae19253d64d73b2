"""What a task does with events; the tests make the batches, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import InvalidNameError, MergeCardinalityError
from airflow_hiveacid.format.ids import StatementId, WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.writing import event_files

INSERT, DELETE = 1, 0


def plan_at(path: Path) -> event_files.WritePlan:
    table = TableInfo(
        ref=TableRef("d", "t"),
        location=f"file:{path}",
        columns=(Column(name="v", type="int"),),
    )
    delta = DeltaName(low=WriteId(7), high=WriteId(7), statement_id=StatementId(0))
    return event_files.WritePlan(
        table=table,
        write_id=WriteId(7),
        statement_id=StatementId(0),
        token="token",
        insert_directory=delta,
        delete_directory=DeltaName(
            low=WriteId(7), high=WriteId(7), statement_id=StatementId(0), is_delete=True
        ),
        options=event_files.writer_options(table, MetastoreGeneration.V4, is_base=False),
        given=(frozenset({"v"}),),
    )


def batch_of(kind: int, *row_ids: int | None) -> pa.RecordBatch:
    count = len(row_ids)
    is_old = [r is not None for r in row_ids]
    columns: dict[str, Any] = {
        "_partition": pa.array(["[]"] * count),
        "_kind": pa.array([kind] * count, pa.int8()),
        "_bucket": pa.array([0] * count, pa.int32()),
        "_file": pa.array(["f" if old else None for old in is_old], pa.string()),
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
def test_two_events_for_one_target_row_are_refused(
    tmp_path: Path, kind: int, batches: list[tuple[int, ...]]
) -> None:
    events = (batch_of(kind, *rows) for rows in batches)
    with pytest.raises(MergeCardinalityError, match="1 target row"):
        list(event_files.write_events(events, plan=plan_at(tmp_path)))
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * 5000, "5000 characters, the metastore allows 256"),
        ("a\0b", "NUL"),
        ("\u20ac" * 100, "its directory's name has 302 bytes, the file system allows 255"),
        ("/" * 100, "302 bytes"),
    ],
)
def test_a_partition_value_that_is_too_long_or_invalid_is_refused_before_files_are_made(
    tmp_path: Path, value: str, why: str
) -> None:
    plan = plan_at(tmp_path)
    table = replace(plan.table, partition_columns=(Column(name="p", type="string"),))
    batch = batch_of(INSERT, None)
    key = pa.array([json.dumps([value])])
    batch = batch.set_column(batch.schema.get_field_index("_partition"), "_partition", key)
    with pytest.raises(InvalidNameError, match=f"value of partition column p: .*{why}") as caught:
        list(event_files.write_events(iter([batch]), plan=replace(plan, table=table)))
    assert len(str(caught.value)) < 600
    assert list(tmp_path.iterdir()) == []


def test_the_driver_writes_the_files_that_tasks_would_write(tmp_path: Path) -> None:
    unordered = [
        batch_of(INSERT, None, 9, 3),
        batch_of(DELETE, 9, 4),
        batch_of(INSERT, None),
        batch_of(DELETE, 3),
    ]
    here = event_files.write_here(plan_at(tmp_path / "here"), unordered)
    order = [batch_of(DELETE, 3, 4, 9), batch_of(INSERT, None, None, 3, 9)]
    tasks = event_files.Written.all_of(
        event_files.write_events(iter(order), plan=plan_at(tmp_path / "tasks"))
    )
    assert [one._replace(attempt="") for one in here] == [one._replace(attempt="") for one in tasks]
    assert [(one.rows, one.updated) for one in here] == [(3, 0), (4, 2)]
    files = {
        folder: {p.name: p.read_bytes() for p in (tmp_path / folder).rglob("bucket_*")}
        for folder in ("here", "tasks")
    }
    assert len(set(map(str, files.values()))) == 1


def test_on_the_driver_two_events_for_one_target_row_raise_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(MergeCardinalityError, match="1 target row"):
        event_files.write_here(plan_at(tmp_path), [batch_of(DELETE, 1), batch_of(DELETE, 2, 1)])
    assert event_files.write_here(plan_at(tmp_path), []) == []


@pytest.mark.parametrize(
    ("events", "size_bytes", "few"),
    [(0, 0, True), (50_000, 16 << 20, True), (50_001, 0, False), (1, (16 << 20) + 1, False)],
)
def test_the_driver_writes_events_itself_only_up_to_a_limit_of_rows_and_bytes(
    events: int, size_bytes: int, *, few: bool
) -> None:
    assert event_files.are_few(events, size_bytes) is few


def test_several_new_rows_are_no_duplicates_and_do_not_count_as_updated(tmp_path: Path) -> None:
    events = iter([batch_of(INSERT, None, None, 3, 4), batch_of(INSERT, 5, 6)])
    (written,) = list(event_files.write_events(events, plan=plan_at(tmp_path)))
    assert written.column("rows").to_pylist() == [6]
    assert written.column("updated").to_pylist() == [4]
