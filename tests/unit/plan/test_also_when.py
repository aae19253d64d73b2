from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.directories import FileEntry, Listing
from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.snapshot import CompactorWriteIdList, ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.jobs.maintenance import CompactionChoice, Off
from airflow_hiveacid.plan.compaction import CompactionPlan, NoCompaction, plan_compaction
from airflow_hiveacid.plan.compaction_policy import GivenThresholds, HealthLimits, TableMeasures
from airflow_hiveacid.plan.thresholds import (
    SMALL_FILE_BYTES,
    CompactionPolicy,
    TableHealth,
    Threshold,
    decide,
    exceeded,
)
from tests.unit.plan.states import state_of

MAX = 9223372036854775807
_LARGE = SMALL_FILE_BYTES * 1000
_NOW_S = 1_000_000.0
_TABLE = TableInfo(ref=TableRef("db", "t"), location="/t", columns=())


def _state(
    files: dict[str, int], aborted: str = "", *, written_s: float | None = None
) -> AcidState:
    return state_of(files, f"{MAX - 1}:MAX::{aborted}", modified_s=written_s)


def _only(**limits: float) -> CompactionPolicy:
    """A policy with only these further thresholds, not even the default."""
    also = {Threshold(name): limit for name, limit in limits.items()}
    return CompactionPolicy(delta_count=None, delta_ratio=None, also_when=also)


def _ids(number: int) -> str:
    return ",".join(str(2 * at) for at in range(1, number + 1))


# ---- aborted transactions ------------------------------------------------------------------------


@pytest.mark.promise("C12")
@pytest.mark.parametrize(("number", "fires"), [(999, False), (1000, True), (1001, True)])
def test_a_thousand_aborted_writes_in_a_delta_start_a_major_compaction(
    number: int, fires: bool
) -> None:
    files = {"base_0000001/bucket_00000": _LARGE, "delta_0000002_0005000/bucket_00000": 10}
    plan = plan_compaction(
        _state(files, _ids(number)),
        CompactionChoice.AUTO,
        GivenThresholds().policy_for(_TABLE),
        can_hide_until_commit=False,
    )
    assert isinstance(plan, CompactionPlan) is fires
    if isinstance(plan, CompactionPlan):
        assert plan.is_major
        assert plan.why == f"{number} aborted transactions (threshold 1000)"
    else:
        assert plan.why == (
            "below the thresholds: 1 delta directories, 0.0 % of the base, 999 aborted transactions"
        )


@pytest.mark.promise("C12")
def test_aborted_directories_count_together_with_the_aborted_writes_of_a_delta() -> None:
    files = {
        "delta_0000001_0000010/bucket_00000": 10,  # 2, 4, 6, 8, 10 are aborted
        "delta_0000012_0000012/bucket_00000": 10,
        "delta_0000013_0000013/bucket_00000": 10,  # committed
    }
    health = TableHealth.of(_state(files, _ids(6)))
    assert (health.aborted_writes, health.aborted) == (6, 1)
    assert decide(health, _only(aborted_transactions=6))[0] is True
    assert decide(health, _only(aborted_transactions=7))[0] is None


@pytest.mark.promise("C12")
def test_directories_of_aborted_writes_alone_are_left_to_cleaning() -> None:
    files = {"base_0000001/bucket_00000": 10}
    files |= {f"delta_{2 * at:07d}_{2 * at:07d}/bucket_00000": 10 for at in range(1, 1101)}
    state = _state(files, _ids(1100))
    plan = plan_compaction(
        state, CompactionChoice.AUTO, CompactionPolicy(), can_hide_until_commit=True
    )
    assert isinstance(plan, NoCompaction)
    assert plan.why == "there is no delta; cleaning removes the directories of aborted writes"
    assert exceeded(TableHealth.of(state), CompactionPolicy()) == (), "no sensor wakes a job for it"


@pytest.mark.promise("C12")
def test_after_the_major_compaction_aborted_writes_start_no_other_one() -> None:
    # Nothing has been cleaned, and the metastore still lists every aborted write.
    files = {
        "base_0005000/bucket_00000": 10,
        "delta_0000002_0005000/bucket_00000": 10,
        "delta_0000004_0000004/bucket_00000": 10,
        "delta_0005001_0005001/bucket_00000": 10,
    }
    health = TableHealth.of(_state(files, _ids(1100)))
    assert (health.aborted_writes, health.aborted) == (0, 1)


