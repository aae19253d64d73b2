"""The life of tables that lie on S3: every kind of job, in the driver and in tasks."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.errors import HiveAcidError, UnsupportedTableError
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.conversion import ConversionTarget, ConvertSpec
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.specs import (
    CompactionChoice,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeWhen,
    SourceSpec,
    TransactionSpec,
)
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.spark.store_settings import give_store_settings
from airflow_hiveacid.storage.stores.given_settings import VARIABLE
from s3_lab import KEYS, MotoS3
from spark_lab import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_lab import Row

pytestmark = pytest.mark.server

CLAUSES = [
    MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE),
    MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
]
ODD = "a/b c=1 %2F#?"


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[MotoS3]:
    """An S3 that Spark's JVM, its workers and this process know; keys are in the environment."""
    context = spark.sparkContext
    conf = context._jsc.hadoopConfiguration()
    kept = {name: os.environ.get(name) for name in (*KEYS, VARIABLE)}
    given = context.environment.pop(VARIABLE)
    with MotoS3.started() as server:
        for name, value in (server.settings | server.secrets).items():
            conf.set(name, value)
        os.environ.update(KEYS)
        context.environment.update(KEYS)
        give_store_settings(spark)
        yield server
        for name in server.settings | server.secrets:
            conf.unset(name)
    for name, was in kept.items():
        os.environ.pop(name) if was is None else os.environ.update({name: was})
        context.environment.pop(name)
    context.environment[VARIABLE] = given


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, spark: SparkSession, s3: MotoS3, tmp_path: Path
) -> Iterator[Lab]:
    """A metastore whose warehouse is on S3."""
    config = LocalMetastoreConfig(
        version=request.param,
        data_dir=tmp_path / "metastore",
        door=s3.door,
        extra_settings=s3.warehouse,
        txn_timeout_s=60.0,
        ends_with_parent=True,
    )
    with LocalMetastore(config) as server:
        endpoint = MetastoreEndpoint(uris=(server.uri,))
        with connect(endpoint) as client:
            db = f"s3_{uuid.uuid4().hex[:12]}"
            client.create_database(db)
            yield Lab(spark=spark, endpoint=endpoint, client=client, db=db)


def check(lab: Lab, rows: list[Row]) -> None:
    """What Spark's reader finds, and ours."""
    info = lab.info("t")
    target = resolve_target(lab.spark, lab.client, info, lab.snapshot("t"))
    assert lab.rows("t") == sorted(rows)
    by_arrow = target.read_with_arrow(info.column_names).collect()
    assert sorted(tuple(row)[1:3] for row in by_arrow) == sorted(row[:2] for row in rows)


def compacted(lab: Lab, choice: CompactionChoice, name: str = "t") -> tuple[bool, str, list[str]]:
    (found,) = lab.compact(name, choice).details["compactions"]
    return found["done"], found["why"], found["outputs"]


@pytest.mark.parametrize("lab", ["4.0.1"], indirect=True)
def test_a_table_lives_its_whole_life_on_s3(lab: Lab, s3: MotoS3) -> None:
    names = ["id", "v", "p"]
    columns = {"id": "int", "v": "string"}
    lab.table("t", columns, partition={"p": "string"}, parameters={ONLY_HIVE_4_READS: "true"})
    assert lab.info("t").location.startswith(f"s3a://{s3.bucket}/warehouse/")
    lab.insert("t", [(i, f"v{i}", ODD) for i in range(4)], names)
    lab.delete("t", "id = 0")
    lab.update("t", {"v": "'u'"}, "id = 1")
    lab.merge("t", [(2, "m", ODD), (5, "new", ODD)], names, ["id", "p"], CLAUSES)
    rows: list[Row] = [(1, "u", ODD), (2, "m", ODD), (3, "v3", ODD), (5, "new", ODD)]
    check(lab, rows)
    done, _, minor = compacted(lab, CompactionChoice.MINOR)
    assert done
    assert len(minor) == 2
    lab.clean("t")
    check(lab, rows)
    done, _, (base,) = compacted(lab, CompactionChoice.MAJOR)
    assert done
    assert "_v" in base
    lab.clean("t")
    check(lab, rows)
    lab.overwrite("t", [(7, "o", ODD)], names)
    lab.clean("t")
    check(lab, [(7, "o", ODD)])
    own = SourceSpec(table=f"{lab.db}.t")
    one = InsertSpec(
        target=f"{lab.db}.t", source=SourceSpec(values=((8, "x", ODD),), columns=names)
    )
    two = InsertSpec(target=f"{lab.db}.t", source=own, columns=names)
    with pytest.raises(UnsupportedTableError, match="commit between the two"):
        lab.run(TransactionSpec(statements=(one, two)))
    lab.table("flat", columns, kind=TransactionalKind.NONE)
    with pytest.raises(HiveAcidError, match="no renames"):
        lab.run(ConvertSpec(target=f"{lab.db}.flat", to=ConversionTarget.INSERT_ONLY))
    lab.truncate("t")
    check(lab, [])
    assert [key for key in s3.objects() if "_tmp_" in key] == []
    assert s3.uploads() == []


@pytest.mark.clusters
@pytest.mark.parametrize("lab", ["3.1.3"], indirect=True)
def test_on_3_1_a_result_of_one_file_is_made_and_no_other(lab: Lab, s3: MotoS3) -> None:
    names = ["id", "v"]
    lab.table("t", {"id": "int", "v": "string"})
    lab.table("b", {"id": "int", "v": "string"}, buckets=("id", 2))
    for name in ("t", "b"):
        lab.insert(name, [(i, f"v{i}") for i in range(4)], names)
        lab.delete(name, "id = 0")
    rows: list[Row] = [(i, f"v{i}") for i in range(1, 4)]
    done, why, _ = compacted(lab, CompactionChoice.MAJOR, "b")
    assert not done
    assert "Hive 3.1 cannot hide them" in why
    other = lab.client.open_txn()
    done, why, _ = compacted(lab, CompactionChoice.MAJOR)
    assert not done
    assert f"transaction {other} is open" in why
    lab.client.abort_txn(other)
    assert compacted(lab, CompactionChoice.MAJOR)[::2] == (True, ["base_0000002"])
    lab.clean("t")
    check(lab, rows)
    assert lab.rows("b") == rows
    assert [key for key in s3.objects() if "_tmp_" in key] == []
    assert s3.uploads() == []
