"""Values that only the command line accepts: patterns of tables, and times relative to now.

Operators accept no relative times: a retry or a cleared task would mean a different time.

Example:
    >>> table_or_pattern("sales.*")
    'sales.*'
    >>> now = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
    >>> moment("yesterday", now).isoformat(), moment("2 hours ago", now).isoformat()
    ('2026-11-19T00:00:00+00:00', '2026-11-20T07:30:00+00:00')
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.listed_tables import is_pattern
from airflow_hiveacid.plan.arguments import duration_s, table_patterns

_DAY: Final = re.compile(r"(?P<day>today|yesterday)\s*(?P<zone>z|[+-]\d\d:\d\d)?")
_AGO: Final = re.compile(r"(?P<duration>.*\S)\s+ago")


def table_or_pattern(text: str) -> TableRef | str:
    """Return the table with this name, or the text if it is a pattern of names."""
    if not is_pattern(text):
        if text.isidentifier():
            raise ConfigurationError(
                f"{text!r} is not a table, such as demo.orders; write '{text}.*' for all tables of"
                " a database"
            )
        return TableRef.parse(text)
    (pattern,) = table_patterns([text], "TABLES")
    return pattern


def version_at(text: str) -> VersionSpec:
    """Return the version at a time, which may be relative to now."""
    return VersionSpec.of(timestamp=moment(text, datetime.now(UTC)))


def moment(text: str, now: datetime) -> datetime:
    """Return a time: ISO 8601, `today`, `yesterday`, or a duration before `now`: `2 days ago`.

    `today` and `yesterday` begin at midnight in UTC, or in the zone that follows: `today +01:00`.
    """
    words = text.strip().lower()
    try:
        if match := _DAY.fullmatch(words):
            zone = datetime.fromisoformat(f"2000-01-01T00:00{match['zone'] or 'z'}".upper()).tzinfo
            midnight = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
            return midnight - timedelta(days=int(match["day"] == "yesterday"))
        if match := _AGO.fullmatch(words):
            return now - timedelta(seconds=duration_s(match["duration"], "TIME"))
        return datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"timestamp {text!r} is not a time; write 2026-11-19T02:00Z, today or '2 days ago'"
        ) from error
