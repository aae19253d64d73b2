from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.metastore.preflight import Concern, preflight
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore

_V3, _V4 = MetastoreGeneration.V3, MetastoreGeneration.V4
_REAPER = "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService"


def test_default_settings_are_reported_because_transactions_of_dead_clients_never_end(
    server: FakeMetastore, client: FakeClient
) -> None:
    (finding,) = (f for f in preflight(client) if f.concern is Concern.NO_REAPER)
    assert str(finding).startswith("this metastore does not end transactions of clients that died")
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
def test_the_setting_that_aborts_timed_out_transactions_is_found_by_old_and_new_name(
    server: FakeMetastore,
    client: FakeClient,
    generations: set[MetastoreGeneration],
    name: str,
    value: str,
) -> None:
    server.settings[name] = value
    concerns = {finding.concern for finding in preflight(client)}
    assert (Concern.NO_REAPER not in concerns) is (server.generation in generations)


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        ({}, True),
        ({"metastore.compactor.initiator.on": "true"}, True),
        ({"hive.compactor.initiator.on": "true", "metastore.compactor.worker.threads": "0"}, True),
        ({"hive.compactor.initiator.on": "true", "hive.compactor.worker.threads": "2"}, False),
    ],
)
def test_only_hive_3_is_reported_if_no_compactor_cleans_its_transaction_tables(
    server: FakeMetastore, client: FakeClient, settings: dict[str, str], *, is_told: bool
) -> None:
    server.settings.update(settings)
    found = [f for f in preflight(client) if f.concern is Concern.NO_COMPACTOR]
    assert bool(found) is (is_told and server.generation is _V3)
    assert all("TXN_COMPONENTS" in str(finding) for finding in found)


_LATE_CLEANER = {
    "metastore.compactor.cleaner.on": "true",
    "metastore.txn.use.minhistorywriteid": "true",
    "metastore.msck.smallfiles.avgsize": "16777216",
}


@pytest.mark.parametrize("absent", [None, *_LATE_CLEANER])
def test_the_cleaner_of_hive_4_2_is_reported_if_its_mode_is_on(
    server: FakeMetastore, client: FakeClient, absent: str | None
) -> None:
    server.settings.update({n: value for n, value in _LATE_CLEANER.items() if n != absent})
    concerns = {finding.concern for finding in preflight(client)}
    assert (Concern.LATE_CLEANER in concerns) is (absent is None and server.generation is _V4)


def test_a_very_short_transaction_timeout_is_reported(
    server: FakeMetastore, client: FakeClient
) -> None:
    server.txn_timeout_s = 2.0
    found = preflight(client)[-1]
    assert (found.concern, "2 s" in found.text) == (Concern.SHORT_TIMEOUT, True)
