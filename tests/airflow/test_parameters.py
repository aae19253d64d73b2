"""Parameters of tasks: rendered, checked with the DAG, sent with their types."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.statements import DeleteSpec, TransactionSpec
from airflow_hiveacid.operators.hive_acid import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
)
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.transaction import HiveAcidTransactionOperator
from tests.support.airflow_support import Connections, FakeSpark, operator_of, run_task
from tests.support.cases import cases_of

pytestmark = pytest.mark.usefixtures("connections", "spark")

DAY = {"type": "date", "value": "{{ ds }}"}
EVERY = [
    operator_of(text)
    for text, _ in cases_of(Path(__file__).with_name("cases") / "with_parameters.txt")
]


def spec(spark: FakeSpark) -> JobSpec:
    return JobSpec.parse(json.dumps(spark.calls[-1]["spec"]))


@pytest.mark.parametrize(("operator", "arguments"), EVERY)
def test_operators_render_parameter_values_and_send_them_outside_the_sql_text(
    spark: FakeSpark, operator: type[HiveAcidSparkOperator], arguments: dict[str, Any]
) -> None:
    given = {"day": DAY, "v": "{{ 'ta' ~ 'sk' }}' OR '1'='1"}
    task = operator(task_id="task", parameters=given, **arguments)
    assert "parameters" in operator.template_fields
    assert operator.template_fields_renderers["parameters"] == "json"
    run_task(task)
    assert task.parameters == {  # type: ignore[attr-defined]
        "day": {"type": "date", "value": "2013-01-02"},
        "v": "task' OR '1'='1",
    }
    sent = json.dumps(spark.calls[-1]["spec"]["job"])
    assert '{"type": "date", "text": "2013-01-02"}' in sent
    assert '{"type": "string", "text": "task\' OR \'1\'=\'1"}' in sent
    assert "= 'task" not in sent
    assert not spec(spark).allow_unsafe_expressions


@pytest.mark.parametrize(("operator", "arguments"), EVERY)
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"day": DAY}, "no value for :v"),
        ({"day": DAY, "v": "{{ x }}", "w": 1}, r"'w'\] is not used in any SQL text"),
        ({"day": {"type": "date", "value": "soon"}, "v": 1}, "is not a valid date"),
        ({"day": DAY, "v": []}, "empty list"),
        (["day"], "must map names to values"),
    ],
)
def test_a_wrong_parameter_is_refused_while_the_dag_is_parsed(
    operator: type[HiveAcidSparkOperator], arguments: dict[str, Any], given: object, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem.replace("no value for", ".*value for")):
        operator(task_id="task", parameters=given, **arguments)


def test_parameters_of_templated_sql_are_checked_after_rendering(spark: FakeSpark) -> None:
    task = HiveAcidDeleteOperator(
        task_id="task",
        table="demo.t",
        where="{{ 'day = :day' }}",
        parameters={"dya": dt.date(2026, 1, 1)},
    )
    with pytest.raises(ConfigurationError, match=r"no value for :day, which the SQL uses"):
        run_task(task)
    assert spark.calls == []


def test_python_values_keep_their_types_as_parameters(spark: FakeSpark) -> None:
    given = {"a": [Decimal("1.50"), 2], "b": dt.datetime(2026, 1, 31, 2), "c": None, "d": True}  # noqa: DTZ001
    task = HiveAcidDeleteOperator(
        task_id="task",
        table="demo.t",
        where="a IN (:a) AND b = :b AND c <=> :c AND d = :d",
        parameters=given,
    )
    run_task(task)
    job = spec(spark).job
    assert isinstance(job, DeleteSpec)
    assert {name: one.said for name, one in job.parameters.items()} == {
        "a": "(decimal '1.5', int '2')",
        "b": "timestamp '2026-01-31 02:00:00'",
        "c": "NULL",
        "d": "boolean 'true'",
    }


def test_the_connection_decides_whether_unsafe_expressions_are_allowed(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.metastore(allow_unsafe_expressions=True)
    run_task(HiveAcidDeleteOperator(task_id="task", table="demo.t"))
    assert spec(spark).allow_unsafe_expressions


def test_a_statement_of_a_transaction_may_have_its_own_parameters(spark: FakeSpark) -> None:
    own = {"delete": {"table": "demo.t", "where": "a = :a AND b = :b", "parameters": {"a": 1}}}
    task = HiveAcidTransactionOperator(
        task_id="task",
        statements=[own, {"delete": {"table": "demo.u", "where": "b = :b"}}],
        parameters={"b": "x"},
    )
    run_task(task)
    job = spec(spark).job
    assert isinstance(job, TransactionSpec)
    assert [sorted(one.parameters) for one in job.statements] == [["a", "b"], ["b"]]  # type: ignore[union-attr]
    with pytest.raises(ConfigurationError, match="is also a parameter of the whole task"):
        HiveAcidTransactionOperator(task_id="t", statements=[own], parameters={"a": 1, "b": 2})
    source = {"table": "demo.s", "query": "SELECT :a", "parameters": {"a": 1}}
    with pytest.raises(ConfigurationError, match="a separate argument"):
        HiveAcidInsertOperator(task_id="t", table="demo.t", source=source)
