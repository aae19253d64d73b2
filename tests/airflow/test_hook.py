from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk import Connection

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import Listing
from airflow_hiveacid.format.conflicts import DataOperation
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.table import PartitionName, TableInfo, TransactionalKind
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.maintenance import health as health_module
from airflow_hiveacid.metastore.compaction_queue import CompactionState, CompactionType
from airflow_hiveacid.metastore.locks import (
    LockRequest,
    TableAccess,
    presence_component,
    presence_of_compactions,
)
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.storage.stores import threads
from airflow_hiveacid.storage.stores.listing import list_table
from tests.support.airflow_support import Connections, Warehouse

# ---- the Test button -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "generation"), [("hive_metastore", "Hive 4"), ("hive_metastore_3", "Hive 3")]
)
def test_the_test_button_reports_the_metastores_version_and_transaction_timeout(
    server: str, generation: str, connections: Connections, request: pytest.FixtureRequest
) -> None:
    uri = request.getfixturevalue(server).uri
    connections.add("c", "hive_acid_metastore", extra={"uris": uri})
    status, message = Connection.get("c").test_connection()
    assert status is True
    told, _, warning = message.partition(" WARNING: ")
    assert told == (
        f"Reached a {generation} metastore at {uri}; its transactions time out after 60 s."
    )
    # Nothing of the 3.1 server here compacts by itself, and only that lets it forget.
    assert ("runs no compactor" in warning) is (generation == "Hive 3")
    assert bool(warning) is (generation == "Hive 3")


