"""Many tables that one driver compacts and cleans, on both metastores."""

from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_hiveacid.format.errors import PartitionsFailedError
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.format.names import STAGING_PREFIX
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import AtEnd, CleanSpec, CompactSpec
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.spark.maintenance import bucket_tasks
from tests.support.spark_lab import Lab
from tests.support.steps import at

COLUMNS = {"id": "bigint", "v": "int"}


def _fill(lab: Lab) -> None:
    lab.table("whole", COLUMNS)
    lab.table("parts", COLUMNS, partition={"day": "int"})
    lab.table("inserts", COLUMNS, kind=TransactionalKind.INSERT_ONLY)
    lab.table("quiet", COLUMNS)
    for n in range(3):
        lab.insert("whole", [(n, n)], ["id", "v"])
        lab.insert("parts", [(n, n, 1), (n, n, 2)], ["id", "v", "day"])
        lab.insert("inserts", [(n, n)], ["id", "v"])
    lab.insert("quiet", [(0, 0)], ["id", "v"])
    lab.insert("parts", [(9, 9, 3)], ["id", "v", "day"])


def _compacted(lab: Lab) -> dict[str, int]:
    """The number of compacted directories of each table."""
    names = ("whole", "parts", "inserts", "quiet")
    return {name: len(list(lab.root(name).rglob("base_*"))) for name in names}


def _deltas(lab: Lab) -> dict[str, int]:
    """The number of deltas of each table that a cleaner has left."""
    names = ("whole", "parts", "inserts", "quiet")
    return {name: len(list(lab.root(name).rglob("delta_*"))) for name in names}


@pytest.mark.long
def test_one_job_compacts_every_due_partition_of_a_database(lab: Lab) -> None:
    _fill(lab)
    before = {name: lab.rows(name) for name in ("whole", "parts", "inserts", "quiet")}
    spec = CompactSpec(tables=(f"{lab.db}.*",), delta_count=3)
    result = lab.run(spec)
    assert result.status is JobStatus.COMMITTED
    assert _compacted(lab) == {"whole": 1, "parts": 2, "inserts": 1, "quiet": 0}
    assert {name: lab.rows(name) for name in before} == before
    assert (result.details["tables"], result.details["partitions"]) == (4, 6)
    assert lab.run(spec).status is JobStatus.NOTHING_TO_DO


@pytest.mark.long_cases("3.1.3")
def test_one_job_cleans_every_table_that_one_job_has_compacted(lab: Lab) -> None:
    _fill(lab)
    names = ("whole", "parts", "inserts", "quiet")
    before = {name: lab.rows(name) for name in names}
    pattern = (f"{lab.db}.*",)
    spec = CompactSpec(tables=pattern, delta_count=3)
    compacted = lab.run(spec)
    assert compacted.status is JobStatus.COMMITTED
    assert _compacted(lab) == {"whole": 1, "parts": 2, "inserts": 1, "quiet": 0}
    assert (compacted.details["tables"], compacted.details["partitions"]) == (4, 6)
    assert lab.run(spec).status is JobStatus.NOTHING_TO_DO
    deltas = _deltas(lab)
    planned = lab.run(CleanSpec(tables=pattern, plan_only=True))
    assert (planned.status, _deltas(lab)) == (JobStatus.PLANNED, deltas)
    result = lab.run(CleanSpec(tables=pattern))
    assert result.status is JobStatus.COMMITTED
    assert _deltas(lab) == {"whole": 0, "parts": 1, "inserts": 0, "quiet": 1}
    assert planned.files == result.files == sum(deltas.values()) - 2
    assert {name: lab.rows(name) for name in names} == before
    cleanings: Any = result.details["cleanings"]
    assert {one["table"]: one["partitions"] for one in cleanings} == {
        f"{lab.db}.whole": 1,
        f"{lab.db}.parts": 2,
        f"{lab.db}.inserts": 1,
    }
    assert lab.run(CleanSpec(tables=pattern)).status is JobStatus.NOTHING_TO_DO


@pytest.mark.long_cases("3.1.3")
def test_a_kill_aborts_every_transaction_of_a_job_of_many_tables(lab: Lab) -> None:
    """The process that kills the job does not know its tables."""
    _fill(lab)
    key, attempt = f"test/{lab.db}/kill", AttemptId.new(9)
    aborted: list[int] = []
    kill = at("staged", lambda: aborted.extend(abort_job(lab.client.clone(), key, attempt, [])))
    spec = CompactSpec(tables=(f"{lab.db}.*",), delta_count=3)
    with pytest.raises(PartitionsFailedError):
        lab.run(spec, job_key=key, on_step=kill)
    assert aborted
    assert lab.run(spec).status is JobStatus.COMMITTED
    assert _compacted(lab) == {"whole": 1, "parts": 2, "inserts": 1, "quiet": 0}


@pytest.mark.promise("C6")
@pytest.mark.long_cases("3.1.3")
def test_the_end_of_the_window_stops_running_spark_jobs_and_leaves_nothing_of_them(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(lab)
    before, nap_s = lab.rows("whole"), 120.0

    def nap(_: object) -> tuple[()]:
        time.sleep(nap_s)
        return ()

    spec = CompactSpec(
        tables=(f"{lab.db}.[pw]*",), delta_count=3, until_s=time.time() + 12, at_end=AtEnd.STOP
    )
    began_s = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(bucket_tasks, "compact_bucket", nap)
        result = lab.run(spec)
    assert 9 < time.monotonic() - began_s < nap_s
    assert (result.status, result.details["window_ended"]) == (JobStatus.NOTHING_TO_DO, True)
    found: Any = result.details["compactions"]
    assert len(found) == 3
    assert all("left for a later job, because the window has ended" in one["why"] for one in found)
    left = [
        path for name in ("whole", "parts") for path in lab.root(name).rglob(f"{STAGING_PREFIX}*")
    ]
    assert left == []
    assert list(lab.client.valid_txns().open) == []
    again = lab.run(CompactSpec(tables=spec.tables, delta_count=3))
    assert again.status is JobStatus.COMMITTED
    assert _compacted(lab) == {"whole": 1, "parts": 2, "inserts": 0, "quiet": 0}
    assert lab.rows("whole") == before
