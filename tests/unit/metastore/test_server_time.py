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


def test_time_bounds_hold_whenever_the_server_read_its_clock_during_the_request() -> None:
    """Our clock is 100 s behind the server's; the request takes from 5.0 to 5.4."""
    for moment_s in (5.0, 5.2, 5.4):
        time = ServerTime.of(100.0 + moment_s, before_s=5.0, after_s=5.4)
        assert time.earliest(9.0) <= 109.0 <= time.latest(9.0)
        assert time.latest(9.0) - time.earliest(9.0) == pytest.approx(0.402)


def test_the_server_time_comes_from_the_last_lock_of_the_transaction() -> None:
    locks = [lock(3, 100.0), lock(3, 107.0), lock(4, 500.0), lock(3, None)]
    found = time_of_lock(locks, TxnId(3), before_s=0.0, after_s=0.0)
    assert found == ServerTime.of(107.0, before_s=0.0, after_s=0.0)


def test_without_acquisition_times_the_server_time_is_unknown() -> None:
    assert time_of_lock([lock(3, None)], TxnId(3), before_s=0.0, after_s=0.0) is None
