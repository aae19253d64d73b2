"""Whether what Spark says that it wrote is what it wrote, and what becomes of rows that are lost.

Spark's committer gives a task's files their place by deleting what another try of the task has put
there, and a rename. What dies between the two, or is late, leaves a task without files, and Spark
commits the rest.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions as F

from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.spark import engine
from airflow_hiveacid.spark.engine import UnknownJavaCallError
from airflow_hiveacid.spark.engine.catalyst import rebalanced
from airflow_hiveacid.spark.writing import flat_files
from airflow_hiveacid.spark.writing.flat_files import write_orc
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.support.spark_lab import Lab, with_settings
from tests.support.steps import raises

ADAPTIVE = "spark.sql.adaptive.enabled"
PLANNED = "spark.sql.optimizer.plannedWrite.enabled"
CPP = 1
WAIT_S = 120.0


def plain(spark: SparkSession) -> DataFrame:
    return spark.range(0, 1000, 1, 3).select(F.col("id").alias("c0"))


def shuffled(spark: SparkSession) -> DataFrame:
    rows = plain(spark).withColumn("g", F.col("c0") % 4)
    return rebalanced(rows, "g")


def joined(spark: SparkSession) -> DataFrame:
    """Such that Spark, where it adapts its plan, makes the whole of it anew on the way."""
    few = spark.range(0, 20_000, 1, 2).where("id % 1000 = 7").withColumnRenamed("id", "c0")
    return spark.range(0, 20_000, 1, 2).withColumnRenamed("id", "c0").join(few, "c0")


def none(spark: SparkSession) -> DataFrame:
    return shuffled(spark).where("c0 < 0")


@pytest.mark.parametrize(
    ("settings", "makers"),
    [
        ({ADAPTIVE: "true"}, [plain, shuffled, joined, none]),
        ({ADAPTIVE: "false"}, [plain, shuffled]),
        ({PLANNED: "false"}, [shuffled]),
    ],
    ids=["adaptive", "not adaptive", "not planned"],
)
def test_a_write_returns_the_number_of_written_rows(
    spark: SparkSession,
    settings: dict[str, str],
    makers: Sequence[Callable[[SparkSession], DataFrame]],
    tmp_path: Path,
) -> None:
    counts = {plain: 1_000, shuffled: 1_000, joined: 20, none: 0}
    with with_settings(spark, settings | {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        for make in makers:
            rows, place = make(spark), tmp_path / make.__name__
            by = ["g"] if "g" in rows.columns else []
            assert write_orc(rows, f"file:{place}", {"compression": "zlib"}, by) == counts[make]
            files = list(place.rglob("part-*.orc"))
            tails = [read_tail(LocalFileSystem(), str(file)) for file in files]
            assert sum(tail.footer.rows for tail in tails) == counts[make]
            folders = {file.parent.name.partition("=")[0] for file in files}
            assert folders <= ({*by} or {make.__name__})


def test_a_release_of_spark_that_reports_no_count_writes_the_same_rows(
    lab4: Lab,
    source: SourceSpec,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = raises(UnknownJavaCallError("DataSource"))
    for module in (flat_files, engine):
        monkeypatch.setattr(module, "call_of_any_release", unknown)
    rows, place = shuffled(lab4.spark), tmp_path_factory.mktemp("written") / "rows"
    assert write_orc(rows, f"file:{place}", {"compression": "zlib"}, ["g"]) is None
    assert not place.exists()
    lab4.table("t", {"id": "bigint"})
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    lab4.update("t", {"id": "id + 10000"}, "id BETWEEN 10 AND 19")
    unchanged, changed = [*range(10), *range(20, 2_000)], [*range(10_010, 10_020)]
    assert lab4.rows("t") == [(number,) for number in (*unchanged, *changed)]


@pytest.fixture
def source(tmp_path: Path) -> SourceSpec:
    """Two files, each of which is a task."""
    for number in range(2):
        rows = pa.table({"id": list(range(number, 2_000, 2))})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    return SourceSpec(format="parquet", location=str(tmp_path))


class Loss:
    """Removes the files of a write's first task, after its commit and before that of the write.

    The second task waits for it with its rows.
    """

    def __init__(self, gate: Path) -> None:
        self._gate = gate
        self.lost: list[str] = []

    def write_orc(
        self, rows: DataFrame, place: str, options: Mapping[str, str], by: Sequence[str]
    ) -> int | None:
        """Instead of the real one, which it asks."""
        committed = Path(place.removeprefix("file:")) / "_temporary" / "0"
        remover = threading.Thread(target=self._remove, args=(committed,))
        remover.start()
        try:
            held = rows.mapInArrow(_waiting(str(self._gate)), rows.schema)
            return write_orc(held, place, options, by)
        finally:
            self._gate.touch()
            remover.join()

    def _remove(self, committed: Path) -> None:
        while not self._gate.exists():
            for task in committed.glob("task_*"):
                shutil.rmtree(task)
                self.lost.append(task.name)
                self._gate.touch()
            time.sleep(0.01)


def _waiting(gate: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    # A function within one goes to workers as it is: they do not know this module.
    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        end = time.monotonic() + WAIT_S
        while context.partitionId() and not Path(gate).exists():
            assert time.monotonic() < end, "nothing was committed"
            time.sleep(0.01)
        yield from batches

    return wait


def test_rows_are_written_again_if_the_files_of_a_spark_task_are_missing(
    lab4: Lab,
    source: SourceSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab4.table("t", {"id": "bigint"})
    loss = Loss(tmp_path / "gone")
    monkeypatch.setattr(flat_files, "write_orc", loss.write_orc)
    with caplog.at_level(logging.WARNING, "hiveacid"):
        result = lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert len(loss.lost) == 1
    assert "Spark wrote 2000 rows, but its files contain 1000" in caplog.text
    assert lab4.rows("t") == [(i,) for i in range(2_000)]
    assert result.rows.inserted == 2_000
    files = [file for file in lab4.root("t").rglob("bucket_*") if not file.name.startswith(".")]
    assert {read_tail(LocalFileSystem(), str(file)).footer.writer for file in files} == {CPP}
    assert not [p for p in lab4.root("t").iterdir() if p.name.startswith("_tmp")]


@pytest.mark.parametrize(
    ("told", "words"), [(None, "does not report how many"), (1_999, "wrote 1999 rows, but")]
)
def test_rows_are_written_again_if_sparks_row_count_is_missing_or_wrong(
    lab4: Lab,
    source: SourceSpec,
    told: int | None,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def write(*given: Any) -> int | None:  # noqa: ANN401
        assert write_orc(*given) == 2_000
        return told

    lab4.table("t", {"id": "bigint"})
    monkeypatch.setattr(flat_files, "write_orc", write)
    with caplog.at_level(logging.WARNING, "hiveacid"):
        lab4.run(InsertSpec(target=f"{lab4.db}.t", source=source))
    assert words in caplog.text
    assert lab4.rows("t") == [(i,) for i in range(2_000)]
    files = [file for file in lab4.root("t").rglob("bucket_*") if not file.name.startswith(".")]
    assert {read_tail(LocalFileSystem(), str(file)).footer.writer for file in files} == {CPP}
