from __future__ import annotations

from typing import Any

from demo.airflow_api import Task
from tests.proofs.airflow.examples import Example, violation

DUE = {"status": "planned", "details": {"compactions": [{"kind": "major"}, {"kind": "none"}]}}
NOT_DUE = {"status": "planned", "details": {"compactions": [{"kind": "none"}]}}


def ran(
    run_id: str, task_id: str, result: dict[str, Any], state: str = "success"
) -> tuple[Task, dict[str, Any]]:
    task = Task(
        run_id=run_id, task_id=task_id, state=state, tries=1, seconds=1.0, start=None, end=None
    )
    return task, result


def test_each_task_of_an_example_has_work_in_each_round() -> None:
    example = Example(dag_id="d", rounds=2)
    first = [
        ran("1", "compact", {"status": "committed"}),
        ran("1", "clean", {"status": "committed"}),
    ]
    again = [
        ran("2", "compact", {"status": "committed"}),
        ran("2", "clean", {"status": "committed"}),
    ]
    idle = [
        ran("2", "compact", {"status": "committed"}),
        ran("2", "clean", {"status": "nothing_to_do"}),
    ]
    assert violation(example, [*first, *again]) == ""
    assert violation(example, [*first, *idle]) == "had no work in some round: clean"
    assert violation(example, first) == "had no work in some round: compact, clean"


def test_a_plan_has_work_if_a_compaction_is_due() -> None:
    example = Example(dag_id="d")
    assert violation(example, [ran("1", "plan", DUE)]) == ""
    assert violation(example, [ran("1", "plan", NOT_DUE)]) == "had no work in some round: plan"


def test_a_task_that_may_be_skipped_has_work_in_another_run() -> None:
    example = Example(dag_id="d", skipped=("plan", "clean"))
    runs = [ran("1", "plan", DUE), ran("1", "clean", {}, "skipped")]
    assert violation(example, runs) == "had no work in some round: clean"
    runs += [ran("2", "plan", {}, "skipped"), ran("2", "clean", {"status": "committed"})]
    assert violation(example, runs) == ""
    assert violation(Example(dag_id="d"), runs) == "{'clean': 'skipped', 'plan': 'skipped'}"
