"""Watches of tables: one with a DAG of its own, and as many as a file lists for another DAG."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAny

from airflow_hiveacid.assets import compaction_asset


def _watch(table: str) -> Asset:
    return compaction_asset(
        table, delta_count=3, delta_ratio="off", poll_interval=timedelta(seconds=5)
    )


with DAG("compaction", schedule=[_watch("kills.watched")]):
    EmptyOperator(task_id="compact")

_list = Path(os.environ["KILLS_TABLES"])
if _tables := json.loads(_list.read_text()) if _list.exists() else []:
    with DAG("any_of_many", schedule=AssetAny(*map(_watch, _tables))):
        EmptyOperator(task_id="compact")
