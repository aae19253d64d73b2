"""How an operator's rendered arguments become parts of a job: mappings in, checked values out.

Operators take mappings and lists rather than our dataclasses because Airflow renders templates
inside those. Every complaint names the argument. A constructor already checks what holds no
template (`EarlyChecks`), so that a typo is an import error of the DAG, not a failure at night.

Sources, clauses and partitions have a module of their own, `statement_arguments`.

Example:
    >>> names("id, day", "keys")
    ('id', 'day')
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError, InputError, InvalidNameError
from airflow_hiveacid.format.policies import ConflictPolicy
from airflow_hiveacid.format.table import PartitionName, TableRef
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.plan.thresholds import CompactionPolicy

_E = TypeVar("_E", bound=enum.Enum)

_SHORTEST_RETENTION_S: Final = 3600.0

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")


class LeftOut(enum.Enum):
    """What an argument is that nobody gave, where its being left out means every row.

    None cannot say that: it is also what a task that returned nothing leaves.
    """

    LEFT_OUT = "left out"

    def __str__(self) -> str:
        return self.value


LEFT_OUT: Final = LeftOut.LEFT_OUT


def is_settled(value: object) -> bool:
    """Whether a value is what it will be when the task runs: plain, and without a template in it.

    Example:
        >>> is_settled({"when": "matched"}), is_settled(["{{ ds }}"])
        (True, False)
    """
    match value:
        case str():
            return not any(mark in value for mark in _TEMPLATE_MARKS)
        case Mapping():
            return all(is_settled(entry) for entry in value.values())
        case list() | tuple() | set() | frozenset():
            return all(is_settled(entry) for entry in value)
        case None | bool() | int() | float() | Decimal() | date() | timedelta() | enum.Enum():
            return True
        case _:
            return False  # another task's result, or whatever else comes later


@dataclass(frozen=True, slots=True)
class EarlyChecks:
    """Checks of one task's arguments while its DAG is read."""

    task_id: str

    def check(self, read: Callable[[Any, str], object], **given: object) -> None:
        """Read those arguments that are settled, and drop what was read.

        Raises:
            ConfigurationError: one cannot be read; the message names task and argument.
        """
        for argument, value in given.items():
            if is_settled(value):
                try:
                    read(value, argument)
                except InputError as error:
                    known = _place(argument)
                    notes = "".join(
                        f" ({note})" for note in getattr(error, "__notes__", ()) if note != known
                    )
                    raise ConfigurationError(
                        f"task {self.task_id!r}, argument {argument}: {error}{notes}"
                    ) from error


def _place(argument: str) -> str:
    return f"in {argument}"


@contextmanager
def _named(argument: str) -> Iterator[None]:
    """Say of a wrong name where it stands: there may be many, and a template may have made it."""
    try:
        yield
    except InvalidNameError as error:
        error.add_note(_place(argument))
        raise


def table_name(value: str, argument: str = "table") -> str:
    """A full table name in the metastore's spelling.

    Raises:
        InvalidNameError: it is not `db.table`.
    """
    with _named(argument):
        return str(TableRef.parse(text(value, argument)))


def table_names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """A list of full table names.

    Raises:
        ConfigurationError: it is no list, or an entry is not a text.
        InvalidNameError: an entry is not `db.table`.
    """
    return tuple(table_name(name, argument) for name in names(value, argument))


def partition_name(value: str | None, argument: str = "partition") -> str | None:
    """A partition such as `month=1/day=2`; blank text, as a template may leave it, is None.

    Raises:
        ConfigurationError: it is no text.
        InvalidNameError: a component has no `=`.
    """
    if value and not isinstance(value, str):
        raise ConfigurationError(
            f"{argument} must be a text such as 'month=1/day=2', found {value!r}"
        )
    name = text(value or "", argument).strip()
    with _named(argument):
        return str(PartitionName.parse(name)) if name else None


def names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """A list of names; a text is a list separated by commas.

    Raises:
        ConfigurationError: it is no list, or an entry is not a text.
    """
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list | tuple | set | frozenset):
        raise ConfigurationError(f"{argument} must be a list of names, found {value!r}")
    return tuple(text(entry, argument).strip() for entry in entries)


def optional_names(value: Sequence[str] | str | None, argument: str) -> tuple[str, ...] | None:
    """A list of names, or None.

    Raises:
        ConfigurationError: it is neither.
    """
    return None if value is None else names(value, argument)


def condition(value: str | None, argument: str) -> str:
    """An SQL condition.

    Raises:
        ConfigurationError: it is blank or None: what an empty template or another task leaves must
            not come to mean every row.
    """
    if value is None or not text(value, argument).strip():
        found = "None" if value is None else "blank"
        raise ConfigurationError(
            f"{argument} is {found}; give a condition, or leave the argument out if every row is"
            " meant"
        )
    return value


