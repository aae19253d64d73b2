"""The operator that makes a table if it is missing: no Spark, one or two metastore calls.

Takes columns as a mapping, like the other operators; `metastore/new_table.py` holds the rules.

Example:
    HiveAcidCreateTableOperator(
        task_id="create", table="demo.customers", columns={"id": "bigint", "name": "string"}
    )
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context, RetryPolicy


class HiveAcidCreateTableOperator(BaseOperator):
    """Make a transactional table unless it is there: full ACID and ORC, if nothing else is said.

    A table that is there with another shape fails the task and is not touched. Running again is
    safe. Returns `{"table": ..., "is_new": ..., "location": ...}`.

    Args:
        table: `db.table`.
        columns: Hive types by column, in the table's order.
        partition_columns: the same for partition columns.
        bucket_columns: rows go into `num_buckets` files by their hash; none by default.
        num_buckets: see there.
        location: a URI; by default below the database's.
        create_database: make the database, too, if it is missing. Off: a typo in its name is an
            error.
        insert_only: whether its rows can be added and replaced only.
        stored_as: `orc`, or for an insert-only table also `parquet`, `avro` and
            `textfile`.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        retry_policy: by default, input errors fail at once and all else is retried as `retries` and
            `retry_delay` say.
    """

    template_fields: Sequence[str] = (
        "table",
        "columns",
        "partition_columns",
        "bucket_columns",
        "num_buckets",
        "location",
        "create_database",
        "insert_only",
        "stored_as",
        "hive_acid_conn_id",
    )

    def __init__(  # noqa: PLR0913 - a table is that much
        self,
        *,
        table: str,
        columns: Mapping[str, str],
        partition_columns: Mapping[str, str] | None = None,
        bucket_columns: Sequence[str] = (),
        num_buckets: int | str = 0,
        location: str | None = None,
        create_database: bool | str = False,
        insert_only: bool | str = False,
        stored_as: str = "orc",
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.table = table
        self.columns = columns
        self.partition_columns = partition_columns
        self.bucket_columns = bucket_columns
        self.num_buckets = num_buckets
        self.location = location
        self.create_database = create_database
        self.insert_only = insert_only
        self.stored_as = stored_as
        self.hive_acid_conn_id = hive_acid_conn_id
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.column_types, columns=columns)
        early.check(arguments.column_types, partition_columns=partition_columns or {})
        early.check(arguments.names, bucket_columns=bucket_columns)
        early.check(arguments.whole_number, num_buckets=num_buckets)
        early.check(arguments.truth, create_database=create_database)
        early.check(arguments.truth, insert_only=insert_only)
        early.check(arguments.text, stored_as=stored_as)

    def execute(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - Airflow's signature
        """Make the table, or make sure that it is the one that was asked for.

        Raises:
            TableDiffersError: it is there with another shape.
            InputError: an argument is wrong.
            MetastoreError: the metastore did not answer, or refused.
        """
        made = HiveAcidHook(self.hive_acid_conn_id).create_table(
            arguments.table_name(self.table),
            arguments.column_types(self.columns, "columns"),
            partition_columns=arguments.column_types(
                self.partition_columns or {}, "partition_columns"
            ),
            bucket_columns=arguments.names(self.bucket_columns, "bucket_columns"),
            num_buckets=arguments.whole_number(self.num_buckets, "num_buckets"),
            location=self.location,
            create_database=arguments.truth(self.create_database, "create_database"),
            insert_only=arguments.truth(self.insert_only, "insert_only"),
            stored_as=arguments.text(self.stored_as, "stored_as"),
        )
        self.log.info(
            "%s is %s at %s", made.ref, "new" if made.is_new else "there already", made.location
        )
        if not made.is_new:
            self.outlets = []  # nothing has changed, so nobody is told
        return {"table": str(made.ref), "is_new": made.is_new, "location": made.location}