def test_the_test_button_warns_of_a_metastore_without_housekeeping_threads(
    hive_metastore: LocalMetastore, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a server answers whose site leaves the defaults.
    monkeypatch.setattr(
        "airflow_hiveacid.metastore.client.MetastoreClient.config_value",
        lambda _self, _name, default: default,
    )
    connections.add("c", "hive_acid_metastore", extra={"uris": hive_metastore.uri})
    status, message = Connection.get("c").test_connection()
    assert status is True
    assert "WARNING" in message
    assert "metastore.housekeeping.threads.on=true" in message


def test_the_test_button_reports_why_the_metastore_is_unreachable(connections: Connections) -> None:
    connections.add(
        "c",
        "hive_acid_metastore",
        extra={"uris": "thrift://127.0.0.1:1", "connect_timeout_s": 1},
    )
    status, message = Connection.get("c").test_connection()
    assert status is False
    assert message.startswith("MetastoreUnavailableError: metastore thrift://127.0.0.1:1")


def test_the_test_button_names_a_wrong_field(connections: Connections) -> None:
    connections.add("c", "hive_acid_metastore", host="h", extra={"transport": "pigeon"})
    status, message = Connection.get("c").test_connection()
    assert (status, "field 'transport'" in message) == (False, True)


# ---- calls ---------------------------------------------------------------------------------------


def test_get_conn_returns_an_hmsclient_client(warehouse: Warehouse) -> None:
    client = HiveAcidHook().get_conn()
    try:
        assert warehouse.db in client.get_all_databases()
        assert type(client).__name__ == "HMSClient"
    finally:
        client.close()


def test_a_snapshot_contains_the_write_ids_of_every_table(warehouse: Warehouse) -> None:
    first, second = warehouse.table("a"), warehouse.table("b")
    warehouse.delta(first, 1)
    snapshot = HiveAcidHook().snapshot([str(first.ref), str(second.ref)])
    assert snapshot.write_ids(first.ref).high_watermark == 1
    assert snapshot.write_ids(second.ref).high_watermark == 0


def test_the_hook_sends_a_heartbeat_for_a_transaction_and_aborts_it(warehouse: Warehouse) -> None:
    hook = HiveAcidHook()
    txn_id = warehouse.client.open_txn()
    hook.heartbeat(txn_id)
    assert _state(hook, txn_id) is TxnState.OPEN
    assert hook.abort(txn_id) is True
    assert _state(hook, txn_id) is not TxnState.OPEN


def test_a_transaction_acquires_locks_allocates_write_ids_and_commits(warehouse: Warehouse) -> None:
    hook, table = HiveAcidHook(), warehouse.table("t")
    access = TableAccess(table=table, operations=frozenset({DataOperation.INSERT}))
    with hook.transaction("key", writes=[access], lock_timeout_s=5) as txn:
        presence = presence_component(presence_of_compactions(table.ref))
        request = LockRequest(txn_id=txn.txn_id, components=(presence,), agent_info="compacts")
        warehouse.client.lock(request)
        found = hook.locks(str(table.ref))
        assert [lock.txn_id for lock in found] == [txn.txn_id] * 2
        assert txn.write_ids == {table.ref: 1}
    assert hook.locks(str(table.ref)) == ()
    assert hook.snapshot([str(table.ref)]).write_ids(table.ref).is_visible(WriteId(1))


def test_a_transaction_is_aborted_when_its_block_fails(warehouse: Warehouse) -> None:
    hook, table = HiveAcidHook(), warehouse.table("t")
    access = TableAccess(table=table, operations=frozenset({DataOperation.INSERT}))
    with pytest.raises(ZeroDivisionError), hook.transaction("key", writes=[access]):
        raise ZeroDivisionError
    assert hook.locks(str(table.ref)) == ()
    assert hook.snapshot([str(table.ref)]).write_ids(table.ref).is_aborted(WriteId(1))


def _state(hook: HiveAcidHook, txn_id: int) -> TxnState | None:
    return next((t.state for t in hook.open_transactions() if t.txn_id == txn_id), None)


def test_a_compaction_is_queued_once(warehouse: Warehouse) -> None:
    hook, table = HiveAcidHook(), warehouse.table("t", partitioned=True)
    warehouse.client.add_partitions(table, [PartitionName.parse("month=1")])
    name = str(table.ref)
    assert hook.request_compaction(name, CompactionType.MINOR, "month=1").accepted
    assert not hook.request_compaction(name, CompactionType.MINOR, "month=1").accepted
    (entry,) = hook.compactions(name)
    assert (str(entry.partition), entry.state) == ("month=1", CompactionState.INITIATED)


def test_the_history_of_a_table_is_newest_first(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 7)
    warehouse.base(table, 1000)
    found = HiveAcidHook().history(str(table.ref).upper())
    assert [(v.number, v.operation, v.is_readable) for v in found.versions] == [
        (2, "overwrite", True),
        (1, "insert", False),
    ]
    assert (found.oldest, found.newest) == (2, 2)
    assert len(HiveAcidHook().history(str(table.ref), most=1).versions) == 1


# ---- health --------------------------------------------------------------------------------------


def test_table_health_counts_live_and_obsolete_deltas_separately(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 7)
    warehouse.base(table, 1000)
    warehouse.delta(table, 30)
    warehouse.delta(table, 20)
    (health,) = HiveAcidHook().table_health(str(table.ref).upper())
    assert (health.table, health.partition, health.location) == (
        str(table.ref),
        "",
        table.location,
    )
    assert (health.base, health.base_bytes) == ("base_0000002", 1000)
    assert (health.deltas, health.delta_bytes, health.obsolete) == (2, 50, 1)
    assert health.delta_ratio == 0.05


def test_table_health_counts_only_deltas_before_the_first_open_write_id(
    warehouse: Warehouse,
) -> None:
    # No compaction could cover it, so a sensor that counted it would fire for nothing.
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    txn_id = warehouse.open_delta(table, 1)
    warehouse.delta(table, 1)
    assert HiveAcidHook().table_health(str(table.ref))[0].deltas == 1
    warehouse.client.commit_txn(txn_id)
    assert HiveAcidHook().table_health(str(table.ref))[0].deltas == 3


def test_every_partition_has_its_own_health(warehouse: Warehouse) -> None:
    table = warehouse.table("t", partitioned=True)
    assert HiveAcidHook().table_health(str(table.ref)) == ()
    warehouse.delta(table, 5, "month=1")
    warehouse.delta(table, 5, "month=2")
    warehouse.delta(table, 5, "month=2")
    healths = HiveAcidHook().table_health(str(table.ref))
    assert [(h.partition, h.deltas) for h in healths] == [("month=1", 1), ("month=2", 2)]
    (alone,) = HiveAcidHook().table_health(str(table.ref), "month=2")
    assert replace(alone, oldest_delta_s=healths[1].oldest_delta_s) == healths[1]


def test_a_missing_table_or_partition_raises_an_error_that_names_it(warehouse: Warehouse) -> None:
    table = warehouse.table("t", partitioned=True)
    with pytest.raises(errors.TableNotFoundError, match="nothing_here"):
        HiveAcidHook().table_health(f"{warehouse.db}.nothing_here")
    with pytest.raises(errors.PartitionNotFoundError, match="month=9"):
        HiveAcidHook().table_health(str(table.ref), "month=9")


def test_table_health_of_a_flat_table_raises_not_transactional_error(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    table = warehouse.table("t", kind=TransactionalKind.NONE, location=f"file:{tmp_path}")
    with pytest.raises(errors.NotTransactionalError):
        HiveAcidHook().table_health(str(table.ref))


@pytest.fixture
def three(warehouse: Warehouse) -> TableInfo:
    table = warehouse.table("t", partitioned=True)
    for month in (1, 2, 3):
        warehouse.delta(table, 5, f"month={month}")
    return table


def _dropping(warehouse: Warehouse, table: TableInfo) -> None:
    warehouse.client.hms().drop_partition(table.ref.db, table.ref.name, ["2"], deleteData=True)


def test_table_health_omits_a_partition_that_is_dropped_during_the_listing(
    warehouse: Warehouse, three: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = threading.Lock()

    def listing(location: str) -> Listing:
        if dropped.acquire(blocking=False):
            _dropping(warehouse, three)
        return list_table(location)

    # One at a time, so that the first is looked at before the second is gone.
    monkeypatch.setattr(threads, "AT_ONCE", 1)
    monkeypatch.setattr(health_module, "list_table", listing)
    healths = HiveAcidHook().table_health(str(three.ref))
    assert [h.partition for h in healths] == ["month=1", "month=3"]


def test_a_requested_partition_that_is_dropped_during_the_listing_is_not_found(
    warehouse: Warehouse, three: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(location: str) -> Listing:
        _dropping(warehouse, three)
        return list_table(location)

    monkeypatch.setattr(health_module, "list_table", listing)
    with pytest.raises(errors.PartitionNotFoundError, match="month=2"):
        HiveAcidHook().table_health(str(three.ref), "month=2")


def test_a_missing_directory_of_an_existing_partition_raises_a_retryable_error(
    three: TableInfo,
) -> None:
    shutil.rmtree(Path(three.location.removeprefix("file:")) / "month=2")
    with pytest.raises(errors.LocationNotFoundError, match="month=2") as caught:
        HiveAcidHook().table_health(str(three.ref))
    assert caught.value.retryable


def test_several_partitions_are_listed_concurrently(
    three: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3, timeout=60)

    def listing(location: str) -> Listing:
        together.wait()  # broken, and an error, unless all three are under way
        return list_table(location)

    monkeypatch.setattr(health_module, "list_table", listing)
    assert len(HiveAcidHook().table_health(str(three.ref))) == 3
