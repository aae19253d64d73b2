"""Options of a source: a secret is refused and not shown; a reference to a secret is accepted."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan.statements.arguments import check_location, check_options, source_spec


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "hunter2"),
        ("PASSWD", "hunter2"),
        ("bootPassword", "hunter2"),
        ("fs.s3a.secret.key", "hunter2"),
        ("fs.azure.account.key.x", "hunter2"),
        ("fs.azure.sas.container.account.blob.core.windows.net", "hunter2"),
        ("es.net.http.auth.pass", "hunter2"),
        ("SMTP_PASS", "hunter2"),
        ("provider.password", "hunter2"),
        ("kafka.sasl.jaas.config", 'a.PlainLoginModule required username="a" password="hunter2";'),
        ("api_key", "env:not a name of hunter2"),
        ("url", "jdbc:postgresql://h/db?user=etl&password=hunter2"),
        ("url", "jdbc:sqlserver://h;databaseName=d;password=hunter2"),
        ("url", "jdbc:firebirdsql://h/db?user=etl&pass=hunter2"),
        ("uri", "mongodb://etl:hunter2@h/db"),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="'env:NAME' or") as caught:
        check_options({"header": "true", name: value}, "source['options']")
    assert f"source['options'][{name!r}]" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "env:ORDERS_PASSWORD"),
        ("bootPassword", "file:/run/secrets/orders"),
        ("url", "jdbc:postgresql://h:5432/db?user=etl"),
        ("query", "SELECT id FROM users WHERE token='a' OR url='http://a:b@c'"),
        ("keyspace", "orders"),
        ("bypass", "hunter2"),
        ("two.pass.sort", "hunter2"),
        ("mergeSchema", "True"),
        ("fs.s3a.aws.credentials.provider", "com.example.Provider"),
        ("accessTokenProvider", "com.example.Provider"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "https://idp.example.com/token"),
        ("forward_spark_s3_credentials", "true"),
    ],
)
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
