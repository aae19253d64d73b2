"""Statements that try to meet what is ours: helper columns, one decision a row, one time."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import statements
from tests.support import merge_clauses
from tests.support.spark_lab import Lab

OURS = ("__position", "__source_row", "__clause", "_partition", "_clause", "_file", "row", "number")
ALL = ("id", "h", *OURS, "t")


@pytest.fixture
def ours(lab4: Lab) -> Lab:
    lab4.table(
        "t",
        {"id": "bigint", "h": "string", **dict.fromkeys(OURS, "string")},
        partition={"t": "string"},
    )
    lab4.insert("t", [(i, None, *[f"{n}{i}" for n in OURS], f"p{i % 2}") for i in range(4)], ALL)
    return lab4


@pytest.mark.promise("W4")
def test_a_star_expands_to_the_columns_of_the_table_only(ours: Lab) -> None:
    before = ours.frame("t")
    hashes = {r[0]: str(r[1]) for r in before.selectExpr("id", "hash(*)").collect()}
    ours.update("t", {"h": "hash(t.*)"}, "__position <> '__position3' AND t.t = 'p1'")
    assert {r[0]: r[1] for r in ours.rows("t")} == {**dict.fromkeys(range(4)), 1: hashes[1]}
    ours.update("t", {"h": "to_json(struct(*))"}, "id = 0")
    (whole,) = [r.h for r in ours.frame("t").collect() if r.id == 0]
    expected = {"id": 0, **{n: f"{n}0" for n in OURS}, "t": "p0"}
    assert json.loads(whole) == expected
    assert list(json.loads(whole)) == list(expected)
    ours.delete("t", "size(split(concat_ws(',', t.*), ',')) = 10 AND id > 1")
    assert [r[0] for r in ours.rows("t")] == [0, 1]


@pytest.mark.promise("W6")
def test_columns_named_like_our_helper_columns_are_merged_like_any_others(ours: Lab) -> None:
    columns = ["id", *OURS, "t"]
    rows = [(i, *[f"new {n}{i}" for n in OURS], f"p{i % 2}") for i in (1, 9)]
    ours.merge(
        "t",
        rows,
        columns,
        ["id", "t"],
        [
            merge_clauses.matched_update(
                {"h": "to_json(struct(s.*))", "__source_row": "concat(t.__position, s._clause)"}
            ),
            merge_clauses.INSERT_ALL,
        ],
        condition="s.__position <> t.__source_row",
    )
    found = {r.id: r for r in ours.frame("t").collect()}
    assert set(found) == {0, 1, 2, 3, 9}
    assert json.loads(found[1].h) == {n: str(v) for n, v in zip(columns, rows[0], strict=True)}
    assert found[1]["__source_row"] == "__position1new _clause1"
    assert found[1]["__position"] == "__position1"
    assert [found[9][n] for n in ALL] == [9, None, *rows[1][1:]]


@pytest.mark.promise("W6")
def test_a_merge_chooses_one_clause_per_row_and_uses_one_current_time(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "string", "at": "timestamp", "day": "date"})
    lab4.insert("t", [(i, "old", None, None) for i in range(120)], ["id", "v", "at", "day"])
    now = {"at": "localtimestamp()", "day": "current_date()"}
    lab4.run(
        statements.MergeSpec(
            target=f"{lab4.db}.t",
            source=statements.SourceSpec(
                values=tuple((i,) for i in range(40, 240)),
                columns=("id",),
                query="select cast(id as bigint) as id, localtimestamp() as seen from source",
            ),
            keys=("id",),
            clauses=(
                merge_clauses.matched_update({"v": "'first'", **now}, "rand() < 0.4"),
                merge_clauses.matched_delete("rand() < 0.4"),
                merge_clauses.matched_update(
                    {"v": "'third'", "at": "s.seen", "day": "to_date(s.seen)"}
                ),
                statements.MergeClause(
                    when=statements.MergeWhen.NOT_MATCHED,
                    action=statements.MergeAction.INSERT,
                    condition="rand() < 0.5",
                    set={"id": "s.id", "v": "'new a'", **now},
                ),
                statements.MergeClause(
                    when=statements.MergeWhen.NOT_MATCHED,
                    action=statements.MergeAction.INSERT,
                    set={"id": "s.id", "v": "'new b'", **now},
                ),
                statements.MergeClause(
                    when=statements.MergeWhen.NOT_MATCHED_BY_SOURCE,
                    action=statements.MergeAction.UPDATE,
                    condition="rand() < 0.5",
                    set={"v": "'gone'", **now},
                ),
            ),
        )
    )
    rows = lab4.frame("t").collect()
    ids = [r.id for r in rows]
    assert len(ids) == len(set(ids))
    assert {i for i in ids if i < 40} == set(range(40))
    assert {i for i in ids if i >= 120} == set(range(120, 240))
    kinds = {"old" if r.id < 40 else "matched" if r.id < 120 else "new": set() for r in rows}
    for r in rows:
        kinds["old" if r.id < 40 else "matched" if r.id < 120 else "new"].add(r.v)
    assert kinds == {
        "old": {"old", "gone"},
        "matched": {"first", "third"},
        "new": {"new a", "new b"},
    }
    assert len({(r["at"], r.day) for r in rows if r.v != "old"}) == 1


@pytest.mark.promise("W4")
@pytest.mark.promise("W5")
def test_an_update_with_a_random_condition_changes_each_row_completely_or_not_at_all(
    lab4: Lab,
) -> None:
    lab4.table("t", {"id": "bigint", "v": "double", "w": "string"}, partition={"p": "int"})
    lab4.insert("t", [(i, -1.0, "w", i % 2) for i in range(200)], ["id", "v", "w", "p"])
    result = lab4.update("t", {"v": "rand()"}, "rand() < 0.5 AND p = 1")
    rows = lab4.rows("t")
    changed = [r for r in rows if r[1] != -1.0]
    assert 0 < len(changed) == result.rows.updated < 100
    assert all(r[1] is not None and r[2] == "w" and r[3] == 1 for r in changed)
    assert sorted(r[0] for r in rows) == list(range(200))
    deleted = lab4.delete("t", "rand() < 0.5").rows.deleted
    assert len(lab4.rows("t")) == 200 - deleted


@pytest.mark.promise("W6")
def test_a_merge_source_of_a_different_type_matches_the_partition_with_an_equal_value(
    lab4: Lab,
) -> None:
    lab4.table("t", {"id": "bigint", "v": "string"}, partition={"month": "string", "c": "char(4)"})
    lab4.insert("t", [(1, "a", "01", "ab"), (2, "b", "2", "cd")], ["id", "v", "month", "c"])
    lab4.run(
        statements.MergeSpec(
            target=f"{lab4.db}.t",
            source=statements.SourceSpec(
                values=(("x",),),
                query="select 1L as id, 'new' as v, 1 as month, 'ab  ' as c from source",
            ),
            keys=("id", "month", "c"),
            clauses=merge_clauses.UPSERT_V,
        )
    )
    assert [(r[0], r[1], r[2]) for r in lab4.rows("t")] == [(1, "new", "01"), (2, "b", "2")]


@pytest.mark.long
@pytest.mark.promise("W7")
def test_two_source_rows_for_one_target_row_raise_an_error_and_change_nothing(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "string", "w": "string"})
    lab4.insert("t", [(i, "v", "w") for i in range(4)], ["id", "v", "w"])
    with pytest.raises(errors.MergeCardinalityError, match="1 target row"):
        lab4.merge(
            "t", [(i // 2, str(i)) for i in (2, 3)], ["id", "v"], ["id"], [merge_clauses.UPDATE_V]
        )
    assert {r[1] for r in lab4.rows("t")} == {"v"}


@pytest.mark.long
@pytest.mark.promise("W5")
def test_a_condition_or_assignment_can_contain_a_subquery(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "string"}, partition={"p": "int"})
    lab4.insert("t", [(i, f"v{i}", i % 3) for i in range(9)], ["id", "v", "p"])
    lab4.delete("t", "id IN (SELECT r.id * 2 FROM range(3) r) AND p <> 1")
    assert [r[0] for r in lab4.rows("t")] == [1, 3, 4, 5, 6, 7, 8]
    lab4.update("t", {"v": "(SELECT max(string(r.id)) FROM range(3) r)"}, "p = (SELECT 1)")
    assert {r[1] for r in lab4.rows("t") if r[2] == 1} == {"2"}


@pytest.mark.promise("W4")
@pytest.mark.parametrize("kind", ["string", "char(3)"])  # Spark's reader reads no char
@pytest.mark.long_cases("char(3)")
def test_columns_can_have_any_name_that_hive_allows(lab4: Lab, kind: str) -> None:
    names = ("__partition_0", "a`b", "c.d", "f g")
    lab4.table("t", {**dict.fromkeys(names, "int"), "c": kind}, partition={"p": "string"})
    columns = (*names, "c", "p")
    lab4.insert("t", [(1, 2, 3, 4, "x", "q")], columns)
    lab4.update("t", {"a`b": "`c.d` + `__partition_0`"}, "`f g` = 4 and p = 'q'")
    assert lab4.rows("t") == [(1, 4, 3, 4, "x", "q")]
    assert [tuple(r) for r in lab4.frame("t").select("`a``b`", "p").collect()] == [(4, "q")]
    lab4.merge(
        "t",
        [(9, 4, 4, "q")],
        ["__partition_0", "a`b", "f g", "p"],
        ["a`b", "p"],
        [merge_clauses.UPDATE_ALL],
    )
    assert lab4.rows("t") == [(9, 4, 3, 4, "x", "q")]


def test_a_forged_ledger_entry_raises_an_error_instead_of_skipping_the_job(lab4: Lab) -> None:
    lab4.table("t", {"id": "int"})
    lab4.insert("t", [(1,)], ["id"], job_key="dag/run/first/-1")
    hidden = Path(lab4.info("t").location.removeprefix("file:")) / "_hiveacid"
    (done,) = hidden.glob("*.done.json")
    body = json.loads(done.read_text())
    forged = {**body, "job_key": "dag/run/task/-1", "txn_id": 999_999, "write_id": 999_999}
    digest = hashlib.sha256(f"{body['table_id']} dag/run/task/-1".encode()).hexdigest()[:32]
    name = f"_{digest}.0.{body['attempt']}.999999.done.json"
    (hidden / name).write_text(json.dumps(forged))
    with pytest.raises(errors.EarlierRunUnknownError, match="has allocated transactions only"):
        lab4.insert("t", [(2,)], ["id"], job_key="dag/run/task/-1")
    assert lab4.rows("t") == [(1,)]
    (hidden / name).unlink()
    lab4.insert("t", [(2,)], ["id"], job_key="dag/run/task/-1")
    assert sorted(lab4.rows("t")) == [(1,), (2,)]


def test_an_invalid_partition_value_is_refused_and_leaves_no_rows(lab4: Lab) -> None:
    lab4.table("t", {"id": "int"}, partition={"p": "string"})
    for value in ("x" * 5000, "a\0b"):
        with pytest.raises(errors.InvalidNameError, match="value of partition column p"):
            lab4.insert("t", [(1, value)], ["id", "p"])
    assert lab4.rows("t") == []


def test_a_change_of_rows_with_one_row_id_names_the_files(lab4: Lab) -> None:
    lab4.table("twins", {"id": "bigint", "v": "string"})
    lab4.insert("twins", [(1, "a")], ["id", "v"])
    lab4.insert("twins", [(2, "b")], ["id", "v"])
    (first, *_) = sorted(lab4.root("twins").glob("delta_*"))
    shutil.copytree(first, first.with_name("delta_0000001_0000001_0001"))
    for change in (
        lambda: lab4.delete("twins", "id = 1"),
        lambda: lab4.update("twins", {"v": "'x'"}, "id = 1"),
        lambda: lab4.rebalance("twins"),
    ):
        with pytest.raises(errors.TwinRowIdsError) as caught:
            change()
        assert "delta_0000001_0000001_0000/bucket_00000" in str(caught.value)
        assert "delta_0000001_0000001_0001/bucket_00000" in str(caught.value)
    assert lab4.rows("twins") == [(1, "a"), (1, "a"), (2, "b")]
