"""PySpark programs of the user's own: one transaction, with all that the ready-made jobs have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    StatementOrderError,
    UnknownColumnError,
)
from airflow_hiveacid.format.ids import AttemptId
from airflow_hiveacid.jobs.job import ExitCode, JobResult, JobSpec, JobStatus, ProgramSpec
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.transactions.fencing import abort_job
from airflow_hiveacid.spark import acid
from airflow_hiveacid.spark.engine.failures import typed_failures
from airflow_hiveacid.spark.writing.context import JobContext
from spark_apps.examples import merge_orders
from tests.support.column_lists import columns_of
from tests.support.spark_lab import Lab
from tests.support.spark_submit import submit
from tests.support.steps import at

CLAUSES = [
    {"when": "matched", "action": "update"},
    {"when": "not_matched", "action": "insert"},
]


def spec_of(lab: Lab, **tables: tuple[str, ...]) -> ProgramSpec:
    named = {kind: tuple(f"{lab.db}.{n}" for n in names) for kind, names in tables.items()}
    return ProgramSpec(application="job.py", **named)


def run(
    lab: Lab,
    spec: ProgramSpec,
    body: Callable[[acid.Transaction], object],
    *,
    job_key: str = "program",
    on_step: Callable[[str], None] = lambda _step: None,
) -> JobResult:
    """Run a program in this process, whose transaction is this body."""

    def program(spark: object, task: acid.Task) -> None:
        with acid.transaction(spark, task) as txn:  # type: ignore[arg-type]
            body(txn)

    return run_whole(lab, spec, program, job_key=job_key, on_step=on_step)


def run_whole(
    lab: Lab,
    spec: ProgramSpec,
    program: Callable[..., None],
    *,
    job_key: str = "program",
    on_step: Callable[[str], None] = lambda _step: None,
) -> JobResult:
    job = JobSpec(
        job_key=f"{lab.db}/{job_key}", metastore=lab.endpoint, job=spec, lock_timeout_s=20.0
    )
    with connect(lab.endpoint) as client, typed_failures():
        context = JobContext.of(lab.spark, job, client, on_step)
        return acid.run_program(context, program)


@pytest.fixture
def shop(lab4: Lab) -> Lab:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab4.table("log", {"id": "bigint", "what": "string"})
    lab4.insert("t", [(1, 1, 1), (2, 2, 2)], ["id", "v", "p"])
    return lab4


def test_the_parameters_of_a_program_are_bound_as_literals(shop: Lab) -> None:
    t, log = f"{shop.db}.t", f"{shop.db}.log"
    hostile = "kept' OR '1'='1"
    seen: list[object] = []

    def body(txn: acid.Transaction) -> None:
        txn.insert(
            log, shop.spark.createDataFrame([(1, hostile), (2, "kept")], "id int, what string")
        )
        found = txn.read(log, where="what = :what", parameters={"what": hostile})
        seen.extend(row.id for row in found.collect())
        txn.update(t, {"v": "v + :more"}, where="id IN (:ids)", parameters={"more": 5, "ids": [2]})
        txn.delete(log, where="what = :what", parameters={"what": hostile})
        with pytest.raises(ConfigurationError, match=r"'b'\] is not used in any SQL text"):
            txn.read(log, where="id = :a", parameters={"a": 1, "b": 2})

    run(shop, spec_of(shop, changes=("t", "log")), body)
    assert seen == [1]
    assert shop.rows("t") == [(1, 1, 1), (2, 7, 2)]
    assert shop.rows("log") == [(2, "kept")]


@pytest.mark.promise("T24")
def test_a_program_reads_its_own_writes_and_commits_them_together(shop: Lab) -> None:
    t, log = f"{shop.db}.t", f"{shop.db}.log"
    seen: list[list[tuple[object, ...]]] = []

    def body(txn: acid.Transaction) -> None:
        before = txn.read(t)
        new = before.selectExpr("id + 10 AS id", "v", "p + 1 AS p")
        txn.merge(t, new, keys=["id"], clauses=CLAUSES)
        txn.update(t, {"v": "v * 100"}, where="p = 3")
        txn.delete(t, where="id = 1")
        seen.append(sorted(map(tuple, before.collect())))
        seen.append(sorted(map(tuple, txn.read(t, columns=["id", "v"], where="p > 1").collect())))
        done = txn.insert(log, txn.read(t).selectExpr("id", "'kept' AS what"))
        assert (done.kind, done.rows.inserted) == ("insert", 3)
        assert shop.rows("t") == [(1, 1, 1), (2, 2, 2)]  # nobody else sees it

    result = run(shop, spec_of(shop, changes=("t",), inserts=("log",)), body)
    assert seen == [[(1, 1, 1), (2, 2, 2)], [(2, 2), (11, 1), (12, 200)]]
    assert shop.rows("t") == [(2, 2, 2), (11, 1, 2), (12, 200, 3)]
    assert shop.rows("log") == [(2, "kept"), (11, "kept"), (12, "kept")]
    assert result.status is JobStatus.COMMITTED
    kinds = [s["kind"] for s in result.details["statements"]]  # type: ignore[union-attr,index,call-overload]
    assert kinds == ["merge", "update", "delete", "insert"]
    assert shop.client.show_locks(shop.info("t").ref) == ()


def test_a_retried_program_is_not_applied_again(shop: Lab) -> None:
    spec, calls = spec_of(shop, inserts=("log",)), []

    def body(txn: acid.Transaction) -> None:
        calls.append(1)
        txn.insert(f"{shop.db}.log", shop.spark.sql("SELECT 1L AS id, 'once' AS what"))

    first, again = run(shop, spec, body), run(shop, spec, body)
    assert (first.status, again.status) == (JobStatus.COMMITTED, JobStatus.ALREADY_DONE)
    assert again.txn_id == first.txn_id
    assert len(calls) == 1
    assert shop.rows("log") == [(1, "once")]


def test_a_program_overtaken_before_its_snapshot_runs_once_and_reads_the_newer_rows(
    shop: Lab,
) -> None:
    spec, calls = spec_of(shop, inserts=("log",)), []

    def overtake(step: str) -> None:
        if step == "allocated" and not calls:
            calls.append("overtaken")
            shop.overwrite("log", [(9, "theirs")], ["id", "what"])

    def body(txn: acid.Transaction) -> None:
        calls.append("run")
        rows = txn.read(f"{shop.db}.log").selectExpr("id + 1 AS id", "'ours' AS what")
        txn.insert(f"{shop.db}.log", rows)

    run(shop, spec, body, on_step=overtake)
    assert shop.rows("log") == [(9, "theirs"), (10, "ours")]
    assert calls == ["overtaken", "run"]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda txn, db: txn.read(f"{db}.log"), ConfigurationError, "add the table to reads"),
        (
            lambda txn, db: txn.delete(f"{db}.log", where="true"),
            ConfigurationError,
            "add the table to inserts, changes or overwrites",
        ),
        (
            lambda txn, db: txn.insert(f"{db}.t", txn.read(f"{db}.t"), overwrite=True),
            ConfigurationError,
            "add the table to overwrites",
        ),
        (lambda txn, db: txn.delete(f"{db}.t", where=" "), ConfigurationError, "where is blank"),
        (
            lambda txn, db: txn.update(f"{db}.t", {"w": "1"}, where="true"),
            UnknownColumnError,
            "w",
        ),
    ],
)
def test_an_undeclared_or_invalid_statement_of_a_program_ends_its_transaction(
    shop: Lab, body: Callable[[acid.Transaction, str], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(shop, spec_of(shop, changes=("t",)), lambda txn: body(txn, shop.db))
    assert shop.client.show_locks(shop.info("t").ref) == ()


def test_a_program_that_catches_the_error_of_a_statement_cannot_commit(shop: Lab) -> None:
    t = f"{shop.db}.t"

    def body(txn: acid.Transaction) -> None:
        txn.delete(t, where="id = 1")
        with pytest.raises(UnknownColumnError):
            txn.update(t, {"w": "1"}, where="true")

    with pytest.raises(ConfigurationError, match="but the program caught"):
        run(shop, spec_of(shop, changes=("t",)), body)
    assert shop.rows("t") == [(1, 1, 1), (2, 2, 2)]


def test_a_change_after_an_overwrite_of_the_same_table_is_refused(shop: Lab) -> None:
    t = f"{shop.db}.t"

    def body(txn: acid.Transaction) -> None:
        txn.insert(t, txn.read(t), overwrite=True)
        txn.insert(t, txn.read(t), overwrite=True)
        txn.delete(t, where="id = 1")

    with pytest.raises(StatementOrderError, match="statement 3 changes"):
        run(shop, spec_of(shop, overwrites=("t",)), body)
    assert shop.directories("t", "p=1") == ["delta_0000001_0000001_0000"]


def test_a_program_must_open_exactly_one_transaction(shop: Lab) -> None:
    spec = spec_of(shop, inserts=("log",))
    with pytest.raises(ConfigurationError, match="ended without a transaction"):
        run_whole(shop, spec, lambda *_: None)

    def twice(spark: object, task: acid.Task) -> None:
        for _ in range(2):
            with acid.transaction(spark, task):  # type: ignore[arg-type]
                pass

    with pytest.raises(ConfigurationError, match="a program may open only one transaction"):
        run_whole(shop, spec, twice, job_key="twice")


def test_a_killed_program_is_aborted_and_changes_nothing(shop: Lab) -> None:
    spec = spec_of(shop, inserts=("log",), changes=("t",))
    key, ref = f"{shop.db}/program", shop.info("t").ref
    killed = at("staged", lambda: abort_job(shop.client, key, AttemptId.new(9), [ref]))

    def body(txn: acid.Transaction) -> None:
        txn.delete(f"{shop.db}.t", where="true")
        txn.insert(f"{shop.db}.log", shop.spark.sql("SELECT 1L AS id, 'no' AS what"))

    with pytest.raises(Exception, match="abort"):
        run(shop, spec, body, on_step=killed)
    assert shop.rows("t") == [(1, 1, 1), (2, 2, 2)]
    assert shop.rows("log") == []


def test_the_example_program_is_applied_once_despite_a_kill_after_its_commit(
    lab4: Lab, tmp_path: Path
) -> None:
    """Under `spark-submit`, killed right behind its commit, and tried again."""
    lab4.client.create_database("demo")
    for name, columns in {
        "orders": {"customer": "bigint", "amount": "int", "day": "date"},
        "customers": {"id": "bigint", "total": "bigint"},
        "audit": columns_of("day string, new_customers bigint, old_customers bigint, rich bigint"),
    }.items():
        in_demo(lab4).table(name, columns)
    demo = in_demo(lab4)
    demo.insert("customers", [(1, 900)], ["id", "total"])
    orders = [(1, 100, date(2026, 1, 2)), (2, 7, date(2026, 1, 2)), (1, 5, date(2026, 1, 3))]
    demo.insert("orders", [(c, a, str(d)) for c, a, d in orders], ["customer", "amount", "day"])
    spec = ProgramSpec(
        application=merge_orders.__file__,
        arguments=("2026-01-02",),
        reads=("demo.orders",),
        changes=("demo.customers",),
        inserts=("demo.audit",),
    )
    killed = submit(tmp_path, lab4.endpoint, spec, job_key="example", stop_at="committed")
    assert killed.code != 0
    again = submit(tmp_path, lab4.endpoint, spec, job_key="example")
    assert again.code == ExitCode.OK, again.log
    assert again.result is not None
    assert again.result.status is JobStatus.ALREADY_DONE
    told = again.result.details["statements"]
    assert [s["table"] for s in told] == ["demo.customers", "demo.audit"]  # type: ignore[union-attr,index,call-overload]
    assert demo.rows("customers") == [(1, 1000), (2, 7)]
    assert demo.rows("audit") == [("2026-01-02", 1, 1, 1)]


def in_demo(lab: Lab) -> Lab:
    return type(lab)(spark=lab.spark, endpoint=lab.endpoint, client=lab.client, db="demo")
