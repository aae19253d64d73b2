"""How long a task waits on Kubernetes and for what, and how its driver has ended."""

from __future__ import annotations

import threading
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import (
    ApplicationNotStartedError,
    ClusterKind,
    ClusterRefusedError,
    ClusterUnavailableError,
    JobFailedError,
    LockNotAcquiredError,
)
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun
from airflow_hiveacid.operators.submission.kubernetes import EXECUTOR, LABEL, ApiServer
from tests.support.airflow_support import FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import (
    PATIENCE_S,
    POD,
    RUNNING,
    SPACE,
    SUCCEEDED,
    TAG,
    Clock,
    api_server,
    deletion,
    ended,
    put_pod,
    run_on_kubernetes,
    until,
)
from tests.support.pretended_kubernetes import KubernetesServer


def _waiting(reason: str, message: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "containerStatuses": [{"name": "spark-kubernetes-driver", "state": state}],
    }


_NO_NODE: Final = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory",
        }
    ],
}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (_NO_NODE, "Unschedulable: 0/3 nodes are available"),
        (_waiting("ImagePullBackOff", "cannot pull a:1"), "ImagePullBackOff: cannot pull a:1"),
        (_waiting("InvalidImageName", "A:1"), "InvalidImageName"),
    ],
)
def test_a_pod_that_does_not_start_in_time_is_deleted_and_the_reason_is_reported(
    api: KubernetesServer, status: dict[str, Any], words: str
) -> None:
    put_pod(api, **status)
    with pytest.raises(ApplicationNotStartedError, match=words) as caught:
        run_on_kubernetes(api, Clock(), start_s=100).follow(POD)
    assert "namespace etl" in str(caught.value)
    assert 100 < caught.value.waited_s <= 110
    assert api.deleted == [f"{TAG}-driver"]


