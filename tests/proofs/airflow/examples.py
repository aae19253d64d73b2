"""Plays of the example DAGs: Airflow parses all of them, and runs each, if need be in a real Spark.

The examples run in the order of `_EXAMPLES`, since some change the tables of others. Before each
round of an example, the program makes what its page expects of the user: tables, deltas, a pool, a
file. Variables are in Airflow's environment. In each round, each task must have work: a chain of
tasks that all find nothing to do proves nothing. Examples of maintenance have two rounds, because
what one round leaves behind may stop the next.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo import seed
from demo.airflow_api import Run, Task
from demo.runs import why_failed
from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import Site, until

_BUNDLES: Final = [
    {
        "name": "examples",
        "classpath": "airflow_hiveacid.bundles.HiveAcidExampleDagBundle",
        "kwargs": {},
    },
    {
        "name": "preparation",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(Path(__file__).parent / "preparation")},
    },
]
_PREPARATIONS: Final = (
    "fill_orders",
    "add_order_deltas",
    "add_orders",
    "add_totals",
    "add_deltas",
    "add_flight_deltas",
    "fill_sales",
    "create_clicks",
)
_MODULES: Final = Path(__file__).parent / "modules"
_PERSON_S: Final = 10.0
"""The time that a person takes to answer."""


# How an example is started


def _trigger(site: Site, dag_id: str, **params: object) -> None:
    """by a user"""
    site.api.unpause(dag_id)
    site.api.trigger(dag_id, uuid.uuid4().hex[:12], **params)


def _each_action(site: Site, dag_id: str) -> None:
    """by a user, for each action"""
    for count, action in enumerate(("plan", "compact", "clean"), len(site.api.runs(dag_id)) + 1):
        _trigger(site, dag_id, action=action, choice="major")
        _await_runs(site, dag_id, count)


def _unpause(site: Site, dag_id: str) -> None:
    """by its schedule, then by a user"""
    if site.api.runs(dag_id):
        _trigger(site, dag_id)
    site.api.unpause(dag_id)


def _approve(site: Site, dag_id: str) -> None:
    """by a user, who approves its plan"""
    _trigger(site, dag_id, keep_days=0)
    (run,) = (run for run in site.api.runs(dag_id) if not run.is_over)
    until("a request for approval", lambda: site.api.asks(run, "approve"))
    # If the answer is faster than a person's, Airflow 3.3.2 may start the task again before the
    # scheduler knows that it has paused. Then the scheduler takes the task for a failed one.
    time.sleep(_PERSON_S)
    site.api.answer(run, "approve", "Approve")


def _backfill(day: str) -> Callable[[Site, str], None]:
    def start(site: Site, dag_id: str) -> None:
        site.api.unpause(dag_id)
        dates = ["--from-date", day, "--to-date", day, "--reprocess-behavior", "failed"]
        site.airflow.command(["backfill", "create", "--dag-id", dag_id, *dates])

    start.__doc__ = "by a backfill"
    return start


def _event(site: Site, dag_id: str) -> None:
    """by changed partitions"""
    # What the example needs has changed them.


# What an example needs


def _nothing(site: Site) -> None:
    pass


def _orders(site: Site) -> None:
    for dag_id in (example.dag_id for example in _EXAMPLES if example.start is _event):
        site.api.unpause(dag_id)
    _prepare(site, "fill_orders")


def _order_deltas(site: Site) -> None:
    _prepare(site, "add_order_deltas")


def _more_orders(site: Site) -> None:
    _prepare(site, "add_orders")


def _totals(site: Site) -> None:
    _prepare(site, "add_totals")
    program = site.layout.repository / "spark_apps" / "examples" / "merge_orders.py"
    shutil.copy(program, site.layout.home)  # Airflow's current directory


def _flights(site: Site) -> None:
    seed.main(
        ["--metastore", site.warehouse.uri, "--changes", str(site.layout.changes), "--days", "1"]
    )


def _sales(site: Site) -> None:
    _prepare(site, "fill_sales")


def _clicks(site: Site) -> None:
    _prepare(site, "create_clicks")


def _deltas(site: Site) -> None:
    _prepare(site, "add_deltas")


def _flight_deltas(site: Site) -> None:
    _prepare(site, "add_flight_deltas")


def _prepare(site: Site, dag_id: str) -> None:
    earlier = len(site.api.runs(dag_id))
    _trigger(site, dag_id)
    for run in _await_runs(site, dag_id, earlier + 1):
        if run.state != "success":
            raise RuntimeError(f"{dag_id} {run.state}: {_reason(site, run)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example DAG, started once in each of `rounds` rounds, with at least `runs` runs each.

    All tasks must succeed, or be skipped if they are among `skipped`. Each task must have work in
    at least one run of each round. If it is endless, a run follows each run that is over.
    """

    dag_id: str
    needs: Callable[[Site], None] = _nothing
    start: Callable[[Site, str], None] = _trigger
    rounds: int = 1
    runs: int = 1
    skipped: tuple[str, ...] = ()
    is_endless: bool = False


