"""Conversion of the operators' rendered arguments to statement specs.

Input is the form of a statement and its arguments, by the argument names of the operator. Output is
the statement's spec. A missing argument gets the default of the spec.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial as bind
from typing import Any, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.parameters import Parameter
from airflow_hiveacid.jobs.specs.statements import StatementSpec
from airflow_hiveacid.operators.declaration import Argument
from airflow_hiveacid.plan.arguments import EarlyChecks
from airflow_hiveacid.plan.statements.arguments import partition_values
from airflow_hiveacid.plan.statements.parameters import (
    check_all_used,
    check_early,
    texts_of,
    with_parameters,
)

PARAMETERS: Final = "parameters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of statement: the type of its spec, and its arguments by name."""

    spec: type[StatementSpec]
    arguments: Mapping[str, Argument]

    def read(self, name: str, value: object, argument: str, nulls: Collection[str]) -> Any:  # noqa: ANN401 - any type
        """Return the value of a rendered argument; see `read_statement`."""
        read = self.arguments[name].read
        if read is partition_values:
            read = bind(partition_values, nulls=nulls)
        return read(value, argument)


def check_parameters_early(
    early: EarlyChecks, values: Mapping[str, Any], where: str = "", others: object = None
) -> None:
    """Check the parameters of a statement, except those that contain a template.

    Args:
        early: the checks of the task.
        values: the statement's arguments.
        where: the name of the mapping that contains these arguments, for error messages; empty if
            no mapping contains them.
        others: the parameters of the whole task.
    """
    argument = f"{where}[{PARAMETERS!r}]" if where else PARAMETERS
    check_early(early, values.get(PARAMETERS, {}), texts_of(values), argument, others=others)


def check_names(form: Form, given: Collection[str], where: str) -> None:
    """Check that a statement has all required arguments of its kind, and no unknown ones.

    Raises:
        ConfigurationError: an argument is unknown or missing.
    """
    for name in given:
        if name not in form.arguments:
            raise ConfigurationError(
                f"{where} has no argument {name!r}; allowed are {', '.join(form.arguments)}"
            )
    for name in sorted(form.arguments):
        if form.arguments[name].is_required and name not in given:
            raise ConfigurationError(f"{where} lacks {name!r}")


def read_statement(
    form: Form,
    given: Mapping[str, Any],
    *,
    where: str = "",
    nulls: Collection[str] = (),
    others: Mapping[str, Parameter] = {},
) -> tuple[StatementSpec, frozenset[str]]:
    """Return the spec of one statement of a task, and the names of the parameters in its SQL.

    Args:
        form: the kind of statement.
        given: the statement's rendered arguments.
        where: as in `check_parameters_early`.
        nulls: the partition columns whose value in the DAG is a literal None.
        others: the parameters of the whole task.
    """
    check_names(form, given, where)
    values = {
        form.arguments[name].field or name: form.read(
            name, value, f"{where}[{name!r}]" if where else name, nulls
        )
        for name, value in given.items()
    }
    own = values.pop(PARAMETERS, {})
    argument = f"{where}[{PARAMETERS!r}]" if where else PARAMETERS
    for name in own:
        if name in others:
            raise ConfigurationError(f"{argument}[{name!r}] is also a parameter of the whole task")
    spec, names = with_parameters(form.spec(**values), {**others, **own}, argument)
    check_all_used(own, names, argument)
    return spec, names
