from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hiveacid.format.errors import ConfigurationError, InputError, InvalidNameError
from airflow_hiveacid.jobs.parameters import Parameter, Value, ValueType
from airflow_hiveacid.jobs.specs.job import Job, JobSpec
from airflow_hiveacid.jobs.specs.maintenance import (
    AtEnd,
    ChangeFeedSpec,
    CleanSpec,
    CompactionChoice,
    CompactSpec,
    ConversionTarget,
    ConvertSpec,
    Off,
    ProveErasureSpec,
    RebalanceSpec,
    RestoreSpec,
    WhenGone,
)
from airflow_hiveacid.jobs.specs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.operators.hive_acid import (
    HiveAcidChangeFeedOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidLoadOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidTruncateOperator,
    HiveAcidUpdateOperator,
)
from airflow_hiveacid.operators.maintenance import (
    HiveAcidCleanOperator,
    HiveAcidCleanTablesOperator,
    HiveAcidCompactOperator,
    HiveAcidCompactTablesOperator,
    HiveAcidConvertOperator,
    HiveAcidProveErasureOperator,
    HiveAcidRebalanceOperator,
)
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from tests.support.airflow_minors import DagBag, DagSerialization
from tests.support.airflow_support import Connections, FakeSpark, context_of, run_task

pytestmark = pytest.mark.usefixtures("connections")

MERGE: dict[str, Any] = {
    "table": "demo.Flights",
    "source": {"format": "parquet", "location": "/data/{{ ds }}", "options": {"mergeSchema": True}},
    "keys": ["id", "day"],
    "clauses": [
        {"when": "matched", "condition": "s.op = 'D'", "action": "delete"},
        {"when": "matched", "action": "update", "set": {"delay": "s.delay"}},
        {"when": "NOT_MATCHED", "action": "insert"},
    ],
    "condition": "t.month = {{ ti.try_number }}",
}

