"""What these tests pretend behaves as the real thing, as far as both can be asked."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.context import TaskStateStoreAccessor
from airflow.sdk.state import TaskScope

from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task

_SPARK: Final = Path(__file__).resolve().parents[2] / ".venv-spark" / "bin"


class Store(Protocol):
    """What our operators use of a state store."""

    def get(self, key: str) -> Any:  # noqa: ANN401
        """The value, or None."""

    def set(self, key: str, value: object) -> None:
        """Keep a value."""

    def delete(self, key: str) -> None:
        """Forget it."""


class Supervisor:
    """Answers a task's requests from memory, with Airflow's own messages."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def send(self, message: object) -> object:
        match message:
            case comms.GetTaskStateStore(key=key) if key in self.kept:
                return comms.TaskStateStoreResult(value=self.kept[key])
            case comms.GetTaskStateStore():
                return comms.ErrorResponse(error=ErrorType.TASK_STORE_NOT_FOUND)
            case comms.SetTaskStateStore(key=key, value=value):
                self.kept[key] = value
            case comms.DeleteTaskStateStore(key=key):
                self.kept.pop(key, None)
            case _:
                raise AssertionError(message)
        return comms.OKResponse(ok=True)


@pytest.fixture(params=["pretended", "Airflow's"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "pretended":
        return StateStore()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)
    scope = TaskScope(dag_id="dag", run_id="run", task_id="task")
    return TaskStateStoreAccessor(ti_id=uuid.uuid4(), scope=scope)


def test_a_state_store_returns_the_last_value_until_it_is_deleted(store: Store) -> None:
    assert store.get("app") is None
    store.set("app", "application_1")
    store.set("app", {"id": "application_2", "tries": [1, 2]})
    assert store.get("app") == {"id": "application_2", "tries": [1, 2]}
    assert store.get("other") is None
    store.delete("app")
    store.delete("app")
    assert store.get("app") is None


def test_a_state_store_refuses_none_and_values_that_are_not_json(store: Store) -> None:
    with pytest.raises(ValueError, match="None"):
        store.set("app", None)
    with pytest.raises((TypeError, ValueError)):
        store.set("app", object())
    assert store.get("app") is None


def test_the_real_spark_submit_knows_every_option_that_the_fake_one_receives(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.add("spark_default", "spark", host="local[1]")
    run_task(
        HiveAcidDeleteOperator(
            task_id="t",
            table="demo.flights",
            where="id = 1",
            driver_memory="1g",
            executor_memory="1g",
            executor_cores=2,
            num_executors=3,
        ),
        context_of(),
    )
    arguments = spark.call["arguments"]
    (application,) = [i for i, text in enumerate(arguments) if text.endswith(".py")]
    given = {text for text in arguments[:application] if text.startswith("--")}
    assert {"--py-files", "--driver-memory"} <= given
    told = subprocess.run(
        [str(_SPARK / "spark-submit"), "--help"],
        env={**os.environ, "PYSPARK_PYTHON": str(_SPARK / "python")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    known = {word.strip(",") for word in (told.stdout + told.stderr).split()}
    assert given <= known, given - known
    # What stands behind the application is its own.
    assert arguments[application + 1] == "--spec"
