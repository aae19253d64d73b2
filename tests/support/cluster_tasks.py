"""What tests of tasks on clusters that pretend share: a small task, time, waits, and the clusters.

The clusters themselves are `pretended_yarn` and `pretended_kubernetes`. Needs Airflow.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission.cluster_run import Bounds, Cluster, ClusterRun
from airflow_hiveacid.operators.submission.kubernetes import LABEL, ApiServer
from airflow_hiveacid.operators.submission.kubernetes_login import KubernetesLogin
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from tests.support.airflow_support import (
    Connections,
    FakeSpark,
    StateStore,
    context_of,
    killed_when,
)
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import ResourceManager as PretendedYarn

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

PATIENCE_S: Final = 60
"""How long a test waits for what has to happen."""

APP: Final = "application_1_0001"
"""The application that the pretending Spark says it has submitted to YARN."""

SPACE: Final = "etl"
"""The namespace of pods."""

TAG: Final = "hiveacid-1-0123456789ab"
POD: Final = f"{SPACE}:{TAG}-driver"
SPARK_ID: Final = "spark-0123456789abcdef"
"""Spark's ID of the application of each pod."""

RUNNING: Final = {"phase": "Running"}
SUCCEEDED: Final = {"phase": "Succeeded"}

_YARN_TAG: Final = "hiveacid-1-a"
_COUNTING: Final = """
import time
from airflow_hiveacid import acid

def count(spark, task):
    for number in range(10):
        print("number", number)
        time.sleep(1)
    raise ValueError("no more numbers")

if __name__ == "__main__":
    acid.run(count)
"""


class Clock:
    """Time that passes only by sleeping; `then` happens as it does."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        self.time, self.then = 0.0, then

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.then(self.time)


def until(holds: Callable[[], object]) -> None:
    """Wait for something."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    """Whether a process has not ended; one that nobody has collected has."""
    try:
        with open(f"/proc/{process}/stat") as stat:  # noqa: PTH123 - a line
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def deletion(**arguments: Any) -> HiveAcidDeleteOperator:  # noqa: ANN401
    """A task with one statement."""
    return HiveAcidDeleteOperator(task_id="task", table="demo.flights", where="id = 1", **arguments)


def counting(folder: Path) -> str:
    """The path of a program that writes the lines "number 0" to "number 9", and then fails."""
    program = folder / "counting.py"
    program.write_text(_COUNTING)
    return str(program)


def killed_once(task: BaseOperator, context: dict[str, Any], holds: Callable[[], object]) -> float:
    """Run a task and kill it once something holds; the seconds that its end took."""
    return killed_when(task, context, lambda: until(holds))


def settings_of(spark: FakeSpark) -> list[str]:
    """The settings of Spark's with which was submitted last."""
    arguments = spark.calls[-1]["arguments"]
    return [b for a, b in itertools.pairwise(arguments) if a == "--conf"]


def keep_results(connections: Connections, folder: Path) -> None:
    """Let drivers in the cluster have a place for their results."""
    (folder / "results").mkdir(exist_ok=True)
    connections.metastore(result_dir=f"file:{folder}/results")


# ---- deferred tasks ------------------------------------------------------------------------------


async def first_event(trigger: BaseTrigger) -> dict[str, Any]:
    """What a trigger fires with, as the task gets it; a trigger that waits in vain is an error."""
    async with asyncio.timeout(2 * PATIENCE_S):
        async for event in trigger.run():
            payload: dict[str, Any] = json.loads(json.dumps(event.payload))
            return payload
    raise AssertionError


def fired(trigger: BaseTrigger) -> dict[str, Any]:
    """Run a trigger until it fires."""
    return asyncio.run(first_event(trigger))


def resumed(task: BaseOperator, store: StateStore, event: dict[str, Any], **more: Any) -> Any:  # noqa: ANN401
    """Wake a task in a new process, as Airflow's task runner does."""
    context: Any = context_of(task_state_store=store, **more)
    context["ti"].task = task
    task.render_template_fields(context)
    return task.resume_execution("execute_complete", {"event": event}, context)


# ---- YARN ----------------------------------------------------------------------------------------


def connect_yarn(connections: Connections, yarn: PretendedYarn, mode: str, **more: object) -> None:
    """Let drivers run in this mode, by this resource manager; `more` is of the extra."""
    connections.add(
        "spark_default",
        "spark",
        host="yarn",
        extra={"deploy-mode": mode, "yarn_resourcemanager_webapp_address": yarn.web, **more},
    )


def run_on_yarn(
    yarn: PretendedYarn, clock: Clock, *, killed: bool = False, **bounds: float
) -> ClusterRun[Any]:
    """A submission whose time is the clock's."""
    return _run(ResourceManager(addresses=(yarn.web,)), _YARN_TAG, clock, killed, bounds)


# ---- Kubernetes ----------------------------------------------------------------------------------


def connect_kubernetes(
    connections: Connections, api: KubernetesServer, mode: str, **more: object
) -> None:
    """Let drivers run in this mode, by this API server; `more` is of the extra."""
    connections.add(
        "spark_default",
        "spark",
        host=f"k8s://{api.address}",
        extra={"deploy-mode": mode, "namespace": SPACE, **more},
    )


def put_pod(
    api: KubernetesServer,
    tag: str = TAG,
    *,
    name: str | None = None,
    role: str = "driver",
    **status: Any,  # noqa: ANN401 - as it stands
) -> None:
    """Make a pod, as Spark would, that stands so."""
    labels = {LABEL: tag, "spark-role": role, "spark-app-selector": SPARK_ID}
    meta = {"name": name or f"{tag}-{role}", "labels": labels}
    api.objects.put("pods", SPACE, {"metadata": meta, "status": status or {"phase": "Pending"}})


def ended(reason: str, code: int) -> dict[str, Any]:
    """How a pod stands whose driver has failed."""
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "spark-kubernetes-driver", "state": state}],
    }


def api_server(api: KubernetesServer, **more: Any) -> ApiServer:  # noqa: ANN401 - of the server
    """How the product asks it."""
    return ApiServer(address=api.address, namespace=SPACE, login=KubernetesLogin(), **more)


def run_on_kubernetes(
    api: KubernetesServer, clock: Clock, *, killed: bool = False, **bounds: float
) -> ClusterRun[Any]:
    """A submission whose time is the clock's."""
    return _run(api_server(api), TAG, clock, killed, bounds)


def _run(
    cluster: Cluster[Any], tag: str, clock: Clock, killed: bool, bounds: dict[str, float]
) -> ClusterRun[Any]:
    return ClusterRun(
        cluster,
        tag,
        Bounds(**bounds),
        is_killed=lambda: killed,
        now=clock.now,
        sleep=clock.sleep,
    )
