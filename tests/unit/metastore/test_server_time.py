from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import LockState, LockType
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.metastore.locks import LockInfo
from airflow_hiveacid.metastore.server_time import ServerTime, time_of_lock


def lock(txn_id: int, acquired_s: float | None) -> LockInfo:
    return LockInfo(
        lock_id=LockId(1),
        txn_id=TxnId(txn_id),
        db="d",
        table="t",
        partition=None,
        state=LockState.ACQUIRED,
        lock_type=LockType.SHARED_READ,
        user="u",
        host="h",
        agent_info="",
        acquired_s=acquired_s,
    )


def test_bounds_hold_wherever_within_a_request_the_server_looked_at_its_clock() -> None:
    """Our clock is 100 s behind the server's; the request takes from 5.0 to 5.4."""
    for moment_s in (5.0, 5.2, 5.4):
        time = ServerTime.of(100.0 + moment_s, before_s=5.0, after_s=5.4)
        assert time.earliest(9.0) <= 109.0 <= time.latest(9.0)
        assert time.latest(9.0) - time.earliest(9.0) == pytest.approx(0.402)


def test_the_time_is_that_of_ones_own_last_lock() -> None:
    locks = [lock(3, 100.0), lock(3, 107.0), lock(4, 500.0), lock(3, None)]
    found = time_of_lock(locks, TxnId(3), before_s=0.0, after_s=0.0)
    assert found == ServerTime.of(107.0, before_s=0.0, after_s=0.0)


def test_a_server_that_does_not_tell_has_no_time() -> None:
    assert time_of_lock([lock(3, None)], TxnId(3), before_s=0.0, after_s=0.0) is None
