"""Templates change neither the type nor the text of a value, in both of Airflow's render modes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator, literal

from airflow_hiveacid import operators, sensors
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators import (
    HiveAcidCompactOperator,
    HiveAcidCompactTablesOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidPySparkOperator,
    HiveAcidSqlOperator,
    HiveAcidTagOperator,
    HiveAcidTransactionOperator,
)
from tests.airflow.test_every_task import _ARGUMENTS, _task
from tests.support.airflow_support import FakeSpark, Warehouse, context_of, run_task

_TEXTS: Final[list[str]] = json.loads(
    (Path(__file__).with_name("cases") / "texts.json").read_text()
)
_MODES: Final = pytest.mark.parametrize("native", [False, True], ids=["text", "native"])


def _dag(native: bool, **more: Any) -> DAG:  # noqa: ANN401
    return DAG("d", schedule=None, render_template_as_native_obj=native, **more)


def _rendered(task: BaseOperator, **context: object) -> Any:  # noqa: ANN401 - the task
    task.render_template_fields(context_of("task", **context))  # type: ignore[arg-type]
    return task


@_MODES
@pytest.mark.parametrize("name", _ARGUMENTS)
def test_every_field_of_every_task_keeps_its_texts_and_types(name: str, native: bool) -> None:
    with _dag(native):
        task = _task(name)
    given = {"texts": list(_TEXTS), "pair": (1, 1.5, None, True), "both": [{"deep": "1e5"}]}
    fields = [one for one in type(task).template_fields if one != "statement"]
    for field in fields:
        setattr(task, field, given if field != "statements" else [given])
    _rendered(task)
    for field in fields:
        assert getattr(task, field) == (given if field != "statements" else [given])


@_MODES
@pytest.mark.parametrize("name", _ARGUMENTS)
def test_every_field_of_every_task_takes_a_value_from_a_template_as_its_text(
    name: str, native: bool
) -> None:
    with _dag(native):
        task = _task(name)
    fields = [one for one in type(task).template_fields if one != "statement"]
    for field in fields:
        setattr(task, field, "{{ value }}")
    _rendered(task, value="1e5")
    assert [getattr(task, field) for field in fields] == ["1e5"] * len(fields)


@pytest.mark.parametrize("text", _TEXTS)
@_MODES
def test_a_text_is_the_same_before_and_after_rendering(text: str, native: bool) -> None:
    with _dag(native):
        task = _task("HiveAcidDeleteOperator", where="a IN (:a)", parameters={"a": ["{{ value }}"]})
    assert _rendered(task, value=text).parameters == {"a": [text]}


@_MODES
@pytest.mark.usefixtures("connections")
def test_a_bound_text_reaches_the_job_as_that_text(spark: FakeSpark, native: bool) -> None:
    with _dag(native):
        task = HiveAcidDeleteOperator(
            task_id="task",
            table="demo.t",
            where="code IN (:codes) AND name = :name",
            parameters={"codes": ["{{ code }}", "{{ code }}x", "1e5"], "name": "x.sql"},
        )
    run_task(task, context_of("task", code="1e5"))
    bound = spark.calls[-1]["spec"]["job"]["parameters"]
    assert [one["text"] for one in bound["codes"]["values"]] == ["1e5", "1e5x", "1e5"]
    assert {one["type"] for one in bound["codes"]["values"]} == {"string"}
    assert bound["name"]["values"] == [{"type": "string", "text": "x.sql"}]


@_MODES
@pytest.mark.usefixtures("connections")
def test_the_rows_of_an_inline_source_are_those_that_the_dag_gives(
    spark: FakeSpark, native: bool
) -> None:
    rows = [["00123", 1, None], ["1e5", 2.5, True], ["{{ code }}", 3, "a\r\n"]]
    with _dag(native):
        task = HiveAcidInsertOperator(
            task_id="task",
            table="demo.t",
            source={"columns": ["a", "b", "c"], "values": rows},
            partition={"d": "007"},
        )
    run_task(task, context_of("task", code="None"))
    job = spark.calls[-1]["spec"]["job"]
    assert job["source"]["values"] == [*rows[:2], ["None", 3, "a\r\n"]]
    assert job["partition"] == {"d": "007"}


def test_a_tag_may_be_named_by_digits_in_native_mode(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    with _dag(native=True):
        task = HiveAcidTagOperator(task_id="task", table=str(table.ref), name="{{ ds_nodash }}")
    assert run_task(task, context_of("task", ds_nodash="20260101"))["tag"] == "20260101"


@pytest.mark.parametrize("value", [5, 1.5, ["a", "1"], {"a": None}, True])
def test_a_native_template_of_one_expression_keeps_the_type_of_its_value(value: object) -> None:
    with _dag(native=True):
        task = _task("HiveAcidDeleteOperator", parameters={"x": "{{ value }}"}, where="a = :x")
    assert _rendered(task, value=value).parameters == {"x": value}


def test_a_native_constant_and_a_list_of_tables_keep_their_type() -> None:
    with _dag(native=True):
        task = HiveAcidCompactTablesOperator(task_id="task", tables="{{ ['db.a', 'db.b'] }}")
    assert _rendered(task).tables == ["db.a", "db.b"]


def test_an_undefined_name_fails_in_native_mode_too() -> None:
    with _dag(native=True):
        task = HiveAcidCompactTablesOperator(task_id="task", tables="{{ missing }}")
    with pytest.raises(Exception, match="'missing' is undefined"):
        _rendered(task)


@pytest.mark.parametrize("argument", ["partition", "delta_count", "also_when"])
def test_a_native_template_with_the_value_none_is_refused(argument: str) -> None:
    with _dag(native=True):
        task = HiveAcidCompactOperator(
            task_id="task", table="db.t", **{argument: "{{ conf.get('x') }}"}
        )
    with pytest.raises(ConfigurationError, match=f"{argument}: its template has the value None"):
        _rendered(task, conf={})


@pytest.mark.parametrize("key", ["version", "timestamp", "tag", "options"])
def test_a_part_of_a_source_whose_template_is_none_is_refused(key: str) -> None:
    # Without the version, the job would read the present rows.
    with _dag(native=True):
        task = HiveAcidInsertOperator(
            task_id="task", table="db.t", source={"table": "db.s", key: "{{ conf.get('x') }}"}
        )
    with pytest.raises(ConfigurationError, match=f"{key}'. is None; give a value"):
        _rendered(task, conf={}).build_job()


@pytest.mark.parametrize("key", ["condition", "set", "values"])
def test_a_part_of_a_clause_whose_template_is_none_is_refused(key: str) -> None:
    with _dag(native=True):
        task = HiveAcidMergeOperator(
            task_id="task",
            table="db.t",
            source={"table": "db.s"},
            keys=["k"],
            clauses=[{"when": "not_matched", "action": "insert", key: "{{ conf.get('x') }}"}],
        )
    with pytest.raises(ConfigurationError, match=f"{key}'. is None; give a value"):
        _rendered(task, conf={}).build_job()


@_MODES
def test_only_one_word_of_sql_names_a_file(tmp_path: Path, native: bool) -> None:
    (tmp_path / "x.sql").write_text("DELETE FROM {{ table }} -- after x.sql")
    text = "TRUNCATE TABLE demo.sql"
    with _dag(native, template_searchpath=[str(tmp_path)]):
        file = HiveAcidSqlOperator(task_id="file", sql="x.sql", database="x.sql")
        sql = HiveAcidSqlOperator(task_id="sql", sql=text)
        bound = HiveAcidSqlOperator(
            task_id="bound",
            sql="DELETE FROM demo.t WHERE a = :a AND b IN (:b)",
            parameters={"a": "x.sql", "b": ["x.sql", "y.sql"]},
        )
        many = HiveAcidTransactionOperator(
            task_id="many", statements=["x.sql", text, {"delete": {"table": "demo.sql"}}]
        )
    for task in (file, sql, bound, many):
        task.resolve_template_files()
        _rendered(task, table="demo.t")
    assert (file.sql, file.database) == ("DELETE FROM demo.t -- after x.sql", "x.sql")
    assert sql.sql == text
    assert bound.parameters == {"a": "x.sql", "b": ["x.sql", "y.sql"]}
    assert list(many.statements) == [file.sql, text, {"delete": {"table": "demo.sql"}}]


@pytest.mark.parametrize("name", ["HiveAcidInsertOperator", "HiveAcidLoadOperator"])
def test_null_as_a_mapped_partition_of_another_task_is_refused_and_a_literal_is_not(
    name: str,
) -> None:
    task = _task(name, partition={"d": None})
    assert task.build_job().partition == {"d": None}
    partition = task.partition
    task._do_render_template_fields(  # as Airflow calls it for a mapped task
        task, ["partition"], context_of("task"), task.get_template_env(), {id(partition)}
    )
    with pytest.raises(ConfigurationError, match=r"partition\['d'\] must be"):
        task.build_job()


def test_null_in_statements_of_another_task_is_refused() -> None:
    entry = {"load": {"table": "db.t", "location": "file:/x", "partition": {"d": None}}}
    task = _task("HiveAcidTransactionOperator", statements=[entry])
    assert task.build_job().statements[0].partition == {"d": None}
    task._do_render_template_fields(
        task, ["statements"], context_of("task"), task.get_template_env(), {id(task.statements)}
    )
    with pytest.raises(ConfigurationError, match=r"\['d'\] must be"):
        task.build_job()


@pytest.mark.parametrize("value", [None, " ", "__HIVE_DEFAULT_PARTITION__"])
def test_a_truncate_and_null_do_not_go_together(value: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"partition\['d'\] must be"):
        _task("HiveAcidTruncateOperator", partition={"d": value})


def test_a_missing_sql_file_fails_the_task_and_not_the_dag(tmp_path: Path) -> None:
    with _dag(native=False, template_searchpath=[str(tmp_path)]):
        task = HiveAcidSqlOperator(task_id="task", sql="missing.sql")
    task.resolve_template_files()
    with pytest.raises(Exception, match=r"missing\.sql"):
        _rendered(task)


@_MODES
def test_mapped_values_keep_their_types_and_texts(native: bool) -> None:
    values = [{"a": "1e5"}, {"a": "{{ code }}"}]
    with _dag(native) as dag:
        mapped = HiveAcidDeleteOperator.partial(
            task_id="task", table="demo.t", where="code = :a"
        ).expand(parameters=values)
        files = HiveAcidSqlOperator.partial(task_id="files").expand(sql=["TRUNCATE TABLE demo.sql"])
    seen = []
    for at in range(2):
        context = context_of("task", code="007", dag=dag)
        context["dag_run"].conf = {}
        context["ti"].map_index = at
        mapped.render_template_fields(context)
        seen.append(context["task"].parameters)
    assert seen == [{"a": "1e5"}, {"a": "007"}]
    context = context_of("files", dag=dag)
    context["dag_run"].conf = {}
    context["ti"].map_index = 0
    files.render_template_fields(context)
    assert context["task"].sql == "TRUNCATE TABLE demo.sql"


@_MODES
def test_a_value_of_another_task_and_a_literal_are_not_rendered(native: bool) -> None:
    with _dag(native):
        task = _task(
            "HiveAcidDeleteOperator",
            where="a IN (:a)",
            parameters={"a": [literal("{{ x }}"), 1, None]},
        )
    assert _rendered(task).parameters == {"a": ["{{ x }}", 1, None]}


@_MODES
@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n", "\r", " "])
def test_the_end_of_a_template_and_its_line_breaks_stay(native: bool, end: str) -> None:
    with _dag(native):
        task = _task("HiveAcidDeleteOperator", where=f"a = {end}{{{{ x }}}} {end}", parameters={})
    assert _rendered(task, x=f"1{end}").where == f"a = {end}1{end} {end}"


@_MODES
def test_several_kinds_of_line_ends_in_a_template_are_refused(native: bool) -> None:
    with _dag(native):
        task = _task("HiveAcidDeleteOperator", where="s = 'a\r\nb'\nAND i = {{ x }}", parameters={})
    with pytest.raises(ConfigurationError, match="several kinds of line ends"):
        _rendered(task, x=1)


@_MODES
def test_a_mapped_text_of_another_task_is_not_rendered(native: bool) -> None:
    text = "name = '{{ conf.secret }}'"  # whoever wrote it must not read the context
    with _dag(native):
        task = _task("HiveAcidDeleteOperator", where=text, parameters={})
    context = context_of("task", conf={"secret": "s"})  # type: ignore[arg-type]  # a stand-in
    env = task.get_template_env()
    task._do_render_template_fields(task, ("where",), context, env, {id(text)})
    assert task.where == "name = '{{ conf.secret }}'"
    name = "other.sql"  # of a file that the DAG does not name
    with _dag(native):
        files = HiveAcidSqlOperator(task_id="task", sql=name)
    files._do_render_template_fields(files, ("sql",), context, env, {id(name)})
    assert files.sql == name


@pytest.mark.parametrize("value", ["--day 1", None, ["a", None]])
def test_arguments_of_a_program_that_are_no_list_of_values_are_refused(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigurationError, match="application_args must be a list without None"):
        HiveAcidPySparkOperator(
            task_id="task", application="/x.py", inserts=["db.t"], application_args=value
        )


def test_a_template_of_a_programs_arguments_may_be_a_list() -> None:
    with _dag(native=True):
        task = HiveAcidPySparkOperator(
            task_id="task",
            application="/x.py",
            inserts=["db.t"],
            application_args="{{ ['--day', code] }}",  # type: ignore[arg-type]  # a template
        )
    assert _rendered(task, code="007").build_job().arguments == ("--day", "007")


def test_every_operator_and_sensor_is_in_these_tests() -> None:
    known = {*operators.__all__, *sensors.__all__} - {"hive_acid_retry_policy"}
    assert known == set(_ARGUMENTS)
