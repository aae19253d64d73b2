"""An example of the README: take a day's orders into the customers' totals, and say so.

    merge_orders.py DAY

Reads `demo.orders`, changes `demo.customers` and inserts into `demo.audit`, in one transaction:
whoever looks sees all three as before, or all three as after.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hiveacid.spark import acid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge_orders(spark: SparkSession, metastore: acid.Metastore) -> None:
    """Merge one day."""
    day = sys.argv[1]
    with acid.transaction(spark, metastore) as txn:
        orders = txn.read("demo.orders", where=f"day = DATE '{day}'")
        totals = orders.groupBy("customer").agg(F.sum("amount").alias("amount"))
        merged = txn.merge(
            "demo.customers",
            totals.withColumnRenamed("customer", "id"),
            keys=["id"],
            clauses=[
                {"when": "matched", "action": "update", "set": {"total": "t.total + s.amount"}},
                {
                    "when": "not_matched",
                    "action": "insert",
                    "set": {"id": "s.id", "total": "s.amount"},
                },
            ],
        )
        # A transaction reads what it has written: these totals are the new ones.
        rich = txn.read("demo.customers", where="total >= 1000").count()
        txn.insert(
            "demo.audit",
            spark.createDataFrame(
                [(day, merged.rows.inserted, merged.rows.updated, rich)],
                "day string, new_customers bigint, old_customers bigint, rich bigint",
            ),
        )


if __name__ == "__main__":
    acid.run(merge_orders)
