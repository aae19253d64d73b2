"""Base classes of the operators that change rows: arguments for repeated runs, and statements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial as bind
from typing import Annotated, Any, ClassVar

from airflow_hiveacid.jobs.specs.job import OnRerun
from airflow_hiveacid.jobs.specs.statements import StatementSpec
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.statements.specs import (
    PARAMETERS,
    Form,
    check_parameters_early,
    read_statement,
)
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.arguments import null_columns


class HiveAcidRowChangeOperator(HiveAcidSparkOperator):
    """Change the rows of a table with `spark-submit`.

    Args:
        on_rerun: what the task does if a user clears it after a success: `apply` the change again
            (the default), `skip` the change with a warning, or `fail`. A retry never applies a
            change twice.
        ledger_retention_s: how many seconds the table's ledger keeps the note of this task's
            change. The time must be longer than the longest delay before a retry. By default 30
            days.
    """

    @declaration
    def __init__(
        self,
        *,
        on_rerun: Annotated[str, setting(bind(arguments.choice, OnRerun))] = OnRerun.APPLY.value,
        ledger_retention_s: Annotated[float | str, setting(arguments.retention)] = 30 * 86400.0,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())

    def rerun_terms(self) -> dict[str, Any]:
        """Return the JobSpec fields that say what to do if the job has been done before."""
        return {name: self.value_of(name) for name in ("on_rerun", "ledger_retention_s")}


class StatementOperator(HiveAcidRowChangeOperator):
    """Run one statement; a task with several statements takes a mapping of the same arguments."""

    shows_statement = True
    statement_type: ClassVar[type[StatementSpec]]
    """The type of the statement's spec."""

    @classmethod
    def form(cls) -> Form:
        """Return the statement's arguments and the type of its spec."""
        own = {
            name: argument
            for name, argument in cls.argument_table.items()
            if argument.in_job or name == PARAMETERS
        }
        return Form(spec=cls.statement_type, arguments=own)

    def take_statement(self, given: Mapping[str, Any]) -> None:
        """Take the arguments of the statement as by `take_arguments`; check its parameters."""
        self.take_arguments(given)
        self._nulls = null_columns(given.get("partition"))
        check_parameters_early(self.early_checks, given)

    def build_job(self) -> StatementSpec:
        """Return the spec of the statement that the rendered arguments describe."""
        form = self.form()
        values = {name: getattr(self, name) for name in form.arguments}
        nulls = self._nulls if self.is_literal(values.get("partition")) else frozenset[str]()
        spec, _ = read_statement(form, values, nulls=nulls)
        return spec
