from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.environment import MARK, airflow_environment, spark_home
from demo.errors import SetupError
from demo.layout import DemoLayout
from demo.processes import end_all, processes_of

_SLEEP = "import time; print('up', flush=True); time.sleep(60)"
_DEAF = (
    "import signal, time;"
    "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)];"
    "print('up', flush=True); time.sleep(60)"
)
_PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SLEEP!r}])"

# A component with a worker with a task in a group of its own, as Airflow's scheduler has them.
_TASK = """
import os, signal, sys, time
def note(name):
    with open(sys.argv[1], "a") as file:
        file.write(name + "\\n")
if os.fork() == 0:
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), note("task"), os._exit(0)))
        print("up", flush=True)
        time.sleep(60)
    os.wait()
    os._exit(0)
signal.signal(signal.SIGINT, lambda *_: (note("component"), os._exit(0)))
time.sleep(60)
"""


@contextmanager
def started(program: str, home: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, MARK: str(home)}
    arguments = [sys.executable, "-c", program, *words]
    with subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_that_handles_signals_ends_without_a_kill(tmp_path: Path) -> None:
    with started(_SLEEP, tmp_path) as process:
        assert end_all(tmp_path, task_s=1, ask_s=10, grace_s=10) == 1
        assert process.wait() != -9


def test_a_process_that_ignores_signals_is_killed(tmp_path: Path) -> None:
    with started(_DEAF, tmp_path) as process:
        end_all(tmp_path, task_s=0.2, ask_s=0.2, grace_s=0.2)
        assert process.wait() == -9


def test_an_orphaned_process_is_found_and_ended(tmp_path: Path) -> None:
    with started(_PARENT, tmp_path) as parent:
        parent.wait()
        (orphan,) = processes_of(tmp_path)
        assert orphan.pid != parent.pid
        end_all(tmp_path, task_s=5, ask_s=5, grace_s=5)
        assert processes_of(tmp_path) == ()


def test_a_process_without_the_mark_is_not_ended(tmp_path: Path) -> None:
    with started(_SLEEP, tmp_path / "another") as stranger:
        assert end_all(tmp_path, task_s=0.2, ask_s=0.2, grace_s=0.2) == 0
        time.sleep(0.2)
        assert stranger.poll() is None


def test_a_running_task_is_ended_before_the_component_that_runs_it(tmp_path: Path) -> None:
    order = tmp_path / "order"
    with started(_TASK, tmp_path, str(order)):
        end_all(tmp_path, task_s=10, ask_s=10, grace_s=5)
    assert order.read_text().split() == ["task", "component"]


def environment_of(layout: DemoLayout) -> dict[str, str]:
    return airflow_environment(
        layout, port=18080, metastore_uri="thrift://127.0.0.1:9083", compaction_cron="* * * * *"
    )


def test_every_address_of_the_demo_is_a_loopback_address(layout: DemoLayout) -> None:
    text = json.dumps(environment_of(layout))
    assert set(re.findall(r"\d+\.\d+\.\d+\.\d+", text)) == {"127.0.0.1"}
    assert environment_of(layout)["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:18080"


def test_variables_of_a_different_airflow_or_spark_are_not_inherited(
    layout: DemoLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://elsewhere")
    monkeypatch.setenv("SPARK_MASTER_HOST", "elsewhere")
    monkeypatch.setenv("HIVEACID_UNRELATED", "kept")
    environment = environment_of(layout)
    assert "elsewhere" not in json.dumps(environment)
    assert environment["HIVEACID_UNRELATED"] == "kept"


def test_a_missing_spark_raises_an_error_that_names_make_setup(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="make setup"):
        spark_home(DemoLayout.of(tmp_path))


def test_only_the_owner_can_read_the_folder_with_the_password(layout: DemoLayout) -> None:
    assert layout.passwords.parent == layout.airflow
    assert layout.airflow.stat().st_mode & 0o077 == 0
