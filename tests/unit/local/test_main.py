from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.local import __main__ as command_line
from airflow_hiveacid.local.process import MissingProgramError
from airflow_hiveacid.local.server import LocalMetastore


def test_status_without_a_metastore_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["status", "--dir", str(tmp_path)]) == 3
    assert "not running" in capsys.readouterr().out


def test_down_without_a_metastore_exits_with_0(tmp_path: Path) -> None:
    assert command_line.main(["down", "--dir", str(tmp_path), "--version", "3.1.3"]) == 0


def test_an_error_is_shown_in_one_line_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: LocalMetastore) -> None:
        raise MissingProgramError("java", "install it")

    monkeypatch.setattr(LocalMetastore, "start", refuse)
    assert command_line.main(["up", "--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: java was not found: install it\n"


def test_an_unknown_version_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["up", "--dir", str(tmp_path), "--version", "2.3.9"])
    assert "2.3.9" in capsys.readouterr().err


def test_the_set_option_adds_settings_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(LocalMetastore, "uri", "thrift://here:1")
    monkeypatch.setattr(
        LocalMetastore, "start", lambda server: seen.append(dict(server.config.extra_settings))
    )
    given = ["--set", "metastore.metadata.transformer.class= ", "--set", "a.b=c=d"]
    assert command_line.main(["up", "--dir", str(tmp_path), *given]) == 0
    assert seen == [{"metastore.metadata.transformer.class": " ", "a.b": "c=d"}]


@pytest.mark.parametrize("text", ["metastore.txn.timeout", "=7s"])
def test_a_setting_without_name_or_value_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["up", "--dir", str(tmp_path), "--set", text])
    assert "is not NAME=VALUE" in capsys.readouterr().err
