from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from airflow_hiveacid.jobs.endpoint import (
    KerberosLogin,
    Login,
    MetastoreEndpoint,
    Protection,
    TokenLogin,
)
from airflow_hiveacid.spark.engine.store_tokens import endpoint_here
from airflow_hiveacid.storage.stores.token_file import VARIABLE

SERVICE = "hive/_HOST@R"
IN_CONTAINER = {"CONTAINER_ID": "container_1_0001_01_000001"}
PRIVACY = Protection.PRIVACY


@pytest.fixture
def keytab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As Spark brings it: a file of the container's folder, under a name of its own."""
    file = tmp_path / "etl.keytab-4711"
    file.touch()
    monkeypatch.chdir(tmp_path)
    return file


@pytest.fixture
def spark(keytab: Path) -> dict[str, str]:
    return {"spark.kerberos.principal": "etl@R", "spark.kerberos.keytab": keytab.name}


def here(
    login: Login, settings: dict[str, str], environment: dict[str, str] | None = None
) -> Login | None:
    endpoint = MetastoreEndpoint(uris=("thrift://h:1",), login=login)
    variables = IN_CONTAINER if environment is None else environment
    found = endpoint_here(endpoint, settings.get, variables)
    assert found.uris == endpoint.uris
    return found.login


def test_a_worker_keytab_path_is_replaced_by_the_keytab_that_spark_ships(
    spark: dict[str, str], keytab: Path
) -> None:
    old = {name.replace("kerberos", "yarn"): value for name, value in spark.items()}
    for client, settings in (("etl@R", spark), ("etl", spark), ("etl", old)):
        given = KerberosLogin(
            service=SERVICE, client=client, keytab="/nowhere/k", protection=PRIVACY
        )
        assert here(given, settings) == KerberosLogin(
            service=SERVICE, client="etl@R", keytab=str(keytab), protection=PRIVACY
        )


def test_on_kubernetes_only_a_driver_in_a_pod_uses_the_shipped_keytab(
    spark: dict[str, str], keytab: Path
) -> None:
    given = KerberosLogin(service=SERVICE, client="etl@R", keytab="/nowhere/k")
    in_pod = {**spark, "spark.kubernetes.submitInDriver": "true"}
    found = here(given, in_pod, {})
    assert found == KerberosLogin(service=SERVICE, client="etl@R", keytab=str(keytab))
    for other in (spark, {**spark, "spark.kubernetes.submitInDriver": "false"}):
        assert here(given, other, {}) is given


@pytest.mark.parametrize("cache", [None, "FILE:/nowhere/cache"])
def test_missing_tickets_are_replaced_by_the_keytab_that_spark_ships(
    spark: dict[str, str], keytab: Path, cache: str | None
) -> None:
    found = here(KerberosLogin(service=SERVICE, cache=cache), spark)
    assert found == KerberosLogin(service=SERVICE, client="etl@R", keytab=str(keytab))