def test_the_age_of_an_aborted_write_starts_a_major_compaction_if_a_task_asks_for_it() -> None:
    files = {"base_0000001/bucket_00000": _LARGE, "delta_0000002_0000009/bucket_00000": 10}
    health = TableHealth.of(_state(files, "4", written_s=_NOW_S - 43200), now_s=_NOW_S)
    assert decide(health, CompactionPolicy())[0] is None
    assert decide(health, _only(oldest_aborted_s=43200.5))[0] is None
    assert decide(health, _only(oldest_aborted_s=43200)) == (
        True,
        "the oldest aborted write is 12 h old (threshold 12 h)",
    )


# ---- deleted rows --------------------------------------------------------------------------------


def test_deleted_rows_start_a_major_compaction_only_if_they_were_counted() -> None:
    files = {"base_0000001/bucket_00000": _LARGE, "delete_delta_0000002_0000002/bucket_00000": 10}
    health = TableHealth.of(_state(files))
    assert decide(health, _only(deleted_rows=1))[0] is None
    assert decide(replace(health, deleted_rows=99), _only(deleted_rows=100))[0] is None
    assert decide(replace(health, deleted_rows=100), _only(deleted_rows=100)) == (
        True,
        "100 deleted rows (threshold 100)",
    )


# ---- small files ---------------------------------------------------------------------------------


def _small(directories: int, first: int = 2) -> dict[str, int]:
    return {f"delta_{at:07d}_{at:07d}/bucket_00000": 10 for at in range(first, first + directories)}


@pytest.mark.parametrize(
    ("files", "is_major"),
    [
        ({"base_0000001/bucket_00000": _LARGE, **_small(4)}, False),
        ({"base_0000001/bucket_00000": _LARGE, **_small(3)}, True),  # minor would leave one
        ({"base_0000001/bucket_00000": _LARGE, **_small(2)}, None),
        (_small(4), True),  # there is no base
        ({"000000_0": 10, **{f"000000_0_copy_{at}": 10 for at in range(1, 4)}}, True),
        ({f"base_0000001/bucket_{at:05d}": 10 for at in range(500)}, None),
    ],
)
def test_small_files_start_the_compaction_that_merges_enough_of_them(
    files: dict[str, int], is_major: bool | None
) -> None:
    found = decide(TableHealth.of(_state(files)), _only(small_files=3))
    assert found[0] is is_major, found
    if is_major is not None:
        assert found[1].startswith(("3 small files (threshold 3)", "4 small files (threshold 3)"))


@pytest.mark.parametrize("kind", [TransactionalKind.FULL_ACID, TransactionalKind.INSERT_ONLY])
def test_the_small_files_of_a_base_alone_wake_no_job_because_no_compaction_rewrites_it(
    kind: TransactionalKind,
) -> None:
    # INSERT OVERWRITE of many writers.
    files = {f"base_0000001/bucket_00000_{writer}": 10 for writer in range(500)}
    state, policy = state_of(files, kind=kind), _only(small_files=3)
    assert exceeded(TableHealth.of(state, kind=kind), policy) == ()
    plan = plan_compaction(
        state, CompactionChoice.AUTO, policy, can_hide_until_commit=True, kind=kind
    )
    assert isinstance(plan, NoCompaction)
    more = state_of(files | {"delta_0000002_0000002/bucket_00000": 10}, kind=kind)
    assert decide(TableHealth.of(more, kind=kind), policy)[0] is True


def test_small_files_in_one_delta_need_a_major_compaction() -> None:
    files = {"base_0000001/000000_0": _LARGE}
    files |= {f"delta_0000002_0000002/part-{at}": 10 for at in range(9)}
    kind = TransactionalKind.INSERT_ONLY
    health = TableHealth.of(state_of(files, kind=kind), kind=kind)
    assert decide(health, _only(small_files=5))[0] is True


