"""Airflow assets for a Hive ACID table's data, changed partitions and need for compaction.

Import these names from this package and not from its modules, because modules may move. The module
that defines a name is imported when the name is first used.

Example:
    from airflow_hiveacid.assets import compaction_asset

    with DAG("compact_customers", schedule=[compaction_asset("demo.customers")]):
        ...
"""

from __future__ import annotations

from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    "airflow_hiveacid.assets.tables": (
        "compaction_asset",
        "hive_asset",
        "partitions_asset",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
