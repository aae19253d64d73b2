"""What Airflow's pages show of our tasks: fields, the statement, documentation, labels."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

import airflow_hiveacid.operators as ours
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan.arguments import LEFT_OUT
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor
from tests.airflow.test_dag_run import _run
from tests.support.airflow_support import FakeSpark, operator_of
from tests.support.cases import cases_of

_STATEMENTS = [
    (*operator_of(text), dedent(statement).strip())
    for text, statement in cases_of(Path(__file__).with_name("cases") / "shown_statements.txt")
]
_NO_SQL = [
    (ours.HiveAcidCleanOperator, {"table": "db.t"}),
    (ours.HiveAcidCleanTablesOperator, {"tables": "db.*"}),
    (ours.HiveAcidProveErasureOperator, {"table": "db.t", "where": "id = 1"}),
    (ours.HiveAcidSqlOperator, {"sql": "DELETE FROM db.t"}),
    (ours.HiveAcidPySparkOperator, {"application": "/p.py", "inserts": ["db.t"]}),
    (ours.HiveAcidChangeFeedOperator, {"table": "db.t", "location": "hdfs://nn/f"}),
    (HiveAcidDeltaCountSensor, {"table": "db.t"}),
]
_ALL = [*[case[:2] for case in _STATEMENTS], *_NO_SQL]


def _rendered(operator: type[BaseOperator], given: dict[str, Any], **values: object) -> Any:  # noqa: ANN401
    with DAG("d", schedule=None):
        task = operator(task_id="task", **given)
    task.render_template_fields({"month": 7, "day": "2026-01-31", **values})  # type: ignore[typeddict-unknown-key]
    return task


@pytest.mark.parametrize(("operator", "given", "text"), _STATEMENTS)
def test_the_statement_field_shows_the_task_as_sql(
    operator: type[BaseOperator], given: dict[str, Any], text: str
) -> None:
    task = _rendered(operator, given)
    assert task.statement == text
    assert task.template_fields[0] == "statement"
    assert task.template_fields_renderers["statement"] == "sql"


def test_the_statement_field_shows_no_parameter_value_and_is_not_rendered_twice() -> None:
    secret = _rendered(ours.HiveAcidDeleteOperator, _STATEMENTS[3][1], day="hidden")
    assert "hidden" not in secret.statement
    given = {"table": "db.t", "where": "a = '{{ day }}'"}
    again = _rendered(ours.HiveAcidDeleteOperator, given, day="{{ conn.x.password }}")
    assert again.where == "a = '{{ conn.x.password }}'"
    assert again.statement == ""


@pytest.mark.parametrize(("operator", "given"), _ALL)
def test_only_fields_with_a_value_are_shown_and_spark_fields_come_last(
    operator: type[BaseOperator], given: dict[str, Any]
) -> None:
    is_job = issubclass(operator, HiveAcidSparkOperator)
    task = _rendered(operator, {**given, "conf": {"a": "1"}} if is_job else given)
    shown = list(task.template_fields)
    assert set(given) <= set(shown)
    assert all(getattr(task, name) not in (None, "", {}, [], ()) for name in shown)
    assert (shown[-1] == "conf") is is_job
    assert len(shown) < 13
    unset = set(operator.template_fields) - set(shown)
    assert all(getattr(task, name) in (None, "", {}, [], (), LEFT_OUT) for name in unset)


@pytest.mark.parametrize(("operator", "given"), _ALL)
def test_each_operator_sets_doc_md_unless_the_user_does(
    operator: type[BaseOperator], given: dict[str, Any]
) -> None:
    text = _rendered(operator, given).doc_md
    assert "docs/reference/results.md" in text
    assert ("`db.t`" in text) is ("table" in given)
    assert _rendered(operator, {**given, "doc_md": "mine"}).doc_md == "mine"
    with DAG("d", schedule=None):
        mapped = operator.partial(task_id="m", **given).expand(hive_acid_conn_id=["a"])
        own = operator.partial(task_id="o", doc_md="mine", **given).expand(hive_acid_conn_id=["a"])
    assert (mapped.doc_md, own.doc_md) == (text, "mine")


_MAPPED = """
from airflow.sdk import DAG
from airflow_hiveacid.operators import (
    HiveAcidCompactOperator, HiveAcidDeleteOperator, HiveAcidTransactionOperator
)

with DAG("{dag_id}", schedule=None, default_args=dict(spark_bin_dir="{bin_dir}")):
    HiveAcidCompactOperator.partial(task_id="compact").expand_kwargs(
        [dict(table="db.t", partition="month=1"), dict(table="db.u"), dict(
            table="db.v", partition="month=" + "1" * 4000)]
    )
    HiveAcidDeleteOperator.partial(
        task_id="delete", table="db.t", map_index_template="{{{{ task.where }}}}"
    ).expand(where=["a = {{{{ 2 + 1 }}}}"])
    HiveAcidTransactionOperator.partial(task_id="both").expand(
        statements=[["DELETE FROM db.t WHERE a = {{{{ 1 + 1 }}}}"]]
    )
"""


@pytest.mark.usefixtures("connections")
def test_a_run_shows_labels_and_statements_of_mapped_tasks(
    airflow_home: Path, spark: FakeSpark
) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields as Fields  # noqa: PLC0415
    from airflow.models.taskinstance import TaskInstance as Row  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    run = _run(airflow_home, "labels", source=_MAPPED, bin_dir=str(spark.bin_dir))
    with create_session() as session:
        tasks = select(Row.task_id, Row.map_index, Row.rendered_map_index)
        labels = {
            (task_id, index): label
            for task_id, index, label in session.execute(tasks.where(Row.run_id == run.run_id))
        }
        fields = select(Fields.task_id, Fields.map_index, Fields.rendered_fields)
        shown = {
            (task_id, index): json.loads(json.dumps(found))
            for task_id, index, found in session.execute(fields.where(Fields.run_id == run.run_id))
        }
    assert labels == {
        ("compact", 0): "db.t month=1",
        ("compact", 1): "db.u whole table",
        ("compact", 2): ("db.v month=" + "1" * 4000)[:250],
        ("delete", 0): "a = 3",
        ("both", 0): "DELETE FROM db.t WHERE a = 2;",
    }
    assert shown["delete", 0]["statement"] == "DELETE FROM db.t\nWHERE a = 3"
    assert list(shown["delete", 0])[:3] == ["statement", "table", "where"]
    assert shown["both", 0]["statement"] == "DELETE FROM db.t WHERE a = 2;"
