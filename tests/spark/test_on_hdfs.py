"""The life of tables that lie on a real HDFS: every kind of job, in the driver and in tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.jobs.specs import CompactionChoice, MergeAction, MergeClause, MergeWhen
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.storage.stores.listing import list_table
from contract.stores.mini_hdfs import MiniHdfs
from spark_lab import make_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_lab import Lab, Row

pytestmark = pytest.mark.server

CLAUSES = [
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
]
ODD = "a/b c=1 %2F#?"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Iterator[Lab]:
    """A database whose warehouse is on HDFS."""
    (tmp_path / "hdfs").mkdir()
    with MiniHdfs.started(tmp_path / "hdfs") as hdfs:
        places = {"metastore.warehouse.dir": "w", "metastore.warehouse.external.dir": "x"}
        settings = {name: f"{hdfs.uri}/{place}" for name, place in places.items()}
        server = LocalMetastore(
            LocalMetastoreConfig(data_dir=tmp_path / "metastore", extra_settings=settings)
        )
        server.start()
        try:
            yield from make_lab(spark, server)
        finally:
            server.stop()


def check(lab: Lab, rows: list[Row]) -> None:
    """What Spark's reader finds, and ours."""
    info = lab.info("t")
    target = resolve_target(lab.spark, lab.client, info, lab.snapshot("t"))
    assert lab.rows("t") == sorted(rows)
    by_arrow = target.read_with_arrow(info.column_names).collect()
    assert sorted(tuple(row)[1:3] for row in by_arrow) == sorted(row[:2] for row in rows)


def test_a_table_lives_its_whole_life_on_hdfs(lab: Lab) -> None:
    names = ["id", "v", "p"]
    lab.table("t", {"id": "int", "v": "string"}, partition={"p": "string"})
    location = lab.info("t").location
    assert location.startswith("hdfs://127.0.0.1:")
    lab.insert("t", [(i, f"v{i}", ODD) for i in range(4)], names)
    lab.insert("t", [(9, "nine", "x")], names)
    lab.delete("t", "id = 0")
    lab.update("t", {"v": "'u'"}, "id = 1")
    lab.merge("t", [(2, "m", ODD), (5, "new", ODD)], names, ["id", "p"], CLAUSES)
    rows: list[Row] = [
        (1, "u", ODD),
        (2, "m", ODD),
        (3, "v3", ODD),
        (5, "new", ODD),
        (9, "nine", "x"),
    ]
    check(lab, rows)
    for choice in (CompactionChoice.MINOR, CompactionChoice.MAJOR):
        lab.compact("t", choice)
        lab.clean("t")
        check(lab, rows)
    lab.overwrite("t", [(7, "o", "x")], names)
    lab.clean("t")
    check(lab, [*rows[:-1], (7, "o", "x")])
    left = {d for d in list_table(location).directories if "_tmp_" in d}
    assert left == set()
