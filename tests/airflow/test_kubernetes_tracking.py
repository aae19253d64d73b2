"""What a retry finds on Kubernetes of the tries before it, and what a kill ends.

The API server pretends; whole jobs are in test_kubernetes.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.operators.submission import resumption
from airflow_hiveacid.operators.submission.cluster_run import ClusterRun, tag_of
from airflow_hiveacid.operators.submission.kubernetes import EXECUTOR, LABEL, driver_of
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY, INSTALLATION_KEY
from tests.support import cluster_tasks
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.pretended_kubernetes import KubernetesServer

pytestmark = pytest.mark.usefixtures("on_kubernetes")


def _left(spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]) -> StateStore:
    """What a worker leaves that was lost while its driver ran; the driver still does."""
    store = StateStore()
    spark.tell(answers=False)
    submits.clear()
    with pytest.raises(errors.ApplicationForgottenError, match="Kubernetes no longer knows"):
        run_task(cluster_tasks.deletion(), context_of(task_state_store=store))
    assert set(store) == {
        "spark_job_id",
        resumption.RESULT_URI_KEY,
        resumption.SUBMISSION_KEY,
        resumption.ATTEMPT_KEY,
        INSTALLATION_KEY,
    }
    assert store["spark_job_id"] == driver_of(
        cluster_tasks.SPACE, tag_of(store[resumption.ATTEMPT_KEY])
    )
    (spark.directory / "calls.jsonl").unlink()
    cluster_tasks.put_pod(api, tag_of(store[resumption.ATTEMPT_KEY]), **cluster_tasks.RUNNING)
    api.requests.clear()
    spark.tell(answers=True)
    submits |= cluster_tasks.SUCCEEDED
    return store


@pytest.mark.promise("A7")
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_retry_finds_the_driver_of_a_lost_worker(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], is_noted: bool
) -> None:
    store = _left(spark, api, submits)
    pod = store["spark_job_id"].partition(":")[2]
    if not is_noted:
        store.delete("spark_job_id")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ClusterRun,
            "_pause",
            lambda *_: api.objects.say(cluster_tasks.SPACE, pod, **cluster_tasks.ended("Error", 1)),
        )
        with pytest.raises(errors.JobFailedError):
            run_task(cluster_tasks.deletion(), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == f"{cluster_tasks.SPACE}:{pod}"


def test_a_retry_submits_the_job_again_if_the_driver_pod_is_gone(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    store = _left(spark, api, submits)
    api.objects.delete("pods", cluster_tasks.SPACE, store["spark_job_id"].partition(":")[2])
    done = run_task(cluster_tasks.deletion(), context_of(try_number=2, task_state_store=store))
    assert (done["status"], len(spark.calls)) == ("committed", 1)
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}
    assert api.objects.list("pods", cluster_tasks.SPACE) == []  # what has succeeded is not kept


def test_a_retry_waits_for_a_terminating_driver_pod_before_it_submits_again(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any]
) -> None:
    """As after a try that timed out, whose driver has its grace: the retry is not lost on it."""
    store = _left(spark, api, submits)
    name = store["spark_job_id"].partition(":")[2]
    pod = api.objects.get("pods", cluster_tasks.SPACE, name)
    pod["metadata"]["deletionTimestamp"] = "2999-01-01T00:00:00Z"
    api.objects.put("pods", cluster_tasks.SPACE, pod)
    submitted_before: list[int] = []

    def gone(*_: object) -> None:
        submitted_before.append(len(spark.calls))
        api.objects.delete("pods", cluster_tasks.SPACE, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRun, "_pause", gone)
        done = run_task(cluster_tasks.deletion(), context_of(try_number=2, task_state_store=store))
    assert (done["status"], len(spark.calls), submitted_before) == ("committed", 1, [0])


@pytest.mark.promise("A16")
def test_killing_a_retry_deletes_the_driver_pod_that_it_found(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], aborted: list[str]
) -> None:
    store = _left(spark, api, submits)
    pod = store["spark_job_id"].partition(":")[2]
    cluster_tasks.put_pod(api, "hiveacid-7-0123456789ab", **cluster_tasks.RUNNING)
    context = context_of(try_number=2, task_state_store=store)
    cluster_tasks.killed_once(cluster_tasks.deletion(), context, lambda: len(api.requests) > 1)
    cluster_tasks.until(lambda: api.deleted == [pod])
    (left,) = api.objects.list("pods", cluster_tasks.SPACE)
    assert left["metadata"]["labels"][LABEL] == "hiveacid-7-0123456789ab"
    assert (spark.calls, len(aborted)) == ([], 1)


@pytest.mark.promise("A16")
@pytest.mark.parametrize(("mode", "role"), [("client", EXECUTOR), ("cluster", "driver")])
def test_a_kill_during_spark_submit_deletes_the_pods_that_it_created(
    spark: FakeSpark,
    api: KubernetesServer,
    aborted: list[str],
    on_kubernetes: Connections,
    mode: str,
    role: str,
) -> None:
    """While `spark-submit` is still at it, which ends first."""
    cluster_tasks.connect_kubernetes(on_kubernetes, api, mode)
    spark.tell(hangs=True)

    def submitted() -> bool:
        if not (spark.directory / "hanging.json").exists():
            return False
        cluster_tasks.put_pod(api, tag_of(spark.calls[-1]["spec"]["attempt"]), role=role)
        return True

    cluster_tasks.killed_once(
        cluster_tasks.deletion(), context_of(task_state_store=StateStore()), submitted
    )
    cluster_tasks.until(lambda: len(api.deleted) == 1)
    assert api.objects.list("pods", cluster_tasks.SPACE) == []
    assert len(aborted) == 1
