from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts, StatementResult
from airflow_hiveacid.operators import spark_app
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.reporting import plan_text
from airflow_hiveacid.operators.sql import what_came_of
from tests.support.airflow_support import run_task
from tests.support.cases import cases_of

CASES = Path(__file__).parent / "cases"


def _titled(name: str) -> list[Any]:
    """What each case of a file is given, and the lines that it expects; its title is its ID."""
    split = [(*text.partition(": ")[::2], below) for text, below in cases_of(CASES / name)]
    return [pytest.param(given, dedent(below), id=title) for title, given, below in split]


def _result(kind: str, details: dict[str, Any] | None = None, **more: Any) -> JobResult:  # noqa: ANN401
    """A result of a job on `d.t` that changed nothing, unless `more` says otherwise."""
    known = {"status": JobStatus.NOTHING_TO_DO, "table": "d.t", **more}
    return JobResult(kind=kind, job_key="k", details=details or {}, **known)


@pytest.mark.parametrize(("details", "lines"), _titled("plan_lines.txt"))
def test_the_details_of_a_job_are_shown_as_a_table(details: str, lines: str) -> None:
    given = json.loads(details)
    shown = plan_text.answer_lines(given) if "rows" in given else plan_text.detail_lines(given)
    assert list(shown) == lines.splitlines()


def test_a_cleaning_of_3000_tables_shows_the_50_largest_and_the_totals_of_all() -> None:
    tables = [
        {"table": f"s.t{n}", "partitions": 1, "removed": 2, "removed_bytes": 5} for n in range(3000)
    ]
    lines = plan_text.cleaned_table_lines({"cleanings": tables, "tables": 3000, "partitions": 3000})
    assert len(lines) == 53
    assert lines[-2] == "... and 2950 more"
    assert "6,000 directories (14.6 KiB) removed" in lines[-1]


def test_a_long_plan_is_truncated_and_counts_the_omitted_lines() -> None:
    many = {"compactions": [{"partition": f"p={n}", "kind": "none"} for n in range(1000)]}
    lines = plan_text.compaction_lines(many)
    assert len(lines) == 102
    assert lines[-1] == "... and 900 more"


@pytest.mark.usefixtures("connections", "spark")
def test_the_description_of_an_operators_result_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    task = HiveAcidCompactOperator(task_id="task", table="db.t", plan_only=True)
    told: list[str] = []
    log = SimpleNamespace(info=lambda text, *parts: told.append(text % parts))
    monkeypatch.setattr(HiveAcidCompactOperator, "log", log)
    planned = ["partition  compaction", "month=1    minor"]
    monkeypatch.setattr(spark_app, "detail_lines", lambda _: planned)
    run_task(task)
    at = told.index(planned[0])
    assert told[at : at + len(planned)] == planned
    assert told[at + len(planned)].startswith("compact of db.t: ")


def test_the_result_of_a_definition_is_one_line() -> None:
    def said(kind: str = "add_partitions", **more: Any) -> str:  # noqa: ANN401
        return what_came_of(_result(kind, **{"status": JobStatus.COMMITTED, **more}))

    assert said() == "add_partitions d.t: committed"
    assert said(partitions=("p=1", "p=2")) == "add_partitions d.t: committed, partitions p=1, p=2"
    assert said("show_locks", table="", details={"count": 3}) == "show_locks: 3 rows"


def test_a_job_result_is_a_table_of_rows_files_bytes_and_seconds() -> None:
    done = _result(
        "merge",
        status=JobStatus.COMMITTED,
        table="demo.customers",
        write_ids={"demo.customers": 1},
        rows=RowCounts(inserted=1234, updated=1),
        files=1,
        size_bytes=1536,
        seconds=8.06,
        phases={"prepare": 1.04, "lock": 0.25, "work": 6.6},
    )
    assert plan_text.result_lines(done, 17.4) == (
        "merge of demo.customers: committed in 17.4 s",
        "statement  table           inserted  updated  deleted  version  files  bytes",
        "merge      demo.customers  1,234     1        0        1        1      1.5 KiB",
        "seconds  Spark  prepare  lock  work",
        "         9.3    1.0      0.2   6.6",
    )
    assert plan_text.result_lines(done, 8.06)[-2:] == (
        "seconds  Spark  prepare  lock  work",
        "         0.0    1.0      0.2   6.6",
    )


def test_a_transaction_result_has_a_line_per_statement_and_a_cleaning_no_row_counts() -> None:
    statements = [
        StatementResult(kind=kind, table=table, rows=RowCounts(inserted=1), files=2)
        for kind, table in (("insert", "demo.a"), ("merge", "demo.b"))
    ]
    done = _result(
        "transaction",
        {"statements": [to_json(one) for one in statements]},
        status=JobStatus.ALREADY_DONE,
        table="demo.a",
        write_ids={"demo.a": 7, "demo.b": 2},
    )
    assert plan_text.result_lines(done, 1.0)[:4] == (
        "transaction of demo.a: already done in 1.0 s",
        "statement  table   inserted  updated  deleted  version  files  bytes",
        "insert     demo.a  1         0        0        7        2      0 B",
        "merge      demo.b  1         0        0        2        2      0 B",
    )
    cleaned = replace(
        done, kind="clean", write_ids={}, details={}, files=3, size_bytes=10, seconds=0.5
    )
    assert plan_text.result_lines(cleaned, 2.0)[1:] == (
        "statement  table   files  bytes",
        "clean      demo.a  3      10 B",
        "seconds  Spark  job",
        "         1.5    0.5",
    )


@pytest.mark.parametrize(("job", "says"), _titled("headlines.txt"))
def test_nothing_to_do_is_said_only_of_a_job_that_kept_left_and_skipped_nothing(
    job: str, says: str
) -> None:
    kind, _, details = job.partition(" ")
    head, *rest = plan_text.result_lines(_result(kind, json.loads(details)), 2.0)
    assert head == f"{kind} of d.t: {says.strip()} in 2.0 s"
    assert any("files" in line for line in rest) is (kind != "prove_erasure")