@pytest.mark.parametrize("is_major", [True, False])
def test_after_the_compaction_its_result_starts_no_other_one(is_major: bool) -> None:
    buckets = range(300)
    files = {f"base_0000001/bucket_{bucket:05d}": _LARGE for bucket in buckets}
    files |= {
        f"delta_{w:07d}_{w:07d}/bucket_{bucket:05d}": 10 for bucket in buckets for w in (2, 3, 4)
    }
    state = _state(files)
    plan = plan_compaction(
        state,
        CompactionChoice.MAJOR if is_major else CompactionChoice.MINOR,
        CompactionPolicy(),
        can_hide_until_commit=True,
    )
    assert isinstance(plan, CompactionPlan)
    policy = _only(small_files=301)
    assert decide(TableHealth.of(state), policy)[0] is False
    (output,) = plan.outputs(TxnId(9))
    result = {f"{output}/bucket_{bucket:05d}": 30 for bucket in buckets}
    assert decide(TableHealth.of(_state(files | result)), policy)[0] is None


def test_a_minor_compaction_merges_no_inserts_with_deletes() -> None:
    files = {
        "delta_0000001_0000001/bucket_00000": 10,
        "delete_delta_0000002_0000002/bucket_00000": 9,
    }
    health = TableHealth.of(_state(files))
    assert (health.mergeable_delta_files, health.mergeable_files) == (0, 1)


# ---- age -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age_s", "fires"), [(604799, False), (604800, True)])
def test_an_old_delta_starts_a_major_compaction_if_a_task_asks_for_it(
    age_s: float, fires: bool
) -> None:
    files = {"base_0000001/bucket_00000": _LARGE, **_small(3)}
    health = TableHealth.of(_state(files, written_s=_NOW_S - age_s), now_s=_NOW_S)
    is_major, why = decide(health, _only(oldest_delta_s=604800))
    assert is_major is (True if fires else None)
    assert decide(health, CompactionPolicy())[0] is None
    if fires:
        assert why == "the oldest delta is 7 d old (threshold 7 d)"
    else:
        assert why.endswith("0.0 % of the base, the oldest delta is 6 d 23 h old")


def test_the_age_is_that_of_the_oldest_delta_or_delete_delta() -> None:
    listing = Listing(
        location="/t",
        files=tuple(
            FileEntry(path=f"{directory}/bucket_00000", size_bytes=10, modified_s=_NOW_S - age_s)
            for directory, age_s in (
                ("delta_0000001_0000001", 20.0),
                ("delta_0000002_0000002", 10.0),
                ("delete_delta_0000003_0000003", 30.0),
            )
        ),
    )
    write_ids = ValidWriteIdList.parse(f"d.t:{MAX - 1}:{MAX}::")
    health = TableHealth.of(
        resolve(listing, CompactorWriteIdList.of(write_ids), None), now_s=_NOW_S
    )
    assert health.oldest_delta_s == 30.0


def test_a_store_without_modification_times_has_no_old_delta() -> None:
    health = TableHealth.of(_state(_small(3)), now_s=_NOW_S)
    assert (health.oldest_delta_s, health.oldest_aborted_s) == (None, None)
    assert decide(health, _only(oldest_delta_s=1))[0] is None


def test_a_base_alone_is_never_old() -> None:
    files = {"base_0000001/bucket_00000": _LARGE}
    health = TableHealth.of(_state(files, written_s=0.0), now_s=_NOW_S)
    assert decide(health, _only(oldest_delta_s=1))[0] is None


# ---- together ------------------------------------------------------------------------------------


def test_the_reason_names_each_threshold_that_is_reached() -> None:
    health = TableHealth(
        table="db.t", location="/t", base_bytes=1000, deltas=3, aborted_writes=7, mergeable_files=9
    )
    policy = CompactionPolicy(
        delta_count=3,
        also_when={Threshold.ABORTED_TRANSACTIONS: 7, Threshold.SMALL_FILES: 9},
    )
    assert decide(health, policy) == (
        True,
        (
            "3 delta directories (threshold 3) and 7 aborted transactions (threshold 7)"
            " and 9 small files (threshold 9)"
        ),
    )


def test_the_limits_of_the_health_sensor_have_no_default() -> None:
    health = TableHealth(
        table="db.t", location="/t", base_bytes=1000, deltas=1, aborted_writes=5000
    )
    measures = TableMeasures(healths=(health,))
    assert measures.reached(HealthLimits(delta_count=2)) == ()


def test_aborted_transactions_can_be_switched_off() -> None:
    health = TableHealth(
        table="db.t", location="/t", base_bytes=1000, deltas=1, aborted_writes=5000
    )
    off = GivenThresholds(also_when={"aborted_transactions": Off.OFF})
    assert exceeded(health, GivenThresholds().policy_for(_TABLE))
    assert not exceeded(health, off.policy_for(_TABLE))
