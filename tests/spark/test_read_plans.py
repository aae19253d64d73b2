"""How a full-ACID table is read: in vectors, and delete events only where they count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyarrow.fs import LocalFileSystem
from pyspark.sql import DataFrame

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.engine import each
from airflow_hiveacid.spark.reading import orc_frame
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import Target, resolve_target
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.support.spark_lab import Lab

ROWS = 30_000
COLUMNS = {"id": "bigint", "v": "int", "deep": "array<struct<k:string,m:map<string,int>>>"}
QUERY = (
    "select id, int(id % 100) as v,"
    " array(named_struct('k', string(id), 'm', map('a', int(id)))) as deep from range({}, {})"
)


def fill(lab: Lab, first: int, end: int) -> None:
    source = SourceSpec(values=((1,),), columns=("x",), query=QUERY.format(first, end))
    lab.run(InsertSpec(target=f"{lab.db}.t", source=source))


def target(lab: Lab) -> Target:
    return resolve_target(lab.spark, lab.client, lab.info("t"), lab.snapshot("t"))


def plan(frame: DataFrame) -> JavaObject:
    """What was done for a frame, once it is computed."""
    found = frame._jdf.queryExecution().executedPlan()
    is_adaptive = found.getClass().getSimpleName() == "AdaptiveSparkPlanExec"
    return found.finalPhysicalPlan() if is_adaptive else found


def nodes(frame: DataFrame) -> list[str]:
    """The operators of its plan."""
    return re.findall(r"^[\s:+*()\d-]*([A-Za-z]\w+)", plan(frame).toString(), re.MULTILINE)


def scans(frame: DataFrame) -> list[str]:
    mode = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    text: str = frame._jdf.queryExecution().explainString(mode.fromString("formatted"))
    return re.findall(r"^\(\d+\) Scan orc.*?(?=^$)", text, re.MULTILINE | re.DOTALL)


def delete_files(frame: DataFrame) -> list[str]:
    return [name for name in frame.inputFiles() if "/delete_delta_" in name]


@pytest.mark.promise("R10")
def test_rows_and_delete_events_are_read_in_vectorized_batches(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    fill(lab4, 0, 100)
    lab4.delete("t", "id % 10 = 0")
    rows = lab4.frame("t")
    assert rows.where("id % 2 = 1").count() == 50
    found = scans(rows)
    assert len(found) == 2  # rows and delete events
    assert all("Batched: true" in scan for scan in found), found
    arrow = target(lab4).read_with_arrow(["id", "deep"])
    assert arrow.count() == 90
    assert [node for node in nodes(arrow) if "MapInArrow" in node]
    assert not {"BatchEvalPython", "ArrowEvalPython"}.intersection(nodes(arrow))


@pytest.mark.promise("R8")
def test_a_compacted_table_is_read_without_a_join_or_exchange_like_a_flat_table(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    fill(lab4, 0, 100)
    fill(lab4, 100, 200)
    lab4.delete("t", "id % 10 = 0")
    lab4.update("t", {"v": "7"}, "id = 11")
    before = lab4.frame("t")
    before.collect()
    assert "BroadcastHashJoin" in nodes(before)
    lab4.compact("t", CompactionChoice.MAJOR)
    rows = lab4.frame("t")
    assert len(rows.collect()) == 180
    assert {"Scan", "FileScan"}.intersection(nodes(rows))
    (scan,) = scans(rows)
    assert "Batched: true" in scan
    others = ("Exchange", "Join", "MapInArrow")
    assert not [node for node in nodes(rows) if node.endswith(others)]
    assert "row:struct<v:int,__absent:int>>" in scans(rows.select("v"))[0]


@pytest.mark.promise("R13")
def test_delete_events_are_broadcast_and_rows_are_not_shuffled(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab4.table("t", COLUMNS)
    fill(lab4, 0, ROWS)
    rows = lab4.frame("t")
    assert len(rows.select("v").collect()) == ROWS
    assert not [node for node in nodes(rows.select("v")) if "Exchange" in node or "Join" in node]
    lab4.delete("t", "id % 100 = 0")
    lab4.delete("t", "id % 100 = 1")
    rows = lab4.frame("t").select("v")
    assert len(rows.collect()) == ROWS - ROWS // 50
    assert {node for node in nodes(rows) if "Exchange" in node} == {"BroadcastExchange"}
    assert sent(rows) == ROWS // 50
    assert orc_frame._BROADCAST_DELETES == 4_000_000
    # One more than are sent: to Spark both are tables of any size.
    monkeypatch.setattr(orc_frame, "_BROADCAST_DELETES", ROWS // 50 - 1)
    key = "spark.sql.autoBroadcastJoinThreshold"
    lab4.spark.conf.set(key, "-1")
    try:
        rows = lab4.frame("t").select("v")
        assert len(rows.collect()) == ROWS - ROWS // 50
        assert "Exchange" in nodes(rows)
    finally:
        lab4.spark.conf.unset(key)


def sent(frame: DataFrame) -> int:
    """How many rows were sent to every executor for a frame that is computed."""
    text = plan(frame).toString()
    assert text.count("BroadcastExchange") == 1
    todo, count = [plan(frame)], 0
    while todo:
        node = todo.pop()
        if node.nodeName() == "BroadcastQueryStage":
            node = node.plan()
        if node.nodeName() == "BroadcastExchange":
            count += int(node.metrics().get("numOutputRows").get().value())
        todo += each(node.children())
    return count


@pytest.mark.promise("R6")
def test_delete_events_are_not_loaded_for_files_and_partitions_that_a_filter_rejects(
    lab4: Lab,
) -> None:
    """What some delete files hold is damaged: whoever loads them fails."""
    lab4.table("t", {"id": "bigint"}, partition={"p": "int"})
    for first, p in ((0, 1), (100, 1), (200, 2)):
        lab4.insert("t", [(first + i, p) for i in range(10)], ["id", "p"])
        lab4.delete("t", f"id = {first}", job_key=f"{lab4.db}/{first}")
    name = f"{lab4.db}.t"
    with read_snapshot(lab4.endpoint, [name], job_key=f"{lab4.db}/r6") as snapshot:

        def read(where: str) -> DataFrame:
            return read_table(lab4.spark, name, snapshot, where=where)

        assert len(delete_files(read("id >= 0"))) == 3
        for place in ("p=1/delete_delta_0000002*", "p=2/delete_delta_0000006*"):
            (file,) = lab4.root("t").glob(f"{place}/bucket_*")
            damage(file)
        with pytest.raises(Exception, match=r"delete_delta_000000[26]"):
            read("id >= 0").collect()
        for where, rows, opened in (
            ("id < -5", 0, 0),
            ("p = 3", 0, 0),
            ("id between 100 and 150", 9, 1),
            ("p = 1 and id >= 100", 9, 1),
        ):
            found = read(where)
            assert (len(found.collect()), len(delete_files(found))) == (rows, opened), where
    found = target(lab4)
    (second,) = [file for file in found.files if "/delta_0000003" in file.data.path]
    assert found._acid.with_arrow(["id"], "position", [second]).count() == 9


def damage(file: Path) -> None:
    """Spoil what a file holds, not what its end says of it."""
    (stripe,) = read_tail(LocalFileSystem(), str(file)).stripes
    content = bytearray(file.read_bytes())
    content[stripe.offset : stripe.offset + stripe.length] = b"\xff" * stripe.length
    file.write_bytes(bytes(content))
