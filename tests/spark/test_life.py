"""The life of a table: every kind of job on it, one after the other.

`make versions` runs it on each supported metastore.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, CompactionChoice
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.versions.keeping import keep, make_tag
from tests.support.merge_clauses import UPSERT_ALL
from tests.support.spark_lab import Lab, Row

NAMES = ["id", "v", "p"]


def rows_as_of(lab: Lab, **version: Any) -> list[Row]:  # noqa: ANN401 - passed on
    table = f"{lab.db}.t"
    with read_snapshot(lab.endpoint, [table], job_key=f"{lab.db}/past") as snapshot:
        return sorted(map(tuple, read_table(lab.spark, table, snapshot, **version).collect()))


@pytest.mark.long
def test_a_table_lives_through_every_kind_of_job(lab: Lab, tmp_path: Path) -> None:
    lab.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    keep(lab.client, lab.info("t"))
    lab.insert("t", [(1, 1, 1), (2, 2, 1), (3, 3, 2)], NAMES)
    lab.merge("t", [(2, 20, 1), (4, 40, 2)], NAMES, ["id"], UPSERT_ALL)
    merged = [(1, 1, 1), (2, 20, 1), (3, 3, 2), (4, 40, 2)]
    assert lab.rows("t") == merged
    make_tag(lab.client, lab.info("t"), "merged", VersionSpec.meant_by(2))

    feed = ChangeFeedSpec(target=f"{lab.db}.t", location=f"file:{tmp_path}", keys=("id",))
    assert lab.run(feed).rows.inserted == len(merged)
    lab.update("t", {"v": "v + 1"}, "id = 1")
    lab.delete("t", "p = 2 AND v > 3")
    assert lab.rows("t") == [(1, 2, 1), (2, 20, 1), (3, 3, 2)]
    (told,) = lab.run(feed).details["ranges"]  # type: ignore[misc]
    assert (told["since"], told["until"]) == (2, 4)

    lab.compact("t", CompactionChoice.MINOR, partition="p=1")
    assert lab.rows("t") == [(1, 2, 1), (2, 20, 1), (3, 3, 2)]
    assert rows_as_of(lab, version=1) == [(1, 1, 1), (2, 2, 1), (3, 3, 2)]
    lab.restore("t", "merged")
    assert lab.rows("t") == rows_as_of(lab, tag="merged") == merged

    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    entries = lab.client.show_compactions(lab.info("t").ref)  # 3.1 has none of ours
    assert {entry.state for entry in entries} <= {CompactionState.READY_FOR_CLEANING}
    assert any(name.startswith("base_") for name in lab.directories("t", "p=2"))

    lab.truncate("t", {"p": "1"})
    lab.overwrite("t", [(9, 9, 2)], NAMES)
    assert lab.rows("t") == [(9, 9, 2)]
    assert rows_as_of(lab, tag="merged") == merged
    lab.clean("t")
    assert rows_as_of(lab, tag="merged") == merged
    assert lab.rows("t") == [(9, 9, 2)]
