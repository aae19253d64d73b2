"""What we use of the Spark provider beyond its documents; an upgrade that changes it fails here."""

from __future__ import annotations

import inspect
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import ResumableJobMixin

from airflow_hiveacid.operators import spark_app

if TYPE_CHECKING:
    from tests.support.airflow_support import Connections


@pytest.fixture
def operator() -> SparkSubmitOperator:
    return SparkSubmitOperator(task_id="t", application="/a.py")


def test_the_provider_is_of_the_major_version_this_was_written_for() -> None:
    assert metadata.version("apache-airflow-providers-apache-spark").split(".")[0] == "6"


@pytest.mark.parametrize(
    "name",
    ["_conn_id", "_hook", "_deploy_mode", "_yarn_track_via_rm_api", "durable"]
    + [f"_{name}" for name in spark_app._SIZING],
)
def test_the_operator_keeps_what_we_set_under_the_name_we_know(
    operator: SparkSubmitOperator, name: str
) -> None:
    assert hasattr(operator, name)


def test_the_operator_makes_its_hook_from_those_names_when_it_executes() -> None:
    body = inspect.getsource(SparkSubmitOperator._get_hook)
    for name in ("_deploy_mode", "_yarn_track_via_rm_api", *(f"_{n}" for n in spark_app._SIZING)):
        assert f"self.{name}" in body
    assert "if self._hook is None" in inspect.getsource(SparkSubmitOperator.execute)


def test_every_argument_we_name_is_one_of_the_operators() -> None:
    known = inspect.signature(SparkSubmitOperator.__init__).parameters
    assert {*spark_app._SIZING, "deploy_mode", "conn_id", "name"} <= set(known)


def test_the_hook_keeps_its_process(connections: Connections) -> None:
    connections.add("spark_default", "spark", host="local[1]")
    assert SparkSubmitHook()._submit_sp is None


@pytest.mark.parametrize(
    "name",
    [
        "submit",
        "_run_post_submit_commands",
        "_resolved_yarn_rm_auth",
        "_yarn_application_id",
        "_yarn_rm_base_url",
    ],
)
def test_the_hook_has_what_we_read_and_set_for_yarn(connections: Connections, name: str) -> None:
    connections.add("spark_default", "spark", host="yarn")
    assert hasattr(SparkSubmitHook(), name)


def test_the_hook_still_wants_a_name_of_kubernetes_provider(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reason for the object that we put there; when this fails, it may go.
    connections.add("spark_default", "spark", host="k8s://https://api.example.com")
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    with pytest.raises(NameError, match="kube_client"):
        SparkSubmitHook()


def test_the_operator_follows_a_pod_only_where_it_is_told_to() -> None:
    body = inspect.getsource(SparkSubmitOperator)
    assert "hook._should_track_driver_via_k8s_api()" in body
    assert "track_driver_via_k8s_api=self._track_driver_via_k8s_api" in body
    assert "waitAppCompletion" in spark_submit._K8S_WAIT_APP_COMPLETION_CONF


def test_a_missing_connection_still_means_yarn_to_the_hook() -> None:
    # The reason for our own look at the connection; when this fails, ours may go.
    assert SparkSubmitHook(conn_id="nowhere")._connection["master"] == "yarn"


def test_durable_yarn_without_an_address_is_still_refused_by_the_operator() -> None:
    # The reason for switching `durable` off.
    assert "durable=True requires yarn_track_via_rm_api=True" in inspect.getsource(
        SparkSubmitOperator.execute
    )


def test_a_resumed_submission_is_known_by_the_key_we_remove() -> None:
    assert SparkSubmitOperator.external_id_key == "spark_job_id"
    assert "task_state_store.get(self.external_id_key)" in inspect.getsource(
        ResumableJobMixin.execute_resumable
    )


def test_our_operator_templates_all_that_the_parent_does() -> None:
    ours = set(spark_app.HiveAcidSparkOperator.template_fields)
    assert set(SparkSubmitOperator.template_fields) <= ours
