from __future__ import annotations

import json

import pytest

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.plan.thresholds import (
    CompactionPolicy,
    TableHealth,
    Threshold,
    decide,
    due,
    exceeded,
)
from tests.unit.plan.states import state_of

_COUNT_ONLY = CompactionPolicy(delta_ratio=None)
_RATIO_ONLY = CompactionPolicy(delta_count=None)


def _state(
    *,
    base_bytes: int | None = None,
    deltas: tuple[int, ...] = (),
    delete_deltas: tuple[int, ...] = (),
    original_bytes: int | None = None,
    aborted: tuple[int, ...] = (),
) -> AcidState:
    """A directory with a base at write ID 1 and one delta (or delete delta) for each size."""
    files: dict[str, int] = {}
    if base_bytes is not None:
        files["base_0000001/bucket_00000"] = base_bytes
    if original_bytes is not None:
        files["000000_0"] = original_bytes
    write_id = 1
    for prefix, sizes in (("delta", deltas), ("delete_delta", delete_deltas)):
        for size in sizes:
            write_id += 1
            files[f"{prefix}_{write_id:07d}_{write_id:07d}_0000/bucket_00000"] = size
    return state_of(files, f"100:MAX::{','.join(map(str, aborted))}")


def _health(**parts: object) -> TableHealth:
    return TableHealth.of(_state(**parts), table="db.t")  # type: ignore[arg-type]


def test_delete_deltas_count_as_deltas() -> None:
    health = _health(base_bytes=10**6, deltas=(1,) * 6, delete_deltas=(1,) * 4)
    assert health.delta_count == 10
    assert [e.threshold for e in exceeded(health, _COUNT_ONLY)] == [Threshold.DELTA_COUNT]


@pytest.mark.parametrize("base_bytes", [10, 30, 70, 2**53 + 10 - (2**53 % 10), 10**18])
def test_exactly_ten_percent_fires_for_any_base_size(base_bytes: int) -> None:
    # 0.1 is not a tenth in binary: 0.1 * 10**18 and n / 10 differ for some sizes.
    tenth = base_bytes // 10
    base = {"table": "db.t", "location": "/t", "base_bytes": base_bytes}
    assert exceeded(TableHealth(**base, delta_bytes=tenth), _RATIO_ONLY)  # type: ignore[arg-type]
    assert not exceeded(TableHealth(**base, delta_bytes=tenth - 1), _RATIO_ONLY)  # type: ignore[arg-type]


def test_delete_events_count_in_the_ratio() -> None:
    assert exceeded(_health(base_bytes=1000, deltas=(50,), delete_deltas=(50,)), _RATIO_ONLY)


def test_without_a_base_the_ratio_never_fires() -> None:
    health = _health(deltas=(10**9,))
    assert health.delta_ratio is None
    assert exceeded(health, _RATIO_ONLY) == ()
    assert decide(_health(deltas=(10**9,)), CompactionPolicy())[0] is None


def test_without_a_base_original_files_count_as_the_base() -> None:
    assert _health(original_bytes=1000, deltas=(100,)).delta_ratio == 0.1
    assert exceeded(_health(original_bytes=1000, deltas=(100,)), _RATIO_ONLY)


def test_aborted_deltas_do_not_count() -> None:
    health = _health(base_bytes=1000, deltas=(1,) * 10, aborted=(3, 4))
    assert (health.delta_count, health.aborted) == (8, 2)


def test_obsolete_deltas_do_not_count() -> None:
    health = TableHealth.of(state_of({"base_0000005": 1000, "delta_0000002_0000002_0000": 900}))
    assert (health.delta_count, health.changed_bytes, health.obsolete) == (0, 0, 1)


def test_an_exceeded_ratio_leads_to_a_major_compaction() -> None:
    is_major, why = decide(_health(base_bytes=1000, deltas=(10,) * 10), CompactionPolicy())
    assert is_major is True
    assert "10.0 %" in why
    assert "10 delta directories" in why


def test_an_exceeded_count_alone_leads_to_a_minor_compaction() -> None:
    is_major, why = decide(_health(base_bytes=10**6, deltas=(10,) * 10), CompactionPolicy())
    assert (is_major, why) == (False, "10 delta directories (threshold 10)")


def test_an_exceeded_count_without_a_base_leads_to_a_major_compaction() -> None:
    is_major, why = decide(_health(deltas=(10,) * 10), CompactionPolicy())
    assert is_major is True
    assert "no base" in why


def test_an_empty_base_counts_as_no_base() -> None:
    # A base without a byte leaves a minor compaction nothing to spare.
    is_major, why = decide(_health(base_bytes=0, deltas=(10,) * 10), CompactionPolicy())
    assert is_major is True
    assert "no base" in why


def test_original_files_count_as_a_base_for_a_minor_compaction() -> None:
    found = decide(_health(original_bytes=10**6, deltas=(10,) * 10), CompactionPolicy())
    assert found == (False, "10 delta directories (threshold 10)")


def test_below_the_thresholds_the_reason_gives_the_measured_values() -> None:
    is_major, why = decide(_health(base_bytes=1000, deltas=(20,)), CompactionPolicy())
    assert is_major is None
    assert why == "below the thresholds: 1 delta directories, 2.0 % of the base"


def test_only_directories_above_a_threshold_are_due() -> None:
    quiet, busy = _health(base_bytes=1000, deltas=(1,)), _health(base_bytes=1000, deltas=(500,))
    (found,) = due([quiet, busy], CompactionPolicy())
    assert found.health is busy


def test_the_record_of_a_due_directory_is_json_with_every_measured_value() -> None:
    (found,) = due([_health(base_bytes=1000, deltas=(60, 40))], CompactionPolicy())
    record = found.record()
    assert json.loads(json.dumps(record)) == record
    assert record["delta_ratio"] == 0.1
    assert (record["delta_count"], record["base_bytes"], record["table"]) == (2, 1000, "db.t")
    assert record["why"] == "deltas hold 10.0 % of the base (threshold 10.0 %)"


@pytest.mark.parametrize(
    ("count", "ratio"),
    [
        (0, 0.1),
        (-1, None),
        (10, 0.0),
        (10, -0.5),
        (10, float("nan")),
        (10, float("inf")),
        (10, 1.01),
    ],
)
def test_an_invalid_compaction_policy_is_refused(count: int | None, ratio: float | None) -> None:
    with pytest.raises(ConfigurationError):
        CompactionPolicy(delta_count=count, delta_ratio=ratio)


def test_a_percentage_as_ratio_is_refused_with_the_fraction_to_use() -> None:
    with pytest.raises(ConfigurationError) as refused:
        CompactionPolicy(delta_ratio=10)
    assert str(refused.value) == (
        "delta_ratio must be at most 1, found 10. It is a fraction of the base's size: 10 means"
        " 1,000 %. For 10 %, use 0.1"
    )
    assert CompactionPolicy(delta_ratio=1).delta_ratio == 1


@pytest.mark.parametrize(
    ("ratio", "base", "delta"), [(0.07, 100, 7), (0.29, 100, 29), (0.1, 30, 3)]
)
def test_a_ratio_reached_exactly_fires_despite_rounding_of_floats(
    ratio: float, base: int, delta: int
) -> None:
    policy = CompactionPolicy(delta_count=None, delta_ratio=ratio)
    assert exceeded(_health(base_bytes=base, deltas=(delta,)), policy)
    assert not exceeded(_health(base_bytes=base, deltas=(delta - 1,)), policy)
