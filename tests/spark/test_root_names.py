"""Columns that are named as the root columns of an ACID file, in files whose rows ORC would pass
over by the statistics of the wrong column."""

from __future__ import annotations

import pytest

from airflow_hiveacid.spark.reading.target import Target, resolve_target
from tests.support.merge_clauses import UPSERT_ALL
from tests.support.spark_lab import Lab, native_files, with_settings

ROOT_NAMES = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")


def target(lab: Lab) -> Target:
    return resolve_target(lab.spark, lab.client, lab.info("t"), lab.snapshot("t"))


def is_native(lab: Lab) -> bool:
    found = target(lab)
    return len(native_files(found.rows())) == len(found.files)


def passed_over(lab: Lab) -> int:
    """How many rows a filter on a root column, which all rows satisfy, would lose."""
    files = [str(p) for p in lab.root("t").glob("delta_*/bucket_*")]
    fields = ",".join(f"{c.name}:{c.type}" for c in lab.info("t").columns)
    raw = lab.spark.read.schema(
        "operation int, originalTransaction bigint, bucket int, rowId bigint,"
        f" currentTransaction bigint, row struct<{fields}>"
    ).orc(files)
    every = " and ".join(f"{name} >= 0" for name in ROOT_NAMES)
    return len(raw.collect()) - len(raw.where(every).collect())


@pytest.mark.parametrize("name", ROOT_NAMES)
@pytest.mark.long_cases("operation", "originalTransaction", "rowId", "currentTransaction")
def test_columns_named_like_acid_root_columns_can_be_read_and_changed(lab4: Lab, name: str) -> None:
    lab4.table("t", {"id": "bigint", name: "bigint", "v": "int"})
    columns = ["id", name, "v"]
    rows = [(i, (None, -5, 5)[i // 10], 0) for i in range(30)]
    for start in (0, 10, 20):
        lab4.insert("t", rows[start : start + 10], columns)
    expected = [(i, n, int(i % 10 == 1 and i < 20)) for i, n, _ in rows if i % 10 != 2 and i != 3]
    # Only in a session that the user made: ours pass ORC's reader no filter of Spark.
    with with_settings(lab4.spark, {"spark.sql.orc.filterPushdown": "true"}):
        # A file each, so a row group each; without care, ORC leaves out two of three.
        assert passed_over(lab4) == 20
        assert is_native(lab4)
        assert lab4.rows("t") == rows
        lab4.update("t", {"v": "1"}, f"id % 10 = 1 and ({name} is null or {name} < 0)")
        lab4.delete("t", "id % 10 = 2")
        lab4.merge("t", [(3, 7, 7), (33, None, 7)], columns, ["id"], UPSERT_ALL)
        assert is_native(lab4)
        assert sorted(lab4.rows("t")) == sorted([*expected, (3, 7, 7), (33, None, 7)])


def test_a_table_with_a_column_named_row_is_read_by_our_reader(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "row": "bigint", "v": "int"})
    rows = [(i, None if i < 10 else -i, 0) for i in range(20)]
    for start in (0, 10):
        lab4.insert("t", rows[start : start + 10], ["id", "row", "v"])
    assert not is_native(lab4)
    assert lab4.rows("t") == rows
    lab4.update("t", {"v": "1"}, "t.row is null and id = 1")
    lab4.delete("t", "`row` = -11")
    lab4.merge("t", [(2, 2, 2), (50, None, 2)], ["id", "row", "v"], ["id"], UPSERT_ALL)
    expected = [(i, r, int(i == 1)) for i, r, _ in rows if i not in (2, 11)]
    assert sorted(lab4.rows("t")) == sorted([*expected, (2, 2, 2), (50, None, 2)])


def test_positional_schema_evolution_in_the_session_does_not_swap_columns(lab4: Lab) -> None:
    lab4.table("t", {"a": "int", "b": "int", "c": "int"})
    lab4.insert("t", [(1, 2, 3)], ["a", "b", "c"])
    key = "orc.force.positional.evolution"
    lab4.spark.conf.set(key, "true")
    try:
        assert is_native(lab4)
        assert [tuple(r) for r in target(lab4).rows(["c"]).collect()] == [(3,)]
        lab4.update("t", {"a": "c + 10"}, "b = 2")
        assert lab4.rows("t") == [(13, 2, 3)]
    finally:
        lab4.spark.conf.unset(key)