_EXAMPLES: Final = (
    Example(dag_id="merge_customers"),
    Example(dag_id="change_customers"),
    Example(dag_id="sum_changed_days", needs=_orders, start=_event, runs=2),
    Example(
        dag_id="compact_changed_partitions", needs=_order_deltas, start=_event, rounds=2, runs=2
    ),
    Example(dag_id="sum_days", start=_backfill("2026-11-01")),
    Example(dag_id="maintain_orders", needs=_more_orders, start=_approve, rounds=2),
    Example(dag_id="orders_feed"),
    Example(dag_id="settle_orders"),
    Example(dag_id="merge_orders", needs=_totals),
    Example(
        dag_id="hiveacid_operations",
        needs=_deltas,
        start=_each_action,
        rounds=2,
        runs=3,
        skipped=("plan", "compact", "clean"),
    ),
    Example(dag_id="compact_customers", needs=_deltas, start=_unpause, rounds=2),
    Example(dag_id="flights_bootstrap", needs=_flights, start=_unpause),
    Example(dag_id="flights_merge", start=_backfill("2013-01-01")),
    Example(dag_id="flights_carriers"),
    Example(dag_id="change_feed"),
    Example(dag_id="flights_compaction", needs=_flight_deltas, start=_unpause, rounds=2),
    # Its tables are those of the database `sales`, which no other example uses.
    Example(dag_id="compact_warehouse", needs=_sales, rounds=2),
    Example(dag_id="hiveacid_collect"),
    Example(dag_id="stream_clicks", needs=_clicks, start=_unpause, is_endless=True),
)


def examples(site: Site) -> Iterator[Row]:
    """Parse all example DAGs in an Airflow with a local Spark, then run them."""
    site.launch(
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(_BUNDLES),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
        AIRFLOW__HIVEACID__SPARK_BIN_DIR=str(site.layout.spark_programs),
        AIRFLOW_VAR_FEEDS=(site.layout.home / "feeds").as_uri(),
        PYTHONPATH=os.pathsep.join([str(_MODULES), site.settings["PYTHONPATH"]]),
    )
    site.airflow.command(["pools", "set", "hive_acid", "1", "Spark jobs at once"])
    yield _parsed(site)
    for example in _EXAMPLES:
        yield _ran(site, example)


def _parsed(site: Site) -> Row:
    began, api = time.monotonic(), site.api
    until("the preparations", lambda: api.dag_ids().issuperset(_PREPARATIONS))
    files = {file.name for file in site.layout.dags.glob("*.py") if not file.stem.startswith("_")}
    until("each example file", lambda: api.dag_files() >= files or api.import_errors())
    errors = api.import_errors()
    return Row(
        play="examples",
        title="the DAG processor parses the example DAGs",
        seen=f"{len(files)} files, {len(errors)} import errors",
        violation="; ".join(errors),
        seconds=time.monotonic() - began,
    )


def _ran(site: Site, example: Example) -> Row:
    dag_id, seconds = example.dag_id, 0.0
    runs: tuple[Run, ...] = ()
    for _ in range(example.rounds):
        earlier = len(site.api.runs(dag_id)) if example.rounds > 1 else 0
        example.needs(site)
        began = time.monotonic()
        example.start(site, dag_id)
        runs = _await_runs(site, dag_id, earlier + example.runs, is_endless=example.is_endless)
        seconds += time.monotonic() - began
    ended = {run.run_id for run in runs}
    tasks = [task for task in site.api.tasks(dag_id) if task.run_id in ended]
    results = [_result(site, dag_id, task) for task in tasks]
    failed = (f"{run.state}: {_reason(site, run)}" for run in runs if run.state != "success")
    rounds = f", {example.rounds} rounds" if example.rounds > 1 else ""
    return Row(
        play="examples",
        title=f"`{dag_id}`, started {example.start.__doc__}{rounds}",
        seen="; ".join(map(_told, tasks, results)),
        violation=next(failed, "") or violation(example, list(zip(tasks, results, strict=True))),
        seconds=seconds,
    )


def _await_runs(
    site: Site, dag_id: str, count: int = 1, *, is_endless: bool = False
) -> tuple[Run, ...]:
    def ended() -> tuple[Run, ...]:
        return tuple(run for run in site.api.runs(dag_id) if run.is_over)

    def are_over() -> bool:
        return len(ended()) >= (count if is_endless else max(count, len(site.api.runs(dag_id))))

    until(f"the end of {dag_id}", are_over)
    return ended()[:count] if is_endless else site.api.runs(dag_id)


def _result(site: Site, dag_id: str, task: Task) -> Mapping[str, Any]:
    found = site.api.result(dag_id, task.run_id, task.task_id, task.map_index)
    return found if isinstance(found, dict) else {}


def _told(task: Task, result: Mapping[str, Any]) -> str:
    """Return what a task did, such as `merge committed, 2 rows updated`."""
    rows = result.get("rows") or {}
    counts = [f"{count} rows {change}" for change, count in rows.items() if count]
    return ", ".join([f"{task.task_id} {result.get('status', task.state)}", *counts])


def violation(example: Example, tasks: Sequence[tuple[Task, Mapping[str, Any]]]) -> str:
    """Return which tasks neither succeeded nor may be skipped, or had no work in some round."""
    wrong = {
        task.task_id: task.state
        for task, _ in tasks
        if task.state != "success"
        and not (task.state == "skipped" and task.task_id in example.skipped)
    }
    if wrong:
        return str(wrong)
    busy: dict[str, set[str]] = {task.task_id: set() for task, _ in tasks}
    for task, result in tasks:
        if task.state == "success" and _had_work(result):
            busy[task.task_id].add(task.run_id)
    idle = [task_id for task_id, runs in busy.items() if len(runs) < example.rounds]
    return f"had no work in some round: {', '.join(idle)}" if idle else ""


def _had_work(result: Mapping[str, Any]) -> bool:
    if result.get("status") == "planned":
        compactions = (result.get("details") or {}).get("compactions") or ()
        return any(one.get("kind") != "none" for one in compactions)
    return result.get("status") != "nothing_to_do"


def _reason(site: Site, run: Run) -> str:
    logs = site.layout.airflow / "logs" / f"dag_id={run.dag_id}" / f"run_id={run.run_id}"
    return why_failed(logs)
