"""Servers for logins: what is refused before anything starts, and what is said to fill in."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.local import __main__ as command_line
from airflow_hiveacid.local.errors import LocalServerError, ServerConflictError
from airflow_hiveacid.local.logins.guarded import Entrance, LoginOption, login_of, start_guarded
from airflow_hiveacid.local.logins.openssl import make_certificates, make_signer
from airflow_hiveacid.local.processes import debian
from airflow_hiveacid.local.site import LocalMetastoreConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("login", "packages"),
    [("kerberos", "krb5-admin-server krb5-kdc krb5-user"), ("ldap", "slapd")],
)
def test_missing_packages_are_reported_in_one_line(
    login: str,
    packages: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda *_, **__: None)
    assert command_line.main(["up", "--dir", str(tmp_path), f"--{login}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"install Debian's packages: apt-get install {packages}")


@pytest.mark.parametrize("login", [LoginOption.LDAP, LoginOption.HTTP_JWT])
def test_a_login_that_the_release_does_not_support_is_refused(
    login: LoginOption, tmp_path: Path
) -> None:
    config = LocalMetastoreConfig(version="3.1.3", data_dir=tmp_path)
    with pytest.raises(
        LocalServerError, match=rf"does not support --{login.value} and would accept every user"
    ):
        start_guarded(config, login)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_created_for_one_login_cannot_be_used_for_a_different_login(
    tmp_path: Path,
) -> None:
    config = LocalMetastoreConfig(data_dir=tmp_path)
    assert login_of(config) is None
    (tmp_path / "login" / "ldap").mkdir(parents=True)
    assert login_of(config) is LoginOption.LDAP
    with pytest.raises(
        ServerConflictError, match="was created for --ldap; use another --dir with --kerberos"
    ):
        start_guarded(config, LoginOption.KERBEROS)


def test_a_directory_created_without_a_login_cannot_get_one_later(tmp_path: Path) -> None:
    (tmp_path / "schema-version").write_text("4.0.1\n")
    with pytest.raises(ServerConflictError, match="was created for use without a login"):
        start_guarded(LocalMetastoreConfig(data_dir=tmp_path), LoginOption.KERBEROS)


def test_the_connection_is_shown_as_text_as_json_and_as_shell_variables() -> None:
    entrance = Entrance(
        uri="thrift://localhost:1",
        user="etl",
        extra={"transport": "tls", "secret_from": "file:/it's here"},
        environment={"KRB5_CONFIG": "/krb5.conf"},
    )
    assert json.loads(entrance.connection()) == {
        "conn_type": "hive_acid_metastore",
        "host": "thrift://localhost:1",
        "login": "etl",
        "extra": {"transport": "tls", "secret_from": "file:/it's here"},
    }
    assert "  login        etl" in entrance.lines()
    done = subprocess.run(
        ["sh", "-c", f'{entrance.variables()}printf %s "$AIRFLOW_CONN_HIVE_ACID_DEFAULT"'],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == entrance.connection()


def test_only_the_owner_can_read_keys_and_certificates(tmp_path: Path) -> None:
    certificates, signer = make_certificates(tmp_path / "tls"), make_signer(tmp_path / "jwt")
    for folder in (certificates.folder, signer.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    again = make_certificates(tmp_path / "tls")
    assert again.store_password() == certificates.store_password() != ""
    head, claims, _ = signer.token("etl", life_s=60).split(".")
    (key,) = json.loads(signer.key_list.read_text())["keys"]
    assert _decoded(head)["kid"] == key["kid"]
    assert _decoded(claims)["sub"] == "etl"


def _decoded(part: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(part + "=="))
    return found