CASES: list[tuple[type[HiveAcidSparkOperator], dict[str, Any], Job]] = [
    (
        HiveAcidMergeOperator,
        MERGE,
        MergeSpec(
            target="demo.flights",
            source=SourceSpec(
                format="parquet", location="/data/2013-01-02", options={"mergeSchema": "True"}
            ),
            keys=("id", "day"),
            clauses=(
                MergeClause(
                    when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition="s.op = 'D'"
                ),
                MergeClause(
                    when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set={"delay": "s.delay"}
                ),
                MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT),
            ),
            condition="t.month = 1",
        ),
    ),
    (
        HiveAcidInsertOperator,
        {
            "table": "db.t",
            "source": {"values": [[1, "a{{ ds }}"], [2, None]], "columns": "id, name"},
            "mode": "overwrite",
            "columns": ["id", "name"],
            "partition": {"month": "{{ ti.try_number }}"},
        },
        InsertSpec(
            target="db.t",
            source=SourceSpec(values=((1, "a2013-01-02"), (2, None)), columns=("id", "name")),
            mode=InsertMode.OVERWRITE,
            columns=("id", "name"),
            partition={"month": "1"},
        ),
    ),
    (
        HiveAcidUpdateOperator,
        {"table": "db.t", "assignments": {"a": "'{{ ds }}'"}, "where": "b = 1"},
        UpdateSpec(target="db.t", set={"a": "'2013-01-02'"}, where="b = 1"),
    ),
    (
        HiveAcidDeleteOperator,
        {"table": "db.{{ ti.task_id }}", "where": "day = '{{ ds }}'"},
        DeleteSpec(target="db.task", where="day = '2013-01-02'"),
    ),
    (HiveAcidDeleteOperator, {"table": "db.t"}, DeleteSpec(target="db.t", where=None)),
    (HiveAcidTruncateOperator, {"table": "db.{{ ti.task_id }}"}, TruncateSpec(target="db.task")),
    (
        HiveAcidTruncateOperator,
        {"table": "db.t", "partition": {"day": "{{ ds }}", "p": 1}},
        TruncateSpec(target="db.t", partition={"day": "2013-01-02", "p": "1"}),
    ),
    (
        HiveAcidRebalanceOperator,
        {
            "table": "db.{{ ti.task_id }}",
            "partition": "day={{ ds }}",
            "buckets": "{{ 2 * 2 }}",
            "order_by": "ID, {{ ti.task_id }}",
            "plan_only": "{{ 2 > 1 }}",
        },
        RebalanceSpec(
            target="db.task",
            partition="day=2013-01-02",
            buckets=4,
            order_by=("id", "task"),
            plan_only=True,
        ),
    ),
    (HiveAcidRebalanceOperator, {"table": "db.t"}, RebalanceSpec(target="db.t")),
    (
        HiveAcidRestoreOperator,
        {"table": "db.{{ ti.task_id }}", "version": "{{ 6 * 7 }}", "plan_only": "{{ 2 > 1 }}"},
        RestoreSpec(target="db.task", version="version 42", plan_only=True),
    ),
    (
        HiveAcidRestoreOperator,
        {"table": "db.t", "timestamp": "{{ ds }}T02:00:00Z"},
        RestoreSpec(target="db.t", version="timestamp 2013-01-02T02:00:00+00:00"),
    ),
    (
        HiveAcidRestoreOperator,
        {"table": "db.t", "tag": "closing-{{ ds }}"},
        RestoreSpec(target="db.t", version="tag closing-2013-01-02"),
    ),
    (
        HiveAcidConvertOperator,
        {"table": "db.{{ ti.task_id }}", "to": "Insert_only", "plan_only": "{{ 2 > 1 }}"},
        ConvertSpec(target="db.task", to=ConversionTarget.INSERT_ONLY, plan_only=True),
    ),
    (
        HiveAcidLoadOperator,
        {"table": "db.t", "location": "hdfs://nn/in"},
        LoadSpec(target="db.t", location="hdfs://nn/in"),
    ),
    (
        HiveAcidLoadOperator,
        {
            "table": "db.t",
            "location": "hdfs://nn/in/{{ ds }}",
            "partition": {"day": "{{ ds }}"},
            "overwrite": "{{ 2 > 1 }}",
        },
        LoadSpec(
            target="db.t",
            location="hdfs://nn/in/2013-01-02",
            partition={"day": "2013-01-02"},
            overwrite=True,
        ),
    ),
    (
        HiveAcidCompactOperator,
        {
            "table": "db.t",
            "partition": "Month={{ ti.try_number }}",
            "choice": "Major",
            "delta_count": "{{ 2 + 3 }}",
            "delta_ratio": "{{ 0.25 }}",
            "also_when": {"small_files": "{{ 2 * 100 }}", "aborted_transactions": "off"},
            "plan_only": "{{ 2 > 1 }}",
        },
        CompactSpec.of_table(
            "db.t",
            partition="month=1",
            choice=CompactionChoice.MAJOR,
            delta_count=5,
            delta_ratio=0.25,
            also_when={"small_files": 200, "aborted_transactions": Off.OFF},
            plan_only=True,
        ),
    ),
    (
        HiveAcidCompactTablesOperator,
        {
            "tables": ["sales.*", "{{ 'db' }}.t"],
            "choice": "Minor",
            "delta_count": "{{ 2 + 3 }}",
            "delta_ratio": "{{ 0.25 }}",
            "also_when": "small_files={{ 2 * 100 }}",
            "max_bytes": "{{ 10 ** 9 }}",
            "plan_only": "{{ 2 > 1 }}",
        },
        CompactSpec(
            tables=("sales.*", "db.t"),
            choice=CompactionChoice.MINOR,
            delta_count=5,
            delta_ratio=0.25,
            also_when={"small_files": 200},
            max_bytes=10**9,
            plan_only=True,
        ),
    ),
    (HiveAcidCompactTablesOperator, {"tables": "a.*, *"}, CompactSpec(tables=("a.*", "*"))),
    (
        HiveAcidCompactTablesOperator,
        {
            "tables": "*",
            "choice": "queued",
            "pools": "{{ 'etl' }}, default",
            "at_end": "{{ 'Stop' }}",
        },
        CompactSpec(
            tables=("*",),
            choice=CompactionChoice.QUEUED,
            pools=("etl", "default"),
            at_end=AtEnd.STOP,
        ),
    ),
    (
        HiveAcidCompactOperator,
        {"table": "db.t", "delta_ratio": "{{ 'off' }}"},
        CompactSpec.of_table("db.t", delta_count=None, delta_ratio=Off.OFF),
    ),
    (
        HiveAcidCompactOperator,
        {"table": "db.t", "partition": "{{ '' }}"},
        CompactSpec.of_table("db.t", partition=None),
    ),
    (
        HiveAcidChangeFeedOperator,
        {
            "table": "db.T",
            "location": "hdfs://nn/feeds/{{ ds }}",
            "keys": "id, {{ ti.task_id }}",
            "net": "{{ 2 > 1 }}",
            "columns": ["id", "v"],
            "where": "v > {{ 3 }}",
            "pre_images": "{{ 1 > 2 }}",
            "since": "{{ 5 }}",
            "until": 7,
            "when_gone": "Whole",
        },
        ChangeFeedSpec(
            target="db.t",
            location="hdfs://nn/feeds/2013-01-02",
            keys=("id", "task"),
            is_net=True,
            columns=("id", "v"),
            where="v > 3",
            pre_images=False,
            since="version 5",
            until="version 7",
            when_gone=WhenGone.WHOLE,
        ),
    ),
    (
        HiveAcidChangeFeedOperator,
        {
            "table": "db.t",
            "location": "/feeds/t",
            "since": "tag {{ 'closing' }}",
            "until": "{{ ds }}T02:00:00Z",
        },
        ChangeFeedSpec(
            target="db.t",
            location="/feeds/t",
            since="tag closing",
            until="timestamp 2013-01-02T02:00:00+00:00",
        ),
    ),
    (
        HiveAcidChangeFeedOperator,
        {"table": "db.t", "location": "/feeds/t"},
        ChangeFeedSpec(target="db.t", location="/feeds/t"),
    ),
    (
        HiveAcidProveErasureOperator,
        {
            "table": "db.T",
            "where": "id = :id AND day < '{{ ds }}'",
            "parameters": {"id": {"type": "int", "value": "{{ 3 }}"}},
            "locations": ["hdfs://nn/feeds/{{ ti.task_id }}"],
        },
        ProveErasureSpec(
            target="db.t",
            where="id = :id AND day < '2013-01-02'",
            parameters={"id": Parameter(values=(Value(type=ValueType.INT, text="3"),))},
            locations=("hdfs://nn/feeds/task",),
        ),
    ),
    (
        HiveAcidCleanOperator,
        {
            "table": "db.t",
            "retention_s": "3600",
            "remove_unknown_after": "2 weeks",
            "plan_only": True,
        },
        CleanSpec.of_table("db.t", retention_s=3600.0, unknown_age_s=14 * 86400.0, plan_only=True),
    ),
    (
        HiveAcidCleanTablesOperator,
        {
            "tables": ["sales.*", "{{ 'db' }}.t"],
            "retention_s": "{{ 2 * 3600 }}",
            "orphan_age_s": 5,
            "remove_unknown_after": "{{ 10 * 3 }} days",
            "plan_only": "{{ 2 > 1 }}",
        },
        CleanSpec(
            tables=("sales.*", "db.t"),
            retention_s=7200.0,
            orphan_age_s=5.0,
            unknown_age_s=30 * 86400.0,
            plan_only=True,
        ),
    ),
    (HiveAcidCleanTablesOperator, {"tables": "a.*, *"}, CleanSpec(tables=("a.*", "*"))),
]


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
    "clause",
    [
        {"when": "{{ w }}", "action": "insert"},
        {"when": "not_matched", "action": "{{ a }}"},
        {"when": "not_matched_by_source", "action": "{{ a }}"},
        {"when": "{{ w }}", "action": "{{ a }}", "set": "{{ s }}"},
        {"when": "not_matched_by_source", "action": "update", "set": "{{ s }}"},
    ],
)
def test_templated_arguments_are_not_refused_while_the_dag_is_parsed(
    clause: dict[str, str],
) -> None:
    source = {"format": "{{ f }}", "location": "{{ l }}", "query": "{{ q }}"}
    HiveAcidMergeOperator(task_id="task", **{**MERGE, "source": source, "clauses": [clause]})
    values = {"values": [["{{ ds }}"]], "columns": ["a", "b"]}
    HiveAcidMergeOperator(task_id="task", **{**MERGE, "source": values})


