"""Checks an operator's rendered arguments and converts them into parts of a job spec.

A reader takes a value, perhaps a rendered string, and the argument's name, which is part of each
error's message. Operators take mappings and lists instead of dataclasses, because Airflow renders
templates only inside those. `EarlyChecks` makes a typo in an argument without templates an import
error of the DAG.

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

from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import ConfigurationError, InputError, InvalidNameError
from airflow_hiveacid.format.table import KELVIN_SIGN, PartitionName, TableRef
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.format.words import digits, shown
from airflow_hiveacid.jobs.maintenance import Off
from airflow_hiveacid.plan.cleaning import SHORTEST_UNKNOWN_AGE_S
from airflow_hiveacid.plan.compaction_policy import GivenThresholds, HealthLimits
from airflow_hiveacid.plan.keeping import duration
from airflow_hiveacid.plan.thresholds import check_also_when
from airflow_hiveacid.plan.window import WindowEnd

_E = TypeVar("_E", bound=enum.Enum)
_T = TypeVar("_T")

_SHORTEST_RETENTION_S: Final = 3600.0

_TEMPLATE_MARKS: Final = ("{{", "{%", "{#")


class LeftOut(enum.Enum):
    """The default of an optional condition; without a condition, a statement applies to every row.

    None is not the default, because a task that returns nothing has the result None.
    """

    LEFT_OUT = "left out"

    def __str__(self) -> str:
        return self.value


LEFT_OUT: Final = LeftOut.LEFT_OUT


def is_settled(value: object) -> bool:
    """Return whether a value is known before the task runs, because it contains no template.

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
            return False  # the result of a different task, or another value that is not known yet


@dataclass(frozen=True, slots=True)
class EarlyChecks:
    """Checks a task's arguments while Airflow parses the DAG."""

    task_id: str

    def check(self, read: Callable[[Any, str], object], **given: object) -> None:
        """Parse the arguments without templates; an error names the task and the argument."""
        for argument, value in given.items():
            if is_settled(value):
                try:
                    read(value, argument)
                except InputError as error:
                    own_note = _note_on(argument)
                    notes = "".join(
                        f" ({note})" for note in getattr(error, "__notes__", ()) if note != own_note
                    )
                    raise ConfigurationError(
                        f"task {self.task_id!r}, argument {argument}: {error}{notes}"
                    ) from error


def _note_on(argument: str) -> str:
    return f"in {argument}"


@contextmanager
def _named(argument: str) -> Iterator[None]:
    try:
        yield
    except InvalidNameError as error:
        error.add_note(_note_on(argument))
        raise


def or_none(read: Callable[[Any, str], _T]) -> Callable[[Any, str], _T | None]:
    """Return a reader that also accepts None, the default of an argument.

    Example:
        >>> or_none(number)(None, "heartbeat_s"), or_none(number)("2", "heartbeat_s")
        (None, 2.0)
    """
    return lambda value, argument: None if value is None else read(value, argument)


def or_left_out(read: Callable[[Any, str], _T]) -> Callable[[Any, str], _T | None]:
    """Return a reader that returns None if the argument was omitted, but does not accept None."""
    return lambda value, argument: None if isinstance(value, LeftOut) else read(value, argument)


def table_name(value: str, argument: str = "table") -> str:
    """Return a full table name in the metastore's spelling."""
    with _named(argument):
        return str(TableRef.parse(text(value, argument)))


def table_names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """Return a list of full table names."""
    return tuple(table_name(name, argument) for name in names(value, argument))


def partition_name(value: str | None, argument: str = "partition") -> str | None:
    """Return a partition name such as `month=1/day=2`; None for a blank string from a template."""
    if value and not isinstance(value, str):
        raise ConfigurationError(
            f"{argument} must be a string such as 'month=1/day=2', found {value!r}"
        )
    name = text(value or "", argument).lstrip()  # a blank at the end may be part of a value
    with _named(argument):
        return str(PartitionName.parse(name)) if name else None