def test_an_existing_keytab_or_ticket_cache_is_used_unchanged(
    spark: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.touch()
    for login in (
        KerberosLogin(service=SERVICE, client="etl@R", keytab=str(own)),
        KerberosLogin(service=SERVICE, cache=f"FILE:{own}"),
        KerberosLogin(service=SERVICE, cache="KEYRING:persistent:0"),
    ):
        assert here(login, spark) is login
    for name, value in (("KRB5CCNAME", f"FILE:{own}"), ("KRB5_CLIENT_KTNAME", str(own))):
        tickets = KerberosLogin(service=SERVICE)
        assert here(tickets, spark, {**IN_CONTAINER, name: value}) is tickets
    both = {"KRB5CCNAME": "FILE:/not/yet", "KRB5_CLIENT_KTNAME": str(own)}
    assert here(tickets, spark, IN_CONTAINER | both) is tickets


def test_a_missing_keytab_named_in_the_environment_is_replaced_by_the_shipped_one(
    spark: dict[str, str], keytab: Path
) -> None:
    login = KerberosLogin(service=SERVICE)
    variables = {**IN_CONTAINER, "KRB5_CLIENT_KTNAME": "/nowhere/k"}
    found = here(login, spark, variables)
    assert found == KerberosLogin(service=SERVICE, client="etl@R", keytab=str(keytab))


def test_a_driver_on_the_airflow_worker_uses_the_login_of_the_connection_unchanged(
    spark: dict[str, str],
) -> None:
    """A keytab that is missing there is reported, not replaced."""
    login = KerberosLogin(service=SERVICE, client="etl@R", keytab="/nowhere/k")
    assert here(login, spark, {}) is login


def test_a_shipped_keytab_of_a_different_principal_is_logged_and_not_used(
    spark: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    login = KerberosLogin(service=SERVICE, client="bob@R", keytab="/nowhere/k")
    with caplog.at_level(logging.WARNING):
        assert here(login, spark) is login
    assert "is for etl@R" in caplog.text
    assert "names bob@R" in caplog.text


def test_a_shipped_keytab_that_is_missing_in_the_container_is_not_used(
    spark: dict[str, str], keytab: Path
) -> None:
    keytab.unlink()
    login = KerberosLogin(service=SERVICE, client="etl@R", keytab="/nowhere/k")
    assert here(login, spark) is login


@pytest.fixture
def token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of tokens that YARN names in a container."""
    file = tmp_path / "container_tokens"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def _number(value: int) -> bytes:
    return bytes([value])


def _credentials(*kinds: str, identifier: str = "an id") -> bytes:
    """A file of Hadoop's credentials, with a token of each kind."""
    found = b"HDTS\0" + _number(len(kinds))
    for kind in kinds:
        for part in (kind, identifier, "password", kind, ""):
            found += _number(len(part)) + part.encode()
    return found + _number(0)


@pytest.mark.parametrize("is_there", [True, False])
def test_without_a_shipped_keytab_a_hive_token_is_used_if_spark_shipped_one(
    token_file: Path, caplog: pytest.LogCaptureFixture, is_there: bool
) -> None:
    kinds = ("HDFS_DELEGATION_TOKEN", *(["HIVE_DELEGATION_TOKEN"] if is_there else []))
    token_file.write_bytes(_credentials(*kinds))
    variables = {**IN_CONTAINER, VARIABLE: str(token_file)}
    login = KerberosLogin(service=SERVICE, protection=PRIVACY)
    with caplog.at_level(logging.INFO):
        found = here(login, {}, variables)
    assert found == (TokenLogin(protection=PRIVACY) if is_there else login)
    assert ("hive-site.xml" in caplog.text) != is_there
    assert base64.b64encode(b"password").decode() not in caplog.text


@pytest.mark.parametrize(
    ("client", "owner", "is_taken"),
    [
        ("etl@R", "etl@R", True),
        ("etl@R", "etl", True),
        ("etl", "etl@R", True),
        ("etl/h@R", "etl", True),
        ("etl@R", "bob@R", False),
        ("etl@R", "etl@OTHER", False),
        ("etl/h@R", "etl/other@R", False),
        ("etl@R", "et", False),
        ("etl@R", "", False),
    ],
)
def test_a_token_is_used_only_if_its_owner_is_the_principal_of_the_connection(
    token_file: Path, caplog: pytest.LogCaptureFixture, client: str, owner: str, is_taken: bool
) -> None:
    identifier = "\0" + chr(len(owner)) + owner + "\0\0"
    token_file.write_bytes(_credentials("HIVE_DELEGATION_TOKEN", identifier=identifier))
    variables = {**IN_CONTAINER, VARIABLE: str(token_file)}
    login = KerberosLogin(service=SERVICE, client=client, keytab="/nowhere/k")
    with caplog.at_level(logging.WARNING):
        found = here(login, {}, variables)
    assert found == (TokenLogin() if is_taken else login)
    assert (f"names {client}" in caplog.text) != is_taken


def test_a_token_of_an_unknown_version_is_logged_and_not_used(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token_file.write_bytes(_credentials("HIVE_DELEGATION_TOKEN", identifier="\1\3etl\0\0"))
    variables = {**IN_CONTAINER, VARIABLE: str(token_file)}
    login = KerberosLogin(service=SERVICE, client="etl@R", keytab="/nowhere/k")
    assert here(login, {}, variables) is login
    assert "has an unknown version" in caplog.text


def test_a_token_login_is_left_unchanged(spark: dict[str, str]) -> None:
    login = TokenLogin()
    assert here(login, spark) is login
