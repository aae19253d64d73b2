"""What is submitted to Kubernetes; the API server pretends."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.submission.cluster_run import tag_of
from airflow_hiveacid.operators.submission.kubernetes import LABEL, own_settings
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import SPACE, connect_kubernetes, deletion, settings_of
from tests.support.pretended_kubernetes import KubernetesServer

_CANARY: Final = "canary-of-a-token"


@pytest.mark.usefixtures("on_kubernetes", "submits")
def test_a_driver_pod_has_the_name_and_label_of_its_attempt(
    spark: FakeSpark, tmp_path: Path
) -> None:
    conf = {
        "spark.kubernetes.driver.pod.name": "always-the-same",
        # With this the Spark provider refuses to follow a pod.
        "spark.kubernetes.submission.waitAppCompletion": "true",
    }
    task = deletion(conf=dict(conf))
    done = run_task(task, context_of(task_state_store=StateStore()))
    tag = tag_of(spark.calls[-1]["spec"]["attempt"])
    given = set(settings_of(spark))
    assert done["status"] == "committed"
    assert {
        f"spark.kubernetes.driver.pod.name={tag}-driver",
        f"spark.kubernetes.driver.label.{LABEL}={tag}",
        f"spark.kubernetes.executor.label.{LABEL}={tag}",
        "spark.kubernetes.submission.waitAppCompletion=false",
        f"spark.kubernetes.namespace={SPACE}",
    } <= given
    # Who submits makes the folder of uploads: the driver's, who may be another, is beside it.
    (uploads,) = [one for one in given if one.startswith("spark.kubernetes.file.upload.path=")]
    folder = spark.calls[-1]["spec"]["result_uri"].rpartition("/")[0]
    assert uploads.partition("=")[2] == f"{folder}-uploads"
    assert task.conf == conf
    assert len(f"{tag}-driver") <= 63  # what a pod's host may be called
    assert list((tmp_path / "results").iterdir()) == []


def test_the_users_upload_path_is_kept_and_the_default_path_on_s3_uses_s3a() -> None:
    more = {"namespace": "a", "result_uri": "s3://b/r/u/result.json", "is_cluster": True}
    settings = own_settings({}, "t", **more)
    assert settings["spark.kubernetes.file.upload.path"] == "s3a://b/r/u-uploads"
    given = {"spark.kubernetes.file.upload.path": "hdfs://nn/up"}
    assert own_settings(given, "t", **more).items() >= given.items()


@pytest.mark.usefixtures("submits")
def test_with_a_driver_on_the_worker_only_executor_pods_are_labelled(
    spark: FakeSpark, api: KubernetesServer, on_kubernetes: Connections
) -> None:
    connect_kubernetes(on_kubernetes, api, "client")
    assert run_task(deletion(), context_of())["status"] == "committed"
    names = {one.partition("=")[0] for one in settings_of(spark)}
    assert {one for one in names if one.startswith("spark.kubernetes.")} == {
        "spark.kubernetes.namespace",
        f"spark.kubernetes.executor.label.{LABEL}",
    }


@pytest.mark.usefixtures("on_kubernetes", "submits")
def test_submission_to_kubernetes_works_without_the_kubernetes_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without Kubernetes' provider its hook asks for a name that is not there."""
    monkeypatch.delattr(provider, "kube_client", raising=False)
    assert run_task(deletion(), context_of())["status"] == "committed"


@pytest.mark.usefixtures("on_kubernetes")
def test_a_token_in_the_spark_settings_is_refused_and_not_shown(spark: FakeSpark) -> None:
    conf = {"spark.kubernetes.authenticate.submission.oauthToken": _CANARY}
    with pytest.raises(ConfigurationError, match="oauthTokenFile") as caught:
        run_task(deletion(conf=conf), context_of())
    assert _CANARY not in str(caught.value)
    assert spark.calls == []
