from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.preflight import warnings

if TYPE_CHECKING:
    from contract.fake_client import FakeClient
    from contract.fake_metastore import FakeMetastore


def test_a_server_as_it_comes_reaps_nobody_and_that_is_said(client: FakeClient) -> None:
    (sentence,) = warnings(client)
    assert "Nobody ends the transactions of dead clients" in sentence


@pytest.mark.parametrize(
    ("generation", "name", "value"),
    [
        (MetastoreGeneration.V4, "metastore.housekeeping.threads.on", "TRUE"),
        (MetastoreGeneration.V3, "metastore.compactor.initiator.on", "true"),
        (
            MetastoreGeneration.V3,
            "metastore.task.threads.always",
            "a.EventCleanerTask,b.AcidHouseKeeperService",
        ),
    ],
)
def test_a_server_with_a_reaper_is_fine(
    server: FakeMetastore,
    client: FakeClient,
    generation: MetastoreGeneration,
    name: str,
    value: str,
) -> None:
    server.settings[name] = value
    assert bool(warnings(client)) is (server.generation is not generation)


def test_a_very_short_time_out_is_noted(server: FakeMetastore, client: FakeClient) -> None:
    server.txn_timeout_s = 2.0
    assert "2 s" in warnings(client)[-1]
