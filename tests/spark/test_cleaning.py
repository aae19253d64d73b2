"""For which transactions cleaning waits, and when a table's owner has it do nothing."""

from __future__ import annotations

import pytest
from pyarrow import orc

from airflow_hiveacid.format.conflicts import DataOperation, LockState, LockType
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.watch.health import compaction_need
from tests.support.spark_lab import Lab
from tests.support.steps import at
from tests.unit.storage.orc_tables import B1, tombstone, write_acid

COLUMNS = {"id": "bigint"}


@pytest.fixture
def compacted(lab: Lab) -> Lab:
    """A table `t` with old directories beside its base, and another table."""
    lab.table("other", COLUMNS)
    lab.insert("other", [(1,), (2,)], ["id"])
    lab.table("t", COLUMNS)
    for number in (1, 2):
        lab.insert("t", [(number,)], ["id"])
    lab.compact("t", CompactionChoice.MAJOR)
    assert len(lab.directories("t")) == 3
    return lab


def ask_for_lock(lab: Lab, name: str, txn_id: TxnId, lock_type: LockType) -> None:
    """As another engine does, in a request that is its transaction's only one."""
    component = LockComponent(
        table=TableRef(lab.db, name), lock_type=lock_type, operation=DataOperation.SELECT
    )
    request = LockRequest(
        txn_id=txn_id, components=(component,), agent_info="20261123_020304_00007_trino"
    )
    assert lab.client.lock(request).state is LockState.ACQUIRED


@pytest.mark.promise("K3")
def test_a_long_read_of_one_table_does_not_delay_the_cleaning_of_a_different_table(
    lab: Lab,
) -> None:
    lab.table("t", COLUMNS)
    lab.table("other", COLUMNS)
    lab.insert("other", [(1,), (2,)], ["id"])
    with read_snapshot(lab.endpoint, [f"{lab.db}.other"], job_key=f"{lab.db}/reader") as snapshot:
        frame = read_table(lab.spark, f"{lab.db}.other", snapshot)
        foreign = lab.client.open_txn()
        ask_for_lock(lab, "other", foreign, LockType.SHARED_READ)
        for number in (1, 2):
            lab.insert("t", [(number,)], ["id"])
        lab.compact("t", CompactionChoice.MAJOR)
        assert lab.clean("t").status is JobStatus.COMMITTED
        (base,) = lab.directories("t")
        assert base.startswith("base_0000002")
        assert sorted(tuple(row) for row in frame.collect()) == [(1,), (2,)]
        lab.client.abort_txn(foreign)
    assert lab.rows("t") == [(1,), (2,)]


def test_cleaning_waits_for_a_transaction_without_a_lock_and_names_its_owner(
    compacted: Lab,
) -> None:
    lab, client = compacted, compacted.client
    silent = client.open_txn()
    before = lab.directories("t")
    held = lab.clean("t")
    assert held.status is JobStatus.NOTHING_TO_DO
    (one,) = held.details["cleanings"]
    (reader,) = [r for r in one["waited_for"] if r["txn_id"] == silent]
    (owner,) = [t for t in client.open_txns_info() if t.txn_id == silent]
    assert (reader["user"], reader["host"]) == (owner.user, owner.host)
    assert reader["open_for_s"] >= 0
    assert f"transaction {silent} has been open" in one["kept"][0]["why"]
    assert "it has no lock" in one["kept"][0]["why"]
    assert lab.directories("t") == before
    # A lock elsewhere shows that this table is not what it reads.
    ask_for_lock(lab, "other", silent, LockType.SHARED_READ)
    assert lab.clean("t").status is JobStatus.COMMITTED
    client.abort_txn(silent)


@pytest.mark.long_cases("3.1.3")
def test_cleaning_waits_for_a_reader_of_the_table_and_names_its_query(compacted: Lab) -> None:
    lab = compacted
    reader = lab.client.open_txn()
    ask_for_lock(lab, "t", reader, LockType.SHARED_READ)
    (one,) = lab.clean("t").details["cleanings"]
    assert [r["job_key"] for r in one["waited_for"]] == ["20261123_020304_00007_trino"]
    assert "20261123_020304_00007_trino" in one["kept"][0]["why"]
    lab.client.abort_txn(reader)
    assert lab.clean("t").status is JobStatus.COMMITTED


