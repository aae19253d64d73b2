"""The log of events of a real metastore that keeps one, read for the commits of a table.

That is 3.1.3: the listener of 4.x is in no artifact of Maven Central.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.releases import HIVE_3
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.catalog import NewTable, TableChange
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.bench import Bench, commit
from tests.support.chosen_versions import chosen

_LISTENER: Final = "org.apache.hive.hcatalog.listener.DbNotificationListener"
_SETTINGS: Final = {"metastore.transactional.event.listeners": _LISTENER}
_COLUMNS: Final = (Column(name="id", type="bigint"),)
# The server's process has the clock of this machine, in whole seconds.
_ROUNDED_S: Final = 1


@pytest.mark.server
def test_commit_times_of_writes_are_read_from_the_metastores_event_log(tmp_path: Path) -> None:
    with _server(tmp_path) as server, _client(server) as client:
        _tells_commits(client)
    # Without the right to it a log is as good as none, and nothing else suffers.
    forbidden = {"hive.metastore.event.db.notification.api.auth": "true"}
    with _server(tmp_path, **forbidden) as server, _client(server) as client:
        assert client.logged_commits(TableRef("db", "t")) == {}
        assert client.get_table(TableRef("db", "t")).ref == TableRef("db", "t")


def _server(folder: Path, **more: str) -> LocalMetastore:
    return LocalMetastore(
        LocalMetastoreConfig(
            version=chosen(HIVE_3.version),
            data_dir=folder,
            ends_with_parent=True,
            extra_settings={**_SETTINGS, **more},
        )
    )


def _tells_commits(client: MetastorePort) -> None:
    table, other = TableRef("db", "t"), TableRef("db", "u")
    client.create_database("db")
    _make(client, table)
    _make(client, other)
    before = int(time.time())
    first, second = client.open_txn(), client.open_txn()
    for txn_id in (first, second):
        client.allocate_write_id(txn_id, table)
    client.allocate_write_id(second, other)
    commit(client, second)
    between = int(time.time())
    time.sleep(2 * _ROUNDED_S)
    commit(client, first)
    lost = client.open_txn()
    client.allocate_write_id(lost, table)
    client.abort_txn(lost)
    after = int(time.time())
    told = client.logged_commits(table)
    assert sorted(told) == [1, 2]
    assert before <= told[WriteId(2)] <= between < told[WriteId(1)] <= after
    assert sorted(client.logged_commits(other)) == [1]

    client.set_table_parameters(table, {"changed.in.place": "yes"})
    assert client.logged_commits(table) == told

    client.change_table(table, TableChange(name=TableRef("db", "elsewhere")))
    client.change_table(other, TableChange(name=table))
    assert client.logged_commits(table) == {}, "these were of the table that had the name before"
    _write(client, table)
    assert sorted(client.logged_commits(table)) == [2]

    client.drop_table(table)
    _make(client, table)
    assert client.logged_commits(table) == {}
    _write(client, table)
    assert sorted(client.logged_commits(table)) == [1]


def test_a_metastore_without_an_event_log_returns_no_commit_times(bench: Bench) -> None:
    client, ref = bench.client(), TableRef(bench.db, "t")
    _make(client, ref)
    _write(client, ref)
    assert client.logged_commits(ref) == {}


def _make(client: MetastorePort, ref: TableRef) -> None:
    client.create_table(NewTable(ref=ref, columns=_COLUMNS))


def _write(client: MetastorePort, ref: TableRef) -> None:
    txn_id = client.open_txn()
    client.allocate_write_id(txn_id, ref)
    commit(client, txn_id)


def _client(server: LocalMetastore) -> MetastorePort:
    return connect(MetastoreEndpoint(uris=(server.uri,)))
