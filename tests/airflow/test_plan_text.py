from __future__ import annotations

from dataclasses import replace
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

PLANNED: dict[str, Any] = {
    "compactions": [
        {
            "partition": "month=1",
            "done": False,
            "kind": "minor",
            "why": "10 delta directories (threshold 10)",
            "inputs": ["delta_1_1_0", "delta_2_2_0"],
            "bytes_in": 61_440,
            "bytes_out": 0,
        },
        {"partition": "month=12", "done": False, "kind": "none", "why": "below the thresholds"},
    ]
}
CLEANED: dict[str, Any] = {
    "cleanings": [
        {
            "partition": "",
            "removed": [{"path": "delta_1_1_0", "why": "covered by base_2", "size_bytes": 9}],
            "kept": [{"path": "delta_2_2_0", "why": "a reader needs it", "size_bytes": 9}],
            "unknown": {
                "count": 2001,
                "size_bytes": 4096,
                "largest": [
                    {"path": "x", "why": "it is empty", "size_bytes": 0, "age_s": None},
                    {"path": "notes", "why": "stray", "size_bytes": 9, "age_s": 90000.0},
                ],
            },
        }
    ]
}
RESTORED: dict[str, Any] = {
    "restore": [
        {"partition": "month=1", "how": "base", "come": 10, "go": 2, "stay": 0},
        {"partition": "", "how": "nothing", "come": 0, "go": 0, "stay": 7},
    ]
}


def _result(kind: str, details: dict[str, Any] | None = None, **more: Any) -> JobResult:  # noqa: ANN401
    """A result of a job on `d.t` that changed nothing, unless `more` says otherwise."""
    known = {"status": JobStatus.NOTHING_TO_DO, "table": "d.t", **more}
    return JobResult(kind=kind, job_key="k", details=details or {}, **known)


def test_a_restore_is_shown_as_a_table_of_partitions() -> None:
    assert plan_text.restore_lines(RESTORED) == (
        "partition  how      rows added  removed  unchanged",
        "month=1    base     10          2        0",
        "(table)    nothing  0           0        7",
    )
    assert plan_text.restore_lines({}) == plan_text.restore_lines({"restore": []}) == ()


def test_a_rebalance_is_shown_as_a_table_of_partitions() -> None:
    spread = {"files": 3, "new_files": 3, "size_bytes": 2048, "why": "its rows are spread evenly"}
    due = {
        "is_due": True,
        "files": 1,
        "new_files": 4,
        "size_bytes": 1 << 30,
        "why": "it has no base",
    }
    entries = [
        {"partition": "month=1", **due},
        {"partition": "", "is_due": False, **spread},
    ]
    assert plan_text.rebalance_lines({"rebalance": entries}) == (
        "partition  rewritten  files  new files  bytes    why",
        "month=1    yes        1      4          1.0 GiB  it has no base",
        "(table)    no         3                 2.0 KiB  its rows are spread evenly",
    )
    assert plan_text.rebalance_lines({}) == ()


def test_a_compaction_plan_is_shown_as_a_table_of_partitions() -> None:
    assert plan_text.compaction_lines(PLANNED) == (
        "partition  compaction  directories  in        out  why",
        "month=1    minor       2            60.0 KiB       10 delta directories (threshold 10)",
        "month=12   none                                    below the thresholds",
    )


def test_a_run_of_many_tables_ends_with_totals_and_skipped_tables() -> None:
    due = {"table": "s.a", "partition": "", "kind": "minor", "why": "10 deltas", "inputs": ["d"]}
    details = {
        "compactions": [
            {**due, "bytes_in": 1024, "bytes_out": 512, "done": True},
            {**due, "table": "s.b", "partition": "day=1", "bytes_in": 3072, "done": False},
        ],
        "tables": 3,
        "partitions": 1200,
        "skipped": [{"table": "s.c", "why": "it is sorted"}],
    }
    assert plan_text.table_lines(details) == (
        "table  partition  compaction  directories  in       out    why",
        "s.b    day=1      minor       1            3.0 KiB         10 deltas",
        "s.a    (table)    minor       1            1.0 KiB  512 B  10 deltas",
        "3 tables with 1,200 partitions: 1 compacted, 1 due but not compacted, 1,198 not due",
        "skipped table  why",
        "s.c            it is sorted",
    )
    assert plan_text.detail_lines(details) == plan_text.table_lines(details)


