from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.preflight import Concern, preflight

if TYPE_CHECKING:
    from contract.fake_client import FakeClient
    from contract.fake_metastore import FakeMetastore

_V3, _V4 = MetastoreGeneration.V3, MetastoreGeneration.V4
_REAPER = "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService"


def test_a_server_as_it_comes_reaps_nobody_and_is_told_its_own_switch(
    server: FakeMetastore, client: FakeClient
) -> None:
    (finding,) = preflight(client)
    assert finding.concern is Concern.NO_REAPER
    assert str(finding).startswith("nothing here ends the transactions of clients that died")
    switches = {
        _V3: "metastore.compactor.initiator.on=true",
        _V4: "metastore.housekeeping.threads.on=true",
    }
    assert [generation for generation, s in switches.items() if s in str(finding)] == [
        server.generation
    ]


@pytest.mark.parametrize(
    ("generations", "name", "value"),
    [
        ({_V4}, "metastore.housekeeping.threads.on", "TRUE"),
        ({_V4}, "hive.metastore.housekeeping.threads.on", "true"),
        ({_V3}, "metastore.compactor.initiator.on", "true"),
        ({_V3}, "hive.compactor.initiator.on", "true"),
        ({_V3, _V4}, "metastore.task.threads.always", f"a.EventCleanerTask,{_REAPER}"),
    ],
)
def test_a_server_with_a_reaper_is_fine_under_the_new_name_and_the_old(
    server: FakeMetastore,
    client: FakeClient,
    generations: set[MetastoreGeneration],
    name: str,
    value: str,
) -> None:
    server.settings[name] = value
    assert (preflight(client) == ()) is (server.generation in generations)


def test_a_very_short_time_out_is_noted(server: FakeMetastore, client: FakeClient) -> None:
    server.txn_timeout_s = 2.0
    found = preflight(client)[-1]
    assert (found.concern, "2 s" in found.text) == (Concern.SHORT_TIMEOUT, True)
