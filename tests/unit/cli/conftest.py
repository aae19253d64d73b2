"""Gives each test of a command a metastore, and the command's output or error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.fake_client import FakeClient
from tests.support.command_line import status_of
from tests.unit.cli.commands import Records, Run, Warehouse

_NO_ERRORS = (0, 6, 7)


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Warehouse:
    made = Warehouse(tmp_path)
    connect = "airflow_hiveacid.metastore.client.connect"
    monkeypatch.setattr(connect, lambda _: FakeClient(made.client.server))
    return made


@pytest.fixture
def client(warehouse: Warehouse) -> FakeClient:
    return warehouse.client


@pytest.fixture
def run(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> Run:
    assert client

    def command(*argv: str, status: int = 0) -> str:
        assert status_of(argv) == status
        printed = capsys.readouterr()
        return printed.out if status in _NO_ERRORS else printed.err

    return command


@pytest.fixture
def records(run: Run) -> Records:
    def command(*argv: str, status: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run(*argv, "-o", "json", status=status))
        return found

    return command
