"""Streams of Spark: each micro-batch is one transaction, also if Spark repeats it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.errors import FencedError, SourceKeyError, UnknownColumnError
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus, StreamSpec
from airflow_hiveacid.jobs.statements import StreamTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.spark import acid, streams
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.writing.context import JobContext
from tests.support.spark_lab import Lab
from tests.support.steps import at, raises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Clicks:
    """A landing directory of JSON files, and a stream of them into tables."""

    def __init__(self, lab: Lab, path: Path) -> None:
        self.lab, self.landing, self.checkpoint = lab, path / "landing", path / "checkpoint"
        self.landing.mkdir()
        lab.table("t", {"id": "bigint", "v": "int"})
        lab.table("u", {"id": "bigint", "v": "int"})

    def land(self, name: str, *rows: tuple[int | None, int]) -> None:
        lines = (json.dumps({"id": id_, "v": value}) for id_, value in rows)
        (self.landing / name).write_text("\n".join(lines))

    def run(
        self,
        *,
        mode: str = "append",
        run_for_s: float | None = None,
        on_step: Callable[[str], None] = lambda _step: None,
        **given: Any,  # noqa: ANN401 - arguments of `stream`
    ) -> JobResult:
        lab, t = self.lab, f"{self.lab.db}.t"
        spec = StreamSpec(
            application="clicks.py",
            inserts=(t,) if mode == "append" else (),
            changes=(f"{lab.db}.u",) if mode == "append" else (t, f"{lab.db}.u"),
            run_for_s=run_for_s,
        )
        given = {"tables": t, "available_now": run_for_s is None, "mode": mode, **given}

        def program(spark: Any, task: acid.Task) -> None:  # noqa: ANN401
            source = spark.readStream.schema("id bigint, v int").option("maxFilesPerTrigger", 1)
            rows = source.json(self.landing.as_uri())
            streams.stream(rows, task=task, checkpoint=self.checkpoint.as_uri(), **given)

        job = JobSpec(
            job_key=f"{lab.db}/stream", metastore=lab.endpoint, job=spec, lock_timeout_s=20.0
        )
        with connect(lab.endpoint) as client, typed_failures():
            return acid.run_program(JobContext.of(lab.spark, job, client, on_step), program)


@pytest.fixture
def clicks(lab4: Lab, tmp_path: Path) -> Clicks:
    return Clicks(lab4, tmp_path)


def test_a_batch_that_spark_repeats_is_applied_once(clicks: Clicks) -> None:
    clicks.land("1.json", (1, 1), (2, 2))
    clicks.land("2.json", (3, 3))
    result = clicks.run()
    assert (result.status, result.rows.inserted) == (JobStatus.COMMITTED, 3)
    assert result.details["batches"] == 2
    newest = max((clicks.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for file in (newest, newest.with_name(f".{newest.name}.crc")):
        file.unlink(missing_ok=True)  # as if the driver had died before Spark noted the batch
    clicks.land("3.json", (4, 4))
    assert clicks.run().rows.inserted == 1
    assert clicks.lab.rows("t") == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert clicks.run().status is JobStatus.NOTHING_TO_DO


def test_rows_of_a_batch_that_a_restored_checkpoint_plans_again_are_not_skipped(
    clicks: Clicks,
) -> None:
    clicks.land("1.json", (1, 1))
    clicks.run()
    for name in ("offsets", "commits", "sources/0"):  # as of before the batch
        for file in (clicks.checkpoint / name).iterdir():
            file.unlink()
    clicks.land("0.json", (2, 2))
    with pytest.raises(FencedError):
        clicks.run()
    assert clicks.lab.rows("t") == [(1, 1)]


@pytest.mark.parametrize("step", ["opened", "staged", "published"])
def test_a_batch_that_fails_at_any_step_is_written_by_the_next_run(
    clicks: Clicks, step: str
) -> None:
    clicks.land("1.json", (1, 1))
    error = UnknownColumnError(table="d.t", column="x", known=("id",))
    with pytest.raises(UnknownColumnError):
        clicks.run(on_step=at(step, raises(error)))
    assert clicks.lab.rows("t") == []
    assert clicks.run().rows.inserted == 1
    assert clicks.lab.rows("t") == [(1, 1)]


def test_a_batch_merges_and_appends_to_several_tables_together(clicks: Clicks) -> None:
    db = clicks.lab.db
    tables = [
        StreamTable(table=f"{db}.t"),
        StreamTable(table=f"{db}.u", keys=("id",)),
    ]

    def doubled(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("id % 2 AS id", "v * 2 AS v")

    for number in (1, 2, 3):
        clicks.land(f"{number}.json", (number, number))
        clicks.run(tables=tables, select={f"{db}.u": doubled})
    assert clicks.lab.rows("t") == [(1, 1), (2, 2), (3, 3)]
    assert clicks.lab.rows("u") == [(0, 4), (1, 6)]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([(1, 1), (1, 2)], "the key id=1 occurs twice"),
        ([(2, 1), (3, 2), (3, 3)], "the key id=3 occurs twice"),
        ([(2, 1), (None, 2)], "a row has NULL in its key: id=None"),
    ],
)
def test_a_batch_without_one_row_for_each_key_changes_nothing(
    clicks: Clicks, rows: list[tuple[int | None, int]], problem: str
) -> None:
    clicks.land("1.json", *rows)
    clicks.lab.insert("t", [(1, 0)], ["id", "v"])
    with pytest.raises(SourceKeyError, match=problem):
        clicks.run(mode="merge", keys=["ID"])
    assert clicks.lab.rows("t") == [(1, 0)]


def test_a_stream_ends_at_a_batch_border_after_its_time(clicks: Clicks) -> None:
    clicks.land("1.json", (1, 1))
    begun = threading.Event()
    result = clicks.run(run_for_s=20.0, every_s=1.0, on_step=lambda _: begun.set())
    assert begun.is_set()
    assert result.rows.inserted == 1
    assert clicks.lab.rows("t") == [(1, 1)]
