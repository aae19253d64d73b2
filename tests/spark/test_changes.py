"""INSERT, UPDATE, DELETE and MERGE on every shape of table, on both metastores."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.jobs.job import JobStatus, RowCounts
from airflow_hiveacid.jobs.statements import DeleteSpec, InsertSpec, SourceSpec, UpdateSpec
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.spark.statements.update_delete import change_events, plan_change
from tests.support.merge_clauses import matched_delete, matched_update, unmatched_insert
from tests.support.spark_lab import Lab
from tests.support.steps import at

UPSERT = (
    matched_delete("s.op = 'D'"),
    matched_update({"name": "s.name"}, "s.op = 'U'"),
    unmatched_insert("s.op = 'I'"),
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
@pytest.mark.long_cases(
    "4.0.1-plain", "4.0.1-partitioned", "4.0.1-bucketed", "3.1.3-partitioned*", "3.1.3-bucketed"
)
def test_insert_update_delete_and_merge_leave_the_expected_rows_and_counts(
    lab: Lab, shape: dict
) -> None:
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


def data_files(lab: Lab) -> dict[str, tuple[int, int, int]]:
    """Path, inode, size and time of every file that a reader may look at."""
    root = lab.root("t")
    found = {}
    for file in root.rglob("*"):
        path = file.relative_to(root)
        if file.is_file() and not any(
            part.startswith(("_tmp", "_hiveacid")) for part in path.parts
        ):
            facts = file.stat()
            found[str(path)] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    return found


@pytest.mark.promise("F3")
@pytest.mark.promise("T3")
@pytest.mark.promise("T16")
@pytest.mark.long_cases("3.1.3")
def test_files_reach_their_final_directories_before_the_commit_and_do_not_change(lab: Lab) -> None:
    lab.table("t", {"id": "bigint", "name": "string"})
    lab.insert("t", [(i, "a") for i in range(10)], ["id", "name"])
    before = data_files(lab)
    seen: list[dict[str, tuple[int, int, int]]] = []
    look = at("body_done", lambda: seen.append(data_files(lab)))
    result = lab.update("t", {"name": "'b'"}, "id < 5", on_step=look)
    (write_id,) = result.write_ids.values()
    added = {path.partition("/")[0] for path in set(data_files(lab)) - set(before)}
    span = f"{write_id:07d}_{write_id:07d}_0000"
    assert added == {f"delta_{span}", f"delete_delta_{span}"}
    assert seen == [data_files(lab)]
    assert before.items() <= seen[0].items()


def test_the_events_of_a_change_contain_only_the_assigned_columns(lab4: Lab) -> None:
    table = lab4.table("t", {"id": "bigint", **{f"c{i}": "int" for i in range(50)}})
    lab4.insert("t", [(1, 7), (2, 8)], ["id", "c9"])
    target = resolve_target(lab4.spark, lab4.client, table, lab4.snapshot("t"))
    specs = {
        "c7 c9": UpdateSpec(target=f"{lab4.db}.t", set={"c9": "id", "C7": "1"}),
        # There is no struct without fields.
        "id": DeleteSpec(target=f"{lab4.db}.t"),
    }
    for names, spec in specs.items():
        events = change_events(plan_change(lab4.spark, table, spec), target)
        for frame in (events.frame(), events.few):
            assert frame is not None
            assert " ".join(frame.select("row.*").columns) == names
    lab4.update("t", {"c9": "c9 + id", "C7": "1"}, "id = 1")
    found = lab4.frame("t").select("id", "c7", "c8", "c9").collect()
    assert sorted(tuple(row) for row in found) == [(1, 1, None, 8), (2, None, None, 8)]


@pytest.mark.promise("W12")
@pytest.mark.promise("F4")
def test_the_bytes_that_a_change_writes_are_proportional_to_its_rows(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "a": "string", "b": "string"})
    rows = lab4.spark.range(200_000).selectExpr("id", "sha2(string(id), 256) a", "uuid() b")
    rows.coalesce(1).write.parquet((tmp_path / "rows").as_uri())
    source = SourceSpec(format="parquet", location=(tmp_path / "rows").as_uri())
    base = lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source)).size_bytes
    assert base > 10_000_000
    update = lab4.update("t", {"b": "'x'"}, "id % 1000 = 0")
    assert update.rows.updated == 200
    assert update.size_bytes < base / 200
    # Keys alone, and in order: a few bytes a row.
    delete = lab4.delete("t", "id >= 100000")
    assert delete.rows.deleted == 100_000
    assert delete.size_bytes < 5 * 100_000 / 10
