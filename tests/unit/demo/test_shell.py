from __future__ import annotations

import os
import subprocess
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_hiveacid.cli.arguments import METASTORE_VARIABLE
from demo import airflow_api, changes, environment, errors, report, shell
from demo.__main__ import main
from demo.layout import DemoLayout
from demo.servers import Servers

URI = "thrift://127.0.0.1:9083"
URL = "http://127.0.0.1:18080"


def merged(day: int, state: str = "success") -> airflow_api.Run:
    return airflow_api.Run(
        dag_id="flights_merge",
        run_id=str(day),
        state=state,
        day=date(2013, 1, day),
        start=None,
        end=None,
    )


def test_the_last_merged_day_is_that_of_the_last_successful_run() -> None:
    assert shell.last_merged([merged(2), merged(1), merged(3, "failed")]) == date(2013, 1, 2)
    with pytest.raises(errors.DemoRunError, match="make demo"):
        shell.last_merged([merged(1, "running")])


def test_the_shells_environment_points_to_airflow_and_the_metastore(layout: DemoLayout) -> None:
    found = shell.shell_environment(layout, airflow_url=URL, metastore_uri=URI)
    assert found["AIRFLOW__API__BASE_URL"] == URL
    assert found["AIRFLOW_HOME"] == str(layout.airflow)
    assert found[METASTORE_VARIABLE] == URI
    assert found["PYTHONPATH"] == str(layout.repository)
    assert found["PATH"].split(os.pathsep)[0] == str(layout.spark_programs)
    assert environment.MARK not in found, "stopping the demonstration does not end the shell"


@pytest.mark.parametrize(("ending", "status"), [("exit 0", 0), ("exit 7", 7), ("kill $$", 143)])
def test_the_shell_command_adds_three_days_and_returns_the_shells_status(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch, ending: str, status: int
) -> None:
    program = layout.home / "shell"
    program.write_text(f'#!/bin/sh\necho "$HIVE_METASTORE_URIS" > "{layout.home}/seen"\n{ending}\n')
    program.chmod(0o755)
    monkeypatch.setenv("SHELL", str(program))
    answers = [True, False]
    monkeypatch.setattr(shell, "_POLL_S", 0.0)
    api = SimpleNamespace(
        runs=lambda _dag_id: [merged(1)], has_active_backfill=lambda _dag_id: answers.pop(0)
    )
    servers: Any = SimpleNamespace(
        layout=layout,
        airflow=SimpleNamespace(url=URL, api=lambda: api),
        metastore=SimpleNamespace(uri=URI),
    )
    assert shell.open_shell(cast("Servers", servers), report.Report(report.console())) == status
    assert (layout.home / "seen").read_text() == f"{URI}\n"
    assert answers == []  # the demonstration's own backfill is over before another is offered
    assert sorted(file.name for file in layout.changes.iterdir()) == [
        "2013-01-01.parquet",
        "2013-01-02.parquet",
        "2013-01-03.parquet",
        "2013-01-04.parquet",
        changes.BOOTSTRAP_FILE,
    ]


@pytest.mark.parametrize(
    "startup", ['export PATH="$HOME/shims:$PATH"\nalias mine=true\n', None], ids=["pyenv", "none"]
)
def test_the_demos_programs_are_first_on_path_after_bashrc_was_read(
    layout: DemoLayout, tmp_path: Path, startup: str | None
) -> None:
    for folder in (tmp_path / "shims", layout.spark_programs, layout.airflow_programs):
        folder.mkdir(parents=True)
        (folder / "python").touch(mode=0o755)
    (layout.airflow_programs / "airflow").touch(mode=0o755)
    if startup is not None:
        (tmp_path / ".bashrc").write_text(startup)
    command = shell.shell_command(layout, "/bin/bash")
    asked = "command -v python airflow; alias mine\n"
    done = subprocess.run(
        [*command, "-i"],
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        input=asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[:2] == [
        str(layout.spark_programs / "python"),
        str(layout.airflow_programs / "airflow"),
    ]
    assert ("alias mine='true'" in done.stdout) == (startup is not None)
    assert shell.path_lines(layout, command) == ()


def test_for_other_shells_a_command_that_sets_the_path_is_printed(layout: DemoLayout) -> None:
    command = shell.shell_command(layout, "/bin/sh")
    assert command == ["/bin/sh"]
    (set_path,) = (
        line for line in shell.path_lines(layout, command) if line.startswith("  export ")
    )
    done = subprocess.run(
        [*command, "-c", f'{set_path}; echo "$PATH"'],
        env={"PATH": "/shims"},
        capture_output=True,
        text=True,
        check=True,
    )
    folders = [str(layout.spark_programs), str(layout.airflow_programs), "/shims"]
    assert done.stdout.strip().split(os.pathsep) == folders


def test_without_servers_the_shell_command_names_make_demo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(DemoLayout, "of", lambda: DemoLayout(repository=tmp_path, home=tmp_path))
    assert main(["shell"]) == 3
    assert "`make demo` starts the servers" in capsys.readouterr().out
