"""The operator for LOAD DATA: files that are there become files of a table.

Example:
    HiveAcidLoadOperator(task_id="load", table="demo.t", location="hdfs://nn/landing/{{ ds }}")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.operators.statement_specs import statement_spec
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan import statement_arguments as statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.jobs.specs import StatementSpec


class HiveAcidLoadOperator(HiveAcidChangeOperator):
    """LOAD DATA: copy files into a table as they are, without reading a row.

    They have to be files of the table's format, ORC or Parquet, whose columns are the table's; all
    are looked at before anything is begun. They stay where they are: a retry finds them again.

    Args:
        table: `db.table`, full ACID or insert-only, without buckets.
        location: URI of a file, or of a directory that holds files only; names that begin with `_`
            or `.` do not count.
        partition: values of all partition columns, as for `HiveAcidInsertOperator`.
        overwrite: whether the files take the place of what is in the table, or in that partition.
    """

    template_fields: Sequence[str] = (
        *HiveAcidChangeOperator.template_fields,
        "table",
        "location",
        "partition",
        "overwrite",
    )

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
        """The load that the rendered arguments describe."""
        return statement_spec(
            "load",
            {
                "table": self.table,
                "location": self.location,
                "partition": self.partition,
                "overwrite": self.overwrite,
            },
            nulls=self._nulls,
        )
