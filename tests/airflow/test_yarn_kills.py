"""A task on YARN that is killed at exact borders."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from airflow_hiveacid.format.errors import JobFailedError
from airflow_hiveacid.operators.submission.cluster_run import tag_of
from airflow_hiveacid.operators.submission.submitter import Submitter
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, connect_yarn, deletion, is_running, killed_once, until
from tests.support.pretended_yarn import ACCEPTED, RUNNING, ResourceManager as Pretended


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_task_that_is_killed_just_before_spark_submit_submits_nothing(
    spark: FakeSpark,
    yarn: Pretended,
    aborted: list[str],
    on_yarn: Connections,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """A signal's handler returns to where the task was, which is just before `spark-submit`."""
    connect_yarn(on_yarn, yarn, mode)
    task = deletion()
    monkeypatch.setattr(Submitter, "watched", lambda _: (task.on_kill(), nullcontext())[1])
    with pytest.raises(JobFailedError, match="the task was killed"):
        run_task(task, context_of(task_state_store=StateStore()))
    assert spark.calls == []
    assert len(aborted) == 1


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.usefixtures("on_yarn")
def test_an_application_whose_id_cannot_be_noted_is_killed(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], *, deferrable: bool
) -> None:
    class Refusing(StateStore):
        def set(self, key: str, value: object, **more: Any) -> None:  # noqa: ANN401
            if value == APP:  # as Airflow answers if the task has been marked
                raise OSError("409 Conflict")
            super().set(key, value, **more)

    yarn.app = dict(RUNNING)
    with pytest.raises(OSError, match="409"):
        run_task(deletion(deferrable=deferrable), context_of(task_state_store=Refusing()))
    assert yarn.killed == [APP]
    assert aborted == [spark.call["spec"]["attempt"]]


@pytest.mark.promise("A16")
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_kill_finds_a_queued_application_by_its_tag_before_its_id_is_known(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], on_yarn: Connections, mode: str
) -> None:
    connect_yarn(on_yarn, yarn, mode)
    yarn.app = dict(ACCEPTED)
    spark.tell(says="no ID yet", hangs=True)

    def submitted() -> bool:
        if not (spark.directory / "hanging.json").exists():
            return False
        yarn.tagged = {APP: tag_of(spark.calls[-1]["spec"]["attempt"])}
        return True

    killed_once(deletion(), context_of(task_state_store=StateStore()), submitted)
    assert yarn.killed == [APP]
    assert [tag_of(attempt) for attempt in aborted] == list(yarn.tagged.values())
    processes = json.loads((spark.directory / "hanging.json").read_text())
    until(lambda: not any(map(is_running, processes.values())))


@pytest.mark.usefixtures("on_yarn", "aborted")
def test_an_unresponsive_resource_manager_does_not_delay_a_killed_task(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    yarn.app = dict(RUNNING)
    silent = threading.Event()

    def never(*_: object, **__: object) -> None:
        silent.wait(120)

    task = deletion()
    context = context_of(task_state_store=StateStore())

    def followed() -> bool:
        if not yarn.requests:
            return False
        monkeypatch.setattr(ResourceManager, "find", never)
        return True

    took_s = killed_once(task, context, followed)
    silent.set()
    assert took_s < 5  # Airflow sends SIGKILL then


@pytest.mark.usefixtures("aborted")
def test_a_kill_ends_spark_submit_even_if_the_yarn_command_is_missing(
    spark: FakeSpark, on_yarn: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    on_yarn.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    real = shutil.which

    def without_yarn(command: str, **places: Any) -> str | None:  # noqa: ANN401
        return None if command == "yarn" else real(command, **places)

    monkeypatch.setattr(shutil, "which", without_yarn)
    spark.tell(hangs=True)
    hanging = spark.directory / "hanging.json"
    killed_once(deletion(), context_of(), hanging.exists)
    processes = json.loads(hanging.read_text())
    until(lambda: not any(map(is_running, processes.values())))