def test_cleaning_waits_for_a_transaction_that_requests_a_lock_after_the_note(
    compacted: Lab,
) -> None:
    lab = compacted
    late = lab.client.open_txn()
    ask_for_lock(lab, "other", late, LockType.SHARED_READ)
    before = lab.directories("t")
    meanwhile = at("noted", lambda: ask_for_lock(lab, "t", late, LockType.SHARED_READ))
    held = lab.run(CleanSpec.of_table(f"{lab.db}.t"), on_step=meanwhile)
    assert held.status is JobStatus.NOTHING_TO_DO
    assert [r["txn_id"] for r in held.details["cleanings"][0]["waited_for"]] == [late]
    assert lab.directories("t") == before
    lab.client.abort_txn(late)
    assert lab.clean("t").status is JobStatus.COMMITTED


@pytest.mark.promise("K11")
@pytest.mark.parametrize("key", ["NO_CLEANUP", "no_cleanup"])
@pytest.mark.long_cases("*-no_cleanup", "3.1.3-*")
def test_a_table_with_the_no_cleanup_property_is_not_cleaned(compacted: Lab, key: str) -> None:
    lab = compacted
    ref = TableRef(lab.db, "t")
    lab.client.set_table_parameters(ref, {key: "True"})
    before = lab.directories("t")
    for plan_only in (True, False):
        held = lab.clean("t", plan_only=plan_only)
        assert held.files == 0
        (one,) = held.details["cleanings"]
        assert f"{key}=True" in one["kept"][0]["why"]
    assert held.status is JobStatus.NOTHING_TO_DO
    assert lab.directories("t") == before
    lab.client.set_table_parameters(ref, {key: None})
    assert lab.clean("t").status is JobStatus.COMMITTED


@pytest.mark.long_cases("3.1.3")
def test_our_cleaning_also_cleans_a_kept_table(lab: Lab) -> None:
    """What tells the server to leave it to us is no word of its owner."""
    lab.table("t", COLUMNS, parameters={"hiveacid.readable.for": "0 seconds"})
    lab.insert("t", [(1,)], ["id"])
    lab.clean("t")
    lab.insert("t", [(2,)], ["id"])
    lab.compact("t", CompactionChoice.MAJOR)
    assert lab.clean("t").status is JobStatus.COMMITTED
    assert len(lab.directories("t")) == 1


@pytest.mark.promise("K11")
@pytest.mark.parametrize("key", ["NO_AUTO_COMPACTION", "no_auto_compaction"])
@pytest.mark.long_cases("*-no_auto_compaction", "3.1.3-*")
def test_a_table_with_the_no_auto_compaction_property_is_compacted_only_on_request(
    lab: Lab, key: str
) -> None:
    lab.table("t", COLUMNS, parameters={key: "TRUE"})
    for number in range(11):
        lab.insert("t", [(number,)], ["id"])
    before = lab.directories("t")
    ref = TableRef(lab.db, "t")
    need = compaction_need(lab.client, ref, None, GivenThresholds())
    assert not need.due
    assert f"{key}=TRUE" in str(need)
    held = lab.compact("t")
    assert held.status is JobStatus.NOTHING_TO_DO
    assert f"{key}=TRUE" in held.details["compactions"][0]["why"]
    assert lab.directories("t") == before
    lab.client.set_table_parameters(ref, {key: "false"})
    assert compaction_need(lab.client, ref, None, GivenThresholds()).due
    lab.client.set_table_parameters(ref, {key: "true"})
    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    assert lab.rows("t") == [(number,) for number in range(11)]


@pytest.mark.long_cases("3.1.3")
def test_a_second_delete_event_for_a_removed_row_is_skipped_and_compacted_away(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a writer that looks for no conflict, and had begun before the compaction."""
    lab.table("t", COLUMNS, buckets=("id", 2))
    lab.insert("t", [(number,) for number in range(8)], ["id"])
    (second,) = lab.root("t").glob("delta_*/bucket_00001*")
    in_second = [row["id"] for row in orc.read_table(second).column("row").to_pylist()]
    assert 0 < len(in_second) < 8
    left = [(number,) for number in range(8) if number not in in_second]
    lab.delete("t", f"id in ({', '.join(map(str, in_second))})")
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    assert not list(lab.root("t").glob("*/bucket_00001*"))
    txn_id = lab.client.open_txn()
    write_id = lab.client.allocate_write_id(txn_id, TableRef(lab.db, "t"))
    name = DeltaName(low=write_id, high=write_id, statement_id=0, is_delete=True)
    write_acid(lab.root("t") / str(name) / "bucket_00001", [tombstone(1, 0, write_id, B1)])
    lab.client.commit_txn(txn_id)
    assert lab.rows("t") == left
    assert "delete events without rows" in caplog.text
    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    lab.clean("t")
    (base,) = lab.directories("t")
    assert base.startswith(f"base_{write_id:07d}")
    assert lab.rows("t") == left
