"""The operator that creates a table if it is missing, with a few metastore calls and no Spark.

`metastore/definitions/new_table.py` contains the rules for new tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from airflow.sdk import BaseOperator, Context

from airflow_hiveacid.airflow_names import RetryPolicy
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.maintenance import ConversionTarget
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, DeclaredArguments, declaration
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting import task_view
from airflow_hiveacid.operators.reporting.outlets import add_alias_events
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.keeping import READABLE_FOR
from airflow_hiveacid.plan.statements.dml import sql_string
from airflow_hiveacid.plan.statements.text import PROPERTIES, name_text, table_properties

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


def _optional_columns(value: Mapping[str, str] | None, argument: str) -> dict[str, str]:
    return arguments.column_types(value or {}, argument)


class HiveAcidCreateTableOperator(
    DeclaredArguments, ValueRendering, task_view.TaskView, PolicyRetries, BaseOperator
):
    """Create a transactional table, by default full ACID and ORC, if it does not exist.

    If the table exists with a different definition, the task fails and does not change the table.
    It is safe to run the task again. Returns `{"table": ..., "is_new": ..., "location": ...}`.

    Decide on `readable_for` when you create the table. Without `readable_for`, a major compaction
    or an overwrite makes all older versions unreadable. You cannot restore these versions either.

    Args:
        table: `db.table`.
        columns: a mapping from column names to Hive types, in the table's order.
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
    shows_statement = True
    hive_acid_conn_id: str

    @declaration
    def __init__(  # noqa: PLR0913 - a table has this many parts
        self,
        *,
        table: Annotated[str, Argument(arguments.table_name)],
        columns: Annotated[Mapping[str, str], Argument(arguments.column_types)],
        partition_columns: Annotated[Mapping[str, str] | None, Argument(_optional_columns)] = None,
        bucket_columns: Annotated[Sequence[str], Argument(arguments.names)] = (),
        num_buckets: Annotated[int | str, Argument(arguments.whole_number)] = 0,
        location: Annotated[str | None, Argument()] = None,
        create_database: kinds.Switch = False,
        insert_only: kinds.Switch = False,
        stored_as: kinds.Text = "orc",
        readable_for: Annotated[
            str | arguments.LeftOut, Argument(arguments.or_left_out(arguments.duration_text))
        ] = arguments.LEFT_OUT,
        hive_acid_conn_id: kinds.ConnectionId = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        map_index_template: str | None = task_view.MAP_INDEX_TEMPLATE,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, map_index_template=map_index_template, **kwargs)
        self.take_arguments(locals())
        self._is_new = False

    def statement_text(self) -> str:
        """Return the CREATE TABLE statement that the rendered arguments describe."""
        values = self.job_arguments()
        properties = PROPERTIES[
            ConversionTarget.INSERT_ONLY if values["insert_only"] else ConversionTarget.FULL_ACID
        ]
        if values["readable_for"] is not None:
            properties = {**properties, READABLE_FOR: values["readable_for"]}
        partition_columns = values["partition_columns"]
        buckets, number = values["bucket_columns"], values["num_buckets"]
        lines = [
            f"CREATE TABLE IF NOT EXISTS {values['table']} ({_typed(values['columns'])})",
            f"PARTITIONED BY ({_typed(partition_columns)})" if partition_columns else "",
            f"CLUSTERED BY ({', '.join(map(name_text, buckets))}) INTO {number} BUCKETS"
            if buckets
            else "",
            f"STORED AS {values['stored_as'].upper()}",
            f"LOCATION {sql_string(values['location'])}" if values["location"] else "",
            table_properties(properties),
        ]
        return "\n".join(filter(None, lines))

    @task_view.with_short_traceback
    def execute(self, context: Context) -> dict[str, Any]:
        """Create the table, or check that the existing table has the requested definition.

        Raises:
            TableDiffersError: the table exists with a different definition.
            KeepingRefusedError: the table was created, but `readable_for` cannot be set right now;
                retry later.
        """
        table = HiveAcidHook(self.hive_acid_conn_id).create_table(**self.job_arguments())
        self.log.info(
            "%s %s at %s",
            table.ref,
            "created" if table.is_new else "already exists",
            table.location,
        )
        self._is_new = table.is_new
        if table.is_new:
            add_alias_events(self, context, [str(table.ref)], {})
        else:
            self.outlets = []  # the table existed before, so consumers get no event
        return {"table": str(table.ref), "is_new": table.is_new, "location": table.location}

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Return the table for OpenLineage, whose provider also calls this when the task ends."""
        from airflow_hiveacid.operators.reporting.lineage import lineage_of_new_table  # noqa: PLC0415 - for tasks only

        columns = {**self.value_of("columns"), **self.value_of("partition_columns")}
        table = self.value_of("table")
        return lineage_of_new_table(self.hive_acid_conn_id, table, columns, is_new=self._is_new)


def _typed(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name_text(name)} {type_}" for name, type_ in columns.items())
