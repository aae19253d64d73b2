"""The operator for LOAD DATA, which copies existing files into a table.

Example:
    HiveAcidLoadOperator(task_id="load", table="demo.t", location="hdfs://nn/landing/{{ ds }}")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.operators.statements.specs import statement_spec
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.jobs.specs.statements import StatementSpec


class HiveAcidLoadOperator(HiveAcidRowChangeOperator):
    """Run LOAD DATA: copy files into a table unchanged, without reading their rows.

    The files must have the table's format, ORC or Parquet, and the table's columns. All files are
    checked before anything is written. The task does not delete the original files, so a retry
    finds them again.

    Args:
        table: `db.table`, full ACID or insert-only, without buckets.
        location: URI of a file, or of a directory that contains only files; names that begin with
            `_` or `.` are ignored.
        partition: values of all partition columns, as for `HiveAcidInsertOperator`.
        overwrite: whether the files replace the contents of the table, or of `partition`.
    """

    does = "Copies files into {table}, without reading their rows, in one transaction."
    template_fields: Sequence[str] = given_fields(
        "statement",
        "table",
        "location",
        "partition",
        "overwrite",
        *HiveAcidRowChangeOperator.template_fields,
    )

    template_fields_renderers: ClassVar[dict[str, str]] = {
        "statement": "sql",
        "conf": "json",
    }

    def __init__(
        self,
        *,
        table: str,
        location: str,
        partition: Mapping[str, str | int | None] = {},
        overwrite: bool | str = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.location = location
        self.partition = partition
        self.overwrite = overwrite
        self._nulls = statements.null_columns(partition)
        early = arguments.EarlyChecks(self.task_id)
        early.check(arguments.table_name, table=table)
        early.check(arguments.text, location=location)
        statements.check_partition_early(early, partition, self._nulls)
        early.check(arguments.truth, overwrite=overwrite)

    def build_job(self) -> StatementSpec:
        """Return the spec of the LOAD DATA that the rendered arguments describe."""
        return statement_spec(
            "load",
            {
                "table": self.table,
                "location": self.location,
                "partition": self.partition,
                "overwrite": self.overwrite,
            },
            nulls=self._nulls if self.is_literal(self.partition) else (),
        )
