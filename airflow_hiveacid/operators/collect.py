"""The operator that collects the numbers of all tables for the pages in Airflow, without Spark."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from airflow.sdk import BaseOperator, Context, Variable

from airflow_hiveacid.airflow_names import RetryPolicy
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import DeclaredArguments, declaration
from airflow_hiveacid.operators.rendering import ValueRendering
from airflow_hiveacid.operators.reporting.document import document
from airflow_hiveacid.operators.reporting.task_view import with_short_traceback
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY, PolicyRetries
from airflow_hiveacid.plan import arguments

COLLECTED_KEY: Final = "hiveacid_collected"
_MOST_OWNERS: Final = 500


class HiveAcidCollectOperator(DeclaredArguments, ValueRendering, PolicyRetries, BaseOperator):
    """Measure tables, and store the numbers in Airflow's database for the pages.

    The numbers are in the XCom `hiveacid_collected`, as JSON of at most 64 KB. If not all matching
    tables fit, the task leaves out the least urgent tables. The stored document and the log say how
    many tables are left out. The users and hosts of transactions are stored separately, in the
    variable `hiveacid_owners_<connection>`. It is safe to run the task again.

    Returns `{"tables": ..., "due": ..., "blocked": ..., "left_out": {...}}`.

    Args:
        tables: patterns of table names, such as `sales.*` or `demo.orders`; by default all tables.
        delta_count: a partition with at least this many delta directories is due. By default, each
            table's own threshold applies, as for `HiveAcidCompactOperator`.
        delta_ratio: a partition is due if the bytes of its deltas are at least this fraction of the
            base's bytes. By default, each table's own threshold applies.
        hive_acid_conn_id: connection of type `hive_acid_metastore`.
        retry_policy: which errors to retry. By default, an input error fails the task at once.
            After any other error, `retries` and `retry_delay` apply.
    """

    hive_acid_conn_id: str
    delta_count: int | str | None
    delta_ratio: float | str | None

    @declaration
    def __init__(
        self,
        *,
        tables: kinds.Names = ("*",),
        delta_count: kinds.DeltaCount = None,
        delta_ratio: kinds.DeltaRatio = None,
        hive_acid_conn_id: kinds.ConnectionId = HiveAcidHook.default_conn_name,
        retry_policy: RetryPolicy | None = DEFAULT_RETRY_POLICY,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(retry_policy=retry_policy, **kwargs)
        self.take_arguments(locals())

    @with_short_traceback
    def execute(self, context: Context) -> dict[str, Any]:
        """Measure the tables, and store the numbers."""
        from airflow_hiveacid.operators.reporting.survey import survey  # noqa: PLC0415 - brings Thrift

        thresholds = arguments.thresholds(self.delta_count, self.delta_ratio)
        began_s = time.time()
        with HiveAcidHook(self.hive_acid_conn_id).metastore() as client:
            result = survey(client, self.value_of("tables"), thresholds)
        collection = document(
            result.numbers,
            measured_s=began_s,
            settings={
                "connection": self.hive_acid_conn_id,
                **thresholds.plain(),
                "oldest": [*result.oldest],
            },
            queue=result.queue,
        )
        owners = dict(sorted(result.owners.items(), key=lambda one: int(one[0]))[:_MOST_OWNERS])
        workers = dict([*result.workers.items()][:_MOST_OWNERS])
        Variable.set(
            owners_variable(self.hive_acid_conn_id),
            json.dumps({"owners": owners, "workers": workers}),
            description="Users and hosts of Hive transactions, for the pages about Hive tables",
        )
        context["ti"].xcom_push(key=COLLECTED_KEY, value=collection)
        states = [table.row.state for table in result.numbers]
        self.log.info(
            "collected tables=%s blocked=%s due=%s left_out=%s",
            *(len(states), states.count("blocked"), states.count("due"), collection["left_out"]),
        )
        return {
            "tables": len(states),
            "blocked": states.count("blocked"),
            "due": sum(1 for table in result.numbers if table.row.due),
            "left_out": collection["left_out"],
        }


def owners_variable(hive_acid_conn_id: str) -> str:
    """Return the name of the Airflow variable with the users and hosts of a metastore.

    Only users with access to variables can see it. Each connection has its own variable, because
    two metastores use the same transaction IDs.
    """
    return f"hiveacid_owners_{hive_acid_conn_id}"
