"""Typed access to a connection's extras, in which numbers and booleans may be strings.

Each error names the connection and the field. It does not show the value, because a user may have
put a secret into the wrong field.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.words import digits

if TYPE_CHECKING:
    from airflow.sdk import Connection

_Choice = TypeVar("_Choice", bound=enum.Enum)

_ALIKE: Final = 0.75


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known name that a misspelt name probably means, or an empty text.

    Example:
        >>> did_you_mean("deploy_mode", ("deploy-mode", "queue"))
        " (did you mean 'deploy-mode'?)"
    """
    matches = get_close_matches(name.lower().replace("_", "-"), known, n=1, cutoff=_ALIKE)
    matches = matches or get_close_matches(name.lower(), known, n=1, cutoff=_ALIKE)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def extras_of(connection: Connection) -> dict[str, Any]:
    """Return the extras of an Airflow connection.

    Raises ConfigurationError if they are not a JSON object: Airflow reads invalid JSON as no
    extras, so the connection would lose its login and its encryption.
    """
    try:
        extras = json.loads((connection.extra or "").strip() or "{}")
    except ValueError:
        extras = None
    if not isinstance(extras, dict):
        raise ConfigurationError(
            f"connection {connection.conn_id!r}: its extra is not a JSON object; correct it, or"
            " leave it blank"
        )
    return connection.extra_dejson  # which hides secrets in logs


@dataclass(frozen=True, slots=True)
class Extras:
    """The extras of one connection."""

    conn_id: str
    values: Mapping[str, object]

    def wrong(self, name: str, problem: str) -> ConfigurationError:
        """Return a ConfigurationError that describes a problem with a field."""
        return ConfigurationError(f"connection {self.conn_id!r}, field {name!r}: {problem}")

    def check_known(self, known: Iterable[str]) -> None:
        """Raise an error for a field that nothing reads, such as a misspelt one."""
        for name, value in self.values.items():
            if name not in known and value not in (None, ""):
                hint = did_you_mean(name, known)
                raise self.wrong(name, f"is no extra of this connection{hint}; correct it")

    def text(self, name: str) -> str | None:
        """Return a field's string without surrounding spaces, or None if it is blank."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.wrong(name, f"expected text, found a value of type {type(value).__name__}")
        return value.strip() or None

    def choice(self, name: str, default: _Choice) -> _Choice:
        """Return a field's value as a member of the enum to which `default` belongs."""
        value, kind = self.text(name), type(default)
        if value is None:
            return default
        try:
            return kind(value.lower())
        except ValueError:
            choices = ", ".join(str(member.value) for member in kind)
            raise self.wrong(name, f"expected one of {choices}") from None

    def truth(self, name: str, *, default: bool) -> bool:
        """Parse a field's value as a boolean."""
        value = self.values.get(name)
        match str("" if value is None else value).strip().lower():
            case "":
                return default
            case "true" | "1" | "yes":
                return True
            case "false" | "0" | "no":
                return False
            case _:
                raise self.wrong(name, "expected true or false")

    def seconds(self, name: str, *, default: float, may_be_zero: bool = False) -> float:
        """Parse a field's value as a positive number of seconds; `may_be_zero` also allows 0."""
        value = self.values.get(name)
        if value is None or value == "":
            return default
        try:
            seconds = float(digits(value))
        except ValueError:
            seconds = float("nan")
        if may_be_zero and seconds == 0:
            return seconds
        if not 0 < seconds < float("inf"):
            bound = "of 0 or more" if may_be_zero else "above 0"
            raise self.wrong(name, f"expected seconds {bound}")
        return seconds