WRONG: list[tuple[type[HiveAcidSparkOperator], dict[str, Any], str]] = [
    (HiveAcidDeleteOperator, {"table": "flights"}, "not a valid table name"),
    (HiveAcidMergeOperator, {**MERGE, "source": {"formt": "csv"}}, "source has no key 'formt'"),
    (HiveAcidMergeOperator, {**MERGE, "source": "x"}, "source must be a mapping"),
    (HiveAcidMergeOperator, {**MERGE, "clauses": [{"when": "matched"}]}, "lacks 'action'"),
    (
        HiveAcidMergeOperator,
        {**MERGE, "clauses": [{"when": "sometimes", "action": "delete"}]},
        r"clauses\[0\]\['when'\] must be one of matched, ",
    ),
    (HiveAcidMergeOperator, {**MERGE, "keys": [1]}, "keys must be a string"),
    (
        HiveAcidCompactOperator,
        {"table": "db.t", "partition": {"month": 1}},
        "partition must be a string such as 'month=1/day=2'",
    ),
    *(
        (HiveAcidMergeOperator, {**MERGE, "clauses": [{"when": "not_matched", **clause}]}, message)
        for clause, message in (
            ({"action": "insert", "values": "s.a"}, r"\['values'\] must be a list of SQL"),
            ({"action": "insert", "values": [1]}, r"\['values'\]\[0\] must be a string"),
            ({"action": "insert", "values": ["1"], "set": {"a": "1"}}, "'set' and 'values'"),
        )
    ),
    (HiveAcidUpdateOperator, {"table": "db.t", "assignments": {}}, "assignments must map"),
    (
        HiveAcidUpdateOperator,
        {"table": "db.t", "assignments": {"a": 1}},
        r"\['a'\] must be a string",
    ),
    (
        HiveAcidInsertOperator,
        {"table": "db.t", "source": {"table": "db.s"}, "mode": "upsert"},
        "mode must be one of append, overwrite",
    ),
    (HiveAcidMergeOperator, {**MERGE, "keys": []}, "keys is empty; list the columns"),
    (HiveAcidMergeOperator, {**MERGE, "clauses": []}, "clauses is empty; give at least one WHEN"),
    (
        HiveAcidMergeOperator,
        {**MERGE, "clauses": [{"when": "matched", "action": "insert"}]},
        r"clauses\[0\]: WHEN matched cannot insert; it can delete or update",
    ),
    (
        HiveAcidMergeOperator,
        {**MERGE, "clauses": [{"when": "matched", "action": "delete", "set": {"a": "1"}}]},
        "so it cannot set columns",
    ),
    (
        HiveAcidMergeOperator,
        {**MERGE, "clauses": [{"when": "not_matched_by_source", "action": "update"}]},
        "needs explicit assignments",
    ),
    *(
        (HiveAcidInsertOperator, {"table": "db.t", "source": source}, message)
        for source, message in (
            ({}, "exactly one of: location .with format., table, values, tables .*; found 0"),
            ({"tables": {"a": "db.a"}}, "needs a query over their views"),
            ({"tables": {"a": "b"}, "query": "select 1"}, "not a valid table name"),
            ({"tables": ["db.a"], "query": "select 1"}, r"source\['tables'\] must map views"),
            ({"table": "db.s", "values": [[1]]}, "exactly one of: .*; found 2"),
            ({"location": "/data"}, "source /data needs a format"),
            ({"location": 5, "format": "csv"}, r"source\['location'\] must be a string"),
            ({"table": "s"}, "not a valid table name"),
            ({"table": "db.s", "options": "header"}, r"source\['options'\] must be a mapping"),
            (
                {"format": "jdbc", "location": "x", "options": {"password": "hunter2"}},
                r"source\['options'\]\['password'\] must say where the driver finds the secret",
            ),
            ({"values": [1, 2]}, r"source\['values'\] must be a list of rows, each a list"),
            ({"values": [[1], [1, 2]]}, r"source values\[1\] has 2 values"),
            (
                {"values": [[1]], "columns": ["a", "b"]},
                r"source values\[0\] has 1 values for 2 columns",
            ),
            ({"values": [[date(2013, 1, 1)]]}, r"source\['values'\]\[0\] contains a date"),
            ({"values": [[{"a": 1}]]}, r"source\['values'\]\[0\] contains a dict"),
        )
    ),
    *(
        (
            HiveAcidInsertOperator,
            {"table": "db.t", "source": {"table": "db.s"}, "partition": partition},
            message,
        )
        for partition, message in (
            ("month=1", "partition must map partition columns to values"),
            (["month"], "partition must map partition columns to values"),
            ({"month": 1.5}, r"partition\['month'\] must be a non-blank string or"),
            ({"month": " "}, r"partition\['month'\] must be a non-blank"),
        )
    ),
    (HiveAcidCompactOperator, {"table": "db.t", "choice": "huge"}, "choice must be one of auto"),
    (HiveAcidCompactOperator, {"table": "db.t", "delta_count": 0}, "delta_count must be 1 or more"),
    (HiveAcidCompactOperator, {"table": "db.t", "delta_ratio": 0}, "delta_ratio must be above 0"),
    (HiveAcidCompactOperator, {"table": "db.t", "delta_ratio": 10}, "For 10 %, use 0.1"),
    (
        HiveAcidCompactOperator,
        {"table": "db.t", "also_when": "files=2"},
        "allowed are aborted_tran",
    ),
    (HiveAcidCompactTablesOperator, {"tables": "*", "also_when": {"small_files": 0}}, "above 0"),
    (HiveAcidCompactTablesOperator, {"tables": []}, "tables must have at least one entry"),
    (HiveAcidCompactTablesOperator, {"tables": "sales"}, "such as sales.orders, sales"),
    (HiveAcidCompactTablesOperator, {"tables": "a.*", "max_bytes": 0}, "max_bytes must be 1 or"),
    (HiveAcidCompactTablesOperator, {"tables": "a.*", "pools": "etl"}, "pools needs choice"),
    (HiveAcidCompactTablesOperator, {"tables": "*", "until": "05:00"}, "time of day with its zone"),
    (HiveAcidCompactTablesOperator, {"tables": "*", "at_end": "kill"}, "one of finish, stop"),
    (HiveAcidCompactTablesOperator, {"tables": "a.*", "pools": 1}, "pools must be a list"),
    (HiveAcidCompactOperator, {"table": "db.t", "plan_only": "no"}, "plan_only must be true or"),
    (HiveAcidCompactOperator, {"table": "db.t", "delta_count": "ten"}, "whole number"),
    (HiveAcidCompactOperator, {"table": "db.t", "partition": "1"}, "not a valid partition name"),
    (HiveAcidCleanOperator, {"table": "db.t", "retention_s": "-1"}, "retention_s must be a number"),
    (
        HiveAcidCleanOperator,
        {"table": "db.t", "remove_unknown_after": "23 hours"},
        "remove_unknown_after must be 1 day or more, found '23 hours': a running job",
    ),
    (HiveAcidCleanOperator, {"table": "db.t", "remove_unknown_after": 30}, "not a duration"),
    (HiveAcidCleanTablesOperator, {"tables": []}, "tables must have at least one entry"),
    (
        HiveAcidCleanTablesOperator,
        {"tables": "a.*", "remove_unknown_after": "1 hour"},
        "remove_unknown_after must be 1 day or more",
    ),
    (HiveAcidCleanTablesOperator, {"tables": "a.*", "plan_only": "no"}, "plan_only must be true"),
    (HiveAcidCleanTablesOperator, {"tables": "a.*", "orphan_age_s": -1}, "orphan_age_s must be a"),
    (HiveAcidProveErasureOperator, {"table": "db.t", "where": " "}, "where"),
    (HiveAcidProveErasureOperator, {"table": "db.t", "where": "id = :id"}, ":id"),
    (HiveAcidRebalanceOperator, {"table": "db.t", "buckets": 0}, "buckets must be from 1 to 4096"),
    (HiveAcidRebalanceOperator, {"table": "db.t", "buckets": 4097}, "buckets must be from 1 to"),
    (HiveAcidRebalanceOperator, {"table": "db.t", "order_by": 1}, "order_by must be a list"),
    (
        HiveAcidRestoreOperator,
        {"table": "db.t", "version": "1.5"},
        "version must be a whole number",
    ),
    (HiveAcidRestoreOperator, {"table": "db.t", "version": -1}, "version must be a version number"),
    (
        HiveAcidRestoreOperator,
        {"table": "db.t", "timestamp": "noon"},
        "timestamp 'noon' is not a time",
    ),
    (HiveAcidRestoreOperator, {"table": "db.t", "tag": " a"}, "tag ' a' is not a valid name"),
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


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ({"wen": "matched", "action": "delete", "condition": "{{ c }}"}, "has no key 'wen'"),
        ({"when": "{{ w }}", "condition": "{{ c }}"}, "lacks 'action'"),
        ({"when": "{{ w }}", "action": "upsert"}, "must be one of update, delete, insert"),
        ({"when": "matched", "action": "update", "sett": "{{ s }}"}, "has no key 'sett'"),
    ],
)
def test_a_typo_beside_a_template_is_refused_while_the_dag_is_parsed(
    clause: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=rf"task 'task', argument clauses: .*{message}"):
        HiveAcidMergeOperator(task_id="task", **{**MERGE, "clauses": [clause]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_rerun": "repeat"}, "on_rerun must be one of apply, skip, fail"),
        ({"lock_timeout_s": "-1"}, "lock_timeout_s must be a number"),
        ({"ledger_retention_s": "a month"}, "ledger_retention_s must be a number"),
    ],
)
def test_arguments_that_all_operators_share_are_checked_while_the_dag_is_parsed(
    arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"task 'task', argument .*{message}"):
        HiveAcidDeleteOperator(task_id="task", table="db.t", **arguments)


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "none"), ({"version": 1, "tag": "a"}, "version and tag")],
)
def test_a_restore_requires_exactly_one_of_version_timestamp_and_tag(
    given: dict[str, Any], found: str
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"exactly one of version, timestamp and tag, found {found}"
    ):
        HiveAcidRestoreOperator(task_id="task", table="db.t", **given)


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