def test_a_cleaning_of_many_tables_ends_with_totals_and_skipped_tables() -> None:
    one = {"partitions": 2, "removed": 1000, "kept": 0, "kept_bytes": 0, "why_kept": ""}
    waits = {"kept": 3, "kept_bytes": 1024, "why_kept": "transaction 5 may read it"}
    details = {
        "cleanings": [
            {"table": "s.a", **one, "removed_bytes": 2048},
            {"table": "s.b", **one, "removed_bytes": 10, **waits},
            {"table": "s.d", "unknown": 1200, "unknown_bytes": 3, "largest_unknown": "backup"},
        ],
        "tables": 3,
        "partitions": 1200,
        "cleaned_partitions": 4,
        "kept": 3,
        "kept_bytes": 1024,
        "unknown": 1200,
        "unknown_bytes": 3,
        "skipped": [{"table": "s.c", "why": "it is sorted"}],
    }
    rest = "4 partitions, 3 (1.0 KiB) kept"
    assert plan_text.cleaned_table_lines(details) == (
        "table  partitions  removed  bytes    kept  bytes    why kept                   unknown",
        "s.a    2           1,000    2.0 KiB  0",
        "s.b    2           1,000    10 B     3     1.0 KiB  transaction 5 may read it",
        f"s.d    0           0                 0{' ' * 41}1,200, such as backup",
        f"3 tables with 1,200 partitions: 2,000 directories (2.0 KiB) removed from {rest}",
        "1,200 unknown paths (3 B) found; a cleaning leaves them alone",
        "skipped table  why",
        "s.c            it is sorted",
    )
    assert plan_text.detail_lines(details) == plan_text.cleaned_table_lines(details)


def test_a_cleaning_of_3000_tables_shows_the_50_largest_and_the_totals_of_all() -> None:
    tables = [
        {"table": f"s.t{n}", "partitions": 1, "removed": 2, "removed_bytes": 5} for n in range(3000)
    ]
    lines = plan_text.cleaned_table_lines({"cleanings": tables, "tables": 3000, "partitions": 3000})
    assert len(lines) == 53
    assert lines[-2] == "... and 2950 more"
    assert "6,000 directories (14.6 KiB) removed" in lines[-1]


def test_a_cleaning_plan_is_shown_as_a_table_of_paths() -> None:
    assert plan_text.cleaning_lines(CLEANED) == (
        "partition  action  path         why",
        "(table)    remove  delta_1_1_0  covered by base_2",
        "(table)    keep    delta_2_2_0  a reader needs it",
        "partition  unknown path  bytes  why",
        "(table)    x                    it is empty",
        "(table)    notes         9 B    stray; changed 1 d 1 h ago",
        "2,001 unknown paths (4.0 KiB) found; a cleaning leaves them alone",
    )


def test_a_job_without_details_shows_no_plan() -> None:
    assert plan_text.compaction_lines({}) == ()
    assert (
        plan_text.cleaning_lines({"cleanings": [{"partition": "", "removed": [], "kept": []}]})
        == ()
    )


def test_a_long_plan_is_truncated_and_counts_the_omitted_lines() -> None:
    many = {"compactions": [{"partition": f"p={n}", "kind": "none"} for n in range(1000)]}
    lines = plan_text.compaction_lines(many)
    assert len(lines) == 102
    assert lines[-1] == "... and 900 more"


