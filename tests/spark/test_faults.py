"""A driver killed at any step leaves all or nothing, and the retry succeeds exactly once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from tests.support.fault_cases import AFTER, BEFORE, COLUMNS, change
from tests.support.spark_lab import Lab
from tests.support.spark_submit import submit
from tests.support.steps import StopError

STEPS = (
    "opened",
    "allocated",
    "locked",
    "fenced",
    "snapshot",
    "staged",
    "registered",
    "published",
    "body_done",
    "committed",
)


@pytest.mark.promise("T14")
@pytest.mark.promise("O5")
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.long_cases(*(step for step in STEPS if step != "published"))
def test_a_killed_merge_leaves_all_or_nothing_and_its_retry_applies_it_once(
    lab4: Lab, tmp_path: Path, step: str
) -> None:
    lab4.table("t", COLUMNS, partition={"p": "int"})
    lab4.insert("t", BEFORE, ["id", "name", "p"])
    key = f"{lab4.db}/merge"
    killed = submit(tmp_path, lab4.endpoint, change(lab4), job_key=key, stop_at=step)
    assert killed.code != 0, killed.log
    assert killed.result is None
    assert lab4.rows("t") == (AFTER if step == "committed" else BEFORE)

    again = lab4.run(change(lab4), job_key=key)
    assert again.status is (JobStatus.ALREADY_DONE if step == "committed" else JobStatus.COMMITTED)
    assert (again.rows.inserted, again.rows.updated, again.rows.deleted) == (1, 1, 1)
    assert lab4.rows("t") == AFTER
    assert lab4.client.show_locks(lab4.info("t").ref) == ()


@pytest.mark.long
@pytest.mark.parametrize("step", ["staged", "published", "committed"])
def test_the_retry_of_a_killed_merge_applies_it_once_on_3x(
    lab3: Lab, tmp_path: Path, step: str
) -> None:
    lab3.table("t", COLUMNS, partition={"p": "int"})
    lab3.insert("t", BEFORE, ["id", "name", "p"])
    key = f"{lab3.db}/merge"
    killed = submit(tmp_path, lab3.endpoint, change(lab3), job_key=key, stop_at=step)
    assert killed.code != 0
    again = lab3.run(change(lab3), job_key=key)
    assert again.status in (JobStatus.ALREADY_DONE, JobStatus.COMMITTED)
    assert lab3.rows("t") == AFTER


def leave_staged(lab: Lab, spec: InsertSpec, kept: Path) -> None:
    """Abort an insert and leave its staged files, as a driver does that was killed."""

    def stop(step: str) -> None:
        if step == "staged":
            for staging in lab.root("t").glob("_tmp*"):
                shutil.copytree(staging, kept / staging.name)
            raise StopError

    with pytest.raises(StopError):
        lab.run(spec, on_step=stop)
    shutil.copytree(kept, lab.root("t"), dirs_exist_ok=True)


@pytest.mark.promise("W19")
@pytest.mark.long_cases("3.1.3")
def test_cleaning_removes_the_files_of_killed_drivers(lab: Lab, tmp_path: Path) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, "a")], ["id", "name"])
    key = f"{lab.db}/insert"
    spec = InsertSpec(
        target=f"{lab.db}.t",
        source=SourceSpec(values=((2, "b"),), columns=("id", "name")),
    )
    leave_staged(lab, spec, tmp_path / "staged")
    submit(tmp_path, lab.endpoint, spec, job_key=f"{key}/published", stop_at="published")
    # The retry fences the dead driver's transaction off; here nobody retries but the next key.
    for info in lab.client.show_locks(lab.info("t").ref):
        assert info.txn_id is not None
        lab.client.abort_txn(info.txn_id)
    assert len(list(lab.root("t").iterdir())) > 2
    # Else 4.0.1 may end its list of write IDs at the first aborted one, and the rest has to wait.
    lab.insert("t", [(3, "c")], ["id", "name"])
    lab.clean("t", orphan_age_s=0.0)
    assert lab.directories("t") == ["delta_0000001_0000001_0000", "delta_0000004_0000004_0000"]
    assert [p.name for p in lab.root("t").iterdir() if p.name.startswith("_tmp")] == []
    assert lab.rows("t") == [(1, "a"), (3, "c")]


@pytest.mark.parametrize(
    ("server", "step"),
    [
        *(("4.0.1", step) for step in ("staged", "published", "marked")),
        *(("3.1.3", step) for step in ("staged", "published")),
    ],
    indirect=["server"],
)
@pytest.mark.long_cases("*-staged", "*-marked")
def test_a_killed_compaction_changes_no_row_and_does_not_block_the_next_one(
    lab: Lab, tmp_path: Path, step: str
) -> None:
    lab.table("t", COLUMNS)
    for i in range(3):
        lab.insert("t", [(i, "a")], ["id", "name"])
    lab.delete("t", "id = 1")
    key = f"{lab.db}/compact"
    spec = CompactSpec.of_table(f"{lab.db}.t", choice=CompactionChoice.MAJOR)
    killed = submit(tmp_path, lab.endpoint, spec, job_key=key, stop_at=step)
    assert killed.code != 0, killed.log
    assert lab.rows("t") == [(0, "a"), (2, "a")]

    again = lab.run(spec, job_key=key)
    # A base is what its name says as soon as it is there: nothing is left to do.
    done = JobStatus.COMMITTED if step == "staged" else JobStatus.NOTHING_TO_DO
    assert again.status is done, again
    # as Airflow does when it kills a task
    abort_job(lab.client, key, AttemptId.new(99), [lab.info("t").ref])
    lab.clean("t", orphan_age_s=0.0)
    assert len(lab.directories("t")) == 1
    assert lab.rows("t") == [(0, "a"), (2, "a")]


@pytest.mark.promise("A7")
def test_an_insert_is_applied_once_per_job_key(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    first = lab.insert("t", [(1, "a")], ["id", "name"], job_key="dag/run/task/-1")
    assert first.status is JobStatus.COMMITTED
    again = lab.insert("t", [(1, "a")], ["id", "name"], job_key="dag/run/task/-1")
    assert again.status is JobStatus.ALREADY_DONE
    assert again.rows == first.rows
    assert again.write_ids == first.write_ids
    lab.compact("t")
    lab.clean("t")
    assert lab.insert("t", [(1, "a")], ["id", "name"], job_key="dag/run/task/-1").status is (
        JobStatus.ALREADY_DONE
    )
    lab.insert("t", [(1, "a")], ["id", "name"], job_key="dag/run/other/-1")
    assert lab.rows("t") == [(1, "a"), (1, "a")]
