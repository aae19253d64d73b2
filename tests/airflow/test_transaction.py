from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_hiveacid.format.errors import ConfigurationError, JobFailedError, StatementOrderError
from airflow_hiveacid.jobs.job import JobSpec, ProgramSpec
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MergeSpec,
    MultiInsertSpec,
    TransactionSpec,
    UpdateSpec,
)
from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
from airflow_hiveacid.operators.submission import kill
from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
from tests.support.airflow_support import FakeSpark, context_of, run_task
from tests.support.cases import cases_of

pytestmark = pytest.mark.usefixtures("connections", "spark")

STATEMENTS: list[Any] = [
    {
        "merge": {
            "table": "demo.t",
            "source": {"table": "demo.late"},
            "keys": ["id"],
            "clauses": [{"when": "matched", "action": "delete", "condition": "s.op = 'D'"}],
        }
    },
    "UPDATE demo.u SET a = 1 WHERE day = '{{ ds }}'; DELETE FROM demo.u WHERE id = 2;",
    {
        "insert": {
            "table": "demo.log",
            "source": {"columns": ["a"], "values": [["{{ ds }}"]]},
            "partition": {"p": None},
        }
    },
    {"delete": {"table": "demo.u"}},
]


def of(statements: Any, **arguments: Any) -> HiveAcidTransactionOperator:  # noqa: ANN401
    return HiveAcidTransactionOperator(task_id="task", statements=statements, **arguments)


def submitted(spark: FakeSpark) -> JobSpec:
    (call,) = spark.calls
    return JobSpec.parse(json.dumps(call["spec"]))


def test_sql_and_structured_statements_are_submitted_as_one_transaction(spark: FakeSpark) -> None:
    returned = run_task(of(STATEMENTS))
    spec = submitted(spark)
    assert isinstance(spec.job, TransactionSpec)
    merge, update, delete, insert, everything = spec.job.statements
    assert isinstance(merge, MergeSpec)
    assert isinstance(update, UpdateSpec)
    assert update.where == "day = '2013-01-02'"
    assert isinstance(delete, DeleteSpec)
    assert isinstance(insert, InsertSpec)
    assert insert.partition == {"p": None}
    assert insert.source.values == (("2013-01-02",),)
    assert everything == DeleteSpec(target="demo.u")
    assert spec.targets == ("demo.t", "demo.u", "demo.log")
    assert returned["kind"] == "transaction"
    (call,) = spark.calls
    assert any(a.endswith("/spark_apps/transaction.py") for a in call["arguments"])


def test_a_multi_insert_may_be_one_of_several_statements_of_a_transaction(spark: FakeSpark) -> None:
    text = "FROM s INSERT INTO t SELECT a, '{{ ds }}' INSERT INTO u SELECT a; DELETE FROM s"
    run_task(of([text, {"delete": {"table": "demo.u"}}], database="demo"))
    spec = submitted(spark)
    assert isinstance(spec.job, TransactionSpec)
    both, *deletes = spec.job.statements
    assert isinstance(both, MultiInsertSpec)
    assert [insert.target for insert in both.inserts] == ["demo.t", "demo.u"]
    assert deletes == [DeleteSpec(target=f"demo.{name}") for name in ("s", "u")]
    assert spec.targets == ("demo.t", "demo.u", "demo.s")


def test_an_sql_file_among_the_statements_is_rendered(spark: FakeSpark, tmp_path: Path) -> None:
    (tmp_path / "old.sql").write_text("DELETE FROM t WHERE day = '{{ ds }}'")
    with DAG("d", schedule=None, template_searchpath=[str(tmp_path)]):
        task = of(["old.sql", {"delete": {"table": "demo.u"}}], database="demo")
    task.resolve_template_files()
    run_task(task)
    job = submitted(spark).job
    assert isinstance(job, TransactionSpec)
    assert job.statements[0] == DeleteSpec(target="demo.t", where="day = '2013-01-02'")


