"""An operator's signature declares its arguments; all else about them comes from there.

A line of template_fields.txt is an operator or sensor with its template fields, each with its
format on Airflow's page, if it has one. A change of a line is a change for users.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from pathlib import Path
from typing import Annotated, Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_hiveacid import operators, sensors
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators import declaration, kinds
from airflow_hiveacid.plan import arguments
from tools import arguments_page

_FILE: Final = Path(__file__).with_name("template_fields.txt")
_CLASSES: Final[dict[str, Any]] = {
    name: getattr(operators, name)
    for name in operators.__all__
    if isinstance(getattr(operators, name), type)
}
every_operator = pytest.mark.parametrize("name", sorted(_CLASSES))


class Example(declaration.DeclaredArguments, BaseOperator):
    """An operator with one argument for its job, and one for itself.

    Args:
        count: a number.
        slow: a switch.
    """

    @declaration.declaration
    def __init__(
        self,
        *,
        count: Annotated[int | str, declaration.Argument(arguments.whole_number, field="number")],
        slow: Annotated[bool | str, declaration.setting(arguments.truth, shown_as="json")] = False,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


class Later(Example):
    """An operator with an argument of its own beside those of its base class."""

    @declaration.declaration
    def __init__(
        self,
        *,
        last: kinds.Switch = True,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())


def test_template_fields_are_exactly_those_listed_in_the_file() -> None:
    lines = []
    of_sensors = {name: getattr(sensors, name) for name in sensors.__all__}
    for name, cls in sorted((_CLASSES | of_sensors).items()):
        formats = cls.template_fields_renderers
        shown = [f"{one}={formats[one]}" if one in formats else one for one in cls.template_fields]
        lines.append(f"{name}: {' '.join(sorted(shown))}")
    assert lines == _FILE.read_text().splitlines()


def test_the_page_of_arguments_is_up_to_date_with_the_docstrings() -> None:
    assert arguments_page.PAGE.read_text() == arguments_page.page()
    for cls in _CLASSES.values():
        own = inspect.signature(cls.__init__).parameters.values()
        named = {one.name for one in own if one.kind is one.KEYWORD_ONLY}
        assert {one for one in named if f"`{one}`" not in arguments_page.page()} == set(), cls


@every_operator
def test_the_signature_shows_types_and_the_docstring_describes_each_argument(name: str) -> None:
    cls = _CLASSES[name]
    given = inspect.signature(cls).parameters
    described = re.findall(
        r"^    (\w+): ", (inspect.getdoc(cls) or "").split("Args:")[1], re.MULTILINE
    )
    own = [one for one in given if one != "kwargs"]
    assert sorted(own) == sorted(one for one in described if one in given)
    assert [one for one in described if one not in given] == []
    for one in own:
        annotation = given[one].annotation
        assert not isinstance(annotation, str)
        assert typing.get_origin(annotation) is not Annotated


@every_operator
def test_the_arguments_of_a_job_are_fields_of_its_spec(name: str) -> None:
    cls = _CLASSES[name]
    spec = getattr(cls, "spec_type", None)
    if spec is None and hasattr(cls, "build_job"):
        spec = typing.get_type_hints(cls.build_job)["return"]
    spec = getattr(spec, "__self__", spec)  # the class of a method that makes the spec
    if not dataclasses.is_dataclass(spec):
        return  # the arguments are SQL text, or the task has no job
    fields = {one.name for one in dataclasses.fields(spec)}
    if hasattr(spec, "of_table"):
        fields |= {*inspect.signature(spec.of_table).parameters}
    table = cls.argument_table
    assert {one.field or each for each, one in table.items() if one.in_job} <= fields


def test_an_argument_without_a_template_is_checked_when_the_dag_is_parsed() -> None:
    with pytest.raises(ConfigurationError, match="task 'a', argument count: count must be a whole"):
        Example(task_id="a", count="many")
    assert Example(task_id="a", count="{{ ds }}").count == "{{ ds }}"  # type: ignore[attr-defined]  # declared


def test_a_missing_argument_is_an_error_of_the_dag() -> None:
    with pytest.raises(TypeError, match="missing keyword argument 'count'"):
        Example(task_id="a")  # type: ignore[call-arg]  # that is the test


def test_values_are_read_by_the_fields_of_the_spec() -> None:
    task = Later(task_id="a", count="7", slow="true", last="false")
    assert task.job_arguments() == {"number": 7, "last": False}
    assert task.value_of("slow") is True
    assert set(Later.template_fields) == {"last", "count", "slow"}
    assert Later.template_fields_renderers == {"slow": "json"}


def test_default_args_and_mapped_tasks_know_the_declared_arguments() -> None:
    with DAG("dag", schedule=None, default_args={"count": 3, "last": False}):
        assert Later(task_id="a").job_arguments() == {"number": 3, "last": False}
        Later.partial(task_id="c", slow=True).expand(count=[1, 2])
        with pytest.raises(TypeError, match="unexpected keyword argument 'slo'"):
            Later.partial(task_id="d", slo=True)
