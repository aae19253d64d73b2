"""Base classes of the operators that change rows: arguments for repeated runs, and statements."""

from __future__ import annotations

from functools import partial as bind
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from airflow_hiveacid.jobs.engine import Engine
from airflow_hiveacid.jobs.specs.job import OnRerun
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.statements.specs import (
    PARAMETERS,
    Form,
    check_parameters_early,
    read_statement,
)
from airflow_hiveacid.operators.worker_first import EngineName, EngineOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.arguments import null_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hiveacid.jobs.results import JobResult
    from airflow_hiveacid.jobs.specs.job import JobSpec
    from airflow_hiveacid.jobs.specs.statements import StatementSpec
    from airflow_hiveacid.metastore.port import MetastorePort


# Before these steps end, a transaction can be aborted without a trace.
_ABORTABLE_STEPS: Final = frozenset({"opened", "locked", "snapshot", "staged", "body_done"})


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


class InProcessOperator(HiveAcidRowChangeOperator, EngineOperator):
    """Change rows in the task's own process, if the change is simple enough, or with Spark."""

    usual_engine = Engine.SPARK

    @declaration
    def __init__(
        self,
        *,
        engine: EngineName = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(engine=engine, **kwargs)

    def done_on_worker(self, client: MetastorePort, job: JobSpec) -> JobResult:
        """Run the job's statements in this process."""
        from airflow_hiveacid.arrow.without_pandas import let_pandas_wait  # noqa: PLC0415 - needs Arrow

        let_pandas_wait()
        from airflow_hiveacid.arrow.job import run_in_process  # noqa: PLC0415 - needs Arrow
        from airflow_hiveacid.metastore.transactions.terms import JobTerms  # noqa: PLC0415 - for tasks only
        from airflow_hiveacid.writing.job import WritingJob  # noqa: PLC0415 - needs Arrow

        def on_step(step: str) -> None:
            if step in _ABORTABLE_STEPS:
                self.check_alive(step)

        self._spec = job  # a kill of the task aborts the transactions of this attempt
        return run_in_process(
            WritingJob(spec=job, client=client, terms=JobTerms.of(job, on_step=on_step))
        )


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


class SimpleStatementOperator(StatementOperator, InProcessOperator):
    """Run one statement that may be simple enough for the worker."""