@pytest.mark.parametrize(
    ("statements", "message"), cases_of(Path(__file__).with_name("cases") / "wrong_statements.txt")
)
def test_a_wrong_statement_is_refused_while_the_dag_is_parsed(
    statements: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"task 'task'.*{message.strip()}"):
        HiveAcidTransactionOperator(task_id="task", statements=json.loads(statements))


def test_rendered_statements_are_checked_before_submission(spark: FakeSpark) -> None:
    statements = [
        "INSERT OVERWRITE TABLE {{ 'demo.t' }} VALUES (1)",
        {"update": {"table": "demo.t", "assignments": {"a": "1"}}},
    ]
    with pytest.raises(StatementOrderError, match=r"statement 2 changes table demo\.t"):
        run_task(of(statements))
    assert spark.calls == []


def test_the_asset_event_reports_each_statement_with_its_table(spark: FakeSpark) -> None:
    details = {
        "statements": [
            {
                "kind": "delete",
                "table": "demo.t",
                "rows": {"inserted": 0, "updated": 0, "deleted": 2},
                "partitions": ["p=1"],
                "files": 1,
                "size_bytes": 9,
            }
        ]
    }
    spark.tell(details=details)
    asset = Asset(name="t", uri="hive://hms:10000/demo/t")
    context = context_of()
    run_task(of(["DELETE FROM demo.t"], outlets=[asset]), context)
    told = context["outlet_events"][asset].extra
    assert told["statements"] == [
        {
            "table": "demo.t",
            "write_id": 3,
            "rows": {"inserted": 0, "updated": 0, "deleted": 2},
            "partitions": ["p=1"],
            "partitions_omitted": 0,
        }
    ]


def test_a_kill_searches_the_locks_of_every_table_of_the_transaction(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_task(of(STATEMENTS))
    spec, asked = submitted(spark), []

    class Client:
        def __enter__(self) -> object:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("airflow_hiveacid.metastore.client.connect", lambda _: Client())
    monkeypatch.setattr(
        "airflow_hiveacid.metastore.transactions.fencing.abort_job",
        lambda _client, _key, _attempt, refs: asked.extend(map(str, refs)) or (),
    )
    kill.abort_attempt(spec)
    assert asked == ["demo.t", "demo.u", "demo.log"]


def test_a_program_is_submitted_with_its_own_arguments_and_its_tables(
    spark: FakeSpark, tmp_path: Path
) -> None:
    program = tmp_path / "job.py"
    program.write_text("print('once')\n")

    def submit() -> JobSpec:
        run_task(
            HiveAcidPySparkOperator(
                task_id="task",
                application=str(program),
                application_args=["--day", "{{ ds }}"],
                reads=["demo.orders"],
                inserts="demo.audit",
                changes=["{{ 'demo.customers' }}"],
            )
        )
        call = spark.calls[-1]
        at = call["arguments"].index(str(program))
        assert call["arguments"][at + 1] == "--spec"
        assert call["arguments"][at + 3 :] == ["--day", "2013-01-02"]
        return JobSpec.parse(json.dumps(call["spec"]))

    job = submit().job
    assert isinstance(job, ProgramSpec)
    assert (job.reads, job.inserts, job.changes) == (
        ("demo.orders",),
        ("demo.audit",),
        ("demo.customers",),
    )
    first = submit().statement
    program.write_text("print('twice')\n")
    assert submit().statement["digest"] != first["digest"]


@pytest.mark.parametrize(
    ("is_there", "exit_code", "message"),
    [
        (True, 0, r"Does .*job\.py end with acid\.run"),
        (True, 1, r"\(exit code 1\)\. The driver's last lines"),
        (False, 2, r"There is no file .*job\.py here"),
    ],
)
def test_the_error_suggests_why_a_program_left_no_result(
    spark: FakeSpark, tmp_path: Path, is_there: bool, exit_code: int, message: str
) -> None:
    program = tmp_path / "job.py"
    if is_there:
        program.touch()
    spark.tell(answers=False, exit_code=exit_code)
    task = HiveAcidPySparkOperator(task_id="task", application=str(program), changes=["d.t"])
    with pytest.raises(JobFailedError, match=message):
        run_task(task)
