from __future__ import annotations

from airflow_hiveacid.spark.engine.progress import StageReporter, StageState


def _at(done: int, *, stage_id: int = 3, rows: int = 0) -> StageState:
    return StageState(stage_id=stage_id, done=done, tasks=40, rows=rows)


def _lines(*moments: tuple[float, list[StageState]]) -> list[str]:
    reporter = StageReporter("merge")
    return [line for now, active in moments for line in reporter.lines(active, now)]


def test_a_short_stage_is_not_logged() -> None:
    assert _lines((0, [_at(0)]), (1, [_at(30)]), (1.9, [])) == []


def test_a_stage_is_logged_when_it_ends() -> None:
    lines = _lines((0, [_at(0)]), (9, [_at(40, rows=1200)]), (10, [_at(0, stage_id=4)]))
    assert lines == ["merge: stage 3 ended: 40 of 40 tasks, 1,200 rows read, 10 s"]


def test_a_stage_that_may_have_failed_is_not_reported_as_complete() -> None:
    lines = _lines((0, [_at(0)]), (9, [_at(3)]), (10, []))
    assert lines == ["merge: stage 3 ended: at least 3 of 40 tasks, 10 s"]


def test_a_long_stage_is_logged_after_one_two_and_four_minutes() -> None:
    lines = _lines(*((float(now), [_at(now // 10)]) for now in range(0, 300, 10)))
    assert lines == [
        "merge: stage 3: 6 of 40 tasks, 60 s",
        "merge: stage 3: 12 of 40 tasks, 120 s",
        "merge: stage 3: 24 of 40 tasks, 240 s",
    ]
