"""The servers for logins: which packages they need, and who can read their secrets."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from airflow_hiveacid.local.process import LocalServerError
from tests.support.logins import debian
from tests.support.logins.directory import LocalDirectory, LocalDirectoryConfig
from tests.support.logins.kdc import LocalKdc, LocalKdcConfig
from tests.support.logins.openssl import make_certificates, make_signer


def test_missing_packages_are_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian.shutil, "which", lambda *_, **__: None)
    packages = "krb5-admin-server krb5-kdc krb5-user"
    for server, names in (
        (LocalKdc(LocalKdcConfig(data_dir=tmp_path)), packages),
        (LocalDirectory(LocalDirectoryConfig(data_dir=tmp_path)), "slapd"),
    ):
        with pytest.raises(
            LocalServerError, match=f"install Debian's packages: apt-get install {names}$"
        ):
            server.start()


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