def test_a_pod_that_cannot_be_deleted_is_reported_as_one_that_may_still_commit(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may begin at any later time, and commit."""
    put_pod(api, **_NO_NODE)

    def refused(*_: object) -> None:
        raise ClusterRefusedError(
            kind=ClusterKind.KUBERNETES, asked=f"the deletion of pod {POD}", reason="HTTP 403"
        )

    monkeypatch.setattr(ApiServer, "end", refused)
    with pytest.raises(ClusterRefusedError, match="may commit"):
        run_on_kubernetes(api, Clock(), start_s=10, refusal_s=20).follow(POD)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ended("OOMKilled", 137), "OOMKilled, exit code 137"),
        (ended("Error", 1), "exit code 1"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted: low on"),
    ],
)
@pytest.mark.usefixtures("on_kubernetes")
def test_the_reason_of_a_failed_driver_is_reported_and_its_pod_is_kept(
    spark: FakeSpark,
    api: KubernetesServer,
    submits: dict[str, Any],
    status: dict[str, Any],
    words: str,
) -> None:
    submits |= status
    spark.tell(answers=False)
    api.logs = lambda *_: "its last words"
    task = deletion()
    with pytest.raises(JobFailedError) as caught:
        run_task(task, context_of(task_state_store=StateStore()))
    assert words in str(caught.value)
    assert any(path.partition("?")[0].endswith("/log") for _, path, _ in api.requests)
    assert api.deleted == []


@pytest.mark.usefixtures("on_kubernetes")
def test_the_pod_of_a_driver_that_reported_an_error_is_kept(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    submits |= ended("Error", 1)
    spark.tell(error={"type": "LockNotAcquiredError", "message": "locked"})
    with pytest.raises(LockNotAcquiredError):
        run_task(deletion(), context_of(task_state_store=StateStore()))
    assert api.deleted == []
    assert len(api.objects.list("pods", SPACE)) == 1


@pytest.mark.usefixtures("on_kubernetes", "submits")
def test_the_pod_of_a_driver_that_succeeded_without_a_result_is_kept(
    spark: FakeSpark, api: KubernetesServer
) -> None:
    """As with a result_dir that is a disk of the pod's own: its log alone says what it did."""
    spark.tell(answers=False)
    with pytest.raises(JobFailedError, match="left no result"):
        run_task(deletion(), context_of(task_state_store=StateStore()))
    assert api.deleted == []
    assert len(api.objects.list("pods", SPACE)) == 1


def test_a_driver_has_ended_even_if_a_sidecar_container_still_runs(api: KubernetesServer) -> None:
    mesh = {"name": "istio-proxy", "state": {"running": {}}}
    for code, has_succeeded in ((0, True), (1, False)):
        done = ended("", code)["containerStatuses"][0]
        put_pod(api, phase="Running", containerStatuses=[mesh, done])
        found = run_on_kubernetes(api, Clock()).follow(POD)
        assert found is not None
        assert found.has_succeeded is has_succeeded


def test_a_driver_has_not_ended_when_only_a_sidecar_container_has_ended(
    api: KubernetesServer,
) -> None:
    beside = {"name": "fetch", "state": {"terminated": {"exitCode": 1}}}
    driver = {"name": "spark-kubernetes-driver", "state": {"running": {}}}
    put_pod(api, phase="Running", containerStatuses=[beside, driver])
    found = api_server(api).report(POD)
    assert found is not None
    assert not found.has_ended


def test_a_pod_on_an_unreachable_node_is_polled_until_the_time_limit(api: KubernetesServer) -> None:
    put_pod(api, phase="Unknown")
    with pytest.raises(ClusterUnavailableError, match=r"for 6[0-9] s.*its node"):
        run_on_kubernetes(api, Clock(), silence_s=60).follow(POD)
    assert api.deleted == []
    back = Clock(lambda _: api.objects.say(SPACE, f"{TAG}-driver", **SUCCEEDED))
    assert run_on_kubernetes(api, back, silence_s=60).follow(POD) is not None


def test_a_driver_pod_that_still_runs_after_a_kill_raises_an_error_with_its_state(
    api: KubernetesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pod(api, **RUNNING)
    monkeypatch.setattr(ApiServer, "end", lambda *_: None)
    with pytest.raises(
        ClusterUnavailableError, match="after the kill, failed: its state is Running"
    ):
        run_on_kubernetes(api, Clock(), silence_s=60).end_earlier(POD, TAG)


def test_a_pod_that_still_runs_after_its_deletion_time_raises_an_error(
    api: KubernetesServer,
) -> None:
    """Kubernetes deletes those of a node that is away, and calls them running until it is back."""
    labels = {LABEL: TAG, "spark-role": "driver"}
    meta: dict[str, Any] = {"name": f"{TAG}-driver", "labels": labels}

    def stands(gone_by: str) -> None:
        pod = {"metadata": {**meta, "deletionTimestamp": gone_by}, "status": dict(RUNNING)}
        api.objects.put("pods", SPACE, pod)

    stands("2001-01-01T00:00:00Z")
    clock = Clock()
    with pytest.raises(ClusterUnavailableError, match=r"for 6[0-9] s.*its node"):
        run_on_kubernetes(api, clock, silence_s=60).follow(POD)
    assert clock.time < 80
    with pytest.raises(ClusterUnavailableError, match="its node"):
        run_on_kubernetes(api, Clock(), silence_s=60).status(POD)
    assert api.deleted == []
    stands("2999-01-01T00:00:00Z")  # it still has its grace
    done = Clock(lambda _: api.objects.say(SPACE, f"{TAG}-driver", **SUCCEEDED))
    assert run_on_kubernetes(api, done, silence_s=0).follow(POD) is not None


def test_the_driver_on_the_worker_is_stopped_if_no_executor_starts_in_time(
    api: KubernetesServer,
) -> None:
    put_pod(api, role=EXECUTOR, **_NO_NODE)
    stopped = threading.Event()
    bounds = Bounds(start_s=0.5, poll_s=1)
    run = ClusterRun(api_server(api, role=EXECUTOR), TAG, bounds, is_killed=lambda: False)
    with run.watched(stopped.set):
        assert stopped.wait(PATIENCE_S)
        until(lambda: api.deleted == [f"{TAG}-{EXECUTOR}"])
    assert run.overdue is not None
    assert "the executor's container" in str(run.overdue)
    assert "Insufficient memory" in str(run.overdue)


def test_the_driver_is_not_stopped_if_one_executor_runs(api: KubernetesServer) -> None:
    put_pod(api, role=EXECUTOR, name="a-runs", **RUNNING)
    put_pod(api, role=EXECUTOR, name="b-waits")
    stopped = threading.Event()
    bounds = Bounds(start_s=0, poll_s=1)
    run = ClusterRun(api_server(api, role=EXECUTOR), TAG, bounds, is_killed=lambda: False)
    with run.watched(stopped.set):
        until(lambda: bool(api.requests))
        assert not stopped.wait(1.5)
    assert run.overdue is None
