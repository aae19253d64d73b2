from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.operators.submission.resumption import Resumable
from tests.support.airflow_support import StateStore

_SPEC: dict[str, Any] = {
    "job_key": "dag/run/task/-1",
    "generation": 2,
    "statement": {"kind": "delete", "where": "a"},
    "result_uri": "file:/results/1",
    "attempt": "1-aaaaaaaaaaaa",
}


def spec(**changes: object) -> Any:  # noqa: ANN401
    return SimpleNamespace(**{**_SPEC, **changes})


def test_what_was_noted_is_of_the_same_work() -> None:
    notes = Resumable(StateStore())
    notes.note(spec())
    assert not notes.is_of_another(spec(result_uri="file:/results/2", attempt="2-bbbbbbbbbbbb"))


@pytest.mark.parametrize(
    "change",
    [
        {"job_key": "dag/run/other/-1"},
        {"generation": 3},
        {"statement": {"kind": "delete", "where": "b"}},
    ],
    ids=["job key", "generation", "statement"],
)
def test_what_differs_in_one_field_is_of_another(change: dict[str, object]) -> None:
    notes = Resumable(StateStore())
    notes.note(spec())
    assert notes.is_of_another(spec(**change))


def test_a_new_submission_hides_the_driver_of_the_one_before() -> None:
    """Else a retry would follow the old driver, and the new one would run beside it."""
    store = StateStore(spark_job_id="application_1_0001")
    notes = Resumable(store, provider_keys=("spark_job_id",))
    notes.note(spec())
    assert "spark_job_id" not in store
    assert notes.attempt_without("spark_job_id") == _SPEC["attempt"]
