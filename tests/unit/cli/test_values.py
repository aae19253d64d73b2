"""Times and tables as users write them at the command line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_hiveacid.cli.values import moment, table_or_pattern, version_at
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.table import TableRef

NOW = datetime(2026, 3, 1, 23, 30, 5, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("today", "2026-03-01T00:00:00+00:00"),
        (" Yesterday ", "2026-02-28T00:00:00+00:00"),
        ("today +02:00", "2026-03-02T00:00:00+02:00"),
        ("yesterday -05:00", "2026-02-28T00:00:00-05:00"),
        ("yesterday Z", "2026-02-28T00:00:00+00:00"),
        ("2 days ago", "2026-02-27T23:30:05.000007+00:00"),
        ("3 hours ago", "2026-03-01T20:30:05.000007+00:00"),
        ("90 minutes  AGO", "2026-03-01T22:00:05.000007+00:00"),
        ("2026-02-01T02:00+01:00", "2026-02-01T02:00:00+01:00"),
        ("2026-02-01T02:00Z", "2026-02-01T02:00:00+00:00"),
    ],
)
def test_a_time_is_absolute_or_relative_to_now_in_utc_unless_it_has_a_zone(
    text: str, time: str
) -> None:
    assert moment(text, NOW).isoformat() == time


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lately", "timestamp 'lately' is not a time; write 2026-11-19T02:00Z, today"),
        ("two days ago", "'two days' is not a duration; write 36 hours, 7 days or 2 years"),
        ("9999999 years ago", "'9999999 years ago' is not a time"),
        ("today +99:00", "'today +99:00' is not a time"),
        ("2026-02-01T02:00", "has no zone; write 2026-11-19T02:00:00Z or +01:00"),
    ],
)
def test_a_text_that_is_no_time_is_refused_with_examples(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        version_at(text)
    assert why in str(refused.value)


def test_a_version_at_a_relative_time_is_before_now() -> None:
    before = datetime.now(UTC)
    yesterday = version_at("yesterday").timestamp
    assert yesterday is not None
    assert 0 <= (before - yesterday).total_seconds() < 2 * 86_400


def test_tables_are_one_name_or_a_pattern() -> None:
    assert table_or_pattern("Sales.Orders") == TableRef("sales", "orders")
    assert [table_or_pattern(text) for text in ("*", "sales.*", "s?les.o[ab]")] == [
        "*",
        "sales.*",
        "s?les.o[ab]",
    ]
