"""Airflow assets for Hive ACID tables: their data, their need for compaction, their partitions.

Import only from here: the modules below may move. Each name loads its module on first use.

Example:
    from airflow_hiveacid.assets import compaction_asset

    with DAG("compact_customers", schedule=[compaction_asset("demo.customers")]):
        ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_hiveacid.assets.tables import compaction_asset, hive_asset, partitions_asset
else:  # if mypy saw `__getattr__`, it would accept names that are not exported
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airflow_hiveacid.assets.tables": (
                "compaction_asset",
                "hive_asset",
                "partitions_asset",
            ),
        },
    )

__all__ = ["compaction_asset", "hive_asset", "partitions_asset"]
