from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs import endpoint
from airflow_hiveacid.jobs.contract import Side, from_json
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint, SecretSource, Transport

FILE = SecretSource(file="/run/secret")
KERBEROS = endpoint.KerberosLogin(
    service="hive/_HOST@R",
    client="etl@R",
    keytab="/etl.keytab",
    protection=endpoint.Protection.PRIVACY,
)
LOGINS: list[tuple[Transport, endpoint.Login | None]] = [
    (Transport.PLAIN, None),
    (Transport.TLS, None),
    (Transport.PLAIN, KERBEROS),
    (Transport.TLS, KERBEROS),
    (Transport.PLAIN, endpoint.KerberosLogin(service="hive/h", cache="FILE:/c")),
    (Transport.PLAIN, endpoint.TokenLogin()),
    (Transport.TLS, endpoint.TokenLogin(token=FILE, protection=endpoint.Protection.INTEGRITY)),
    (Transport.TLS, endpoint.PasswordLogin(user="etl", password=FILE)),
    (Transport.PLAIN, endpoint.PasswordLogin(user="etl", password=FILE, in_clear=True)),
    (Transport.HTTPS, endpoint.BearerLogin(bearer=SecretSource(variable="JWT"))),
    (Transport.HTTP, endpoint.BearerLogin(bearer=FILE, in_clear=True)),
    (Transport.HTTP, endpoint.HeaderLogin(user="etl")),
    (Transport.HTTPS, endpoint.HeaderLogin(user="etl")),
]


@pytest.mark.parametrize(("transport", "login"), LOGINS)
def test_every_login_survives_json_with_its_transport(
    transport: Transport, login: endpoint.Login | None
) -> None:
    sent = MetastoreEndpoint(uris=("x",), transport=transport, login=login)
    assert from_json(MetastoreEndpoint, to_json(sent), reader=Side.APPLICATION) == sent


@pytest.mark.parametrize(
    ("transport", "login", "words"),
    [
        (Transport.HTTP, None, "header or bearer"),
        (Transport.HTTPS, KERBEROS, "header or bearer"),
        (Transport.HTTPS, endpoint.TokenLogin(), "header or bearer"),
        (Transport.HTTPS, endpoint.PasswordLogin(user="etl", password=FILE), "header or bearer"),
        (Transport.PLAIN, endpoint.HeaderLogin(user="etl"), "http or https"),
        (Transport.TLS, endpoint.BearerLogin(bearer=FILE), "http or https"),
        (Transport.PLAIN, endpoint.PasswordLogin(user="etl", password=FILE), "use tls"),
        (Transport.HTTP, endpoint.BearerLogin(bearer=FILE), "use https"),
    ],
)
def test_a_login_that_does_not_fit_its_transport_is_refused(
    transport: Transport, login: endpoint.Login | None, words: str
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
        endpoint.KerberosLogin(**(fields | changes))


@pytest.mark.parametrize("user", ["", " etl", "etl\n", "a\0b", "m\u00fcller", "etl\r\nx: y"])
def test_a_user_name_with_other_than_visible_ascii_characters_is_refused(user: str) -> None:
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        endpoint.HeaderLogin(user=user)
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        endpoint.PasswordLogin(user=user, password=FILE)


def test_a_secret_source_is_a_file_or_an_environment_variable() -> None:
    assert SecretSource.parse(" file:/run/a:b ") == SecretSource(file="/run/a:b")
    assert SecretSource.parse("env:HMS_JWT") == SecretSource(variable="HMS_JWT")


@pytest.mark.parametrize("text", ["hunter2", "file:", "env:", "env:hunter2!", "pass:hunter2"])
def test_a_secret_in_place_of_its_source_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SecretSource.parse(text)
    assert "hunter2" not in str(caught.value)


def test_a_secret_has_exactly_one_source() -> None:
    for places in ({}, {"file": "/a", "variable": "A"}):
        with pytest.raises(ConfigurationError, match="either a file or an environment variable"):
            SecretSource(**places)


def test_an_endpoint_contains_the_source_of_a_secret_but_never_the_secret() -> None:
    found = {}
    for kind in (MetastoreEndpoint, *get_args(get_type_hints(MetastoreEndpoint)["login"])):
        if is_dataclass(kind):
            hints = get_type_hints(kind)
            found |= {f.name: hints[f.name] for f in fields(kind)}
    words = ("password", "secret", "token", "bearer")
    secret = {name: hint for name, hint in found.items() if any(w in name for w in words)}
    assert secret == {
        "password": SecretSource,
        "bearer": SecretSource,
        "token": SecretSource | None,
    }


def test_connections_and_calls_have_a_timeout_by_default() -> None:
    endpoint = MetastoreEndpoint(uris=("thrift://a:9083",))
    assert endpoint.connect_timeout_s > 0
    assert endpoint.call_timeout_s > 0
