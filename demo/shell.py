"""The shell for experiments after a run, with its environment and suggestions.

This module starts the user's own shell, connected to the running demonstration. In this shell, the
demonstration's `airflow`, `python` and `pyspark` are on the path. They use the demonstration's
Airflow, metastore and table.
`stop` does not stop the shell and its processes.

A user's start-up files often put pyenv or conda first on the path. So bash sets the path again
after reading these files. For any other shell, the suggestions contain the command that sets the
path again.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_hiveacid.cli.arguments import METASTORE_VARIABLE
from demo.changes import FIRST_DAY, LAST_DAY, cut, read_flights
from demo.environment import MARK, airflow_environment
from demo.errors import DemoRunError
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
"""The number of days for which batches are written, after the last merged day."""

_STARTUP: Final = "pyspark_startup.py"
_BASH: Final = "bash"
_BACKFILL_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 1.0
_ENDED_BY_SIGNAL: Final = 128


def open_shell(servers: Servers, report: Report) -> int:
    """Start the shell, wait for its end, and return its status."""
    layout, api = servers.layout, servers.airflow.api()
    merged = last_merged(api.runs(MERGE))
    with report.step(f"cutting the batches of the {MORE_DAYS} days after {merged}"):
        until = min(merged + timedelta(days=MORE_DAYS), LAST_DAY)
        cut(read_flights(), layout.changes, days=(until - FIRST_DAY).days + 1)
    with report.step("waiting until Airflow accepts another backfill"):
        # Airflow allows one backfill at a time, and checks twice a minute whether the last one has
        # finished.
        deadline = time.monotonic() + _BACKFILL_TIMEOUT_S
        while api.has_active_backfill(MERGE) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    environment = shell_environment(
        layout, airflow_url=str(servers.airflow.url), metastore_uri=servers.metastore.uri
    )
    command = shell_command(layout, os.environ.get("SHELL") or "/bin/sh")
    print("\n".join((*things_to_try(merged, until), *path_lines(layout, command))), flush=True)
    status = subprocess.run(command, env=environment, cwd=layout.repository, check=False).returncode
    return status if status >= 0 else _ENDED_BY_SIGNAL - status


def shell_command(layout: DemoLayout, shell: str) -> list[str]:
    """Return the command that starts `shell`; bash sets the path after the user's own file."""
    if Path(shell).name != _BASH:
        return [shell]
    startup = layout.scratch / "bashrc"
    startup.write_text(f"[ ! -f ~/.bashrc ] || . ~/.bashrc\n{_path_command(layout)}\n")
    return [shell, "--rcfile", str(startup)]


def path_lines(layout: DemoLayout, command: Sequence[str]) -> Sequence[str]:
    """Return what to type if start-up files of a shell other than bash have changed the path."""
    if Path(command[0]).name == _BASH:
        return ()
    return (
        "If `python` is not the demo's, because of pyenv or conda:",
        f"  {_path_command(layout)}",
        "",
    )


def _path_command(layout: DemoLayout) -> str:
    folders = shlex.quote(f"{layout.spark_programs}{os.pathsep}{layout.airflow_programs}")
    return f'export PATH={folders}{os.pathsep}"$PATH"'


def last_merged(runs: Iterable[Run]) -> date:
    """Return the last day that was merged successfully.

    Raises:
        DemoRunError: there is no such day.
    """
    days = [run.day for run in runs if run.state == "success" and run.day is not None]
    if not days:
        raise DemoRunError("no day is merged yet; `make demo` merges the first days")
    return max(days)


def shell_environment(
    layout: DemoLayout, *, airflow_url: str, metastore_uri: str
) -> Mapping[str, str]:
    """Return the environment of Airflow's components, with additions for interactive use."""
    environment = airflow_environment(
        layout,
        port=urlsplit(airflow_url).port or 0,
        metastore_uri=metastore_uri,
        compaction_cron=os.environ.get("FLIGHTS_COMPACTION_CRON", "*/2 * * * *"),
    )
    del environment[MARK]  # otherwise `stop` would end the shell that calls it
    return {
        **environment,
        METASTORE_VARIABLE: metastore_uri,
        # The project is not installed, so PySpark's Python finds it only on this path.
        "PYTHONPATH": str(layout.repository),
        # `pyspark` runs this file when it starts. In a plain `python`, the file does nothing.
        "PYTHONSTARTUP": str(layout.repository / "demo" / _STARTUP),
        # Log lines would hide the output of a command.
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore:Could not import graphviz:UserWarning",
    }


def things_to_try(merged: date, until: date) -> Sequence[str]:
    """Return three suggestions as lines of text, with each command on its own line."""
    first = merged + timedelta(days=1)
    look = f"python -m airflow_hiveacid scan {FLIGHTS} --limit 5"
    return (
        "",
        "1. Look at the table: its rows, its directories, and the table in PySpark (`flights` is a",
        "   DataFrame, and table('db.name') returns other tables):",
        f"     {look}",
        f"     python -m airflow_hiveacid inspect {FLIGHTS}",
        "     pyspark",
        "     >>> flights.groupBy('carrier').count().show()",
        "",
        f"2. Clear the merge of {merged}, the last merged day: it runs again. The result is",
        "   the same, since the batch contains the final values of its rows:",
        f"     airflow tasks clear {MERGE} --task-regex merge --yes \\",
        f"       --start-date {merged} --end-date {merged}",
        f"     airflow dags list-runs {MERGE}",
        f"     {look}",
        "",
        f"3. Merge the days {first} to {until}; a minute later the table contains more rows:",
        f"     airflow backfill create --dag-id {MERGE} --from-date {first} --to-date {until} \\",
        "       --max-active-runs 2 --reprocess-behavior failed",
        f"     airflow dags list-runs {MERGE}",
        "",
        "Repeat a command of Airflow that reports 'database is locked': SQLite has one writer. To",
        "compare with the expected rows again, run `make demo DAYS=<days merged>`. `exit` ends",
        "this shell, and `make demo-stop` ends the servers.",
        "",
    )
