"""What we use of the Spark provider beyond its documents; an upgrade that changes it fails here."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators import spark_submit as operators
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.openlineage.utils import spark as lineage
from airflow.sdk import ResumableJobMixin
from requests.auth import HTTPBasicAuth

from airflow_hiveacid.operators import spark_app
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission import provider_names, submitter
from airflow_hiveacid.operators.submission.submission import SparkArguments
from tests.support.airflow_support import Connections

PACKAGE = Path(spark_app.__file__).resolve().parents[1]

GIVEN: dict[str, Any] = {
    **json.loads((Path(__file__).with_name("cases") / "spark_arguments.json").read_text()),
    "yarn_rm_auth": HTTPBasicAuth("etl", "a"),
}
"""A value for each argument of the hook but the connection, none of them the default."""


def _parameters(of: Any) -> dict[str, inspect.Parameter]:  # noqa: ANN401 - a class
    named = dict(inspect.signature(of.__init__).parameters)
    return {name: one for name, one in named.items() if name not in ("self", "kwargs")}


@pytest.fixture
def hook(connections: Connections) -> SparkSubmitHook:
    connections.add("spark_default", "spark", host="local[1]")
    return provider_names.make_hook(SparkArguments(conn_id="spark_default"))


def test_the_spark_provider_has_the_major_version_that_this_code_supports() -> None:
    assert metadata.version("apache-airflow-providers-apache-spark").split(".")[0] == "6"


def _private_names() -> set[str]:
    made = provider_names.make_hook(SparkArguments(conn_id="nowhere"))
    found = {*vars(spark_submit), *vars(made), *vars(SparkSubmitOperator(task_id="task"))}
    for one in (SparkSubmitHook, SparkSubmitOperator):
        found |= set(vars(one))
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def test_only_the_module_provider_names_uses_private_names_of_the_spark_provider() -> None:
    """Nor does an operator call anything of its own so: it would be the parent's."""
    private, used = _private_names(), dict[str, set[str]]()
    for file in PACKAGE.glob("operators/**/*.py"):
        is_parents_heir = file.parent.name == "operators"
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Attribute) or node.attr not in private:
                continue
            if is_parents_heir or ast.unparse(node.value) != "self":
                used.setdefault(file.name, set()).add(node.attr)
    assert set(used) == {"provider_names.py"}
    assert len(used["provider_names.py"]) > 5


# ---- the arguments -------------------------------------------------------------------------------


def test_our_spark_arguments_are_exactly_those_of_the_providers_hook() -> None:
    assert {one.name for one in fields(SparkArguments)} == set(_parameters(SparkSubmitHook))
    assert {"conn_id", *GIVEN} == set(_parameters(SparkSubmitHook))
    defaults = {name: one.default for name, one in _parameters(SparkSubmitHook).items()}
    assert all(defaults[name] != value for name, value in GIVEN.items())


def test_we_pass_on_every_argument_of_the_providers_operator() -> None:
    ours = {"application", "durable", "reconnect_on_retry"}
    switches = {"openlineage_inject_parent_job_info", "openlineage_inject_transport_info"}
    others = {"default_args", *ours, *switches}
    assert set(_parameters(SparkSubmitOperator)) - others == set(_parameters(SparkSubmitHook))


def test_our_operator_passes_arguments_to_the_hook_as_the_providers_operator_does(
    connections: Connections,
) -> None:
    connections.add("spark_default", "spark", host="yarn")
    # Our operators set the application's own arguments.
    given = {name: value for name, value in GIVEN.items() if name != "application_args"}
    theirs = SparkSubmitOperator(task_id="task", **given)._get_hook()
    task = HiveAcidDeleteOperator(task_id="task", table="db.t", **given)
    ours = provider_names.make_hook(task._arguments())
    same = {name: value for name, value in vars(theirs).items() if name != "_log"}
    assert {name: vars(ours)[name] for name in same} == same
    assert task._arguments().as_keywords() == {
        "conn_id": "spark_default",
        **GIVEN,
        "application_args": None,
    }


@pytest.mark.parametrize("name", provider_names.KEPT)
def test_the_providers_operator_keeps_its_arguments_under_the_private_names_we_use(
    name: str,
) -> None:
    task = SparkSubmitOperator(task_id="task", **{name: GIVEN[name]})
    assert provider_names.kept_arguments(task)[name] == GIVEN[name]
    # The reason for the private name; when this fails, it may go.
    assert not hasattr(task, name)


@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_providers_operator_keeps_its_openlineage_switches(is_wanted: bool) -> None:
    task = SparkSubmitOperator(
        task_id="task",
        openlineage_inject_parent_job_info=is_wanted,
        openlineage_inject_transport_info=not is_wanted,
    )
    assert provider_names.adds_parent_job(task) is is_wanted
    assert provider_names.adds_transport(task) is not is_wanted


@pytest.mark.parametrize(
    "name",
    [
        "inject_parent_job_information_into_spark_properties",
        "inject_transport_information_into_spark_properties",
    ],
)
def test_we_call_the_same_openlineage_functions_as_the_providers_operator(name: str) -> None:
    public = getattr(lineage, name)
    assert getattr(submitter, name) is public
    assert getattr(operators, name) is public
    assert f"{name}(self.conf, context)" in inspect.getsource(SparkSubmitOperator.execute)


def test_our_operator_templates_every_field_that_the_providers_operator_templates() -> None:
    ours = set(spark_app.HiveAcidSparkOperator.template_fields)
    assert set(SparkSubmitOperator.template_fields) <= ours


