"""The server's own Cleaner goes on where our compaction stopped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_hiveacid.jobs.specs import CompactionChoice
from airflow_hiveacid.local.metastore import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.compaction_queue import CompactionState
from spark_lab import make_lab

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_PATIENCE_S = 90.0


def test_the_servers_cleaner_cleans_up_after_our_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = LocalMetastoreConfig(
        version="4.0.1", data_dir=tmp_path, cleaner_on=True, ends_with_parent=True
    )
    with LocalMetastore(config) as server:
        for lab in make_lab(spark, server):
            lab.table("t", {"id": "bigint"})
            for i in range(3):
                lab.insert("t", [(i,)], ["id"])
            lab.delete("t", "id = 1")
            lab.compact("t", CompactionChoice.MAJOR)
            deadline = time.monotonic() + _PATIENCE_S
            states: set[CompactionState] = set()
            while states != {CompactionState.SUCCEEDED} and time.monotonic() < deadline:
                time.sleep(0.5)
                states = {e.state for e in lab.client.show_compactions(lab.info("t").ref)}
            assert states == {CompactionState.SUCCEEDED}
            assert lab.directories("t") == ["base_0000004"]
            assert lab.rows("t") == [(0,), (2,)]
