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


def test_a_retry_of_the_same_job_matches_the_noted_submission() -> None:
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
def test_a_different_job_key_generation_or_statement_does_not_match_the_note(
    change: dict[str, object],
) -> None:
    notes = Resumable(StateStore())
    notes.note(spec())
    assert notes.is_of_another(spec(**change))


def test_noting_a_new_submission_removes_the_driver_id_of_the_previous_one() -> None:
    """Else a retry would follow the old driver, and the new one would run beside it."""
    store = StateStore(spark_job_id="application_1_0001")
    notes = Resumable(store, provider_keys=("spark_job_id",))
    notes.note(spec())
    assert "spark_job_id" not in store
    assert notes.attempt_without("spark_job_id") == _SPEC["attempt"]
