"""A commit over many partitions shows all of them or none, whatever happens in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_hiveacid.jobs.job import JobSpec, JobStatus
from airflow_hiveacid.jobs.statements import UpdateSpec
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.support.short_jvms import ENVIRONMENT
from tests.support.spark_lab import Lab

_ROOT = Path(__file__).resolve().parents[2]
_DRIVER = _ROOT / "tests" / "drivers" / "killed_between_renames.py"
PARTITIONS = 16
# An update makes two directories a partition.
RENAMES = 17


def values(lab: Lab) -> set[int]:
    """The different values of `v` that one snapshot reads in all partitions."""
    table, snapshot = lab.info("t"), lab.snapshot("t")
    found: list[int] = []
    for partition in lab.client.list_partitions(table):
        write_ids = snapshot.write_ids(table.ref)
        for batch in scan(partition.location, table.columns, write_ids, snapshot.txns):
            found += batch["v"].to_pylist()
    assert len(found) == PARTITIONS
    return set(found)


def watched(lab: Lab, work: Callable[[], object], *, pause_s: float = 0.0) -> list[set[int]]:
    """What readers saw, one after the other, while something was at work, and after it."""
    seen = [values(lab)]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        while not done.done():
            seen.append(values(lab))
            time.sleep(pause_s)
        done.result()
    return [*seen, values(lab)]


@pytest.mark.promise("T14")
def test_a_driver_killed_between_renames_shows_no_change_and_its_retry_shows_all_changes(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab4.insert("t", [(i, 0, i) for i in range(PARTITIONS)], ["id", "v", "p"])
    job, key = UpdateSpec(target=f"{lab4.db}.t", set={"v": "1"}), f"{lab4.db}/update"
    spec = JobSpec(job_key=key, metastore=lab4.endpoint, job=job)
    (tmp_path / "spec.json").write_text(spec.dump(), encoding="utf-8")
    before = set(lab4.root("t").glob("p=*/*delta_*"))

    def die() -> None:
        ended = subprocess.run(
            [sys.executable, str(_DRIVER), str(tmp_path / "spec.json"), str(RENAMES)],
            env={
                **os.environ,
                **ENVIRONMENT,
                "PYTHONPATH": str(_ROOT),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false"
                " --conf spark.sql.shuffle.partitions=2 --driver-memory 768m pyspark-shell",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr[-3000:]

    # Most of this is the start of the driver, and what it leaves is seen at the end.
    seen = watched(lab4, die, pause_s=0.2)
    published = set(lab4.root("t").glob("p=*/*delta_*")) - before
    assert len(published) == RENAMES
    assert {frozenset(s) for s in seen} == {frozenset({0})}

    again: list[JobStatus] = []
    seen = watched(lab4, lambda: again.append(lab4.run(job, job_key=key).status))
    assert again == [JobStatus.COMMITTED]
    assert all(len(s) == 1 for s in seen), seen
    assert (seen[0], seen[-1]) == ({0}, {1})
