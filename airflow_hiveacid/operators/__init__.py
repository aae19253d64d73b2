"""Airflow operators that change, read, compact and clean Hive ACID tables.

Import the operators from this package and not from its modules, because modules may move. An
operator's module is imported when its name is first used.

Example:
    from airflow_hiveacid.operators import HiveAcidMergeOperator
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_hiveacid.operators.change_feed import HiveAcidChangeFeedOperator
    from airflow_hiveacid.operators.clean_tables import HiveAcidCleanTablesOperator
    from airflow_hiveacid.operators.collect import HiveAcidCollectOperator
    from airflow_hiveacid.operators.compact_tables import HiveAcidCompactTablesOperator
    from airflow_hiveacid.operators.convert import HiveAcidConvertOperator
    from airflow_hiveacid.operators.create_table import HiveAcidCreateTableOperator
    from airflow_hiveacid.operators.hive_acid import (
        HiveAcidCleanOperator,
        HiveAcidCompactOperator,
        HiveAcidDeleteOperator,
        HiveAcidInsertOperator,
        HiveAcidMergeOperator,
        HiveAcidTruncateOperator,
        HiveAcidUpdateOperator,
    )
    from airflow_hiveacid.operators.load import HiveAcidLoadOperator
    from airflow_hiveacid.operators.prove_erasure import HiveAcidProveErasureOperator
    from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
    from airflow_hiveacid.operators.rebalance import HiveAcidRebalanceOperator
    from airflow_hiveacid.operators.restore import HiveAcidRestoreOperator
    from airflow_hiveacid.operators.retries import hive_acid_retry_policy
    from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
    from airflow_hiveacid.operators.tag import HiveAcidTagOperator
    from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
else:  # mypy must not see `__getattr__`: it would accept names that are not exported
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airflow_hiveacid.operators.change_feed": ("HiveAcidChangeFeedOperator",),
            "airflow_hiveacid.operators.clean_tables": ("HiveAcidCleanTablesOperator",),
            "airflow_hiveacid.operators.collect": ("HiveAcidCollectOperator",),
            "airflow_hiveacid.operators.compact_tables": ("HiveAcidCompactTablesOperator",),
            "airflow_hiveacid.operators.convert": ("HiveAcidConvertOperator",),
            "airflow_hiveacid.operators.create_table": ("HiveAcidCreateTableOperator",),
            "airflow_hiveacid.operators.hive_acid": (
                "HiveAcidCleanOperator",
                "HiveAcidCompactOperator",
                "HiveAcidDeleteOperator",
                "HiveAcidInsertOperator",
                "HiveAcidMergeOperator",
                "HiveAcidTruncateOperator",
                "HiveAcidUpdateOperator",
            ),
            "airflow_hiveacid.operators.load": ("HiveAcidLoadOperator",),
            "airflow_hiveacid.operators.prove_erasure": ("HiveAcidProveErasureOperator",),
            "airflow_hiveacid.operators.pyspark": ("HiveAcidPySparkOperator",),
            "airflow_hiveacid.operators.rebalance": ("HiveAcidRebalanceOperator",),
            "airflow_hiveacid.operators.restore": ("HiveAcidRestoreOperator",),
            "airflow_hiveacid.operators.retries": ("hive_acid_retry_policy",),
            "airflow_hiveacid.operators.sql": ("HiveAcidSqlOperator",),
            "airflow_hiveacid.operators.tag": ("HiveAcidTagOperator",),
            "airflow_hiveacid.operators.transaction": ("HiveAcidTransactionOperator",),
        },
    )

__all__ = [
    "HiveAcidChangeFeedOperator",
    "HiveAcidCleanOperator",
    "HiveAcidCleanTablesOperator",
    "HiveAcidCollectOperator",
    "HiveAcidCompactOperator",
    "HiveAcidCompactTablesOperator",
    "HiveAcidConvertOperator",
    "HiveAcidCreateTableOperator",
    "HiveAcidDeleteOperator",
    "HiveAcidInsertOperator",
    "HiveAcidLoadOperator",
    "HiveAcidMergeOperator",
    "HiveAcidProveErasureOperator",
    "HiveAcidPySparkOperator",
    "HiveAcidRebalanceOperator",
    "HiveAcidRestoreOperator",
    "HiveAcidSqlOperator",
    "HiveAcidTagOperator",
    "HiveAcidTransactionOperator",
    "HiveAcidTruncateOperator",
    "HiveAcidUpdateOperator",
    "hive_acid_retry_policy",
]
