"""A metastore in memory that commands connect to, and a function that runs a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.command_line import status_of

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    server = FakeMetastore(MetastoreGeneration.V4, ManualClock(), txn_timeout_s=300.0)
    monkeypatch.setattr(
        "airflow_hiveacid.metastore.client.metastore_client.connect", lambda _: FakeClient(server)
    )
    return server


@pytest.fixture
def run(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command against the test's metastore, and return its output or its error."""
    assert client

    def command(*argv: str, status: int = 0) -> str:
        assert status_of(argv) == status
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return command
