"""Gives each contract test a metastore: two fakes, a real 3.1.3 and a real 4.0.1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.pytest_plugin import TXN_TIMEOUT_S
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions import Clock
from tests.contract.bench import V3_PARAMS, V4_PARAMS, Bench
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.login_lab import LoginLab

_numbers = itertools.count(1)


@pytest.fixture(params=[*V3_PARAMS, *V4_PARAMS])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = _bench(request)
    made.db = f"contract_{next(_numbers)}"
    made.client().create_database(made.db)
    yield made
    for client in made.clients:
        client.close()


def _bench(request: pytest.FixtureRequest) -> Bench:
    kind, version = request.param.split("-")
    if kind == "fake":
        clock = ManualClock()
        server = FakeMetastore(MetastoreGeneration(version), clock, txn_timeout_s=TXN_TIMEOUT_S)
        return Bench(clock=clock, make_client=lambda: FakeClient(server))
    fixture = "hive_metastore_3" if version.startswith("3") else "hive_metastore"
    endpoint = MetastoreEndpoint(uris=(request.getfixturevalue(fixture).uri,))
    return Bench(clock=Clock(), make_client=lambda: connect(endpoint))


@pytest.fixture(scope="session")
def login_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginLab]:
    """Metastores behind logins, each started when a test asks for it."""
    with LoginLab(tmp_path_factory.mktemp("logins")) as lab:
        yield lab


@pytest.fixture
def client(bench: Bench) -> MetastorePort:
    return bench.clients[0]
