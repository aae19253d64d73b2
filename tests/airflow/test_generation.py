from __future__ import annotations

from types import SimpleNamespace

from airflow_hiveacid.operators.run_identity import generation_of, note_delivered


class Store:
    """What a task's state store is to us."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def get(self, key: str) -> object:
        return self.values.get(key)

    def set(self, key: str, value: object, *, retention: object = None) -> None:
        assert retention is not None
        self.values[key] = value


def context(store: Store | None, *, max_tries: int) -> dict[str, object]:
    task = SimpleNamespace(retries=1)
    return {"ti": SimpleNamespace(max_tries=max_tries, task=task), "task_state_store": store}


def test_retries_and_clears_before_a_result_was_delivered_are_one_generation() -> None:
    store = Store()
    assert generation_of(context(store, max_tries=1)) == 0
    assert generation_of(context(store, max_tries=3)) == 0  # cleared after a failure


def test_a_clear_after_a_result_was_delivered_begins_the_next_one() -> None:
    store = Store()
    note_delivered(context(store, max_tries=1), 0)
    assert generation_of(context(store, max_tries=1)) == 0  # lost after its result, tried again
    assert generation_of(context(store, max_tries=3)) == 1
    assert generation_of(context(store, max_tries=5)) == 1  # failed, cleared once more
    note_delivered(context(store, max_tries=5), 1)
    assert generation_of(context(store, max_tries=7)) == 2


def test_without_a_state_store_clears_are_counted() -> None:
    assert generation_of(context(None, max_tries=1)) == 0
    assert generation_of(context(None, max_tries=4)) == 3
