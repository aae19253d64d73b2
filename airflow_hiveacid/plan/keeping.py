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
"""The table parameter that names the parameters that this provider has set, separated by commas."""

NO_AUTO_COMPACTION: Final = "no_auto_compaction"
NO_CLEANUP: Final = "no_cleanup"

# Hive ignores the letter case of values. If the owner sets such a parameter meanwhile, for example
# to `true`, the spelling shows that this provider must not remove it.
_OUR_TRUE: Final = "True"

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
    parameters = {NO_AUTO_COMPACTION: _OUR_TRUE}
    if generation is not MetastoreGeneration.V3:
        parameters[NO_CLEANUP] = _OUR_TRUE
    return parameters


def leaves_alone(parameters: Mapping[str, str], generation: MetastoreGeneration) -> bool:
    """Return whether a table still has all parameters of `kept_parameters`."""
    return not _missing(parameters, generation)


def parameters_to_keep(
    parameters: Mapping[str, str], generation: MetastoreGeneration
) -> dict[str, str]:
    """Return the parameters to set so that Hive `leaves_alone` a table, and the list of ours."""
    missing = _missing(parameters, generation)
    ours = sorted({*set_by_us(parameters), *missing})
    return {**missing, KEPT: ",".join(ours)} if missing else {}


def _missing(parameters: Mapping[str, str], generation: MetastoreGeneration) -> dict[str, str]:
    return {
        name: value
        for name, value in kept_parameters(generation).items()
        if (parameters.get(name) or parameters.get(name.upper()) or "").lower() != value.lower()
    }


def set_by_us(parameters: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the parameters that this provider has set, not the table's owner.

    Example:
        >>> ours = {KEPT: "no_auto_compaction,no_cleanup", "no_cleanup": "True"}
        >>> set_by_us({**ours, "no_auto_compaction": "true"})
        frozenset({'no_cleanup'})
    """
    names = parameters.get(KEPT, "").split(",")
    return frozenset(name for name in names if parameters.get(name) == _OUR_TRUE)


def opted_out(parameters: Mapping[str, str], name: str) -> str | None:
    """Return a parameter's name in the table owner's spelling if its value is true, or None.

    Letter case is ignored. A parameter that this provider has set does not count (`set_by_us`).

    Example:
        >>> opted_out({"NO_CLEANUP": "TRUE"}, NO_CLEANUP)
        'NO_CLEANUP'
        >>> opted_out({"no_cleanup": "True", KEPT: "no_cleanup"}, NO_CLEANUP)
    """
    ours = set_by_us(parameters)
    for key, value in parameters.items():
        if key.lower() == name and value.strip().lower() == "true" and key not in ours:
            return key
    return None
