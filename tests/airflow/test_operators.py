from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hiveacid.format.errors import ConfigurationError, InputError, InvalidNameError
from airflow_hiveacid.jobs.job import Job, JobSpec
from airflow_hiveacid.operators.hive_acid import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidTruncateOperator,
    HiveAcidUpdateOperator,
)
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from tests.support.airflow_minors import DagBag, DagSerialization
from tests.support.airflow_support import Connections, FakeSpark, context_of, operator_of, run_task
from tests.support.cases import cases_of, jobs_of

pytestmark = pytest.mark.usefixtures("connections")


_CASES = Path(__file__).with_name("cases")
CASES = [(*operator_of(text), job) for text, job in jobs_of(_CASES / "operator_jobs.txt")]
MERGE: dict[str, Any] = CASES[0][1]


@pytest.mark.promise("A5")
@pytest.mark.parametrize(
    ("operator", "arguments", "job"), CASES, ids=[c[0].__name__ for c in CASES]
)
def test_an_operator_submits_the_job_of_its_rendered_arguments(
    operator: type[HiveAcidSparkOperator], arguments: dict[str, Any], job: Job, spark: FakeSpark
) -> None:
    spark.tell(details={"erasure": {"proved": True}})  # without it, the task of a proof fails
    task = operator(task_id="task", **arguments)
    assert run_task(task)["kind"] == JobSpec.parse(_spec(spark)).kind
    assert JobSpec.parse(_spec(spark)).job == job


def _spec(spark: FakeSpark) -> str:
    return json.dumps(spark.call["spec"])


@pytest.mark.parametrize("where", ["", "  ", "{{ '' }}"])
def test_a_blank_condition_is_refused_instead_of_matching_every_row(
    where: str, spark: FakeSpark
) -> None:
    with pytest.raises(ConfigurationError, match="where is blank"):
        run_task(HiveAcidDeleteOperator(task_id="task", table="db.t", where=where))
    assert spark.calls == []


class NothingReturned:
    """Another task's result, when that task has returned nothing."""

    def resolve(self, _context: object) -> None:
        return None


class NothingNamed:
    """The same of a task that had nothing to say."""

    def resolve(self, _context: object) -> dict[str, str]:
        return {}


@pytest.mark.promise("W9")
@pytest.mark.parametrize(
    ("partition", "message"),
    [(NothingReturned(), "partition must map .*None"), (NothingNamed(), "partition is empty")],
)
def test_an_empty_partition_is_refused_instead_of_matching_every_partition(
    partition: Any,  # noqa: ANN401 - what a task returns
    message: str,
    spark: FakeSpark,
) -> None:
    task = HiveAcidTruncateOperator(task_id="task", table="db.t", partition=partition)
    with pytest.raises(ConfigurationError, match=message):
        run_task(task)
    assert spark.calls == []
    with pytest.raises(ConfigurationError, match="partition is empty; name a partition column"):
        HiveAcidTruncateOperator(task_id="task", table="db.t", partition={})


@pytest.mark.parametrize(
    ("operator", "arguments", "name"),
    [
        (HiveAcidDeleteOperator, {"where": NothingReturned()}, "where"),
        (HiveAcidUpdateOperator, {"assignments": {"a": "1"}, "where": NothingReturned()}, "where"),
        (HiveAcidMergeOperator, {**MERGE, "condition": NothingReturned()}, "condition"),
        (
            HiveAcidMergeOperator,
            {
                **MERGE,
                "clauses": [
                    {"when": "matched", "action": "delete", "condition": NothingReturned()}
                ],
            },
            r"clauses\[0\]\['condition'\]",
        ),
        (
            HiveAcidMergeOperator,
            {
                **MERGE,
                "clauses": [{"when": "matched", "action": "update", "set": NothingReturned()}],
            },
            r"clauses\[0\]\['set'\]",
        ),
    ],
)
def test_none_as_a_task_result_is_refused_instead_of_matching_every_row_or_column(
    operator: type[HiveAcidSparkOperator], arguments: dict[str, Any], name: str, spark: FakeSpark
) -> None:
    task = operator(task_id="task", **{"table": "db.t", **arguments})
    with pytest.raises(ConfigurationError, match=f"{name} .*None"):
        run_task(task)
    assert spark.calls == []


def test_only_an_omitted_condition_matches_every_row() -> None:
    assert HiveAcidDeleteOperator(task_id="task", table="db.t").build_job().where is None
    with pytest.raises(ConfigurationError, match="where is None; give a condition, or omit"):
        HiveAcidDeleteOperator(task_id="task", table="db.t", where=None)
    task = HiveAcidDeleteOperator(task_id="task", table="db.t")
    task.where = "id = 1"  # as a policy of the cluster may
    assert task.build_job().where == "id = 1"


