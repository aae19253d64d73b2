from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_hiveacid.airflow_names import RetryAction
from airflow_hiveacid.format.errors import SqlTextError, TableNotFoundError
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY
from tests.support.airflow_minors import IS_3_3, DagBag
from tests.support.airflow_support import FakeSpark, StateStore, context_of, operator_of, run_task
from tests.support.cases import cases_of

pytestmark = pytest.mark.usefixtures("connections", "spark")

KEY = "dag/scheduled__2013-01-02/task/-1"


def _sql(sql: str, **arguments: Any) -> HiveAcidSqlOperator:  # noqa: ANN401
    return HiveAcidSqlOperator(task_id="task", sql=sql, **arguments)


def _specs(spark: FakeSpark) -> list[JobSpec]:
    return [JobSpec.parse(json.dumps(call["spec"])) for call in spark.calls]


SAME = [
    (text, *operator_of(operator))
    for text, operator in cases_of(Path(__file__).with_name("cases") / "same_jobs.txt")
]


@pytest.mark.parametrize(("text", "operator", "arguments"), SAME)
def test_one_sql_statement_submits_the_same_job_as_the_equivalent_operator(
    spark: FakeSpark, text: str, operator: type[HiveAcidSparkOperator], arguments: dict[str, Any]
) -> None:
    by_text = run_task(_sql(text))
    by_structure = run_task(operator(task_id="task", **arguments))
    first, second = _specs(spark)
    assert first.job == second.job
    assert (first.job_key, first.kind) == (second.job_key, second.kind) == (KEY, first.kind)
    assert first.statement == second.statement
    assert by_text.keys() == by_structure.keys()


def test_several_statements_run_in_order_and_each_has_its_own_job_key(spark: FakeSpark) -> None:
    asset = Asset(name="t", uri="hive://hms:10000/db/t")
    store = StateStore()
    context = context_of(task_state_store=store)
    task = _sql("DELETE FROM t; UPDATE s SET a = 1;", database="db", outlets=[asset])
    returned = run_task(task, context)
    assert [one["kind"] for one in returned["statements"]] == ["delete", "update"]
    specs = _specs(spark)
    assert [(s.job_key, s.job.target) for s in specs] == [(KEY, "db.t"), (f"{KEY}#2", "db.s")]
    assert len({s.attempt for s in specs}) == 2
    told = context["outlet_events"][asset].extra["statements"]
    assert [one["table"] for one in told] == ["db.t", "db.s"]
    delivered = store.get(DELIVERED_KEY, {}).get("generation")
    assert delivered == (0 if IS_3_3 else None)


def test_a_multi_insert_is_submitted_as_its_own_transaction(spark: FakeSpark) -> None:
    text = "FROM demo.s INSERT INTO demo.t SELECT a INSERT INTO demo.u SELECT b; DELETE FROM demo.s"
    returned = run_task(_sql(text))
    both, delete = _specs(spark)
    assert (both.kind, both.targets, both.job_key) == ("transaction", ("demo.t", "demo.u"), KEY)
    assert (delete.kind, delete.targets) == ("delete", ("demo.s",))
    assert [one["kind"] for one in returned["statements"]] == ["transaction", "delete"]


def test_no_statement_is_submitted_after_one_that_failed(spark: FakeSpark) -> None:
    spark.tell(error={"type": "TableNotFoundError", "message": "table db.t: no"}, exit_code=10)
    store = StateStore()
    with pytest.raises(TableNotFoundError) as caught:
        run_task(_sql("\n DELETE FROM db.t; DELETE FROM db.s"), context_of(task_state_store=store))
    assert caught.value.__notes__ == ["in statement 1 of sql, line 2, column 2"]
    assert len(spark.calls) == 1
    assert DELIVERED_KEY not in store


def test_nothing_is_submitted_if_a_later_statement_cannot_be_parsed(spark: FakeSpark) -> None:
    task = _sql("DELETE FROM db.t;\nDELETE FROM db.t WHERE {{ ' ' }}")
    with pytest.raises(SqlTextError, match="statement 2, line 2, column 18") as caught:
        run_task(task)
    assert task.retry_policy is not None
    assert task.retry_policy.evaluate(caught.value, 1, 3).action is RetryAction.FAIL
    assert spark.calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"sql": "DELETE FROM db.t {{ where }}"},
        {"sql": "DELETE FROM t", "database": "{{ database }}"},
        {"sql": "delete.sql"},
    ],
)
def test_templated_sql_and_sql_files_are_not_refused_while_the_dag_is_parsed(
    arguments: dict[str, Any],
) -> None:
    HiveAcidSqlOperator(task_id="task", **arguments)


def test_an_sql_file_is_rendered_and_submitted(spark: FakeSpark, tmp_path: Path) -> None:
    (tmp_path / "change.sql").write_text(
        "-- of one day\nDELETE FROM demo.flights WHERE day = '{{ ds }}';\n"
    )
    with DAG("d", schedule=None, template_searchpath=[str(tmp_path)]):
        task = _sql("change.sql")
    task.resolve_template_files()
    run_task(task)
    (spec,) = _specs(spark)
    assert spec.job.where == "day = '2013-01-02'"  # type: ignore[union-attr]


def test_a_wrong_sql_statement_is_a_dag_import_error(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_hiveacid.operators.sql import HiveAcidSqlOperator\n"
        "with DAG('wrong', schedule=None):\n"
        "    HiveAcidSqlOperator(task_id='old', sql='UPDATE db.t SET a = stddev(a)')\n"
    )
    (error,) = DagBag(dag_folder=str(tmp_path)).import_errors.values()
    assert "task 'old', argument sql: statement 1, line 1, column 21: stddev()" in error
