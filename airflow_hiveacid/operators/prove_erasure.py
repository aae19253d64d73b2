"""The operator that proves that rows were erased from all files of a table.

Example:
    HiveAcidProveErasureOperator(
        task_id="prove",
        table="demo.customers",
        where="id IN (:ids)",
        parameters={"ids": [17, 42]},
    )
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from airflow.sdk import Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ErasureNotProvedError
from airflow_hiveacid.jobs.specs.maintenance import ProveErasureSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import Argument, declaration
from airflow_hiveacid.operators.reporting.plan_text import erasure_lines
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.parameters import check_early, job_with


class HiveAcidProveErasureOperator(HiveAcidSparkOperator):
    """Prove that no file of a table stores a row that satisfies a condition.

    The task looks at every file below the directories of the table and its partitions. It also
    looks at files that readers ignore: replaced, aborted, staged and hidden files, and files of
    dropped partitions. The task changes nothing and takes no lock. Delete the rows, compact
    (`major`) and clean the table first.

    The result is the proof: `erasure` in `details` (docs/reference/results.md). It contains
    numbers, paths and reasons, but no value of a row, of `where` or of `parameters`. If there is a
    result directory, the whole result is always stored there. If a file still stores such a row, or
    cannot be read, the task pushes the result to XCom and then fails with `ErasureNotProvedError`.

    Args:
        table: `db.table`, full ACID or insert-only.
        where: the condition that selects the erased rows, in Spark SQL, as for
            `HiveAcidDeleteOperator`. NULL counts as false, as in SQL. Put personal data into
            `parameters`, because the condition's text may occur in error messages.
        parameters: values for the markers in `where`, as for `HiveAcidMergeOperator`.
        locations: URIs of more directories with copies of rows, such as change feeds, the trash, or
            snapshots of a directory. Each of their files must be an ORC, Parquet or Avro file with
            all columns that `where` uses.
    """

    does = "Proves that no file of {table} stores the rows of a condition; changes nothing."
    returns = (
        "whether the erasure is proved, the numbers of files, and the files that still store such"
        " rows or cannot be read, with the reasons"
    )
    keeps_whole_result = True

    table: str
    parameters: Mapping[str, Any]

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        where: Annotated[str, Argument(arguments.condition, shown_as="sql")],
        parameters: kinds.Parameters = kinds.NO_VALUES,
        locations: kinds.Names = (),
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        check_early(self.early_checks, parameters, [where])

    def build_job(self) -> ProveErasureSpec:
        """Return the spec of the proof that the rendered arguments describe."""
        return job_with(ProveErasureSpec(**self.job_arguments()), self.parameters)

    def _run_jobs(self, context: Context) -> dict[str, JsonValue]:
        """Run the job; push its result to XCom even if the erasure is not proved."""
        result = super()._run_jobs(context)
        details: Any = result["details"]
        if not details.get("erasure", {}).get("proved"):
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, result)
            raise ErasureNotProvedError(
                table=self.table, found=". ".join(erasure_lines(details, most=3))
            )
        return result
