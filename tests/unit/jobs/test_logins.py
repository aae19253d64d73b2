from __future__ import annotations

from typing import Any

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs import logins
from airflow_hiveacid.jobs.contract import Side, from_json
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, Transport

FILE = logins.SecretSource(file="/run/secret")
KERBEROS = logins.KerberosLogin(
    service="hive/_HOST@R",
    client="etl@R",
    keytab="/etl.keytab",
    protection=logins.Protection.PRIVACY,
)
LOGINS: list[tuple[Transport, logins.Login | None]] = [
    (Transport.PLAIN, None),
    (Transport.TLS, None),
    (Transport.PLAIN, KERBEROS),
    (Transport.TLS, KERBEROS),
    (Transport.PLAIN, logins.KerberosLogin(service="hive/h", cache="FILE:/c")),
    (Transport.PLAIN, logins.TokenLogin()),
    (Transport.TLS, logins.TokenLogin(token=FILE, protection=logins.Protection.INTEGRITY)),
    (Transport.TLS, logins.PasswordLogin(user="etl", password=FILE)),
    (Transport.PLAIN, logins.PasswordLogin(user="etl", password=FILE, in_clear=True)),
    (Transport.HTTPS, logins.BearerLogin(bearer=logins.SecretSource(variable="JWT"))),
    (Transport.HTTP, logins.BearerLogin(bearer=FILE, in_clear=True)),
    (Transport.HTTP, logins.HeaderLogin(user="etl")),
    (Transport.HTTPS, logins.HeaderLogin(user="etl")),
]


@pytest.mark.parametrize(("transport", "login"), LOGINS)
def test_every_login_survives_json_with_its_transport(
    transport: Transport, login: logins.Login | None
) -> None:
    sent = MetastoreEndpoint(uris=("x",), transport=transport, login=login)
    assert from_json(MetastoreEndpoint, to_json(sent), reader=Side.APPLICATION) == sent


@pytest.mark.parametrize(
    ("transport", "login", "words"),
    [
        (Transport.HTTP, None, "header or bearer"),
        (Transport.HTTPS, KERBEROS, "header or bearer"),
        (Transport.HTTPS, logins.TokenLogin(), "header or bearer"),
        (Transport.HTTPS, logins.PasswordLogin(user="etl", password=FILE), "header or bearer"),
        (Transport.PLAIN, logins.HeaderLogin(user="etl"), "http or https"),
        (Transport.TLS, logins.BearerLogin(bearer=FILE), "http or https"),
        (Transport.PLAIN, logins.PasswordLogin(user="etl", password=FILE), "use tls"),
        (Transport.HTTP, logins.BearerLogin(bearer=FILE), "use https"),
    ],
)
def test_a_login_that_does_not_fit_its_transport_is_refused(
    transport: Transport, login: logins.Login | None, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MetastoreEndpoint(uris=("x",), transport=transport, login=login)


@pytest.mark.parametrize(
    "changes",
    [
        {"service": "hive@host"},
        {"service": ""},
        {"service": "hive/_HOST@R @S"},
        {"client": None},
        {"cache": "FILE:/c"},
    ],
)
def test_an_invalid_or_ambiguous_kerberos_login_is_refused(changes: dict[str, Any]) -> None:
    fields = {"service": "hive/_HOST@R", "client": "etl@R", "keytab": "/k"}
    with pytest.raises(ConfigurationError):
        logins.KerberosLogin(**(fields | changes))


@pytest.mark.parametrize("user", ["", " etl", "etl\n", "a\0b", "m\u00fcller", "etl\r\nx: y"])
def test_a_user_name_with_other_than_visible_ascii_characters_is_refused(user: str) -> None:
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        logins.HeaderLogin(user=user)
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        logins.PasswordLogin(user=user, password=FILE)


def test_a_secret_source_is_a_file_or_an_environment_variable() -> None:
    assert logins.SecretSource.parse(" file:/run/a:b ") == logins.SecretSource(file="/run/a:b")
    assert logins.SecretSource.parse("env:HMS_JWT") == logins.SecretSource(variable="HMS_JWT")


@pytest.mark.parametrize("text", ["hunter2", "file:", "env:", "env:hunter2!", "pass:hunter2"])
def test_a_secret_in_place_of_its_source_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        logins.SecretSource.parse(text)
    assert "hunter2" not in str(caught.value)


def test_a_secret_has_exactly_one_source() -> None:
    for places in ({}, {"file": "/a", "variable": "A"}):
        with pytest.raises(ConfigurationError, match="either a file or an environment variable"):
            logins.SecretSource(**places)
