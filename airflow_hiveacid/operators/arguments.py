"""How an operator's rendered arguments become parts of a job: mappings in, checked values out.

Operators take mappings and lists rather than our dataclasses because Airflow renders templates
inside those. Every complaint names the argument.

Example:
    >>> merge_clause({"when": "matched", "action": "update"}, "clauses[0]").action
    <MergeAction.UPDATE: 'update'>
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.jobs.specs import MergeAction, MergeClause, MergeWhen, SourceSpec

_E = TypeVar("_E", bound=enum.Enum)


def table_name(value: str) -> str:
    """A full table name in the metastore's spelling.

    Raises:
        InvalidNameError: it is not `db.table`.
    """
    return str(TableRef.parse(value))


def partition_name(value: str | None) -> str | None:
    """A partition such as `month=1/day=2`; blank text, as a template may leave it, is None.

    Raises:
        InvalidNameError: a component has no `=`.
    """
    text = (value or "").strip()
    return str(PartitionName.parse(text)) if text else None


def names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """A list of names; a text is a list separated by commas.

    Raises:
        ConfigurationError: an entry is not a text.
    """
    entries = value.split(",") if isinstance(value, str) else value
    return tuple(_text(entry, argument).strip() for entry in entries)


def condition(value: str | None, argument: str) -> str | None:
    """An SQL condition, or None for "every row".

    Raises:
        ConfigurationError: it is blank: an empty template must not come to mean every row.
    """
    if value is None:
        return None
    if not _text(value, argument).strip():
        raise ConfigurationError(
            f"{argument} is blank; leave it out (None) if every row is meant, or give a condition"
        )
    return value


def assignments(value: object, argument: str) -> dict[str, str]:
    """Target columns and the SQL expressions they get.

    Raises:
        ConfigurationError: it is no mapping of texts, or empty.
    """
    if not isinstance(value, Mapping) or not value:
        raise ConfigurationError(f"{argument} must map columns to SQL expressions, found {value!r}")
    return {_text(k, argument): _text(v, f"{argument}[{k!r}]") for k, v in value.items()}


def choice(cls: type[_E], value: str | _E, argument: str) -> _E:
    """A member of an enumeration, by its value.

    Raises:
        ConfigurationError: there is no such member.
    """
    try:
        return cls(value.lower() if isinstance(value, str) else value)
    except ValueError:
        known = ", ".join(str(member.value) for member in cls)
        raise ConfigurationError(f"{argument} must be one of {known}, found {value!r}") from None


def whole_number(value: float | str, argument: str) -> int:
    """A whole number, which a template leaves as text.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        return int(value) if isinstance(value, str) else int(str(value))
    except ValueError:
        raise ConfigurationError(f"{argument} must be a whole number, found {value!r}") from None


def number(value: float | str, argument: str) -> float:
    """A number of 0 or more, which a template leaves as text.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not 0 <= found < float("inf"):
        raise ConfigurationError(f"{argument} must be a number of 0 or more, found {value!r}")
    return found


def source_spec(value: object, argument: str = "source") -> SourceSpec:
    """Where rows come from; the keys are those of `SourceSpec`.

    Raises:
        ConfigurationError: a key is unknown, or a value has the wrong shape.
    """
    given = _known(SourceSpec, value, argument)
    if "columns" in given:
        given["columns"] = names(given["columns"], f"{argument}['columns']")
    if "options" in given:
        given["options"] = {str(k): str(v) for k, v in dict(given["options"]).items()}
    if given.get("values") is not None:
        given["values"] = tuple(tuple(row) for row in given["values"])
    return SourceSpec(**given)


def merge_clause(value: object, argument: str) -> MergeClause:
    """One WHEN clause; the keys are those of `MergeClause`.

    Raises:
        ConfigurationError: a key is unknown or missing, or a value has the wrong shape.
    """
    given = _known(MergeClause, value, argument)
    for key in ("when", "action"):
        if key not in given:
            raise ConfigurationError(f"{argument} lacks {key!r}")
    given["when"] = choice(MergeWhen, given["when"], f"{argument}['when']")
    given["action"] = choice(MergeAction, given["action"], f"{argument}['action']")
    given["condition"] = condition(given.get("condition"), f"{argument}['condition']")
    if given.get("set") is not None:
        given["set"] = assignments(given["set"], f"{argument}['set']")
    return MergeClause(**given)


def _known(cls: type, value: object, argument: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must be a mapping, found {type(value).__name__}")
    known = [f.name for f in fields(cls)]
    for key in value:
        if key not in known:
            raise ConfigurationError(
                f"{argument} has no key {key!r}; it may have {', '.join(known)}"
            )
    return dict(value)


def _text(value: object, argument: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be text, found {value!r}")
    return value
