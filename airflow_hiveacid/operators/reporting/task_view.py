"""Texts about a task for Airflow's pages and log: its fields, statement, documentation, errors."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Final, ParamSpec, TypeVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.operators.reporting.links import TableLink
from airflow_hiveacid.plan.arguments import LEFT_OUT, is_settled

_P = ParamSpec("_P")
_R = TypeVar("_R")

_log = logging.getLogger(__name__)

MAP_INDEX_TEMPLATE: Final = "{{ task.map_label }}"
LONGEST_LABEL: Final = 250
_READ_MORE: Final = "docs/reference/results.md"
_PARTS: Final = (
    "partition",
    "where",
    "location",
    "source",
    "name",
    "version",
    "timestamp",
    "tag",
    "sql",
)
"""The arguments that distinguish tasks on one table; a label shows the first given argument."""


class _GivenFields:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __get__(self, task: object | None, owner: type | None = None) -> tuple[str, ...]:
        if task is None:
            return self._names
        return tuple(name for name in self._names if _is_given(task, name))


def given_fields(*names: str) -> Any:  # noqa: ANN401 - Airflow expects a sequence
    """Return the template fields of an operator's class; a task has only those with a value.

    Airflow renders a task's template fields and shows them under "Rendered Templates". A field
    without a value needs no rendering. The class has all fields, because Airflow renders a mapped
    task by the fields of its class.
    """
    return _GivenFields(tuple(dict.fromkeys(names)))


class TaskView:
    """Texts about a task for Airflow's pages; a mixin for operators and sensors."""

    does: ClassVar[str]
    """A Markdown sentence that says what the task does; `{table}` stands for its table."""
    returns: ClassVar[str] = "the status, rows, files, bytes and write IDs"
    """A description of the task's result in XCom."""
    operator_extra_links: Collection[BaseOperatorLink] = (TableLink(),)

    @property
    def statement(self) -> str:
        """The task as SQL text, with markers for parameters.

        The text is empty before the templates are rendered. The text is also empty if a rendered
        value looks like a template, because Airflow would render the text again.
        """
        try:
            text = self.statement_text()
        except Exception:  # noqa: BLE001 - a description fails neither a task nor a DAG
            return ""  # an invalid argument fails the task later, when the task builds its job
        return text if is_settled(text) else ""

    @statement.setter
    def statement(self, text: str) -> None:
        """Ignore the text; the setter exists because Airflow assigns each rendered field."""

    def statement_text(self) -> str:
        """Return the task as SQL text; empty if no SQL statement expresses the task."""
        return ""

    @property
    def linked_table(self) -> str:
        """The table to whose page Airflow's task page links; empty if there are several."""
        return str(getattr(self, "table", ""))

    @property
    def map_label(self) -> str:
        """The table, and the partition or a different argument that distinguishes mapped tasks."""
        part = next((name for name in _PARTS if _is_given(self, name)), None)
        detail = "whole table" if part is None else _short(getattr(self, part))
        return f"{getattr(self, 'table', '')} {detail}".strip()[:LONGEST_LABEL]

    @property
    def doc_md(self) -> str | None:
        """The user's documentation of the task, or else a text about what the task does."""
        own: str | None = vars(self).get("_doc_md")
        return self.default_doc(vars(self)) if own is None else own

    @doc_md.setter
    def doc_md(self, text: str | None) -> None:
        self._doc_md = text

    @classmethod
    def default_doc(cls, given: Mapping[str, Any]) -> str:
        """Return the documentation of a task with these arguments."""
        table = given.get("table")
        place = f"`{table}`" if isinstance(table, str) else "the table"
        return (
            f"{cls.does.format(table=place)} Returns {cls.returns}. Read more in `{_READ_MORE}` of"
            " airflow-provider-hiveacid."
        )

    @classmethod
    def partial(cls, **given: Any) -> OperatorPartial:  # noqa: ANN401 - any argument
        """Return the operator's `partial` for mapped tasks, with the default documentation."""
        mapped: OperatorPartial = super().partial(**given)  # type: ignore[misc]  # of Airflow's operator
        mapped.kwargs.setdefault("doc_md", cls.default_doc(mapped.kwargs))
        return mapped


def _is_given(task: object, name: str) -> bool:
    if name == "statement":
        return True
    value = getattr(task, name, None)
    is_empty = isinstance(value, str | tuple | list | dict) and not value
    return not (value is None or value is LEFT_OUT or is_empty)


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{name}={detail}"
            for name, detail in value.items()
            if isinstance(detail, str | int | None)
        )
    return " ".join(str(value).split())


def with_short_traceback(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method that Airflow calls: our errors lose their frames and their cause.

    Our errors say what happened and what to do, so the frames below the operator help only
    developers. They are logged at level DEBUG, and Airflow's log does not bury the sentence.

    Example:
        >>> @with_short_traceback
        ... def execute():
        ...     raise HiveAcidError("no table") from OSError("errno 2")
        >>> try:
        ...     execute()
        ... except HiveAcidError as error:
        ...     print(error.__cause__, error.__traceback__.tb_next.tb_next)
        None None
    """

    @functools.wraps(method)
    def short(*given: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(*given, **named)
        except HiveAcidError as error:
            _log.debug("%s", error, exc_info=True)
            raise error.with_traceback(None) from None

    return short
