"""The example DAGs: Airflow reads them, and they ask for what their texts say."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import DAG, TriggerRule
from airflow.serialization.definitions.dag import SerializedDAG

from airflow_hiveacid import supported_versions
from airflow_hiveacid.format.codec import to_json
from airflow_hiveacid.jobs import maintenance
from airflow_hiveacid.jobs.job import OnRerun
from airflow_hiveacid.jobs.statements import InsertMode, MergeAction, MergeWhen
from airflow_hiveacid.maintenance.compaction_facts import CompactionOutcome
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.plan.arguments import partition_name
from airflow_hiveacid.plan.window import WindowEnd
from demo.changes import ACTUAL, BOOTSTRAP_FILE, FIRST_DAY, KEY, LAST_DAY, batch_name
from demo.flights_table import FLIGHTS
from demo.runs import BOOTSTRAP, COMPACTION, DAGS, FEED, MERGE
from tests.support.airflow_minors import IS_3_3, DagBag, DagSerialization, since_3_3
from tests.support.documents import DOCS, python_blocks

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "dags"
EXAMPLE_FILES = (
    "example_readme",
    "example_sql",
    "example_transaction",
    "example_program",
    "example_compaction",
    "example_partitions",
    "example_maintenance",
    "example_change_feed",
    "example_backfill",
    "example_stream",
    "compact_warehouse",
)
EXAMPLES = (
    "merge_customers",
    "change_customers",
    "settle_orders",
    "merge_orders",
    "compact_customers",
    "compact_warehouse",
    "compact_changed_partitions",
    "maintain_orders",
    "orders_feed",
    "sum_changed_days",
    "sum_days",
    "stream_clicks",
    "hiveacid_collect",
    "hiveacid_operations",
)
SINCE_3_3 = {"compact_changed_partitions", "sum_changed_days"}
"""The examples that an older Airflow does not get."""
IN_THIS_AIRFLOW = [
    pytest.param(dag_id, marks=since_3_3 if dag_id in SINCE_3_3 else [])
    for dag_id in (*DAGS, *EXAMPLES)
]
CHANGES = "file:///changes"
_LATE = datetime(2026, 12, 24, 23, 30, tzinfo=UTC)  # already the 25th in Zurich


@pytest.fixture(scope="module")
def dag_bag() -> DagBag:
    return DagBag(dag_folder=str(FOLDER))


@pytest.fixture(scope="module")
def merge_dag(dag_bag: DagBag) -> DAG:
    return dag_bag.dags[MERGE]


def serialised(dag: DAG) -> SerializedDAG:
    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def rendered(dag: DAG, task_id: str, day: datetime) -> HiveAcidSparkOperator:
    """The task as it is when its run of one day executes."""
    task = dag.get_task(task_id)
    variables = {"value": {"flights_changes": CHANGES}}
    interval = {"data_interval_start": day, "data_interval_end": day + timedelta(days=1)}
    environment = dag.get_template_env()
    for name in task.template_fields:
        value = getattr(task, name)
        context = {"var": variables, **interval}
        setattr(task, name, task.render_template(value, context, environment))
    return task


def test_an_unsupported_airflow_is_an_import_error_that_ends_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supported_versions, "version", lambda _: "3.0.6")
    supported_versions.check_airflow.cache_clear()
    (tmp_path / "old.py").write_text(
        "from airflow.sdk import DAG\nfrom airflow_hiveacid.operators import HiveAcidSqlOperator\n"
    )
    (error,) = DagBag(dag_folder=str(tmp_path)).import_errors.values()
    last = error.strip().splitlines()[-1]
    assert "Airflow 3.0.6 is too old for airflow-provider-hiveacid, which runs on" in last
    assert f"Airflow 3.1 to 3.3; install one of these. {supported_versions.PAGE}" in last


def test_airflow_parses_every_example_dag_without_errors(dag_bag: DagBag) -> None:
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == {*DAGS, *EXAMPLES} - (set() if IS_3_3 else SINCE_3_3)


def test_an_example_that_needs_airflow_3_3_is_not_defined_in_an_older_airflow(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("airflow.__version__", "3.2.2")
    folder = shutil.copytree(FOLDER, tmp_path / "dags")  # else modules of `dag_bag` are replaced
    older = DagBag(dag_folder=str(folder))
    assert older.import_errors == {}
    assert set(older.dags) == {*DAGS, *EXAMPLES} - SINCE_3_3


def test_the_page_of_versions_and_the_examples_themselves_name_what_needs_airflow_3_3() -> None:
    page = (DOCS / "reference" / "versions.md").read_text()
    assert set(re.findall(r"\| `(\w+)` in `dags/", page)) == SINCE_3_3
    for dag_id, file in re.findall(r"\| `(\w+)` in `dags/(\w+\.py)` ", page):
        code = ast.parse((FOLDER / file).read_text())
        assert "3.3; below" in str(ast.get_docstring(code)).replace("\n", " ")
        assert f'"{dag_id}"' in (FOLDER / file).read_text()


@pytest.mark.parametrize("dag_id", IN_THIS_AIRFLOW)
def test_every_example_dag_has_documentation_a_tag_and_an_owner(
    dag_bag: DagBag, dag_id: str
) -> None:
    dag = dag_bag.dags[dag_id]
    assert dag.doc_md
    assert "hive-acid" in dag.tags
    assert {task.owner for task in dag.tasks} == {"data-platform"}


def test_example_dags_without_a_schedule_need_no_logical_date(dag_bag: DagBag) -> None:
    """`airflow dags trigger` and assets give a run no logical date, so its templates would fail."""
    dated = {
        dag.dag_id
        for dag in dag_bag.dags.values()
        if re.search(r"\{\{\s*(ds|ts|logical_date|data_interval_)", Path(dag.fileloc).read_text())
        and dag.schedule is None
    }
    assert dated == set()


@pytest.mark.parametrize("dag_id", IN_THIS_AIRFLOW)
def test_every_example_dag_can_be_serialised_and_read_back(dag_bag: DagBag, dag_id: str) -> None:
    dag = dag_bag.dags[dag_id]
    again = serialised(dag)
    assert again.task_dict.keys() == dag.task_dict.keys()
    assert again.tags == dag.tags


def test_parsing_the_example_dags_imports_no_heavy_library(tmp_path: Path) -> None:
    """The scheduler's parser reads them again and again."""
    program = (
        "import runpy, sys, pathlib\n"
        f"for file in pathlib.Path({str(FOLDER)!r}).glob('*.py'): runpy.run_path(str(file))\n"
        "print(sorted({'pyspark', 'pyarrow', 'pandas', 'thrift'} & set(sys.modules)))"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_run_of_the_merge_dag_spans_one_day(merge_dag: DAG) -> None:
    first = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    until = first + timedelta(days=13)
    runs = list(serialised(merge_dag).iter_dagrun_infos_between(first, until))
    assert len(runs) == 14
    for number, run in enumerate(runs):
        assert run.data_interval.start == first + timedelta(days=number)
        assert run.data_interval.end - run.data_interval.start == timedelta(days=1)


def test_merge_runs_are_sequential_and_limited_to_the_days_of_the_source(merge_dag: DAG) -> None:
    assert all(task.depends_on_past for task in merge_dag.tasks)
    assert merge_dag.max_active_runs == 1
    assert merge_dag.catchup is False
    assert merge_dag.start_date is not None
    assert merge_dag.end_date is not None
    assert (merge_dag.start_date.date(), merge_dag.end_date.date()) == (FIRST_DAY, LAST_DAY)


def test_a_merge_run_reads_the_batch_of_its_day(merge_dag: DAG) -> None:
    spec = rendered(merge_dag, "merge", datetime(2013, 1, 31, tzinfo=UTC)).build_job()
    assert spec.target == str(FLIGHTS)
    assert spec.source.location == f"{CHANGES}/{batch_name(FIRST_DAY.replace(day=31))}"
    assert spec.keys == KEY
    assert spec.condition == "t.month IN (:months)"
    assert spec.parameters["months"].said == "(int '1', int '2')"


def test_a_merge_has_one_clause_for_each_operation(dag_bag: DagBag) -> None:
    spec = dag_bag.dags[MERGE].get_task("merge").build_job()
    update, delete, insert = spec.clauses
    assert (update.when, update.action) == (MergeWhen.MATCHED, MergeAction.UPDATE)
    assert update.set == {name: f"s.{name}" for name in ACTUAL}
    assert (delete.when, delete.action) == (MergeWhen.MATCHED, MergeAction.DELETE)
    assert (insert.when, insert.action) == (MergeWhen.NOT_MATCHED, MergeAction.INSERT)
    conditions = [clause.condition for clause in spec.clauses]
    assert conditions == ["s.op = 'U'", "s.op = 'D'", "s.op = 'I'"]


def test_a_rerun_skips_a_range_of_changes_that_was_already_merged(dag_bag: DagBag) -> None:
    merge = dag_bag.dags[FEED].get_task("merge")
    assert merge.partial_kwargs["on_rerun"] == OnRerun.SKIP.value


def test_the_bootstrap_can_run_only_once(dag_bag: DagBag) -> None:
    dag = dag_bag.dags[BOOTSTRAP]
    assert set(dag.allowed_run_types) == {"scheduled"}
    far = datetime(2030, 1, 1, tzinfo=UTC)
    runs = list(serialised(dag).iter_dagrun_infos_between(dag.start_date, far))
    assert len(runs) == 1


def test_the_bootstrap_loads_the_first_day(dag_bag: DagBag) -> None:
    first = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    spec = rendered(dag_bag.dags[BOOTSTRAP], "load_first_day", first).build_job()
    assert (spec.target, spec.mode) == (str(FLIGHTS), InsertMode.APPEND)
    assert spec.source.location == f"{CHANGES}/{BOOTSTRAP_FILE}"


def test_the_sensor_and_the_compaction_have_the_same_thresholds(dag_bag: DagBag) -> None:
    dag = dag_bag.dags[COMPACTION]
    given = dag.get_task("needed").thresholds()
    spec = dag.get_task("compact").build_job()
    assert isinstance(spec, maintenance.CompactSpec)
    assert (spec.delta_count, spec.delta_ratio) == (given.delta_count, given.delta_ratio)
    assert spec.choice is maintenance.CompactionChoice.AUTO
    assert {task.table for task in dag.tasks} == {str(FLIGHTS)}


def test_a_healthy_table_is_checked_once_and_its_compaction_is_skipped(dag_bag: DagBag) -> None:
    dag = dag_bag.dags[COMPACTION]
    needed = dag.get_task("needed")
    assert (needed.timeout, needed.soft_fail) == (0, True)
    assert needed.downstream_task_ids == {"compact"}
    assert dag.get_task("compact").downstream_task_ids == {"clean"}
    assert dag.max_active_runs == 1


def test_the_compaction_dag_runs_every_five_minutes_unless_the_environment_overrides_it(
    monkeypatch: pytest.MonkeyPatch, dag_bag: DagBag
) -> None:
    monkeypatch.setenv("FLIGHTS_COMPACTION_CRON", "*/2 * * * *")
    often = DagBag(dag_folder=str(FOLDER / "flights_compaction.py")).dags[COMPACTION]
    assert minutes_between(often) == 2
    assert minutes_between(dag_bag.dags[COMPACTION]) == 5


def minutes_between(dag: DAG) -> float:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    until = begin + timedelta(minutes=30)
    first, second, *_ = serialised(dag).iter_dagrun_infos_between(begin, until)
    return (second.run_after - first.run_after).total_seconds() / 60


def test_the_documentation_shows_the_code_of_the_example_dags() -> None:
    shown = [ast.dump(ast.parse(block)) for block in python_blocks() if "DAG(" in block]
    examples = [ast.parse((FOLDER / f"{name}.py").read_text()) for name in EXAMPLE_FILES]
    for code in examples:
        del code.body[0]  # its docstring
    assert sorted(shown) == sorted(ast.dump(code) for code in examples)


def test_airflow_parses_every_dag_that_only_the_documentation_has(tmp_path: Path) -> None:
    for number, block in enumerate(python_blocks()):
        if "@dag(" in block:
            (tmp_path / f"page_{number}.py").write_text(block)
    bag = DagBag(dag_folder=str(tmp_path))
    assert bag.import_errors == {}
    assert set(bag.dags) == {"compact_every_night", "erase_customer", "watch_orders"}


def test_the_documentation_shows_the_code_of_the_example_program() -> None:
    program = REPOSITORY / "spark_apps" / "examples" / "merge_orders.py"
    (shown,) = (ast.parse(block) for block in python_blocks() if "acid.transaction(" in block)
    functions = [
        [ast.dump(node) for node in code.body if isinstance(node, ast.FunctionDef)]
        for code in (shown, ast.parse(program.read_text()))
    ]
    assert functions[0] == functions[1]


def test_the_example_dag_watches_the_table_that_it_compacts(dag_bag: DagBag) -> None:
    dag = dag_bag.dags["compact_customers"]
    (asset,) = dag.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    watched = watcher.trigger.serialize()[1]["condition"]
    spec = dag.get_task("compact").build_job()
    assert isinstance(spec, maintenance.CompactSpec)
    assert watched["table"] == spec.target == "demo.customers"
    thresholds = watched["thresholds"]
    assert thresholds["delta_count"] == spec.delta_count
    assert thresholds["delta_ratio"] == spec.delta_ratio


@pytest.mark.parametrize(
    "dag_id", ["compact_warehouse", "maintain_orders", COMPACTION, "hiveacid_collect"]
)
def test_examples_that_work_on_the_present_state_refuse_backfills(
    dag_bag: DagBag, dag_id: str
) -> None:
    dag = dag_bag.dags[dag_id]
    assert set(dag.allowed_run_types) == {"scheduled", "manual"}
    read_back = serialised(dag)
    if hasattr(read_back, "allowed_run_types"):  # since Airflow 3.2
        assert sorted(read_back.allowed_run_types) == ["manual", "scheduled"]


@since_3_3
@pytest.mark.parametrize(("key", "partition"), [("day=1", "day=1"), ("*", None)])
def test_the_partition_key_of_a_run_selects_the_partition_to_compact(
    dag_bag: DagBag, key: str, partition: str | None
) -> None:
    dag = dag_bag.dags["compact_changed_partitions"]
    task = dag.get_task("compact")
    context = {"dag_run": SimpleNamespace(partition_key=key)}
    rendered_key = task.render_template(task.partition, context, dag.get_template_env())
    assert partition_name(rendered_key) == partition


@pytest.mark.parametrize(
    ("dag_id", "context"),
    [
        pytest.param(
            "sum_changed_days",
            {"dag_run": SimpleNamespace(partition_key="day=2026-11-01")},
            marks=since_3_3,
        ),
        ("sum_days", {"data_interval_start": datetime(2026, 11, 1, tzinfo=UTC)}),
    ],
)
def test_a_changed_day_and_a_backfilled_day_are_summed_by_the_same_statement(
    dag_bag: DagBag, dag_id: str, context: dict[str, object]
) -> None:
    dag = dag_bag.dags[dag_id]
    task = dag.get_task("sum")
    assert task.sql == dag_bag.dags["sum_days"].get_task("sum").sql
    day = task.render_template(task.parameters, context, dag.get_template_env())
    assert day == {"day": {"type": "date", "value": "2026-11-01"}}


def test_the_approval_request_shows_the_compaction_plan(dag_bag: DagBag) -> None:
    dag = dag_bag.dags["maintain_orders"]
    outcomes = [
        to_json(
            CompactionOutcome(partition="day=1", done=False, kind="major", why="rewrites 3 deltas")
        ),
        to_json(CompactionOutcome(partition="", done=False, kind="none", why="nothing to compact")),
    ]
    pulled = {"plan": {"details": {"compactions": outcomes}}}
    context = {"ti": SimpleNamespace(xcom_pull=pulled.__getitem__)}
    task = dag.get_task("approve")
    body = task.render_template(task.body, context, dag.get_template_env())
    assert body.split("\n") == [
        "",
        "* day=1: major, rewrites 3 deltas",
        "* the table: none, nothing to compact",
        "",
    ]


@pytest.mark.parametrize("plan_only", [True, False])
def test_the_parameters_of_the_warehouse_dag_reach_both_of_its_tasks(
    dag_bag: DagBag, plan_only: bool
) -> None:
    dag = dag_bag.dags["compact_warehouse"]
    given = {
        "tables": ["sales.*", "demo.orders"],
        "max_bytes": 10,
        "until": "05:00 Europe/Zurich",
        "blackout_days": [],
        "retention_hours": 0.5,
        "plan_only": plan_only,
    }
    assert given.keys() == dag.params.dump().keys()
    jobs = []
    for task_id in ("compact", "clean"):
        task = copy(dag.get_task(task_id))
        for name in task.template_fields:
            value = task.render_template(getattr(task, name), {"params": given})
            setattr(task, name, value)
        jobs.append(task.build_job())
    tables = ("sales.*", "demo.orders")
    assert jobs == [
        maintenance.CompactSpec(
            tables=tables, max_bytes=10, at_end=maintenance.AtEnd.STOP, plan_only=plan_only
        ),
        maintenance.CleanSpec(tables=tables, retention_s=1800.0, plan_only=plan_only),
    ]


def nights(dag: DAG, first: datetime) -> list[datetime]:
    """When the runs of the next three nights begin."""
    runs = serialised(dag).iter_dagrun_infos_between(first, first + timedelta(days=3))
    return [run.run_after for run in runs]


@pytest.mark.promise("C6", "A10")
@pytest.mark.parametrize(
    ("first", "hours"),
    [
        (datetime(2026, 1, 1, 12, tzinfo=UTC), [4, 4, 4]),
        (datetime(2026, 3, 27, 12, tzinfo=UTC), [4, 3, 4]),
        (datetime(2026, 10, 23, 12, tzinfo=UTC), [4, 5, 4]),
    ],
    ids=["winter", "clocks forward", "clocks back"],
)
def test_the_warehouse_dag_runs_once_a_night_from_one_to_five(
    dag_bag: DagBag, first: datetime, hours: list[int]
) -> None:
    dag, zone = dag_bag.dags["compact_warehouse"], ZoneInfo("Europe/Zurich")
    begins = nights(dag, first)
    until = WindowEnd.parse(dag.params["until"])
    ends = [until.after(begin) for begin in begins]
    assert [begin.astimezone(zone).hour for begin in begins] == [1, 1, 1]
    assert [end.astimezone(zone).hour for end in ends] == [5, 5, 5]
    took = [end.astimezone(UTC) - begin for begin, end in zip(begins, ends, strict=True)]
    assert took == [timedelta(hours=one) for one in hours]
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    cleaning = dag.get_task("clean").execution_timeout
    assert timedelta(hours=4) + cleaning <= dag.dagrun_timeout <= timedelta(hours=5)


@pytest.mark.promise("A10")
def test_the_warehouse_dag_skips_the_nights_of_black_out_days(
    dag_bag: DagBag, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Midnight in Zurich is on the day before in UTC."""
    dag = dag_bag.dags["compact_warehouse"]
    gate = dag.get_task("is_open")
    assert (gate.downstream_task_ids, gate.ignore_downstream_trigger_rules) == ({"compact"}, True)
    module = sys.modules[gate.python_callable.__module__]
    found = []
    for begin in (*nights(dag, datetime(2026, 12, 23, 12, tzinfo=UTC)), _LATE):
        context = {
            "dag_run": SimpleNamespace(run_after=begin),
            "params": {"blackout_days": ["2026-12-25"]},
        }
        monkeypatch.setattr(module, "get_current_context", lambda given=context: given)
        found.append(gate.python_callable())
    assert found == [True, False, True, False]


def test_the_warehouse_dag_cleans_after_a_failed_compaction_and_fails_nevertheless(
    dag_bag: DagBag,
) -> None:
    dag = dag_bag.dags["compact_warehouse"]
    clean, (end,) = dag.get_task("clean"), dag.leaves
    assert (clean.upstream_task_ids, clean.trigger_rule) == ({"compact"}, TriggerRule.ALL_DONE)
    assert end.upstream_task_ids == {"compact", "clean"}
    assert end.trigger_rule == TriggerRule.ALL_SUCCESS
