"""The operator that creates a table if it is missing, with a few metastore calls and no Spark.

`metastore/definitions/new_table.py` contains the rules for new tables.

Example:
    HiveAcidCreateTableOperator(
        task_id="create", table="demo.customers", columns={"id": "bigint", "name": "string"}
    )
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.specs.maintenance import ConversionTarget
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting.outlets import add_alias_events
from airflow_hiveacid.operators.reporting.short_traceback import with_short_traceback
from airflow_hiveacid.operators.reporting.task_view import (
    MAP_INDEX_TEMPLATE,
    TaskView,
    given_fields,
)
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.arguments import LEFT_OUT, LeftOut
from airflow_hiveacid.plan.keeping import READABLE_FOR, duration
from airflow_hiveacid.plan.statements.dml import sql_string
from airflow_hiveacid.plan.statements.text import PROPERTIES, name_text, table_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context, RetryPolicy


class HiveAcidCreateTableOperator(ValueRendering, TaskView, BaseOperator):
    """Create a transactional table, by default full ACID and ORC, if it does not exist.

    If the table exists with a different definition, the task fails and does not change the table.
    It is safe to run the task again. Returns `{"table": ..., "is_new": ..., "location": ...}`.

    Decide on `readable_for` when you create the table. Without `readable_for`, a major compaction
    or an overwrite makes all older versions unreadable. You cannot restore these versions either.

    Args:
        table: `db.table`.
        columns: Hive types by column, in the table's order.
        partition_columns: Hive types by partition column.
        bucket_columns: columns whose hash distributes rows to `num_buckets` files; by default none.
        num_buckets: see `bucket_columns`.
        location: a URI; by default a directory below the database's location.
        create_database: also create the database if it is missing. By default, the task fails if
            the database is missing, because its name may be misspelled.
        insert_only: whether the table is insert-only: rows can be added and replaced, but not
            changed.
        stored_as: `orc`. Insert-only tables also support `parquet`, `avro` and `textfile`.
        readable_for: how long replaced rows stay readable as earlier versions, such as `7 days`.
            The operator sets the table parameter `hiveacid.readable.for`. With this parameter, Hive
            does not compact or clean the table; use `HiveAcidCompactOperator` and
            `HiveAcidCleanOperator`. If the table exists and has this parameter, the operator does
            not change the parameter.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        retry_policy: which errors to retry. By default, an input error fails the task at once.
            After any other error, `retries` and `retry_delay` apply.
        map_index_template: the label of a mapped task's instances; by default the table.
    """

    does = "Creates {table} if it does not exist."
    returns = "the table's name and location, and whether it is new"
    template_fields: Sequence[str] = given_fields(
        "statement",
        "table",
        "columns",
        "partition_columns",
        "bucket_columns",
        "num_buckets",
        "location",
        "create_database",
        "insert_only",
        "stored_as",
        "readable_for",
        "hive_acid_conn_id",
    )

    template_fields_renderers: ClassVar[dict[str, str]] = {"statement": "sql"}

    def __init__(  # noqa: PLR0913 - a table has this many parts
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
        readable_for: str | LeftOut = LEFT_OUT,
        hive_acid_conn_id: str = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = MAP_INDEX_TEMPLATE,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, map_index_template=map_index_template, **kwargs)
        self.table = table
        self.columns = columns
        self.partition_columns = partition_columns
        self.bucket_columns = bucket_columns
        self.num_buckets = num_buckets
        self.location = location
        self.create_database = create_database
        self.insert_only = insert_only
        self.stored_as = stored_as
        self.readable_for = readable_for
        self.hive_acid_conn_id = hive_acid_conn_id
        self._is_new = False
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.column_types, columns=columns)
        early.check(arguments.column_types, partition_columns=partition_columns or {})
        early.check(arguments.names, bucket_columns=bucket_columns)
        early.check(arguments.whole_number, num_buckets=num_buckets)
        early.check(arguments.truth, create_database=create_database)
        early.check(arguments.truth, insert_only=insert_only)
        early.check(arguments.text, stored_as=stored_as)
        early.check(_time, readable_for=readable_for)

    def statement_text(self) -> str:
        """Return the CREATE TABLE statement that the rendered arguments describe."""
        columns = arguments.column_types(self.columns, "columns")
        partition_columns = arguments.column_types(
            self.partition_columns or {}, "partition_columns"
        )
        buckets = arguments.names(self.bucket_columns, "bucket_columns")
        is_insert_only = arguments.truth(self.insert_only, "insert_only")
        properties = PROPERTIES[
            ConversionTarget.INSERT_ONLY if is_insert_only else ConversionTarget.FULL_ACID
        ]
        kept = _time(self.readable_for, "readable_for")
        if kept is not None:
            properties = {**properties, READABLE_FOR: kept}
        lines = [
            f"CREATE TABLE IF NOT EXISTS {arguments.table_name(self.table)} ({_typed(columns)})",
            f"PARTITIONED BY ({_typed(partition_columns)})" if partition_columns else "",
            f"CLUSTERED BY ({', '.join(map(name_text, buckets))}) INTO {self.num_buckets} BUCKETS"
            if buckets
            else "",
            f"STORED AS {arguments.text(self.stored_as, 'stored_as').upper()}",
            f"LOCATION {sql_string(self.location)}" if self.location else "",
            table_properties(properties),
        ]
        return "\n".join(filter(None, lines))

    @with_short_traceback
    def execute(self, context: Context) -> dict[str, Any]:
        """Create the table, or check that the existing table has the requested definition.

        Raises:
            TableDiffersError: the table exists with a different definition.
            InputError: an argument is wrong.
            KeepingRefusedError: the table was created, but `readable_for` cannot be set right now;
                retry later.
            MetastoreError: the metastore did not answer, or refused the request.
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
            readable_for=_time(self.readable_for, "readable_for"),
        )
        self.log.info(
            "%s %s at %s", made.ref, "created" if made.is_new else "already exists", made.location
        )
        self._is_new = made.is_new
        if made.is_new:
            add_alias_events(self, context, [str(made.ref)], {})
        else:
            self.outlets = []  # the table existed before, so consumers get no event
        return {"table": str(made.ref), "is_new": made.is_new, "location": made.location}

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the table for OpenLineage, whose provider also calls this when the task ends."""
        from airflow_hiveacid.operators.reporting.lineage import lineage_of_new_table  # noqa: PLC0415 - for tasks only

        columns = {
            **arguments.column_types(self.columns, "columns"),
            **arguments.column_types(self.partition_columns or {}, "partition_columns"),
        }
        table = arguments.table_name(self.table)
        return lineage_of_new_table(self.hive_acid_conn_id, table, columns, is_new=self._is_new)


def _typed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name_text(name)} {type_}" for name, type_ in columns.items())


def _time(value: str | LeftOut, argument: str) -> str | None:
    if isinstance(value, LeftOut):
        return None
    duration(arguments.text(value, argument), argument)
    return value
