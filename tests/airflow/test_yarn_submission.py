"""What is submitted to YARN, and where its resource manager is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.operators.submission import submitter
from airflow_hiveacid.operators.submission.cluster_run import own_settings, tag_of
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.yarn import addresses_in, addresses_of
from tests.support.airflow_support import Connections, FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, deletion, settings_of
from tests.support.pretended_yarn import ResourceManager as Pretended


@pytest.mark.usefixtures("on_yarn")
def test_yarn_starts_a_driver_in_the_cluster_once_with_the_tag_of_its_attempt(
    spark: FakeSpark,
) -> None:
    task = deletion(conf={"spark.yarn.maxAppAttempts": "3", "spark.yarn.tags": "mine"})
    run_task(task, context_of(task_state_store=StateStore()))
    tag = tag_of(spark.calls[-1]["spec"]["attempt"])
    assert "spark.yarn.maxAppAttempts=1" in settings_of(spark)
    assert f"spark.yarn.tags=mine,{tag}" in settings_of(spark)
    assert task.conf["spark.yarn.maxAppAttempts"] == "3"
    assert (tag, len(tag) <= 100) == (tag.lower(), True)


def test_max_app_attempts_is_not_changed_for_a_driver_on_the_worker() -> None:
    given = {"spark.yarn.maxAppAttempts": "3"}
    assert own_settings(given, "a", is_cluster=False) == {**given, "spark.yarn.tags": "a"}


@pytest.mark.usefixtures("on_yarn")
def test_settings_that_the_spark_provider_adds_are_submitted_together_with_ours(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        submitter,
        "inject_parent_job_information_into_spark_properties",
        lambda given, _: {**given, "spark.openlineage.parentRunId": "run"},
    )
    run_task(deletion(openlineage_inject_parent_job_info=True), context_of())
    assert "spark.openlineage.parentRunId=run" in settings_of(spark)
    assert any(one.startswith("spark.yarn.tags=") for one in settings_of(spark))


def test_a_driver_in_the_cluster_is_tracked_at_the_address_in_yarn_site(
    yarn: Pretended, on_yarn: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.webapp.address</name>"
        f"<value>{yarn.web}</value></property></configuration>"
    )
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    on_yarn.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    run_task(deletion(), context_of(task_state_store=StateStore()))
    assert yarn.asked == [APP]


@pytest.mark.usefixtures("on_yarn")
@pytest.mark.parametrize(
    "owner", [{"env_vars": {"HADOOP_USER_NAME": "etl"}}, {"proxy_user": "etl"}]
)
def test_requests_to_yarn_name_the_owner_of_the_application(
    yarn: Pretended, owner: dict[str, Any]
) -> None:
    run_task(deletion(**owner), context_of(task_state_store=StateStore()))
    assert yarn.requests
    assert all("user.name=etl" in one for one in yarn.requests)


def test_a_standalone_master_whose_host_name_contains_yarn_is_not_yarn(
    tmp_path: Path, connections: Connections
) -> None:
    # A watch would find no application of it there, and end it after an hour.
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name>"
        "<value>rm.example.com</value></property></configuration>"
    )
    found = {}
    for master in ("spark://yarn-edge:7077", "yarn"):
        connections.add("spark_default", "spark", host=master)
        target = SparkTarget.resolve("spark_default", None, {}, {"YARN_CONF_DIR": str(tmp_path)})
        found[master] = (target.is_yarn, len(target.resource_managers))
    assert found == {"spark://yarn-edge:7077": (False, 0), "yarn": (True, 1)}


def test_the_resource_managers_address_comes_from_the_connection_or_yarn_site(
    tmp_path: Path,
) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name>"
        "<value>rm.example.com</value></property></configuration>"
    )
    assert addresses_of(None, {"HADOOP_CONF_DIR": str(tmp_path)}) == ("http://rm.example.com:8088",)
    own = {"HADOOP_CONF_DIR": "/nowhere", "YARN_CONF_DIR": str(tmp_path)}
    assert addresses_of(" ", own) == ("http://rm.example.com:8088",)
    assert addresses_of("rm:8088/", own) == ("http://rm:8088",)
    assert addresses_of(None, {}) == ()


def test_addresses_of_two_resource_managers_follow_the_http_policy_of_yarn_site() -> None:
    prefix = "yarn.resourcemanager."
    settings = {
        f"{prefix}ha.rm-ids": "a, b",
        f"{prefix}hostname.a": "one",
        f"{prefix}hostname.b": "two",
        f"{prefix}webapp.address.b": f"${{{prefix}hostname.b}}:1",
    }
    assert addresses_in(settings) == ("http://one:8088", "http://two:1")
    https = {**settings, "yarn.http.policy": "HTTPS_ONLY"}
    assert addresses_in(https) == ("https://one:8090", "https://two:8090")