def names(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """Return a list of names; a string is split at commas."""
    entries = value.split(",") if isinstance(value, str) else value
    if not isinstance(entries, list | tuple | set | frozenset):
        raise ConfigurationError(f"{argument} must be a list of names, found {value!r}")
    return tuple(plain_name(entry, argument).strip() for entry in entries)


def plain_name(value: object, argument: str) -> str:
    """Return a name; one that `str.lower` would make another name is an error."""
    if KELVIN_SIGN in (name := text(value, argument)):
        raise ConfigurationError(
            f"{argument} has the Kelvin sign (U+212A) in the name {name!r}; write the letter K"
        )
    return name


def table_patterns(value: Sequence[str] | str, argument: str) -> tuple[str, ...]:
    """Return names and patterns of tables, such as `sales.orders` and `sales.*`."""
    patterns = names(value, argument)
    for pattern in patterns:
        if pattern != "*" and pattern.count(".") != 1:
            raise ConfigurationError(
                f"{argument} must have entries such as sales.orders, sales.* or *, found"
                f" {pattern!r}"
            )
    if not patterns:
        raise ConfigurationError(f"{argument} must have at least one entry")
    return patterns


def condition(value: str | None, argument: str) -> str:
    """Return an SQL condition; None and a blank string may come from a template by mistake."""
    if value is None or not text(value, argument).strip():
        problem = "None" if value is None else "blank"
        raise ConfigurationError(
            f"{argument} is {problem}; give a condition, or omit the argument if you mean every row"
        )
    return value


def assignments(value: object, argument: str) -> dict[str, str]:
    """Return a mapping from target columns to SQL expressions."""
    texts = mapped_texts(value, argument, "columns to SQL expressions")
    if not texts:
        raise ConfigurationError(f"{argument} must map columns to SQL expressions, found {value!r}")
    return texts


def mapped_texts(value: object, argument: str, what: str) -> dict[str, str]:
    """Return a mapping of strings to strings, in the given order."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must map {what}, found {value!r}")
    return {plain_name(k, argument): text(v, f"{argument}[{k!r}]") for k, v in value.items()}


def column_types(value: object, argument: str) -> dict[str, str]:
    """Return a mapping from columns to Hive types, in the given order."""
    types = mapped_texts(value, argument, "columns to Hive types")
    for name, type_text in types.items():
        try:
            parse_type(type_text)
        except InputError as error:
            raise ConfigurationError(f"{argument}[{name!r}]: {error}") from error
    return types


def choice(cls: type[_E], value: str | _E, argument: str) -> _E:
    """Return the member of an enumeration with this value; letter case is ignored."""
    try:
        return cls(value.lower() if isinstance(value, str) else value)
    except ValueError:
        choices = ", ".join(str(member.value) for member in cls)
        raise ConfigurationError(f"{argument} must be one of {choices}, found {value!r}") from None


def whole_number(value: float | str, argument: str) -> int:
    """Return a whole number."""
    try:
        return int(digits(value))
    except ValueError:
        raise ConfigurationError(
            f"{argument} must be a whole number, found {shown(value)}"
        ) from None


def number(value: float | str, argument: str) -> float:
    """Return a number of 0 or more."""
    try:
        result = float(digits(value))
    except ValueError:
        result = float("nan")
    if not 0 <= result < float("inf"):
        raise ConfigurationError(f"{argument} must be a number of 0 or more, found {shown(value)}")
    return result


def truth(value: object, argument: str) -> bool:
    """Return True or False."""
    match str(value).strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ConfigurationError(f"{argument} must be true or false, found {value!r}")


def delta_count(value: float | str | None, argument: str) -> int | Off | None:
    """Return a threshold for the number of delta directories; see `GivenThresholds`."""
    if value is None or _is_off(value):
        return None if value is None else Off.OFF
    return GivenThresholds(delta_count=whole_number(value, argument)).delta_count


def delta_ratio(value: float | str | None, argument: str) -> float | Off | None:
    """Return a threshold for the bytes of deltas as a share of the base's bytes."""
    if value is None or _is_off(value):
        return None if value is None else Off.OFF
    try:
        ratio = float(digits(value))
    except ValueError:
        raise ConfigurationError(
            f"{argument} must be a number above 0 and at most 1, such as 0.1 for 10 %, found"
            f" {shown(value)}"
        ) from None
    return GivenThresholds(delta_ratio=ratio).delta_ratio


def also_when(value: Mapping[str, float | str] | str | None, argument: str) -> dict[str, Any]:
    """Return further thresholds by name, each a number or `Off.OFF`; see `GivenThresholds`.

    A string has the form `small_files=200, oldest_delta_s=604800`.
    """
    if value is None:
        return {}
    if isinstance(value, str):
        pairs = (entry.partition("=") for entry in names(value, argument) if entry)
        value = {name.strip(): limit for name, _, limit in pairs}
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{argument} must be a mapping, or a string such as 'small_files=200', found {value!r}"
        )
    for name in value:
        check_also_when(name, 1)
    limits: dict[str, float | Off] = {}
    for name, limit in sorted(value.items()):
        if _is_off(limit):
            limits[name] = Off.OFF
            continue
        threshold = number(limit, f"{name} in {argument}")
        limits[name] = int(threshold) if threshold.is_integer() else threshold
    return dict(GivenThresholds(also_when=limits).also_when)


def thresholds(
    count: float | str | None,
    ratio: float | str | None,
    also: Mapping[str, float | str] | str | None = None,
) -> GivenThresholds:
    """Return the thresholds in the arguments `delta_count`, `delta_ratio` and `also_when`."""
    return GivenThresholds(
        delta_count=delta_count(count, "delta_count"),
        delta_ratio=delta_ratio(ratio, "delta_ratio"),
        also_when=also_when(also, "also_when"),
    )


