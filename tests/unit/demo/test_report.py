from __future__ import annotations

import io
from datetime import date

from rich.console import Console

from demo.report import JobLine, Report
from demo.truth import DayVerdict, Difference, Verdict

DAY = date(2013, 1, 31)
JOB = JobLine(
    dag_id="flights_merge",
    task_id="merge",
    day=DAY,
    state="success",
    tries=2,
    task_s=123.4,
    job_s=100.0,
    rows=(1943, 1838, 14),
    files=2,
    size_bytes=27_461,
    note="committed",
)


def report_of(width: int) -> tuple[Report, io.StringIO]:
    said = io.StringIO()
    return Report(Console(file=said, width=width, highlight=False)), said


def test_on_a_narrow_terminal_no_text_is_cut_off() -> None:
    report, said = report_of(60)
    report.show_jobs([JOB])
    assert "…" not in said.getvalue()


def test_at_most_ten_different_rows_are_listed() -> None:
    differences = tuple(
        Difference(day=DAY, side="missing", row=f"{{'row': [{n}]}}") for n in range(12)
    )
    day = DayVerdict(day=DAY, expected_rows=12, actual_rows=0, differing_rows=12)
    verdict = Verdict(days=(day,), differences=differences, expected_digest="e", actual_digest="a")
    report, said = report_of(100)
    report.show_truth(verdict)
    assert "differs" in said.getvalue()
    assert said.getvalue().count("missing") == 10
    assert "{'row': [3]}" in said.getvalue()
    assert "2 more rows" in said.getvalue()


def test_the_log_shows_the_beginning_and_end_of_each_step() -> None:
    report, said = report_of(100)
    with report.step("merging"):
        report.tell("found [red] in a name")
    begun, told, ended = said.getvalue().splitlines()
    assert "merging ..." in begun
    assert "found [red] in a name" in told
    assert "done merging" in ended
    assert [step.name for step in report.steps] == ["merging"]