def optional_condition(value: str | LeftOut | None, argument: str) -> str | None:
    """A condition, or None for "every row" where it was left out.

    Raises:
        ConfigurationError: it was given, and is blank or None.
    """
    return None if isinstance(value, LeftOut) else condition(value, argument)


def assignments(value: object, argument: str) -> dict[str, str]:
    """Target columns and the SQL expressions they get.

    Raises:
        ConfigurationError: it is no mapping of texts, or empty.
    """
    if not isinstance(value, Mapping) or not value:
        raise ConfigurationError(f"{argument} must map columns to SQL expressions, found {value!r}")
    return {text(k, argument): text(v, f"{argument}[{k!r}]") for k, v in value.items()}


def column_types(value: object, argument: str) -> dict[str, str]:
    """Columns and their Hive types, in the table's order.

    Raises:
        InputError: it is no mapping of texts, or a type is none of Hive's.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must map columns to Hive types, found {value!r}")
    given = {text(k, argument): text(v, f"{argument}[{k!r}]") for k, v in value.items()}
    for name, type_text in given.items():
        try:
            parse_type(type_text)
        except InputError as error:
            raise ConfigurationError(f"{argument}[{name!r}]: {error}") from error
    return given


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
    except (TypeError, ValueError):
        found = float("nan")
    if not 0 <= found < float("inf"):
        raise ConfigurationError(f"{argument} must be a number of 0 or more, found {value!r}")
    return found


def truth(value: object, argument: str) -> bool:
    """True or False, which a template leaves as text.

    Raises:
        ConfigurationError: it is neither.
    """
    match str(value).strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ConfigurationError(f"{argument} must be true or false, found {value!r}")


def delta_count(value: float | str, argument: str) -> int:
    """A threshold of delta directories.

    Raises:
        ConfigurationError: it is no whole number of 1 or more.
    """
    found = whole_number(value, argument)
    CompactionPolicy(delta_count=found, delta_ratio=None)
    return found


def delta_ratio(value: float | str, argument: str) -> float:
    """A threshold of the deltas' share of the base's bytes.

    Raises:
        ConfigurationError: it is no number above 0.
    """
    found = number(value, argument)
    CompactionPolicy(delta_count=None, delta_ratio=found)
    return found


def optional_number(value: float | str | None, argument: str) -> float | None:
    """A number of 0 or more, or None.

    Raises:
        ConfigurationError: it is neither.
    """
    return None if value is None else number(value, argument)


def optional_policy(value: str | None, argument: str) -> ConflictPolicy | None:
    """A conflict policy by its name, or None.

    Raises:
        ConfigurationError: there is none of that name.
    """
    return choice(ConflictPolicy, value, argument) if value else None


def version(value: int | str, argument: str) -> int:
    """The number of a version, 0 for a table before its first write; a template leaves it as text.

    Raises:
        ConfigurationError: it is none.
    """
    found = whole_number(value, argument)
    if isinstance(value, bool) or found < 0:
        raise ConfigurationError(f"{argument} must be the number of a version, found {value!r}")
    return found


def optional_version(value: int | str | datetime | VersionSpec | None, argument: str) -> str | None:
    """A version by its number, a moment or a tag (`VersionSpec.meant_by`), as one text; or None.

    Raises:
        ConfigurationError: it is neither.
    """
    if value is None:
        return None
    try:
        return VersionSpec.meant_by(value).text()
    except ConfigurationError as error:
        raise ConfigurationError(f"{argument}: {error}") from error


def retention(value: float | str, argument: str) -> float:
    """How long a done job is remembered, in seconds; longer than a retry may wait.

    Raises:
        ConfigurationError: it is no number, or less than an hour.
    """
    found = number(value, argument)
    if found < _SHORTEST_RETENTION_S:
        raise ConfigurationError(
            f"{argument} must be {_SHORTEST_RETENTION_S:.0f} or more, found {value!r}: a retry that"
            " comes later would apply the change again"
        )
    return found


def known_keys(cls: type, value: object, argument: str) -> dict[str, Any]:
    """A mapping whose keys are fields of a dataclass.

    Raises:
        ConfigurationError: it is no mapping, or a key is unknown.
    """
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must be a mapping, found {type(value).__name__}")
    known = [f.name for f in fields(cls)]
    for key in value:
        if key not in known:
            raise ConfigurationError(
                f"{argument} has no key {key!r}; it may have {', '.join(known)}"
            )
    return dict(value)


def text(value: object, argument: str) -> str:
    """A text.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be text, found {value!r}")
    return value
