"""Results of pieces of work that tasks of a real Spark compute."""

from __future__ import annotations

from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import StorageError
from airflow_hiveacid.format.ids import BucketId
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.spark.engine.failures import SPARK_ERRORS, job_failure, typed_failures
from airflow_hiveacid.spark.engine.tasks import task_results
from airflow_hiveacid.storage.acid.read import AcidFile, FileKind
from airflow_hiveacid.storage.stores.locations import LOCAL_STORE


def columns(count: int) -> list[Column]:
    return [Column(name=f"c{at}", type="int") for at in range(count)]


@pytest.mark.parametrize("count", [0, 1, 30])
def test_results_are_in_the_order_of_the_pieces(spark: SparkSession, count: int) -> None:
    found: list[Any] = task_results(spark, attrgetter("name"), columns(count))
    assert found == [f"c{at}" for at in range(count)]


def test_a_stop_iteration_of_a_task_is_an_error(spark: SparkSession) -> None:
    def stop(_: Column) -> str:
        raise StopIteration

    with pytest.raises(SPARK_ERRORS, match="StopIteration") as caught:
        task_results(spark, stop, columns(2))
    says = "a Python worker failed: RuntimeError: generator raised StopIteration. The driver's log"
    assert str(job_failure(caught.value)).startswith(says)


def test_a_failed_job_names_the_error_of_its_task(spark: SparkSession) -> None:
    with pytest.raises(SPARK_ERRORS) as caught:
        task_results(spark, attrgetter("nothing"), columns(1))
    assert str(job_failure(caught.value)) == (
        "a Python worker failed: AttributeError: 'Column' object has no attribute 'nothing'. The"
        " driver's log has the details"
    )


def test_a_typed_error_of_a_task_reaches_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    missing = AcidFile(
        store=LOCAL_STORE,
        path=str(tmp_path / "bucket_00000"),
        key="bucket_00000",
        length=100,
        kind=FileKind.DATA,
        bucket_id=BucketId(0),
    )
    with pytest.raises(StorageError, match="bucket_00000"), typed_failures():
        task_results(spark, methodcaller("tail"), [missing])
