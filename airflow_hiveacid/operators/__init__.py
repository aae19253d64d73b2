"""Airflow operators that change, read, compact and clean Hive ACID tables.

Import the operators from this package and not from its modules, because modules may move. An
operator's module is imported when its name is first used.

Example:
    from airflow_hiveacid.operators import HiveAcidMergeOperator
"""

from __future__ import annotations

from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    "airflow_hiveacid.operators.collect": ("HiveAcidCollectOperator",),
    "airflow_hiveacid.operators.create_table": ("HiveAcidCreateTableOperator",),
    "airflow_hiveacid.operators.hive_acid": (
        "HiveAcidChangeFeedOperator",
        "HiveAcidDeleteOperator",
        "HiveAcidInsertOperator",
        "HiveAcidLoadOperator",
        "HiveAcidMergeOperator",
        "HiveAcidRestoreOperator",
        "HiveAcidTruncateOperator",
        "HiveAcidUpdateOperator",
    ),
    "airflow_hiveacid.operators.maintenance": (
        "HiveAcidCleanOperator",
        "HiveAcidCleanTablesOperator",
        "HiveAcidCompactOperator",
        "HiveAcidCompactTablesOperator",
        "HiveAcidConvertOperator",
        "HiveAcidProveErasureOperator",
        "HiveAcidRebalanceOperator",
    ),
    "airflow_hiveacid.operators.pyspark": ("HiveAcidPySparkOperator",),
    "airflow_hiveacid.operators.retries": ("hive_acid_retry_policy",),
    "airflow_hiveacid.operators.sql": ("HiveAcidSqlOperator",),
    "airflow_hiveacid.operators.stream": ("HiveAcidStreamOperator",),
    "airflow_hiveacid.operators.tag": ("HiveAcidTagOperator",),
    "airflow_hiveacid.operators.transaction": ("HiveAcidTransactionOperator",),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