def test_every_argument_that_we_name_exists_in_the_providers_operator() -> None:
    known = inspect.signature(SparkSubmitOperator.__init__).parameters
    operator = spark_app.HiveAcidSparkOperator
    ours = inspect.signature(operator).parameters
    own = {"hive_acid_conn_id", "lock_timeout_s", "conflict_policy", "heartbeat_s", "result_dir"}
    own |= {"spark_conn_id", "spark_bin_dir", "start_timeout_s"}
    named = set(operator.argument_table).intersection(ours) - own
    assert {"driver_memory", "executor_cores", "yarn_queue"} <= named
    assert {*named, "conn_id", "name"} <= set(known)


# ---- the hook ------------------------------------------------------------------------------------


def test_the_hook_keeps_the_process_of_spark_submit(hook: SparkSubmitHook, tmp_path: Path) -> None:
    assert provider_names.submit_process(hook) is None
    program = tmp_path / "spark-submit"
    program.write_text(f"#!{sys.executable}\nprint('hello')\n")
    program.chmod(0o755)
    hook._connection["spark_binary"] = str(program)
    hook.submit("/a.py")
    process = provider_names.submit_process(hook)
    assert isinstance(process, subprocess.Popen)
    assert (process.returncode, process.stdout is None) == (0, False)
    process.stdout.close()  # type: ignore[union-attr]


def test_the_hook_keeps_the_last_lines_of_its_process_without_passwords(
    hook: SparkSubmitHook,
) -> None:
    assert provider_names.last_lines(hook) == []
    hook._process_spark_submit_log(iter([*map(str, range(40)), "password=hunter2", "end"]))
    lines = provider_names.last_lines(hook)
    assert lines[-2:] == ["password=******", "end"]
    assert len(lines) == 20
    assert provider_names.without_passwords("password=hunter2 end") == "password=****** end"


def test_the_hook_reads_the_id_of_a_yarn_application(connections: Connections) -> None:
    connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    hook = SparkSubmitHook()
    assert provider_names.yarn_application_id(hook) is None
    hook._process_spark_submit_log(iter(["Submitted application application_1_0001"]))
    assert provider_names.yarn_application_id(hook) == "application_1_0001"


def test_the_hook_merges_the_login_of_arguments_and_connection(connections: Connections) -> None:
    extra = {"principal": "a@EXAMPLE.COM"}
    connections.add("spark_default", "spark", host="yarn", extra=extra)
    login = SparkArguments(conn_id="spark_default", keytab="/k")
    assert provider_names.login_of(provider_names.make_hook(login)) == ("a@EXAMPLE.COM", "/k")


def test_the_hook_runs_post_submit_commands_only_once(
    connections: Connections, tmp_path: Path
) -> None:
    connections.add("spark_default", "spark", host="local[1]")
    hook = SparkSubmitHook(post_submit_commands=[f"mkdir {tmp_path / 'a'}"])
    provider_names.run_post_submit_commands(hook)
    (tmp_path / "a").rmdir()
    provider_names.run_post_submit_commands(hook)
    assert not (tmp_path / "a").exists()


def test_the_hook_refuses_pod_tracking_if_the_master_is_not_kubernetes(
    hook: SparkSubmitHook,
) -> None:
    with pytest.raises(ValueError, match="requires Spark master to be Kubernetes"):
        provider_names.check_pod_tracking(hook)
    assert "hook._validate_track_driver_via_k8s_api_config()" in inspect.getsource(
        SparkSubmitOperator.execute
    )


def test_the_hook_still_requires_a_name_from_the_kubernetes_provider(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reason for the object that we put there; when this fails, it may go.
    connections.add("spark_default", "spark", host="k8s://https://api.example.com")
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    with pytest.raises(NameError, match="kube_client"):
        SparkSubmitHook()
    assert provider_names.make_hook(SparkArguments(conn_id="spark_default"))


def test_the_hook_tracks_a_pod_if_track_driver_via_k8s_api_is_set(connections: Connections) -> None:
    """Else `submit` fails where `spark-submit` does not print the driver's exit code."""
    connections.add("spark_default", "spark", host="k8s://a", extra={"deploy-mode": "cluster"})
    arguments = SparkArguments(conn_id="spark_default", track_driver_via_k8s_api=True)
    hook = provider_names.make_hook(arguments)
    hook._submit_sp = None
    assert hook._should_track_driver_via_k8s_api()
    assert "not self._should_track_driver_via_k8s_api()" in inspect.getsource(hook.submit)
    assert "waitAppCompletion" in spark_submit._K8S_WAIT_APP_COMPLETION_CONF


def test_the_hook_still_uses_yarn_for_a_missing_connection() -> None:
    # The reason for our own look at the connection; when this fails, ours may go.
    assert SparkSubmitHook(conn_id="nowhere")._connection["master"] == "yarn"


# ---- resumption ----------------------------------------------------------------------------------


def test_the_provider_finds_a_resumed_submission_by_the_state_key_that_we_delete() -> None:
    assert SparkSubmitOperator.external_id_key == "spark_job_id"
    assert "task_state_store.get(self.external_id_key)" in inspect.getsource(
        ResumableJobMixin.execute_resumable
    )


def test_the_provider_stores_a_pods_status_under_the_state_key_that_we_delete() -> None:
    assert provider_names.DRIVER_STATUS_KEY == "k8s_driver_status"


def test_our_operator_overrides_every_step_of_a_resumable_job() -> None:
    """A step that the parent keeps would make a hook of its own."""
    steps = ResumableJobMixin.__abstractmethods__ - {"get_job_result"}
    assert steps == {
        "submit_job",
        "get_job_status",
        "is_job_active",
        "is_job_succeeded",
        "poll_until_complete",
    }
    assert steps | {"execute", "on_kill"} <= set(vars(spark_app.HiveAcidSparkOperator))
