"""Airflow's hook for a Hive metastore, and the types of its methods' arguments.

Import these names from this package and not from its modules, because modules may move. The module
that defines a name is imported when the name is first used.

Example:
    from airflow_hiveacid.hooks import HiveAcidHook, RenameTable

    HiveAcidHook().run(RenameTable(target="demo.orders", new_name="demo.old_orders"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hiveacid.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_hiveacid.format.conflicts import DataOperation
    from airflow_hiveacid.format.state.versions import VersionSpec
    from airflow_hiveacid.format.table import TableRef
    from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
    from airflow_hiveacid.jobs.metastore_statements import (
        AbortTransactions,
        AddColumns,
        AddPartitions,
        ChangeColumn,
        CreateDatabase,
        CreateTable,
        DropPartitions,
        DropTable,
        NewColumn,
        NewPartition,
        RenameTable,
        SetProperties,
        ShowCompactions,
        ShowLocks,
        ShowTransactions,
        UnsetProperties,
    )
    from airflow_hiveacid.metastore.compaction_queue import CompactionType
    from airflow_hiveacid.metastore.locks import TableAccess
else:  # mypy must not see `__getattr__`: it would accept names that are not exported
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "airflow_hiveacid.format.conflicts": ("DataOperation",),
            "airflow_hiveacid.format.table": ("TableRef",),
            "airflow_hiveacid.format.state.versions": ("VersionSpec",),
            "airflow_hiveacid.hooks.hive_acid": ("HiveAcidHook",),
            "airflow_hiveacid.metastore.compaction_queue": ("CompactionType",),
            "airflow_hiveacid.metastore.locks": ("TableAccess",),
            "airflow_hiveacid.jobs.metastore_statements": (
                "AbortTransactions",
                "AddColumns",
                "AddPartitions",
                "ChangeColumn",
                "CreateDatabase",
                "CreateTable",
                "DropPartitions",
                "DropTable",
                "NewColumn",
                "NewPartition",
                "RenameTable",
                "SetProperties",
                "ShowCompactions",
                "ShowLocks",
                "ShowTransactions",
                "UnsetProperties",
            ),
        },
    )

__all__ = [
    "AbortTransactions",
    "AddColumns",
    "AddPartitions",
    "ChangeColumn",
    "CompactionType",
    "CreateDatabase",
    "CreateTable",
    "DataOperation",
    "DropPartitions",
    "DropTable",
    "HiveAcidHook",
    "NewColumn",
    "NewPartition",
    "RenameTable",
    "SetProperties",
    "ShowCompactions",
    "ShowLocks",
    "ShowTransactions",
    "TableAccess",
    "TableRef",
    "UnsetProperties",
    "VersionSpec",
]