@pytest.mark.parametrize(
    ("size", "text"), [(0, ""), (812, "812 B"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")]
)
def test_sizes_are_shown_with_binary_units(size: int, text: str) -> None:
    details = {"compactions": [{"partition": "p", "kind": "k", "bytes_in": size}]}
    assert plan_text.compaction_lines(details)[1].split() == ["p", "k", *text.split()]


def test_the_details_of_a_job_choose_its_lines() -> None:
    assert plan_text.detail_lines(PLANNED) == plan_text.compaction_lines(PLANNED)
    assert plan_text.detail_lines(CLEANED) == plan_text.cleaning_lines(CLEANED)
    assert plan_text.detail_lines(RESTORED) == plan_text.restore_lines(RESTORED)


@pytest.mark.usefixtures("connections", "spark")
def test_the_description_of_an_operators_result_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    task = HiveAcidCompactOperator(task_id="task", table="db.t", plan_only=True)
    told: list[str] = []
    log = SimpleNamespace(info=lambda text, *parts: told.append(text % parts))
    monkeypatch.setattr(HiveAcidCompactOperator, "log", log)
    monkeypatch.setattr(spark_app, "detail_lines", lambda _: plan_text.compaction_lines(PLANNED))
    run_task(task)
    planned = list(plan_text.compaction_lines(PLANNED))
    at = told.index(planned[0])
    assert told[at : at + len(planned)] == planned
    assert told[at + len(planned)].startswith("compact of db.t: ")


def test_a_conversion_is_shown_as_a_table_of_steps() -> None:
    outcome = {"before": "flat", "after": "full_acid", "steps": ["a", "b"]}
    assert plan_text.conversion_lines({"conversion": outcome}) == (
        "step  flat to full_acid",
        "1     a",
        "2     b",
    )
    assert plan_text.conversion_lines({}) == ()


def test_rows_from_the_metastore_are_shown_as_a_table() -> None:
    rows = [{"lock_id": 1, "table": "db.t"}, {"lock_id": 23, "table": "db.u", "partition": "p=1"}]
    assert plan_text.answer_lines({"rows": rows, "count": 2}) == (
        "lock_id  table  partition",
        "1        db.t",
        "23       db.u   p=1",
    )
    assert plan_text.answer_lines({}) == plan_text.answer_lines({"rows": []}) == ()


def test_a_change_feed_behind_an_open_write_does_not_say_that_there_is_nothing_to_do() -> None:
    left = {"versions": 2, "why": "write ID 7 is lower and still open"}
    result = _result("change_feed", {"ranges": [], "until": 6, "left": left})
    assert plan_text.came_of(result) == "left 2 versions: write ID 7 is lower and still open"


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


def ended(kind: str, **details: object) -> str:
    """The headline of a job that changed nothing."""
    return plan_text.result_lines(_result(kind, details), 2.0)[0]


def test_nothing_to_do_is_said_only_of_a_job_that_kept_left_and_skipped_nothing() -> None:
    reader = "transaction 7 (alice@host, job dag/task): it has requested a shared_read lock on d.t"
    kept = [
        {"partition": "", "removed": [], "kept": [{"path": str(n), "why": reader}]} for n in "ab"
    ]
    assert ended("clean") == "clean of d.t: nothing to do in 2.0 s"
    assert ended("clean", cleanings=kept) == f"clean of d.t: kept 2: {reader} in 2.0 s"
    for number, one in enumerate(kept):
        one["kept"][0]["why"] = f"{reader}, open for {number + 1} min 2 s"  # type: ignore[index]
    assert f": kept 2: {reader}, open for 1 min 2 s in" in ended("clean", cleanings=kept)
    tables = [{"table": "d.t", "removed": 0, "kept": 11, "why_kept": reader}]
    assert f": kept 11: d.t: {reader} in" in ended("clean_tables", cleanings=tables)
    below = {"done": False, "kind": "none", "why": "below the thresholds", "is_hindered": False}
    assert ": nothing to do in" in ended("compact", compactions=[below])
    busy = {**below, "why": "write ID 3 is open", "is_hindered": True}
    assert ": left 1: write ID 3 is open in" in ended("compact", compactions=[below, busy])
    large = {"table": "d.t", "done": False, "kind": "major", "why": "left, because it is large"}
    assert ": left 2: write ID 3 is open (1); left, because it is large (1) in" in ended(
        "compact_tables", compactions=[busy, large]
    )
    off = [{"table": "d.t", "why": "cleaning is switched off"}]
    assert ": skipped 1: d.t: cleaning is switched off in" in ended("clean_tables", skipped=off)
    assert "window had ended" in ended("compact_tables", window_ended=True, compactions=[])


def test_a_proof_of_erasure_ends_with_what_it_proves() -> None:
    at = "2026-11-27T22:00:00+00:00"
    proof = {"proved": True, "files": 18, "listed_at": at, "left": []}
    head, *rest = plan_text.result_lines(_result("prove_erasure", {"erasure": proof}), 79.7)
    assert head == (
        f"prove_erasure of d.t: proved: none of 18 files stored such a row at {at}, in 79.7 s"
    )
    assert not any("files" in line for line in rest)
    left = {**proof, "proved": False, "left": [{"path": "x"}], "left_omitted": 2}
    assert f": not proved: 3 of 18 files at {at}, in" in ended("prove_erasure", erasure=left)
