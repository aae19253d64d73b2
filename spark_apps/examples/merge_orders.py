"""An example from the documentation: add a day's orders to the customers' totals, and record it.

    merge_orders.py DAY

It reads `demo.orders`, changes `demo.customers` and inserts into `demo.audit`, in one transaction.
A reader sees either all of its changes or none.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hiveacid import acid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def merge_orders(spark: SparkSession, task: acid.Task) -> None:
    """Merge the orders of one day."""
    day = sys.argv[1]
    of_day = {"day": {"type": "date", "value": day}}
    with acid.transaction(spark, task) as txn:
        orders = txn.read("demo.orders", where="day = :day", parameters=of_day)
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
        # A transaction sees its own changes, so these are the new totals.
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
