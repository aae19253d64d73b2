"""Base classes of the operators that change rows: arguments for repeated runs, and statements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial as bind
from typing import Annotated, Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.jobs.statements import Parameter, StatementSpec
from airflow_hiveacid.operators.declaration import Argument, declaration, setting
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.worker_first import EngineName, EngineOperator
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements.arguments import null_columns, partition_values
from airflow_hiveacid.plan.statements.parameters import (
    check_all_used,
    check_early,
    texts_of,
    with_parameters,
)

PARAMETERS: Final = "parameters"


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

    @declaration
    def __init__(
        self,
        *,
        engine: EngineName = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(engine=engine, **kwargs)


class StatementOperator(HiveAcidRowChangeOperator):
    """Run one statement; a task with several statements takes a mapping of the same arguments."""

    shows_statement = True

    @classmethod
    def statement_arguments(cls) -> dict[str, Argument]:
        """Return the arguments of the statement by name, without those of the task."""
        return {
            name: argument
            for name, argument in cls.argument_table.items()
            if argument.in_job or name == PARAMETERS
        }

    @classmethod
    def check_names(cls, given: Collection[str], where: str) -> None:
        """Check that a statement has all required arguments of its kind, and no unknown ones."""
        own = cls.statement_arguments()
        for name in given:
            if name not in own:
                raise ConfigurationError(
                    f"{where} has no argument {name!r}; allowed are {', '.join(own)}"
                )
        for name in sorted(own):
            if own[name].is_required and name not in given:
                raise ConfigurationError(f"{where} lacks {name!r}")

    @classmethod
    def read_statement(
        cls,
        given: Mapping[str, Any],
        *,
        where: str = "",
        nulls: Collection[str] = (),
        others: Mapping[str, Parameter] = {},
    ) -> tuple[StatementSpec, frozenset[str]]:
        """Return the spec of one statement of a task, and the names of the parameters in its SQL.

        A missing argument gets the default of the spec. `nulls` are the partition columns whose
        value in the DAG is a literal None. `where` and `others` are as in `check_parameters_early`.
        """
        cls.check_names(given, where)
        values = {}
        for name, value in given.items():
            argument = cls.argument_table[name]
            read = argument.read
            if read is partition_values:
                read = bind(partition_values, nulls=nulls)
            values[argument.field or name] = read(value, f"{where}[{name!r}]" if where else name)
        own, place = values.pop(PARAMETERS, {}), _place_of_parameters(where)
        for name in own:
            if name in others:
                raise ConfigurationError(f"{place}[{name!r}] is also a parameter of the whole task")
        spec, names = with_parameters(cls.spec_type(**values), {**others, **own}, place)
        check_all_used(own, names, place)
        return spec, names

    def take_statement(self, given: Mapping[str, Any]) -> None:
        """Take the arguments of the statement as by `take_arguments`; check its parameters."""
        self.take_arguments(given)
        self._nulls = null_columns(given.get("partition"))
        check_parameters_early(self.early_checks, given)

    def build_job(self) -> StatementSpec:
        """Return the spec of the statement that the rendered arguments describe."""
        values = {name: getattr(self, name) for name in self.statement_arguments()}
        nulls = self._nulls if self.is_literal(values.get("partition")) else frozenset[str]()
        return self.read_statement(values, nulls=nulls)[0]


class SimpleStatementOperator(StatementOperator, InProcessOperator):
    """Run one statement that may be simple enough for the worker."""


def check_parameters_early(
    early: arguments.EarlyChecks, values: Mapping[str, Any], where: str = "", others: object = None
) -> None:
    """Check the parameters of a statement, except those that contain a template.

    `where` is the name of the mapping with the statement's arguments (`values`), for error
    messages; it is empty without a mapping. `others` are the parameters of the whole task.
    """
    place = _place_of_parameters(where)
    check_early(early, values.get(PARAMETERS, {}), texts_of(values), place, others=others)


def _place_of_parameters(where: str) -> str:
    return f"{where}[{PARAMETERS!r}]" if where else PARAMETERS
