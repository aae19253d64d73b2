"""Table parameters that set how long past versions stay readable, and whether Hive may clean.

Example:
    >>> readable_for({READABLE_FOR: "7 days"})
    604800.0
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import ConfigurationError

READABLE_FOR: Final = "hiveacid.readable.for"
"""The table parameter that sets how long replaced rows stay readable, such as `7 days`."""

KEPT: Final = "hiveacid.kept"
"""The table parameter of value `true` that shows that this provider has set `kept_parameters`."""

NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"

_DAY_S: Final = 86400
# There is no unit for months, because their lengths vary. A year has 366 days, so that no file is
# removed too early.
_UNITS: Final = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": _DAY_S,
    "week": 7 * _DAY_S,
    "year": 366 * _DAY_S,
}
_DURATION: Final = re.compile(
    rf"(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?", re.IGNORECASE | re.ASCII
)


def readable_for(parameters: Mapping[str, str]) -> float | None:
    """Return the seconds for which past versions stay readable; None without the parameter."""
    text = parameters.get(READABLE_FOR)
    return None if text is None else duration(text, f"table parameter {READABLE_FOR}")


def duration(text: str, what: str) -> float:
    """Convert a duration such as `7 days` to seconds; a year has 366 days."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(
            f"{what}: {text!r} is not a duration; write 36 hours, 7 days or 2 years"
        )
    return float(match[1]) * _UNITS[match[2].lower()]


def kept_parameters(generation: MetastoreGeneration) -> dict[str, str]:
    """Return the table parameters that stop Hive's services from compacting and cleaning a table.

    Hive 3.1 has no parameter that stops its cleaner, but that cleaner runs only after compactions.
    """
    parameters = {NO_AUTO_COMPACTION: "true"}
    if generation is not MetastoreGeneration.V3:
        parameters[NO_CLEANUP] = "true"
    return parameters


def leaves_alone(parameters: Mapping[str, str], generation: MetastoreGeneration) -> bool:
    """Return whether a table still has all parameters of `kept_parameters`."""
    return all(
        (parameters.get(name) or parameters.get(name.upper()) or "").lower() == value
        for name, value in kept_parameters(generation).items()
    )


def opted_out(parameters: Mapping[str, str], name: str, *, is_kept: bool) -> str | None:
    """Return a parameter's name in the table owner's spelling if its value is true, or None.

    Letter case is ignored. But if the table's versions are kept, the name in lower case does not
    count, because this provider has set it (`kept_parameters`).

    Example:
        >>> opted_out({"NO_CLEANUP": "TRUE"}, NO_CLEANUP, is_kept=True)
        'NO_CLEANUP'
        >>> opted_out({"no_cleanup": "true"}, NO_CLEANUP, is_kept=True)
    """
    for key, value in parameters.items():
        is_ours = is_kept and key == name
        if key.lower() == name and value.strip().lower() == "true" and not is_ours:
            return key
    return None