def _is_off(value: float | str) -> bool:
    return isinstance(value, str) and value.strip().lower() == Off.OFF


def health_limit(value: float | str | None, argument: str) -> float | None:
    """Return the value of a health limit, or None; `argument` is a field of `HealthLimits`."""
    if value is None:
        return None
    is_any_number = argument in ("delta_ratio", "oldest_transaction_s")
    limit = number(value, argument) if is_any_number else whole_number(value, argument)
    # `HealthLimits` checks the value, but needs a limit besides `small_file_bytes`.
    alone: dict[str, Any] = {"delta_count": 1, argument: limit}
    HealthLimits(**alone)
    return limit


def health_limits(value: Mapping[str, Any], argument: str) -> HealthLimits:
    """Return the health limits in a mapping whose keys are fields of `HealthLimits`."""
    values = known_keys(HealthLimits, value, argument)
    limits: dict[str, Any] = {
        name: health_limit(limit, name) for name, limit in values.items() if limit is not None
    }
    return HealthLimits(**limits)


def positive_number(value: int | str, argument: str) -> int:
    """Return a whole number of 1 or more."""
    result = whole_number(value, argument)
    if result < 1:
        raise ConfigurationError(f"{argument} must be 1 or more, found {result}")
    return result


def window_end(value: str | None, argument: str) -> WindowEnd | None:
    """Return the end of a window; None for a blank string from a template."""
    end = text(value or "", argument).strip()
    try:
        return WindowEnd.parse(end) if end else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{argument}: {error}") from error


def conflict_policy(value: str | None, argument: str) -> ConflictPolicy | None:
    """Return a conflict policy by its name; None for a blank string from a template."""
    return choice(ConflictPolicy, value, argument) if value else None


def version(value: int | str, argument: str) -> int:
    """Return a version number; 0 means the table before its first write."""
    version_number = whole_number(value, argument)
    if isinstance(value, bool) or version_number < 0:
        raise ConfigurationError(f"{argument} must be a version number, found {value!r}")
    return version_number


def moment(value: datetime | str, argument: str) -> datetime | None:
    """Return a time; a string is ISO 8601 with a time zone."""
    if not isinstance(value, datetime):
        text(value, argument)
    return VersionSpec.of(timestamp=value).timestamp


def tag_name(value: str, argument: str) -> str:
    """Return the name of a tag."""
    return VersionSpec.of(tag=text(value, argument)).tag or ""


def version_text(value: int | str | datetime | VersionSpec, argument: str) -> str:
    """Return a version number, time or tag as a string that `VersionSpec.meant_by` parses."""
    try:
        return VersionSpec.meant_by(value).text()
    except ConfigurationError as error:
        raise ConfigurationError(f"{argument}: {error}") from error


def retention(value: float | str, argument: str) -> float:
    """Return how long the ledger keeps the entry of a finished job: longer than any retry delay."""
    retention_s = number(value, argument)
    if retention_s < _SHORTEST_RETENTION_S:
        raise ConfigurationError(
            f"{argument} must be {_SHORTEST_RETENTION_S:.0f} or more, found {value!r}: a later"
            " retry would apply the change again"
        )
    return retention_s


def duration_s(value: object, argument: str) -> float:
    """Return the seconds of a duration such as `7 days`."""
    return duration(value if isinstance(value, str) else shown(value), argument)


def duration_text(value: str, argument: str) -> str:
    """Check a duration, such as `7 days`, and return it unchanged."""
    duration_s(value, argument)
    return value


def unknown_age(value: str | None, argument: str) -> float | None:
    """Return the minimum age in seconds at which a cleaning removes unknown files, or None."""
    if value is None:
        return None
    age_s = duration_s(value, argument)
    if age_s < SHORTEST_UNKNOWN_AGE_S:
        raise ConfigurationError(
            f"{argument} must be 1 day or more, found {value!r}: a running job may still write or"
            " need newer files that this provider does not know"
        )
    return age_s


def known_keys(cls: type, value: object, argument: str) -> dict[str, Any]:
    """Return a mapping whose keys are fields of a dataclass."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{argument} must be a mapping, found {type(value).__name__}")
    keys = [f.name for f in fields(cls)]
    for key in value:
        if key not in keys:
            raise ConfigurationError(
                f"{argument} has no key {key!r}; allowed are {', '.join(keys)}"
            )
    return dict(value)


def text(value: object, argument: str) -> str:
    """Return the value, which must be a string."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be a string, found {shown(value)}")
    return value


def stored_text(value: object, argument: str) -> str:
    """Return the value, which must be a string that a file can store."""
    try:
        text(value, argument).encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{argument} contains an unpaired surrogate (half a character), which no file can"
            f" store: found {value!r}; give the whole character"
        ) from error
    return str(value)
