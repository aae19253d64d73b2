"""Airflow's hook for a Hive metastore, and the types of its methods' arguments.

Import these names from this package and not from its modules, because modules may move. The module
that defines a name is imported when the name is first used.

Example:
    from airflow_hiveacid.hooks import HiveAcidHook, RenameTable

    HiveAcidHook().run(RenameTable(target="demo.orders", new_name="demo.old_orders"))
"""

from __future__ import annotations

from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    "airflow_hiveacid.format.conflicts": ("DataOperation",),
    "airflow_hiveacid.format.table": ("TableRef",),
    "airflow_hiveacid.format.versions": ("VersionSpec",),
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
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
