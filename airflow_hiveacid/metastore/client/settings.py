"""Durations in a Hive server's settings.

Takes the value of a setting, returns seconds. Makes no call.

Example:
    >>> seconds("20000ms", default_unit="s"), seconds("300", default_unit="s")
    (20.0, 300.0)
"""

from __future__ import annotations

import re
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError

TXN_TIMEOUT_NAMES: Final = ("metastore.txn.timeout", "hive.txn.timeout")
"""The new and the old name of the setting; hive-site.xml may use either."""

DEFAULT_TXN_TIMEOUT: Final = "300s"

_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*\Z")
# MetastoreConf.unitFor of Hive.
_UNITS: Final = {
    1e-9: ("ns", "nsec"),
    1e-6: ("us", "usec"),
    1e-3: ("ms", "msec"),
    1.0: ("s", "sec"),
    60.0: ("m", "min", "minute", "minutes"),
    3600.0: ("h", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_FACTORS: Final = {name: factor for factor, names in _UNITS.items() for name in names}


def seconds(text: str, *, default_unit: str) -> float:
    """Parse a duration such as `300`, `20s`, `5min` or `20000ms`.

    Raises:
        ConfigurationError: Hive does not accept the value as a duration.
    """
    match = _DURATION.match(text)
    factor = _FACTORS.get((match[2] or default_unit).lower()) if match else None
    if match is None or factor is None:
        raise ConfigurationError(f"the metastore's setting {text!r} is not a duration such as 300s")
    return int(match[1]) * factor