def test_a_mapped_condition_of_none_is_refused_instead_of_matching_every_row() -> None:
    with DAG("d", schedule=None):
        mapped = HiveAcidDeleteOperator.partial(task_id="m", table="db.t").expand(where=["a", None])
    assert mapped.unmap({"where": "a"}).build_job().where == "a"
    with pytest.raises(ConfigurationError, match="where is None"):
        mapped.unmap({"where": None})


def test_partition_values_are_strings_or_integers_and_none_only_as_a_literal() -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        task = HiveAcidInsertOperator(
            task_id="task",
            table="db.t",
            source={"table": "db.s"},
            partition={"year": 2013, "month": "{{ month }}", "day": None},
        )
    task.render_template_fields({"month": "01"})
    assert task.build_job().partition == {"year": "2013", "month": "01", "day": None}
    task.partition["month"] = None
    with pytest.raises(
        ConfigurationError, match=r"partition\['month'\] must be a non-blank .* None"
    ):
        task.build_job()


@pytest.mark.parametrize(
    "first",
    [
        {"when": "{{ w }}", "action": "insert"},
        {"when": "{{ w }}", "action": "delete"},
        {"when": "matched", "action": "delete", "condition": "s.day < {{ ds_nodash }}"},
        {"when": "not_matched", "action": "{{ a }}"},
        {"when": "not_matched_by_source", "action": "{{ a }}"},
        {"when": "{{ w }}", "action": "{{ a }}", "set": "{{ s }}"},
        {"when": "{{ w }}", "action": "{{ a }}", "values": ["s.id"]},
        {"when": "not_matched_by_source", "action": "update", "set": "{{ s }}"},
    ],
)
@pytest.mark.parametrize("more", [[], [{"when": "matched", "action": "update"}]])
def test_templated_clauses_are_not_refused_while_the_dag_is_parsed(
    first: dict[str, object], more: list[dict[str, object]]
) -> None:
    for clauses in ([first, *more], [*more, first] if "{{" in str(first["when"]) else [first]):
        HiveAcidMergeOperator(task_id="task", **{**MERGE, "clauses": clauses})


@pytest.mark.parametrize(
    "source",
    [
        {"format": "{{ f }}", "location": "{{ l }}", "query": "{{ q }}"},
        {"values": [["{{ ds }}"]], "columns": ["a", "b"]},
        {"tables": {"a": "{{ d }}.o"}, "query": "SELECT * FROM a", "versions": {"a": "version 3"}},
        {"tables": "{{ t }}", "query": "SELECT * FROM a", "versions": {"a": "version 3"}},
        {"tables": {"a": "{{ d }}.o"}, "query": "SELECT * FROM a", "versions": "{{ v }}"},
        {"table": "{{ d }}.o", "version": 3},
    ],
)
def test_a_templated_source_is_not_refused_while_the_dag_is_parsed(
    source: dict[str, object],
) -> None:
    HiveAcidMergeOperator(task_id="task", **{**MERGE, "source": source})


def _wrong(text: str, pattern: str) -> tuple[Any, dict[str, Any], str]:
    operator, arguments = operator_of(text)
    rest = MERGE if operator is HiveAcidMergeOperator else {}
    return operator, {**rest, **arguments}, pattern.strip()


WRONG = [
    *(_wrong(*case) for case in cases_of(_CASES / "wrong_arguments.txt")),
    (
        HiveAcidInsertOperator,
        {"table": "db.t", "source": {"values": [[date(2013, 1, 1)]]}},
        r"source\['values'\]\[0\] contains a date",
    ),
]


@pytest.mark.parametrize(("operator", "arguments", "message"), WRONG)
def test_a_wrong_argument_is_refused_while_the_dag_is_parsed(
    operator: type[HiveAcidSparkOperator], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"task 'task', argument .*{message}"):
        operator(task_id="task", **arguments)


@pytest.mark.parametrize(("operator", "arguments", "message"), WRONG)
def test_a_wrong_rendered_argument_raises_an_input_error_when_the_task_runs(
    operator: type[HiveAcidSparkOperator], arguments: dict[str, Any], message: str
) -> None:
    task = operator(task_id="task", **dict.fromkeys(arguments, "{{ later }}"))
    for name, value in arguments.items():
        setattr(task, name, value)  # what rendering to native objects leaves
    with pytest.raises((ConfigurationError, InvalidNameError), match=message) as caught:
        task.build_job()
    assert isinstance(caught.value, InputError)


