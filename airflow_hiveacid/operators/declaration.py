"""The arguments of an operator, declared once: in the signature of its constructor.

A parameter's annotation contains an `Argument`, which says how to read the argument. The template
fields, the attributes, the checks while Airflow parses a DAG and the fields of the job's spec all
come from the signature. The constructor remains a plain function, so Airflow, editors and type
checkers read its signature as usual.

`HiveAcidConvertOperator` in `operators/maintenance.py` is a short example.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial as bind
from typing import Any, ClassVar, TypeVar

from airflow_hiveacid.operators.reporting.task_view import given_fields
from airflow_hiveacid.plan import arguments

_Init = TypeVar("_Init", bound=Callable[..., None])


def _unchanged(value: object, _argument: str) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator.

    `read` converts the rendered value; its string is the argument's name for error messages.
    `field` is the field of the job's spec; by default, it has the argument's name. `check` replaces
    `read` while Airflow parses a DAG, if parts of the value are checked although others contain
    templates. `shown_as` is the format of the rendered value on Airflow's page: `json` or `sql`. An
    argument that is not `in_job` is no field of the job's spec.
    """

    read: Callable[[Any, str], Any] = _unchanged
    field: str = ""
    check: Callable[[arguments.EarlyChecks, Any], None] | None = None
    shown_as: str = ""
    in_job: bool = True
    is_required: bool = False

    def check_early(self, early: arguments.EarlyChecks, name: str, value: object) -> None:
        """Check the value of an argument while Airflow parses the DAG."""
        if self.check is None:
            early.check(self.read, **{name: value})
        else:
            self.check(early, value)


setting = bind(Argument, in_job=False)


def one_of(cls: type[enum.Enum]) -> Argument:
    """Return the argument whose value is a member of an enumeration, such as `auto`."""
    return Argument(bind(arguments.choice, cls))


def declaration(init: _Init) -> _Init:
    """Find the arguments in a constructor's signature; a decorator for `__init__`."""
    parameters = inspect.signature(init, eval_str=True).parameters
    constructor: Any = init  # `DeclaredArguments` reads the attribute
    constructor.declared = {
        name: replace(argument, is_required=parameter.default is parameter.empty)
        for name, parameter in parameters.items()
        for argument in getattr(parameter.annotation, "__metadata__", ())
    }
    # Documentation and editors at run time show the types without the arguments' readers.
    plain = {
        name: getattr(parameter.annotation, "__origin__", parameter.annotation)
        if name in constructor.declared
        else parameter.annotation
        for name, parameter in parameters.items()
        if parameter.annotation is not parameter.empty
    }
    init.__annotations__ = {**plain, "return": None}
    return init


class DeclaredArguments:
    """Takes and reads the arguments that constructors declare; a mixin for operators."""

    argument_table: ClassVar[Mapping[str, Argument]] = {}
    """The declared arguments of a class and its base classes, by name."""
    shows_statement: ClassVar[bool] = False
    """True if the task's SQL text (`TaskView.statement`) is one of its template fields."""

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        """Set the argument table, the template fields and their formats, from the constructor."""
        super().__init_subclass__(**kwargs)
        own: Mapping[str, Argument] = getattr(vars(cls).get("__init__"), "declared", {})
        if not own:
            return
        base: Any = super(cls, cls)
        first = ("statement",) if cls.shows_statement else ()
        shown = {name: argument.shown_as for name, argument in own.items() if argument.shown_as}
        attributes = {
            "argument_table": {**own, **base.argument_table, **own},  # own ones come first and win
            "template_fields": given_fields(*first, *own, *base.template_fields),
            "template_fields_renderers": {
                **dict.fromkeys(first, "sql"),
                **base.template_fields_renderers,
                **shown,
            },
        }
        for name, value in attributes.items():
            if name not in vars(cls):
                setattr(cls, name, value)

    def take_arguments(self, given: Mapping[str, Any]) -> None:
        """Assign the declared arguments in `given`, and check them if they contain no templates."""
        own = {name: self.argument_table[name] for name in self.argument_table if name in given}
        for name in own:
            setattr(self, name, given[name])
        for name, argument in own.items():
            argument.check_early(self.early_checks, name, given[name])

    @property
    def early_checks(self) -> arguments.EarlyChecks:
        """The checks of this task while Airflow parses the DAG."""
        return arguments.EarlyChecks(self.task_id)  # type: ignore[attr-defined]  # of Airflow's operator

    def value_of(self, name: str) -> Any:  # noqa: ANN401 - any type
        """Return the value of a rendered argument."""
        return self.argument_table[name].read(getattr(self, name), name)

    def job_arguments(self) -> dict[str, Any]:
        """Return the values of the job's arguments, by the fields of the job's spec."""
        return {
            argument.field or name: self.value_of(name)
            for name, argument in self.argument_table.items()
            if argument.in_job
        }
