"""Knows the shell in which one plays on after a run: its environment, and what to try in it.

Takes a demonstration that runs; starts the user's own shell with `airflow`, `python` and `pyspark`
of the demonstration on its path, its Airflow, its metastore and its table within reach. The shell
and what is started in it are the user's: `stop` does not end them.
"""

from __future__ import annotations

import os
import subprocess
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_hiveacid.cli_metastore import METASTORE_VARIABLE
from demo.changes import FIRST_DAY, LAST_DAY, cut, read_flights
from demo.environment import MARK, airflow_environment
from demo.errors import StoryError
from demo.flights_table import FLIGHTS
from demo.runs import MERGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

    from demo.airflow_api import Run
    from demo.layout import DemoLayout
    from demo.report import Report
    from demo.servers import Servers

MORE_DAYS: Final = 3
"""How many days beyond those that were merged there are batches for."""

_STARTUP: Final = "pyspark_startup.py"
_BACKFILL_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 1.0
_ENDED_BY_SIGNAL: Final = 128


def open_shell(servers: Servers, report: Report) -> int:
    """Start the shell and wait for its end; gives its status."""
    layout, api = servers.layout, servers.airflow.api()
    merged = last_merged(api.runs(MERGE))
    with report.step(f"cutting the batches of the {MORE_DAYS} days after {merged}"):
        until = min(merged + timedelta(days=MORE_DAYS), LAST_DAY)
        cut(read_flights(), layout.changes, days=(until - FIRST_DAY).days + 1)
    with report.step("waiting until Airflow takes another backfill"):
        # It has one at a time, and notices twice a minute that the last one is over.
        deadline = time.monotonic() + _BACKFILL_TIMEOUT_S
        while api.has_active_backfill(MERGE) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    environment = shell_environment(
        layout, airflow_url=str(servers.airflow.url), metastore_uri=servers.metastore.uri
    )
    print("\n".join(things_to_try(merged, until)), flush=True)
    status = subprocess.run(
        [os.environ.get("SHELL") or "/bin/sh"], env=environment, cwd=layout.repository, check=False
    ).returncode
    return status if status >= 0 else _ENDED_BY_SIGNAL - status


def last_merged(runs: Iterable[Run]) -> date:
    """The last day whose merge has succeeded.

    Raises:
        StoryError: there is none.
    """
    days = [run.day for run in runs if run.state == "success" and run.day is not None]
    if not days:
        raise StoryError("no day is merged yet; `make demo` merges the first ones")
    return max(days)


def shell_environment(
    layout: DemoLayout, *, airflow_url: str, metastore_uri: str
) -> Mapping[str, str]:
    """The environment of Airflow's own components, with what a person needs beside it.

    Raises:
        SetupError: Spark is not installed.
    """
    environment = airflow_environment(
        layout,
        port=urlsplit(airflow_url).port or 0,
        metastore_uri=metastore_uri,
        compaction_cron=os.environ.get("FLIGHTS_COMPACTION_CRON", "*/2 * * * *"),
    )
    del environment[MARK]  # else `stop` would end the shell it is typed in
    return {
        **environment,
        METASTORE_VARIABLE: metastore_uri,
        # Neither environment has the project installed under a name that PySpark's Python knows.
        "PYTHONPATH": str(layout.repository),
        # What `pyspark` runs when it starts; a plain `python` finds no session there and goes on.
        "PYTHONSTARTUP": str(layout.repository / "demo" / _STARTUP),
        # A log line of every command would bury what it says.
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore:Could not import graphviz:UserWarning",
    }


def things_to_try(merged: date, until: date) -> Sequence[str]:
    """Three things, each with its command on a line of its own."""
    first = merged + timedelta(days=1)
    look = f"python -m airflow_hiveacid scan --table {FLIGHTS} --limit 5"
    return (
        "",
        "1. Look at the table: its rows, its directories, and in PySpark, where `flights` is a",
        "   frame and table('db.name') makes another:",
        f"     {look}",
        f"     python -m airflow_hiveacid inspect --table {FLIGHTS}",
        "     pyspark",
        "     >>> flights.groupBy('carrier').count().show()",
        "",
        f"2. Clear the merge of {merged}, the last day so far: it runs once more, and since its",
        "   batch says what rows should be, not how to change them, they are the same afterwards:",
        f"     airflow tasks clear {MERGE} --task-regex merge --yes \\",
        f"       --start-date {merged} --end-date {merged}",
        f"     airflow dags list-runs {MERGE}",
        f"     {look}",
        "",
        f"3. Merge the days {first} to {until}; a minute later the table has more rows:",
        f"     airflow backfill create --dag-id {MERGE} --from-date {first} --to-date {until} \\",
        "       --max-active-runs 2 --reprocess-behavior failed",
        f"     airflow dags list-runs {MERGE}",
        "",
        "Repeat a command of Airflow that says 'database is locked': SQLite has one writer. To",
        "compare with the truth again: make demo DAYS=<days merged>. exit ends this shell, make",
        "demo-stop the servers.",
        "",
    )