def test_a_restore_requires_a_version_a_timestamp_or_a_tag() -> None:
    found = "exactly one of version, timestamp and tag, found none"
    with pytest.raises(ConfigurationError, match=found):
        HiveAcidRestoreOperator(task_id="task", table="db.t")


def test_a_source_may_be_the_result_of_an_upstream_task() -> None:
    with DAG("d", schedule=None):
        before = HiveAcidDeleteOperator(task_id="before", table="db.t")
        task = HiveAcidMergeOperator(task_id="task", **{**MERGE, "source": before.output})
    assert task.upstream_task_ids == {"before"}


def test_a_typo_is_a_dag_import_error_that_names_the_task_and_argument(tmp_path: Path) -> None:
    (tmp_path / "typo.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator\n"
        "with DAG('typo', schedule=None):\n"
        "    HiveAcidCompactOperator(task_id='nightly', table='db.t', choice='mayor')\n"
    )
    (error,) = DagBag(dag_folder=str(tmp_path)).import_errors.values()
    assert "task 'nightly', argument choice: choice must be one of auto, minor, major" in error


def test_conn_id_is_a_synonym_of_spark_conn_id() -> None:
    for arguments in (
        {"conn_id": "s"},
        {"spark_conn_id": "s"},
        {"conn_id": "s", "spark_conn_id": "s"},
    ):
        task = HiveAcidDeleteOperator(task_id="task", table="db.t", **arguments)
        assert task._conn_id == "s"
    assert HiveAcidDeleteOperator(task_id="task", table="db.t")._conn_id == "spark_default"
    with pytest.raises(ConfigurationError, match="conn_id is 'a' and spark_conn_id is 'b'"):
        HiveAcidDeleteOperator(task_id="task", table="db.t", conn_id="a", spark_conn_id="b")


OPERATORS = sorted({c[0] for c in CASES}, key=lambda c: c.__name__)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_template_field_is_an_attribute_of_the_task(
    operator: type[HiveAcidSparkOperator],
) -> None:
    arguments = next(c[1] for c in CASES if c[0] is operator)
    task = operator(task_id="task", **arguments)
    for name in operator.template_fields:
        assert hasattr(task, name), name


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_constructor_accepts_a_template_for_every_argument(
    operator: type[HiveAcidSparkOperator],
) -> None:
    arguments = next(c[1] for c in CASES if c[0] is operator)
    task = operator(task_id="task", **dict.fromkeys(arguments, "{{ later }}"))
    for name in arguments:
        assert getattr(task, name) == "{{ later }}"


def test_memory_and_core_arguments_are_rendered(spark: FakeSpark) -> None:
    task = HiveAcidCompactOperator(
        task_id="task",
        table="db.t",
        driver_memory="{{ 2 }}g",
        executor_memory="{{ size }}",
        executor_cores="{{ 1 + 1 }}",
        total_executor_cores="{{ 4 }}",
        num_executors=3,
    )
    run_task(task, context_of(size="4g"))
    assert spark.options["--driver-memory"] == "2g"
    assert spark.options["--executor-memory"] == "4g"
    assert spark.options["--executor-cores"] == "2"
    assert spark.options["--total-executor-cores"] == "4"
    assert spark.options["--num-executors"] == "3"


@pytest.mark.parametrize("argument", ["spark_conn_id", "conn_id"])
def test_the_spark_connection_is_rendered(
    connections: Connections, spark: FakeSpark, argument: str
) -> None:
    connections.add("spark_of_eu", "spark", host="local[7]")
    task = HiveAcidCompactOperator(
        task_id="task", table="db.t", **{argument: "spark_of_{{ region }}"}
    )
    run_task(task, context_of(region="eu"))
    assert spark.options["--master"] == "local[7]"


def test_default_args_set_the_arguments_of_our_operators() -> None:
    with DAG(
        "d",
        schedule=None,
        default_args={"spark_conn_id": "s", "driver_memory": "3g", "durable": False},
    ):
        task = HiveAcidDeleteOperator(task_id="task", table="db.t")
    assert (task._conn_id, task.driver_memory, task.durable) == ("s", "3g", False)


def test_a_dag_of_every_operator_can_be_serialised_and_read_back() -> None:
    with DAG("d", schedule=None) as dag:
        for operator, arguments, _ in CASES[:1] + CASES[2:]:
            operator(task_id=f"{operator.__name__}_{len(dag.tasks)}", **arguments)
        HiveAcidCompactOperator.partial(task_id="mapped", table="db.t").expand(
            partition=["month=1", "month=2"]
        )
    read_back = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert {t.task_id for t in read_back.tasks} == {t.task_id for t in dag.tasks}
