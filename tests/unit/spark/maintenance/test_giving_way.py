"""Changes while a compaction holds no lock: no row is lost, doubled or restored."""

from __future__ import annotations

import dataclasses
import shutil

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hiveacid.format import conflicts, errors
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from tests.contract.manual_clock import ManualClock
from tests.support.steps import at
from tests.unit.spark.maintenance.rig import Rig


def exclusive(rig: Rig) -> TxnId:
    """A transaction that is granted an exclusive lock at once."""
    txn_id = rig.client.open_txn()
    component = LockComponent(
        table=rig.ref,
        lock_type=conflicts.LockType.EXCLUSIVE,
        operation=conflicts.DataOperation.UPDATE,
    )
    answer = rig.client.lock(
        LockRequest(txn_id=txn_id, components=(component,), agent_info="first")
    )
    assert answer.state is conflicts.LockState.ACQUIRED
    return txn_id


def overwrite(rig: Rig, value: int) -> None:
    txn_id = exclusive(rig)
    write_id = rig.client.allocate_write_id(txn_id, rig.ref)
    rig.put(f"base_{write_id:07d}", [(write_id, value)])
    rig.client.commit_txn(txn_id)


def empty(rig: Rig, *, keeps_hidden: bool = False) -> None:
    """What Hive 3.1's TRUNCATE does: files go in place; in an encrypted zone hidden ones stay."""
    for path in rig.root.iterdir():
        if not (keeps_hidden and path.name.startswith("_")):
            shutil.rmtree(path)


@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
@pytest.mark.parametrize("step", ["snapshot", "staged"])
def test_files_that_an_overwrite_replaced_meanwhile_are_not_compacted(
    rig: Rig, choice: CompactionChoice, step: str
) -> None:
    rig.insert(1, 2)
    act = at(step, lambda: overwrite(rig, 7))
    outcome = rig.compact(choice, act)
    assert not outcome.done
    if step == "staged":
        assert outcome.why == "base_0000003 has replaced the files that were to be compacted"
    assert rig.values == [7]
    assert rig.there("") == [*rig.there("_hiveacid"), "base_0000003", *rig.there("delta_")]
    assert rig.there("delta_") == ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]


@pytest.mark.parametrize("keeps_hidden", [False, True])
@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
def test_rows_truncated_in_place_during_a_compaction_do_not_reappear(
    rig: Rig, choice: CompactionChoice, *, keeps_hidden: bool
) -> None:
    rig.insert(1, 2)

    def truncate() -> None:
        txn_id = exclusive(rig)
        empty(rig, keeps_hidden=keeps_hidden)
        rig.client.commit_txn(txn_id)
        rig.insert(3)

    outcome = rig.compact(choice, at("staged", truncate))
    assert not outcome.done
    assert "they were truncated" in outcome.why
    assert rig.values == [3]
    assert rig.there("_tmp") == []


def test_original_files_truncated_during_a_compaction_do_not_reappear(rig: Rig) -> None:
    path = rig.root / "000000_0"
    orc.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), str(path))
    assert rig.values == [1, 2]

    def truncate() -> None:
        txn_id = exclusive(rig)
        path.unlink()
        rig.client.commit_txn(txn_id)

    outcome = rig.compact(CompactionChoice.MAJOR, at("staged", truncate))
    assert (outcome.done, rig.there("base_")) == (False, [])
    assert "they were truncated" in outcome.why
    assert rig.values == []


def test_a_table_recreated_during_a_compaction_gets_none_of_its_old_rows(rig: Rig) -> None:
    rig.insert(1, 2)

    def make_again() -> None:
        """DROP TABLE and CREATE TABLE of the same name and place; write IDs begin anew."""
        rig.client.drop_table(rig.ref)
        empty(rig)
        rig.server.put_table(dataclasses.replace(rig.table, table_id="another"))
        for ids in (rig.server.write_ids, rig.server.next_write_id):
            ids.pop(rig.ref, None)
        rig.insert(8, 9)

    with pytest.raises(errors.TableChangedError):
        rig.compact(CompactionChoice.MAJOR, at("staged", make_again))
    assert rig.values == [8, 9]
    assert rig.there("base_") == rig.there("_tmp") == []


def test_a_compaction_times_out_if_an_exclusive_lock_is_not_released(rig: Rig) -> None:
    rig.insert(1, 2)
    held: list[TxnId] = []
    act = at("staged", lambda: held.append(exclusive(rig)))
    with pytest.raises(errors.LockNotAcquiredError, match=r"t .*held by.*first") as caught:
        rig.compact(CompactionChoice.MAJOR, act, clock=ManualClock())
    assert isinstance(caught.value, errors.RetryableError)
    assert {lock.txn_id for lock in rig.client.show_locks(rig.ref)} == set(held)
    assert rig.there("base_") == rig.there("_tmp") == []
    rig.client.commit_txn(held[0])
    assert rig.values == [1, 2]
    assert rig.compact(CompactionChoice.MAJOR).done


def test_a_compaction_whose_files_and_entry_were_dropped_ends_with_a_reason(rig: Rig) -> None:
    """4.x removes the entry of a dropped partition, and refuses to mark it."""
    rig.insert(1, 2)

    def drop() -> None:
        txn_id = exclusive(rig)
        empty(rig)
        rig.client.commit_txn(txn_id)
        refusal = errors.MetastoreCallError(method="mark_refused", reason="no such entry")
        if rig.server.generation is conflicts.MetastoreGeneration.V4:
            rig.server.break_next("mark_refused", refusal, is_done=False)

    outcome = rig.compact(CompactionChoice.MAJOR, at("staged", drop))
    assert not outcome.done
    assert "no longer exist" in outcome.why
    assert rig.client.show_locks() == ()
