from __future__ import annotations

import pytest

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.metastore.server_time import ServerTime, time_of_lock
from tests.contract.bench import listed_lock


def test_time_bounds_hold_whenever_the_server_read_its_clock_during_the_request() -> None:
    """Our clock is 100 s behind the server's; the request takes from 5.0 to 5.4."""
    for moment_s in (5.0, 5.2, 5.4):
        time = ServerTime.of(100.0 + moment_s, before_s=5.0, after_s=5.4)
        assert time.earliest(9.0) <= 109.0 <= time.latest(9.0)
        assert time.latest(9.0) - time.earliest(9.0) == pytest.approx(0.402)


def test_the_server_time_comes_from_the_last_lock_of_the_transaction() -> None:
    times = ((3, 100.0), (3, 107.0), (4, 500.0), (3, None))
    locks = [listed_lock(txn_id, acquired_s=acquired_s) for txn_id, acquired_s in times]
    found = time_of_lock(locks, TxnId(3), before_s=0.0, after_s=0.0)
    assert found == ServerTime.of(107.0, before_s=0.0, after_s=0.0)


def test_without_acquisition_times_the_server_time_is_unknown() -> None:
    assert time_of_lock([listed_lock(3)], TxnId(3), before_s=0.0, after_s=0.0) is None
