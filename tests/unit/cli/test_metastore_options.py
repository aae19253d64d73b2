"""How the command line reaches a metastore: the same fields and checks as a connection's."""

from __future__ import annotations

import shlex

import pytest

from airflow_hiveacid.cli.metastore import endpoint_of
from airflow_hiveacid.cli.program import parser
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import (
    BearerLogin,
    KerberosLogin,
    MetastoreEndpoint,
    PasswordLogin,
    Protection,
    SecretSource,
    Transport,
)
from tests.support.command_line import status_of

KERBEROS = "--authentication kerberos --kerberos-service hive/_HOST@LAB.TEST"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIVE_METASTORE_URIS", raising=False)


def endpoint(given: str) -> MetastoreEndpoint:
    return endpoint_of(parser().parse_args(["tables", *shlex.split(given)]))


def test_the_metastore_comes_from_the_option_the_environment_or_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert endpoint("").uris == ("thrift://localhost:9083",)
    monkeypatch.setenv("HIVE_METASTORE_URIS", "thrift://a:1,b")
    assert endpoint("").uris == ("thrift://a:1", "thrift://b:9083")
    assert endpoint("--metastore c:2").uris == ("thrift://c:2",)
    assert endpoint("") == MetastoreEndpoint(uris=("thrift://a:1", "thrift://b:9083"))
    with pytest.raises(ConfigurationError, match="contains no metastore address"):
        endpoint("--metastore ' , '")


def test_each_login_can_be_set_with_options() -> None:
    keytab = "--kerberos-client etl@LAB.TEST --kerberos-keytab /k --protection privacy"
    assert endpoint(f"{KERBEROS} {keytab}").login == KerberosLogin(
        service="hive/_HOST@LAB.TEST",
        client="etl@LAB.TEST",
        keytab="/k",
        protection=Protection.PRIVACY,
    )
    cache = endpoint(f"{KERBEROS} --kerberos-cache FILE:/t").login
    assert cache == KerberosLogin(service="hive/_HOST@LAB.TEST", cache="FILE:/t")
    found = endpoint(
        "--transport tls --ca-certificate /ca --authentication password --user etl"
        " --secret-from env:WORD"
    )
    assert found.login == PasswordLogin(user="etl", password=SecretSource(variable="WORD"))
    assert (found.transport, found.ca_certificate) == (Transport.TLS, "/ca")
    found = endpoint(
        "--metastore http://h:1/p --transport http --authentication bearer --secret-from file:/j"
        " --secret-in-clear"
    )
    assert found.login == BearerLogin(bearer=SecretSource(file="/j"), in_clear=True)
    assert found.uris == ("http://h:1/p",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("--authentication kerberos", "kerberos_service"),
        ("--secret-from file:/x", "secret_from"),
        ("--authentication password --user etl --secret-from env:X", "in clear"),
        ("--metastore https://h:1", "transport is plain"),
    ],
)
def test_settings_that_a_connection_refuses_are_refused(given: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        endpoint(given)


@pytest.mark.parametrize("secret", ["hunter2", "env:hunter2 is mine"])
def test_a_secret_on_the_command_line_is_refused_and_not_printed(
    secret: str, capsys: pytest.CaptureFixture[str]
) -> None:
    login = ["--transport", "tls", "--authentication", "password", "--user", "etl"]
    assert status_of(["inspect", "db.t", *login, "--secret-from", secret]) == 2
    said = capsys.readouterr().err
    assert "secret" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    "command",
    ["scan", "inspect", "convert --to full_acid --dry-run", "health", "explain", "history"],
)
def test_every_command_that_calls_a_metastore_logs_in(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = f"{command} db.t {KERBEROS} --kerberos-client c@R --kerberos-keytab /nowhere/k"
    assert status_of(argv.split()) == 2
    assert "cannot read the keytab /nowhere/k" in capsys.readouterr().err
