from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.local.process import MissingProgramError
from tests.support.logins.debian import find_programs


def test_one_error_names_all_missing_programs_and_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    packages = {"no-such-kdc": "krb5-kdc", "no-such-kinit": "krb5-user", "no-such-kdb": "krb5-kdc"}
    with pytest.raises(MissingProgramError) as caught:
        find_programs(packages)
    assert str(caught.value) == (
        "no-such-kdc, no-such-kinit, no-such-kdb was not found: install Debian's packages:"
        " apt-get install krb5-kdc krb5-user"
    )


def test_an_unpacked_program_uses_the_libraries_of_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "usr" / "sbin" / "some-daemon"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    found = find_programs({"some-daemon": "some-package"})
    assert (found["some-daemon"], found.root) == (str(program), tmp_path)
    assert found.environment()["LD_LIBRARY_PATH"].startswith(f"{tmp_path}/usr/lib/")


def test_an_installed_program_uses_the_systems_libraries() -> None:
    found = find_programs({"env": "coreutils"})
    assert not found.is_unpacked
    assert "LD_LIBRARY_PATH" not in found.environment(MORE="1")
    assert found.environment(MORE="1")["MORE"] == "1"
