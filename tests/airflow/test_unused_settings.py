"""Settings of a submission that have no effect are refused, or the task's log says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.operators.submission.user_settings import check_settings, unused_settings
from tests.support.airflow_support import Connections, run_task


def _target(connections: Connections, host: str = "yarn", **extra: object) -> SparkTarget:
    connections.add("cluster", "spark", host=host, extra=extra)
    return SparkTarget.resolve("cluster", None, {})


def _given(**arguments: Any) -> SparkArguments:  # noqa: ANN401
    return SparkArguments(conn_id="cluster", **arguments)


@pytest.mark.parametrize(
    ("master", "arguments", "expected"),
    [
        ("yarn", {"total_executor_cores": 4}, ["total_executor_cores"]),
        ("k8s://https://api", {"total_executor_cores": 4}, ["total_executor_cores"]),
        ("spark://host:7077", {"num_executors": 4}, ["num_executors"]),
        ("spark://host:7077", {"yarn_queue": "etl"}, ["yarn_queue"]),
        ("k8s://https://api", {"yarn_queue": "etl"}, ["yarn_queue"]),
        ("local[2]", {"executor_memory": "1g", "num_executors": 1}, ["executor_m", "num_ex"]),
        ("yarn", {"java_class": "org.example.Main"}, ["java_class"]),
        ("yarn", {"num_executors": 4, "yarn_queue": "etl", "executor_memory": "1g"}, []),
        ("spark://host:7077", {"total_executor_cores": 4, "executor_memory": "1g"}, []),
    ],
)
def test_an_argument_that_the_master_ignores_is_named(
    master: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    found = unused_settings(SparkTarget(conn_id="c", master=master), _given(**arguments))
    assert len(found) == len(expected)
    assert all(text.startswith(name) for text, name in zip(found, expected, strict=True))


def test_a_queue_of_workers_is_not_taken_for_a_queue_of_yarn(connections: Connections) -> None:
    (text,) = unused_settings(_target(connections), _given(), "etl")
    assert "set yarn_queue" in text
    assert unused_settings(_target(connections), _given(yarn_queue="a"), "etl") == []
    assert unused_settings(_target(connections, queue="a"), _given(), "etl") == []
    assert unused_settings(_target(connections, host="local[1]"), _given(), "etl") == []


@pytest.mark.usefixtures("spark")
def test_a_task_with_a_queue_of_workers_says_so_in_its_log(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    connections.add("cluster", "spark", host="yarn")
    given = {"table": "db.t", "where": "a = 1", "spark_conn_id": "cluster"}
    run_task(HiveAcidDeleteOperator(task_id="t", **given, queue="etl"))
    assert "set yarn_queue" in caplog.text
    caplog.clear()
    run_task(HiveAcidDeleteOperator(task_id="t", **given))
    assert "queue" not in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "deployMode cluster",
        "deployMode=cluster",
        "deployMode : cluster",
        "deployMode\tcluster",
        "deployMode \t = cluster",
    ],
)
def test_a_deploy_mode_of_a_properties_file_is_never_overridden_silently(
    connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(f"# spark.submit.deployMode client\nspark.submit.{text}\n")
    given = _given(properties_file=str(file))
    with pytest.raises(ConfigurationError, match=r"deployMode to 'cluster'.*deploy_mode"):
        check_settings(_target(connections), given, {})
    check_settings(_target(connections, **{"deploy-mode": "client"}), given, {})
    assert not caplog.text
    check_settings(_target(connections), _given(), {"SPARK_HOME": str(tmp_path)})
    assert not caplog.text
    check_settings(_target(connections), _given(), {"SPARK_CONF_DIR": str(tmp_path)})
    assert "deployMode to 'cluster'" in caplog.text


def test_a_master_and_a_queue_of_a_properties_file_are_known(
    connections: Connections, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "job.conf"
    file.write_text("spark.master\tlocal[4]\nspark.yarn.queue=etl\n")
    given = _given(properties_file=str(file))
    check_settings(_target(connections), given, {}, worker_queue="workers")
    (warning,) = (one.getMessage() for one in caplog.records)
    assert "spark.master=local[4] has no effect: the job is submitted to yarn" in warning


@pytest.mark.parametrize(
    "conf", [{"spark.master": "local[4]"}, {"spark.submit.deployMode": "cluster"}]
)
def test_a_master_or_deploy_mode_in_conf_that_differs_is_refused(
    connections: Connections, conf: dict[str, str]
) -> None:
    target = _target(connections, **{"deploy-mode": "client"})
    with pytest.raises(ConfigurationError, match="remove it from conf"):
        check_settings(target, _given(conf=conf), {})
    same = {"spark.master": "yarn", "spark.submit.deployMode": "client"}
    check_settings(target, _given(conf=same), {})


@pytest.mark.parametrize("argument", ["conf", "env_vars"])
def test_a_setting_without_a_value_is_refused(connections: Connections, argument: str) -> None:
    given = _given(**{argument: {"spark.yarn.tags": None}})
    with pytest.raises(ConfigurationError, match=r"'spark.yarn.tags'\] is None; give a value"):
        check_settings(_target(connections), given, {})


def test_a_misspelt_extra_of_a_spark_connection_is_refused_and_another_is_named(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("deploy_mode", "deployMode", "spark_binary", "queues"):
        with pytest.raises(ConfigurationError, match="did you mean"):
            _target(connections, **{name: "cluster"})
    assert not caplog.text
    _target(connections, uris="thrift://hms:9083")
    assert "extra 'uris' is not used" in caplog.text
    assert "hms" not in caplog.text
