"""Plays of the example DAGs: Airflow parses all of them, and runs each with a real local Spark.

The examples run in the order of `_EXAMPLES`, since some change the tables of others. Before an
example, the program makes what its page expects of the user: tables, a pool, a file. Variables are
in Airflow's environment.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from demo import seed
from demo.runs import why_failed
from tests.proofs.airflow.rows import Row
from tests.proofs.airflow.site import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from demo.airflow_api import Run, Task
    from tests.proofs.airflow.site import Site

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
    "add_totals",
    "add_deltas",
    "add_flight_deltas",
    "fill_sales",
)
_PERSON_S: Final = 10.0
"""The time that a person takes to answer."""


# How an example is started


def _trigger(site: Site, dag_id: str) -> None:
    """by a user"""
    site.api.unpause(dag_id)
    site.api.trigger(dag_id, uuid.uuid4().hex[:12])


def _trigger_twice(site: Site, dag_id: str) -> None:
    """by a user, twice"""
    _trigger(site, dag_id)
    _trigger(site, dag_id)


def _unpause(site: Site, dag_id: str) -> None:
    """by its schedule"""
    site.api.unpause(dag_id)


def _approve(site: Site, dag_id: str) -> None:
    """by a user, who approves its plan"""
    _trigger(site, dag_id)
    (run,) = site.api.runs(dag_id)
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


def _deltas(site: Site) -> None:
    _prepare(site, "add_deltas")


def _flight_deltas(site: Site) -> None:
    _prepare(site, "add_flight_deltas")


def _prepare(site: Site, dag_id: str) -> None:
    _trigger(site, dag_id)
    for run in _await_runs(site, dag_id):
        if run.state != "success":
            raise RuntimeError(f"{dag_id} {run.state}: {_reason(site, run)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One example DAG. All tasks but `skipped` must succeed, in each of at least `runs` runs."""

    dag_id: str
    needs: Callable[[Site], None] = _nothing
    start: Callable[[Site, str], None] = _trigger
    runs: int = 1
    skipped: tuple[str, ...] = ()


_EXAMPLES: Final = (
    Example(dag_id="merge_customers"),
    Example(dag_id="change_customers"),
    Example(dag_id="sum_changed_days", needs=_orders, start=_event, runs=2),
    Example(dag_id="compact_changed_partitions", start=_event, runs=2),
    Example(dag_id="sum_days", start=_backfill("2026-11-01")),
    Example(dag_id="maintain_orders", start=_approve),
    Example(dag_id="orders_feed"),
    Example(dag_id="settle_orders"),
    Example(dag_id="merge_orders", needs=_totals),
    Example(dag_id="hiveacid_operations", skipped=("compact", "clean")),
    Example(dag_id="compact_customers", needs=_deltas, start=_unpause),
    Example(dag_id="flights_bootstrap", needs=_flights, start=_unpause),
    Example(dag_id="flights_merge", start=_backfill("2013-01-01")),
    Example(dag_id="flights_carriers"),
    Example(dag_id="change_feed"),
    Example(dag_id="flights_compaction", needs=_flight_deltas, start=_unpause),
    # Its tables are those of the database `sales`, which no other example uses. Nothing is due in
    # its second run.
    Example(dag_id="compact_warehouse", needs=_sales, start=_trigger_twice, runs=2),
    Example(dag_id="hiveacid_collect"),
)


def examples(site: Site) -> Iterator[Row]:
    """Parse all example DAGs in an Airflow with a local Spark, then run them."""
    site.launch(
        AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=json.dumps(_BUNDLES),
        AIRFLOW_CONN_SPARK_DEFAULT=json.dumps({"conn_type": "spark", "host": "local[2]"}),
        AIRFLOW__HIVEACID__SPARK_BIN_DIR=str(site.layout.spark_programs),
        AIRFLOW_VAR_FEEDS=(site.layout.home / "feeds").as_uri(),
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
    example.needs(site)
    began, dag_id = time.monotonic(), example.dag_id
    example.start(site, dag_id)
    runs = _await_runs(site, dag_id, example.runs)
    tasks = site.api.tasks(dag_id)
    return Row(
        play="examples",
        title=f"`{dag_id}`, started {example.start.__doc__}",
        seen="; ".join(filter(None, (_told(site, dag_id, task) for task in tasks))),
        violation=_violation(site, example, runs, tasks),
        seconds=time.monotonic() - began,
    )


def _await_runs(site: Site, dag_id: str, count: int = 1) -> tuple[Run, ...]:
    def are_over() -> bool:
        runs = site.api.runs(dag_id)
        return len(runs) >= count and all(run.is_over for run in runs)

    until(f"the end of {dag_id}", are_over)
    return site.api.runs(dag_id)


def _told(site: Site, dag_id: str, task: Task) -> str:
    """Return what a task did, such as `merge committed, 2 rows updated`."""
    result = site.api.result(dag_id, task.run_id, task.task_id, task.map_index)
    found = result if isinstance(result, dict) else {}
    rows = found.get("rows") or {}
    counts = [f"{count} rows {change}" for change, count in rows.items() if count]
    return ", ".join([f"{task.task_id} {found.get('status', task.state)}", *counts])


def _violation(site: Site, example: Example, runs: tuple[Run, ...], tasks: tuple[Task, ...]) -> str:
    for run in runs:
        if run.state != "success":
            return f"{run.state}: {_reason(site, run)}"
    wrong = {
        task.task_id: task.state
        for task in tasks
        if task.state != ("skipped" if task.task_id in example.skipped else "success")
    }
    return str(wrong) if wrong else ""


def _reason(site: Site, run: Run) -> str:
    logs = site.layout.airflow / "logs" / f"dag_id={run.dag_id}" / f"run_id={run.run_id}"
    return why_failed(logs)
