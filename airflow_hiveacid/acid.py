"""Access to Hive ACID tables in programs: in Python alone, or in PySpark.

`connect` needs neither Spark nor a JVM nor Airflow. It reads tables as Arrow data, and as frames of
pandas, Polars and DuckDB, and changes them with Arrow rows.

Example:
    from airflow_hiveacid import acid

    with acid.connect(acid.Metastore(uris=("thrift://hms:9083",))) as lake:
        orders = lake.table("demo.orders")
        frame = orders.scan(["id", "price"], "price > 10").to_pandas()
        orders.upsert(rows, keys=["id"])

The rest of this text is about PySpark.

`HiveAcidPySparkOperator` submits a program that ends with a call of `run`. The operator's arguments
list the tables that the program may access. When the `transaction` block ends without an error, all
its changes are committed together. If the block raises an error, no change is committed. A retry of
the task does not repeat committed changes. Each statement sees the changes of earlier statements.
DataFrames from `Transaction.read` are lazy, and valid only inside the block.

Programs that are not submitted by an operator can read tables with `read_snapshot`, `read_table`
and `read_changes`.

A program can import this module without PySpark. PySpark is imported when a name of the module is
first used.

Example:
    from airflow_hiveacid import acid

    def settle(spark, task):
        with acid.transaction(spark, task) as txn:
            late = txn.read("demo.orders", where="day < :day", parameters={"day": NEW_YEAR})
            txn.merge("demo.customers", late, keys=["id"], clauses=[
                {"when": "matched", "action": "update", "set": {"is_late": "true"}},
            ])
            txn.insert("demo.audit", late.selectExpr("id", "'late' AS what"))

    if __name__ == "__main__":
        acid.run(settle)
"""

from __future__ import annotations

from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    "airflow_hiveacid.arrow": ("Limits",),
    "airflow_hiveacid.jobs.endpoint": (
        "BearerLogin",
        "HeaderLogin",
        "KerberosLogin",
        "Metastore",
        "PasswordLogin",
        "Protection",
        "SecretSource",
        "TokenLogin",
        "Transport",
    ),
    "airflow_hiveacid.jobs.job": ("JobResult",),
    "airflow_hiveacid.jobs.statements": ("StreamTable",),
    "airflow_hiveacid.lake.changes": ("LakeTransaction", "TableChanges"),
    "airflow_hiveacid.lake.connection": ("Lake", "connect"),
    "airflow_hiveacid.lake.scans": ("Scan",),
    "airflow_hiveacid.lake.streams": ("StreamWriter",),
    "airflow_hiveacid.lake.table": ("Table",),
    "airflow_hiveacid.reading.snapshots": ("ReadSnapshot", "read_snapshot"),
    "airflow_hiveacid.spark.acid": (
        "AlreadyDoneError",
        "Task",
        "Transaction",
        "run",
        "transaction",
    ),
    "airflow_hiveacid.spark.reading.read_changes": ("read_changes",),
    "airflow_hiveacid.spark.reading.tables": ("read_table",),
    "airflow_hiveacid.spark.streams": ("stream",),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
