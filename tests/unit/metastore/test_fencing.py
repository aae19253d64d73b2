from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import LockState, LockType
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.metastore.fencing import Rival, Seal, copies_of, newer, older
from airflow_hiveacid.metastore.locks import LockInfo

KEY = "flights/scheduled__2013-01-01T00:00:00+00:00/merge/-1"


def lock(agent_info: str, txn_id: int | None = 1) -> LockInfo:
    return LockInfo(
        lock_id=LockId(1),
        txn_id=None if txn_id is None else TxnId(txn_id),
        db="db",
        table="t",
        partition=None,
        state=LockState.ACQUIRED,
        lock_type=LockType.SHARED_READ,
        user="u",
        host="h",
        agent_info=agent_info,
    )


def seal(first_txn_id: int, key: str = KEY) -> Seal:
    return Seal(job_key=key, first_txn_id=TxnId(first_txn_id))


@pytest.mark.parametrize("key", ["", "k", KEY, "d" * 500, "täglich/日次", "a#b@7"])
@pytest.mark.parametrize("first_txn_id", [1, 2**62])
def test_the_text_fits_the_servers_column_and_is_recognised(key: str, first_txn_id: int) -> None:
    text = seal(first_txn_id, key).agent_info
    assert len(text) <= 128
    assert text.isascii()
    (copy,) = copies_of(key, [lock(text, 9)])
    assert (copy.txn_id, copy.first_txn_id) == (9, first_txn_id)


def test_the_beginning_of_the_key_can_be_read() -> None:
    assert seal(7).agent_info.startswith(KEY)


def test_other_jobs_and_other_programs_are_no_copies() -> None:
    others = [
        lock(seal(1, KEY + "0").agent_info),
        lock("presto-worker-7"),
        lock(""),
        lock(seal(1).agent_info, txn_id=None),
        lock(seal(1).agent_info + " and more"),
    ]
    assert copies_of(KEY, others) == ()


def test_a_transaction_with_many_locks_is_one_copy() -> None:
    locks = [lock(seal(5).agent_info, 5), lock(seal(5).agent_info, 5), lock(seal(3).agent_info, 3)]
    assert [c.txn_id for c in copies_of(KEY, locks)] == [3, 5]


def test_rank_goes_by_the_first_transaction_of_a_copy() -> None:
    mine = seal(5)
    copies = [
        Rival(txn_id=TxnId(8), part_digest="", first_txn_id=TxnId(3)),
        Rival(txn_id=TxnId(7), part_digest="", first_txn_id=TxnId(7)),
        Rival(txn_id=TxnId(9), part_digest="", first_txn_id=TxnId(5)),
    ]
    assert [c.txn_id for c in older(mine, copies)] == [8]
    assert [c.txn_id for c in newer(mine, copies)] == [7]
