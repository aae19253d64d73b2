"""Options of a source: a secret is refused and not shown; a reference to a secret is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan.statements.arguments import check_location, check_options, source_spec
from tests.support.cases import cases_of


def options(name: str) -> list[list[str]]:
    """Return the name and the value of each option in a file."""
    file = Path(__file__).parent / "cases" / f"{name}.txt"
    return [text.split(" ", 1) for text, _ in cases_of(file)]


@pytest.mark.parametrize(("name", "value"), options("secret_options"))
def test_a_secret_in_an_option_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="'env:NAME' or") as caught:
        check_options({"header": "true", name: value}, "source['options']")
    assert f"source['options'][{name!r}]" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), options("plain_options"))
def test_options_without_secrets_are_accepted(name: str, value: str) -> None:
    check_options({name: value}, "source['options']")


def test_an_option_of_none_is_refused_instead_of_becoming_a_text() -> None:
    given = {"format": "csv", "location": "file:/x", "options": {"nullValue": None}}
    with pytest.raises(ConfigurationError, match=r"options'\]\['nullValue'\] is None"):
        source_spec(given)


@pytest.mark.parametrize(
    "location",
    [
        "s3a://AKIA:hunter2@bucket/x",
        "jdbc:postgresql://etl:hunter2@h/db",
        "https://h/x.csv?token=hunter2",
    ],
)
def test_a_secret_in_a_location_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(ConfigurationError, match=r"source\['location'\] contains") as caught:
        source_spec({"format": "csv", "location": location})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    [
        "hdfs://nn:8020/landing/a@b/c",
        "abfss://container@account.dfs.core.windows.net/x",
        "s3a://bucket/day=2027-01-01/at=10:00@noon",
        "file:/landing/token=a",
        "hdfs://nn/landing/page_token=a/x",
        "orders",
    ],
)
def test_locations_without_secrets_are_accepted(location: str) -> None:
    check_location(location, "location")
