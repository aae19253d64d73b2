"""The life of tables that lie on a real HDFS: every kind of job, in the driver and in tasks."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format.directories import FileEntry
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.spark.engine.session import give_store_settings
from airflow_hiveacid.storage.orc.tail import read_tail
from airflow_hiveacid.storage.stores.hadoop_settings import VARIABLE
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.support.merge_clauses import INSERT_ALL, UPDATE_ALL
from tests.support.spark_lab import Lab, Row

pytestmark = pytest.mark.server

CLAUSES = [
    UPDATE_ALL,
    INSERT_ALL,
]
ODD = "a/b c=1 %2F#?"
JAVA = 0


@pytest.fixture
def umask(spark: SparkSession) -> Iterator[None]:
    """Only Spark's configuration says it, as with `spark.hadoop.fs.permissions.umask-mode`."""
    context = spark.sparkContext
    conf = context._jsc.hadoopConfiguration()
    before = os.environ.pop(VARIABLE), context.environment.pop(VARIABLE)
    conf.set("fs.permissions.umask-mode", "027")
    conf.set("fs.s3a.secret.key", "of-no-concern")
    give_store_settings(spark)
    yield
    conf.unset("fs.permissions.umask-mode")
    conf.unset("fs.s3a.secret.key")
    os.environ[VARIABLE], context.environment[VARIABLE] = before


@pytest.fixture
def lab(
    spark: SparkSession, hive_metastore: LocalMetastore, tmp_path: Path, umask: None
) -> Iterator[Lab]:
    """A database that lies on HDFS."""
    del umask
    with _on_hdfs(spark, hive_metastore, tmp_path) as lab:
        yield lab


@contextmanager
def _on_hdfs(spark: SparkSession, hive_metastore: LocalMetastore, tmp_path: Path) -> Iterator[Lab]:
    endpoint = MetastoreEndpoint(uris=(hive_metastore.uri,))
    with MiniHdfs.started(tmp_path) as hdfs, connect(endpoint) as client:
        db = f"hdfs_{uuid.uuid4().hex[:12]}"
        client.create_database(db, f"{hdfs.uri}/{db}.db")
        lab = Lab(spark=spark, endpoint=endpoint, client=client, db=db)
        yield lab
        lab.script("DROP TABLE IF EXISTS t")  # as long as its files are there


def files(lab: Lab) -> list[FileEntry]:
    listed = list_table(lab.info("t").location).files
    return [f for f in listed if not f.path.startswith("_")]


def rights_of(location: str, path: str) -> int:
    fs, root = open_location(location)
    found: int = fs.handler._client.get_file_info(f"{root}/{path}").permission
    return found


def test_python_workers_get_the_hdfs_settings_of_spark_but_no_secrets(
    spark: SparkSession, umask: None
) -> None:
    del umask

    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"told": [os.environ[VARIABLE]]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(told, "told string").collect()
    assert json.loads(row.told) == {
        "fs.permissions.umask-mode": "027",
        "hiveacid.s3.keys.in.jvm": "true",
    }


def test_a_table_on_hdfs_can_be_changed_compacted_and_cleaned(lab: Lab) -> None:
    _lead_a_life(lab)


@pytest.mark.clusters
@pytest.mark.usefixtures("umask")
def test_a_table_on_hdfs_can_be_changed_compacted_and_cleaned_with_a_hive_3_metastore(
    spark: SparkSession, hive_metastore_3: LocalMetastore, tmp_path: Path
) -> None:
    with _on_hdfs(spark, hive_metastore_3, tmp_path) as lab:
        _lead_a_life(lab)


def _lead_a_life(lab: Lab) -> None:
    names = ["id", "v", "p"]
    lab.table("t", {"id": "int", "v": "string"}, partition={"p": "string"})
    location = lab.info("t").location
    assert location.startswith("hdfs://127.0.0.1:")
    lab.insert("t", [(i, f"v{i}", ODD) for i in range(4)], names)
    rights = [(f.path.rpartition("/")[2], rights_of(location, f.path)) for f in files(lab)]
    assert rights == [("_orc_acid_version", 0o640), ("bucket_00000", 0o640)]
    fs, root = open_location(location)
    tail = read_tail(fs, f"{root}/{files(lab)[-1].path}")
    assert tail.footer.writer == JAVA, "Spark's count is not that of its files"
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
    lab.check(rows)
    for choice in (CompactionChoice.MINOR, CompactionChoice.MAJOR):
        lab.compact("t", choice)
        lab.clean("t")
        lab.check(rows)
    lab.overwrite("t", [(7, "o", "x")], names)
    lab.clean("t")
    lab.check([*rows[:-1], (7, "o", "x")])
    left = {d for d in list_table(location).directories if "_tmp_" in d}
    assert left == set()
