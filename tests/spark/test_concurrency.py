"""Eight writers on one table, on PostgreSQL: appends all commit, of overlapping updates one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.server import LocalMetastore
from tests.support.spark_lab import Lab, make_lab
from tests.support.steps import at

WRITERS = 8


@pytest.fixture
def lab_pg(spark: SparkSession, hive_metastore_on_postgres: LocalMetastore) -> Iterator[Lab]:
    yield from make_lab(spark, hive_metastore_on_postgres)


@pytest.mark.promise("T1")
@pytest.mark.promise("T2")
@pytest.mark.promise("W20")
def test_eight_concurrent_inserts_all_commit_with_distinct_ids(lab_pg: Lab) -> None:
    lab_pg.table("t", {"id": "bigint", "w": "int"})
    barrier = Barrier(WRITERS)

    def append(writer: int) -> JobResult:
        meet = at("staged", lambda: barrier.wait(timeout=120))
        rows = [(writer * 100 + i, writer) for i in range(10)]
        return lab_pg.insert("t", rows, ["id", "w"], on_step=meet)

    with ThreadPoolExecutor(WRITERS) as pool:
        results = list(pool.map(append, range(WRITERS)))
    assert {r.status for r in results} == {JobStatus.COMMITTED}
    assert len({r.txn_id for r in results}) == WRITERS
    assert sorted(w for r in results for w in r.write_ids.values()) == list(range(1, WRITERS + 1))
    assert lab_pg.rows("t") == sorted((w * 100 + i, w) for w in range(WRITERS) for i in range(10))


@pytest.mark.promise("T12")
def test_the_first_overlapping_update_to_commit_wins_and_the_others_raise_a_conflict(
    lab_pg: Lab,
) -> None:
    lab_pg.table("t", {"id": "bigint", "v": "int"})
    lab_pg.insert("t", [(i, 0) for i in range(10)], ["id", "v"])
    barrier = Barrier(WRITERS)

    def update(writer: int) -> JobResult | Exception:
        # All have their snapshot before any commits: they overlap.
        meet = at("published", lambda: barrier.wait(timeout=120))
        try:
            return lab_pg.update("t", {"v": str(writer + 1)}, on_step=meet)
        except (errors.WriteConflictError, errors.TransactionAbortedError) as error:
            return error

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(update, range(WRITERS)))
    (winner,) = [i for i, o in enumerate(outcomes) if isinstance(o, JobResult)]
    losers = [o for o in outcomes if isinstance(o, Exception)]
    assert all(isinstance(o, errors.WriteConflictError) for o in losers)
    assert all("lost a conflict with another writer" in str(o) for o in losers)
    assert lab_pg.rows("t") == [(i, winner + 1) for i in range(10)]


@pytest.mark.promise("C8")
def test_a_compaction_neither_blocks_concurrent_writers_nor_loses_their_rows(lab_pg: Lab) -> None:
    lab_pg.table("t", {"id": "bigint", "v": "int"})
    for i in range(4):
        lab_pg.insert("t", [(i, 0)], ["id", "v"])
    meanwhile: list[JobStatus] = []

    def write(step: str) -> None:
        if step == "staged":
            meanwhile.append(lab_pg.update("t", {"v": "v + 1"}, "id < 2").status)
            meanwhile.append(lab_pg.insert("t", [(9, 9)], ["id", "v"]).status)
            assert len(lab_pg.rows("t")) == 5

    lab_pg.compact("t", CompactionChoice.MAJOR, on_step=write)
    assert meanwhile == [JobStatus.COMMITTED] * 2
    expected = [(0, 1), (1, 1), (2, 0), (3, 0), (9, 9)]
    assert lab_pg.rows("t") == expected
    lab_pg.compact("t", CompactionChoice.MAJOR)
    lab_pg.clean("t")
    assert lab_pg.rows("t") == expected


def test_the_second_of_two_concurrent_compactions_of_a_table_is_refused(lab_pg: Lab) -> None:
    lab_pg.table("t", {"id": "bigint", "v": "int"})
    for i in range(3):
        lab_pg.insert("t", [(i, 0)], ["id", "v"])
    second: list[str] = []

    def compete(step: str) -> None:
        if step == "staged":
            with pytest.raises(errors.CompactionNotDoneError, match="another compactor") as caught:
                lab_pg.compact("t", CompactionChoice.MAJOR)
            second.append(caught.value.kind)

    first = lab_pg.compact("t", CompactionChoice.MAJOR, on_step=compete)
    assert first.status is JobStatus.COMMITTED
    assert second == ["major"]
    lab_pg.clean("t")
    assert lab_pg.rows("t") == [(i, 0) for i in range(3)]
