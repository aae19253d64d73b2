"""Into how many files rows go where a compaction of several may not be made."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.spark.engine.catalyst import Moment
from airflow_hiveacid.spark.statements import insert
from airflow_hiveacid.spark.statements.insert import new_row_events, plan_insert
from tests.support.spark_lab import with_settings
from tests.support.tables import table_of

AQE = "spark.sql.adaptive"
AS_ON_A_CLUSTER = {"spark.sql.shuffle.partitions": "7"}
ON_S3 = table_of("id bigint", location="s3a://b/w/t")


def files(spark: SparkSession) -> dict[int, set[int]]:
    """By the number of each file, its rows."""
    source = spark.range(0, 500, 1, 5)
    spec = InsertSpec(target="d.t", source=SourceSpec(table="d.s"))
    program = plan_insert(ON_S3, spec, source, Moment.now(spark))
    found: dict[int, set[int]] = {}
    rows = new_row_events(program, source).frame().select("_bucket", "row.id").collect()
    assert len(rows) == 500
    for bucket, id_ in rows:
        found.setdefault(bucket, set()).add(id_)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {f"{AQE}.enabled": "false"},
        {f"{AQE}.coalescePartitions.enabled": "false"},
        # As it is where there are so many cores.
        {
            f"{AQE}.coalescePartitions.minPartitionNum": "7",
            f"{AQE}.coalescePartitions.minPartitionSize": "1b",
        },
    ],
    ids=str,
)
def test_few_rows_are_written_to_one_file_even_if_spark_does_not_coalesce_tasks(
    spark: SparkSession, settings: dict[str, str]
) -> None:
    with with_settings(spark, AS_ON_A_CLUSTER | settings):
        assert files(spark) == {0: set(range(500))}


def test_many_rows_are_distributed_over_several_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insert, "_WRITER_BYTES", 2_000)  # of 4,000
    with with_settings(spark, AS_ON_A_CLUSTER | {f"{AQE}.enabled": "false"}):
        found = files(spark)
    assert sorted(found) == [0, 1]
    assert set.union(*found.values()) == set(range(500))
