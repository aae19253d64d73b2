"""Changes while a compaction holds no lock: no row is lost, doubled or restored."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hiveacid.format import conflicts, errors
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.unit.spark.maintenance.rig import compact, insert, put, there, values
from tests.unit.spark.maintenance.test_compact import _no_spark  # noqa: F401 - a fixture


def exclusive(client: FakeClient, table: TableInfo) -> TxnId:
    """A transaction that is granted an exclusive lock at once."""
    txn_id = client.open_txn()
    component = LockComponent(
        table=table.ref,
        lock_type=conflicts.LockType.EXCLUSIVE,
        operation=conflicts.DataOperation.UPDATE,
    )
    answer = client.lock(LockRequest(txn_id=txn_id, components=(component,), agent_info="first"))
    assert answer.state is conflicts.LockState.ACQUIRED
    return txn_id


def overwrite(client: FakeClient, table: TableInfo, value: int) -> None:
    txn_id = exclusive(client, table)
    write_id = client.allocate_write_id(txn_id, table.ref)
    put(table, f"base_{write_id:07d}", [(write_id, value)])
    client.commit_txn(txn_id)


def empty(table: TableInfo, *, keeps_hidden: bool = False) -> None:
    """What Hive 3.1's TRUNCATE does: files go in place; in an encrypted zone hidden ones stay."""
    root = Path(table.location.removeprefix("file:"))
    for path in root.iterdir():
        if not (keeps_hidden and path.name.startswith("_")):
            shutil.rmtree(path)


def at(step: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Do something at a step of a compaction."""
    return lambda reached: act() and None if reached == step else None


@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
@pytest.mark.parametrize("step", ["snapshot", "staged"])
def test_files_that_an_overwrite_replaced_meanwhile_are_not_compacted(
    server: FakeMetastore, table: TableInfo, choice: CompactionChoice, step: str
) -> None:
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)
    act = at(step, lambda: overwrite(FakeClient(server), table, 7))
    outcome = compact(client, table, choice, act)
    assert not outcome.done
    if step == "staged":
        assert outcome.why == "base_0000003 has replaced the files that were to be compacted"
    assert values(client, table) == [7]
    assert there(table, "") == [*there(table, "_hiveacid"), "base_0000003", *there(table, "delta_")]
    assert there(table, "delta_") == ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]


@pytest.mark.parametrize("keeps_hidden", [False, True])
@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
def test_rows_truncated_in_place_during_a_compaction_do_not_reappear(
    server: FakeMetastore, table: TableInfo, choice: CompactionChoice, *, keeps_hidden: bool
) -> None:
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)

    def truncate() -> None:
        txn_id = exclusive(client, table)
        empty(table, keeps_hidden=keeps_hidden)
        client.commit_txn(txn_id)
        insert(client, table, 3)

    outcome = compact(client, table, choice, at("staged", truncate))
    assert not outcome.done
    assert "they were truncated" in outcome.why
    assert values(client, table) == [3]
    assert there(table, "_tmp") == []


def test_original_files_truncated_during_a_compaction_do_not_reappear(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    path = Path(table.location.removeprefix("file:")) / "000000_0"
    path.parent.mkdir(parents=True, exist_ok=True)
    orc.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), str(path))
    assert values(client, table) == [1, 2]

    def truncate() -> None:
        txn_id = exclusive(client, table)
        path.unlink()
        client.commit_txn(txn_id)

    outcome = compact(client, table, CompactionChoice.MAJOR, at("staged", truncate))
    assert (outcome.done, there(table, "base_")) == (False, [])
    assert "they were truncated" in outcome.why
    assert values(client, table) == []


def test_a_table_recreated_during_a_compaction_gets_none_of_its_old_rows(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)

    def make_again() -> None:
        """DROP TABLE and CREATE TABLE of the same name and place; write IDs begin anew."""
        client.drop_table(table.ref)
        empty(table)
        server.put_table(dataclasses.replace(table, table_id="another"))
        for ids in (server.write_ids, server.next_write_id):
            ids.pop(table.ref, None)
        insert(client, table, 8)
        insert(client, table, 9)

    with pytest.raises(errors.TableChangedError):
        compact(client, table, CompactionChoice.MAJOR, at("staged", make_again))
    assert values(client, table) == [8, 9]
    assert there(table, "base_") == there(table, "_tmp") == []


def test_a_compaction_times_out_if_an_exclusive_lock_is_not_released(
    server: FakeMetastore, table: TableInfo
) -> None:
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)
    held: list[TxnId] = []
    act = at("staged", lambda: held.append(exclusive(client, table)))
    with pytest.raises(errors.LockNotAcquiredError, match=r"t .*held by.*first") as caught:
        compact(client, table, CompactionChoice.MAJOR, act, clock=ManualClock())
    assert isinstance(caught.value, errors.RetryableError)
    assert {lock.txn_id for lock in client.show_locks(table.ref)} == set(held)
    assert there(table, "base_") == there(table, "_tmp") == []
    client.commit_txn(held[0])
    assert values(client, table) == [1, 2]
    assert compact(client, table, CompactionChoice.MAJOR).done


def test_a_compaction_whose_files_and_entry_were_dropped_ends_with_a_reason(
    server: FakeMetastore, table: TableInfo
) -> None:
    """4.x removes the entry of a dropped partition, and refuses to mark it."""
    client = FakeClient(server)
    insert(client, table, 1)
    insert(client, table, 2)

    def drop() -> None:
        txn_id = exclusive(client, table)
        empty(table)
        client.commit_txn(txn_id)
        refusal = errors.MetastoreCallError(method="mark_refused", reason="no such entry")
        if server.generation is conflicts.MetastoreGeneration.V4:
            server.break_next("mark_refused", refusal, is_done=False)

    outcome = compact(client, table, CompactionChoice.MAJOR, at("staged", drop))
    assert not outcome.done
    assert "no longer exist" in outcome.why
    assert client.show_locks() == ()
