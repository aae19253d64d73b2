from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_hiveacid.operators.submission import run_identity
from airflow_hiveacid.operators.submission.run_identity import generation_of, note_delivered
from tests.support.airflow_minors import since_3_3


class Store:
    """What a task's state store is to us."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def get(self, key: str) -> object:
        return self.values.get(key)

    def set(self, key: str, value: object, *, retention: object = None) -> None:
        assert retention is not None
        self.values[key] = value


def context(
    store: Store | None, *, max_tries: int, retries: int = 1, try_number: int = 1, clears: int = 0
) -> dict[str, object]:
    task = SimpleNamespace(retries=retries)
    return {
        "ti": SimpleNamespace(max_tries=max_tries, task=task, try_number=try_number),
        "dag_run": SimpleNamespace(clear_number=clears),
        "task_state_store": store,
    }


def test_retries_and_clears_before_the_first_result_are_one_generation() -> None:
    store = Store()
    assert generation_of(context(store, max_tries=1)) == 0
    assert generation_of(context(store, max_tries=3)) == 0  # cleared after a failure


@since_3_3
def test_a_clear_after_a_delivered_result_starts_the_next_generation() -> None:
    store = Store()
    note_delivered(context(store, max_tries=1), 0)
    assert generation_of(context(store, max_tries=1)) == 0  # lost after its result, tried again
    assert generation_of(context(store, max_tries=3)) == 1
    assert generation_of(context(store, max_tries=5)) == 1  # failed, cleared once more
    note_delivered(context(store, max_tries=5), 1)
    assert generation_of(context(store, max_tries=7)) == 2


@since_3_3
def test_a_clear_is_detected_even_if_fewer_retries_leave_max_tries_unchanged() -> None:
    store = Store()
    first = {"max_tries": 2, "try_number": 1}
    note_delivered(context(store, **first, retries=2), 0)
    # Airflow: try_number + retries, both when a task is cleared.
    cleared = {"max_tries": 1 + 1, "try_number": 2, "retries": 1}
    assert generation_of(context(store, **cleared, clears=1)) == 1
    assert generation_of(context(store, **cleared, clears=0)) == 0  # lost, tried again
    # Another task of the run was cleared while this one was lost after its result.
    assert generation_of(context(store, max_tries=2, try_number=2, retries=2, clears=1)) == 0


def test_without_a_state_store_the_generation_is_derived_from_max_tries() -> None:
    assert generation_of(context(None, max_tries=1)) == 0
    assert generation_of(context(None, max_tries=4, clears=1)) == 3


@pytest.mark.parametrize(("counts_every_clear", "generation"), [(True, 0), (False, 2)])
def test_without_a_state_store_fewer_retries_are_no_clear_if_airflow_counts_every_clear(
    monkeypatch: pytest.MonkeyPatch, *, counts_every_clear: bool, generation: int
) -> None:
    """Airflow 3.1 counts only clears of DAG runs that have ended."""
    monkeypatch.setattr(run_identity, "COUNTS_EVERY_CLEAR", counts_every_clear)
    lowered = context(None, max_tries=3, retries=1, try_number=2)
    assert generation_of(lowered) == generation


def test_without_a_state_store_a_clear_of_a_different_task_is_no_clear_of_this_one() -> None:
    """After a clear, the generation is above the number of clears if the task had retries."""
    before, after = (context(None, max_tries=4, clears=clears) for clears in (1, 2))
    assert generation_of(before) == generation_of(after) == 3


def test_without_a_state_store_a_clear_after_a_failure_starts_the_next_generation() -> None:
    first, cleared = context(None, max_tries=1), context(None, max_tries=3, clears=1)
    assert (generation_of(first), generation_of(cleared)) == (0, 2)
