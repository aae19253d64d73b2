"""The simulation of a metastore agrees with arithmetic, and has the counts of the docs page."""

from __future__ import annotations

import pytest

from tests.proofs.requests.simulation import CALLS, SERVICE_S, Warehouse, simulated
from tests.unit.counts.test_request_counts import told


def test_the_simulated_jobs_send_the_calls_of_the_page() -> None:
    counts = {kind: of_kind["calls"][1] for kind, of_kind in told().items()}
    assert {
        "write": counts["DELETE with a partition in WHERE"],
        "poll": counts["sensor, one partition written"],
        "plan": counts["compaction of many tables, one written"],
        "clean": counts["cleaning of many tables, dry run"],
    } == CALLS


def test_a_metastore_is_as_busy_as_its_calls_take() -> None:
    size = Warehouse(writes=10.0)
    load = simulated(size, cores=4, seconds=20.0)
    assert load.busy == pytest.approx(size.calls * SERVICE_S / 4, rel=0.2)
    assert not load.is_saturated


def test_a_metastore_with_more_calls_than_its_cores_serve_is_saturated() -> None:
    calls_per_s = 4 / SERVICE_S
    size = Warehouse(writes=1.2 * calls_per_s / CALLS["write"])
    assert simulated(size, cores=4, seconds=10.0).is_saturated
