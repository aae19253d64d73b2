"""The operator for LOAD DATA, which copies existing files into a table.

Example:
    HiveAcidLoadOperator(task_id="load", table="demo.t", location="hdfs://nn/landing/{{ ds }}")
"""

from __future__ import annotations

from typing import Any

from airflow_hiveacid.jobs.specs.statements import LoadSpec
from airflow_hiveacid.operators import kinds
from airflow_hiveacid.operators.declaration import declaration
from airflow_hiveacid.operators.row_change import StatementOperator


class HiveAcidLoadOperator(StatementOperator):
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
    statement_type = LoadSpec

    @declaration
    def __init__(
        self,
        *,
        table: kinds.Table,
        location: kinds.Text,
        partition: kinds.PartitionValues = kinds.NO_VALUES,
        overwrite: kinds.Switch = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_statement(locals())
