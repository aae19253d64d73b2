"""Reading: one snapshot for as long as it lasts, over several tables, in every task."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from tests.support.spark_lab import Lab

COLUMNS = {"id": "bigint", "v": "int"}


@pytest.mark.promise("T9")
@pytest.mark.promise("T10")
@pytest.mark.long_cases("3.1.3")
def test_all_frames_of_one_snapshot_see_the_same_point_in_time(lab: Lab) -> None:
    for name in ("a", "b"):
        lab.table(name, COLUMNS)
        lab.insert(name, [(1, 100), (2, 100)], ["id", "v"])
    names = [f"{lab.db}.a", f"{lab.db}.b"]
    with read_snapshot(lab.endpoint, names, job_key=f"{lab.db}/sum") as snapshot:
        lab.update("a", {"v": "v - 30"}, "id = 1")
        lab.update("b", {"v": "v + 30"}, "id = 1")
        a = read_table(lab.spark, names[0], snapshot)
        b = read_table(lab.spark, names[1], snapshot)
        assert a.union(b).agg(F.sum("v")).first()[0] == 400
        joined = a.alias("x").join(a.alias("y"), "id").where("x.v <> y.v")
        assert joined.count() == 0
    assert lab.rows("a") == [(1, 70), (2, 100)]


def test_a_reader_holds_a_shared_lock_while_it_reads(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key=f"{lab.db}/r"):
        (lock,) = lab.client.show_locks(lab.info("t").ref)
        assert lock.lock_type.value == "shared_read"


@pytest.mark.promise("R9")
@pytest.mark.long_cases("3.1.3")
def test_a_count_omits_deleted_rows(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", [(i, i) for i in range(50)], ["id", "v"])
    lab.delete("t", "id >= 20")
    assert lab.frame("t").count() == 20


@pytest.mark.promise("W2")
@pytest.mark.promise("F5")
@pytest.mark.long_cases("3.1.3")
def test_an_overwrite_replaces_a_table_a_partition_or_the_partitions_of_its_rows(lab: Lab) -> None:
    lab.table("whole", COLUMNS)
    lab.insert("whole", [(1, 1), (2, 2)], ["id", "v"])
    lab.overwrite("whole", [(3, 3)], ["id", "v"])
    assert lab.rows("whole") == [(3, 3)]
    assert "base_0000002" in lab.directories("whole")
    lab.overwrite("whole", [], ["id", "v"])
    assert lab.rows("whole") == []

    lab.table("parts", COLUMNS, partition={"p": "string"})
    rows = [(1, 1, "x"), (2, 2, "y"), (3, 3, "z")]
    lab.insert("parts", rows, ["id", "v", "p"])
    lab.overwrite("parts", [(9, 9)], ["id", "v"], partition={"p": "y"})
    assert lab.rows("parts") == [(1, 1, "x"), (3, 3, "z"), (9, 9, "y")]
    lab.overwrite("parts", [(4, 4, "x"), (5, 5, "new")], ["id", "v", "p"])
    assert lab.rows("parts") == [(3, 3, "z"), (4, 4, "x"), (5, 5, "new"), (9, 9, "y")]
    lab.overwrite("parts", [], ["id", "v"], partition={"p": "z"})
    assert lab.rows("parts") == [(4, 4, "x"), (5, 5, "new"), (9, 9, "y")]


@pytest.mark.promise("D10")
@pytest.mark.long_cases("3.1.3")
def test_partition_values_can_be_null_and_contain_special_characters(lab: Lab) -> None:
    lab.table("t", COLUMNS, partition={"p": "string", "q": "date"})
    values = ["a/b=c %", "späte Ecke", "x:y", "*?[]{}^", "it's", "tab\there"]
    rows = [(i, i, p, "2020-02-29") for i, p in enumerate(values)] + [(99, 0, None, None)]
    lab.insert("t", rows, ["id", "v", "p", "q"])
    lab.update("t", {"v": "-1"}, "id = 2")
    found = {row[0]: row[1:] for row in lab.rows("t")}
    assert {i: row[1] for i, row in found.items()} == {**dict(enumerate(values)), 99: None}
    assert found[2][0] == -1
    assert found[99] == (0, None, None)
