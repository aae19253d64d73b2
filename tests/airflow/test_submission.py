"""The arguments of one `spark-submit`, computed from a job, a target and the user's arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.operators.submission.cluster_run import tag_of
from airflow_hiveacid.operators.submission.kubernetes import LABEL
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import Program, SparkArguments, Submission

_CANARY = "canary-of-a-secret"
_WAITS = "spark.yarn.submit.waitAppCompletion"

SPEC = JobSpec(
    job_key="k",
    metastore=MetastoreEndpoint(uris=("thrift://hms:9083",)),
    job=DeleteSpec(target="db.t", where="id = 1"),
    attempt="1-0123456789ab",
    result_uri="hdfs://nn/results/u/result.json",
)
TAG = tag_of(SPEC.attempt)
PROGRAM = Program(
    application="/apps/delete.py", archive="/c.zip", spec_file=Path("/scratch/s.json")
)
GIVEN = SparkArguments(conn_id="spark", conf={"spark.a": "1"})

LOCAL = SparkTarget(conn_id="spark", master="local[1]")
YARN = SparkTarget(conn_id="spark", master="yarn", resource_managers=("http://rm:8088",))
KUBERNETES = SparkTarget(conn_id="spark", master="k8s://https://api", namespace="etl")


def _in_cluster(target: SparkTarget) -> SparkTarget:
    return replace(target, deploy_mode="cluster")


UNASKED_YARN = _in_cluster(replace(YARN, resource_managers=()))


def _arguments(target: SparkTarget, **given: Any) -> SparkArguments:  # noqa: ANN401
    return Submission.of(SPEC, replace(GIVEN, **given), target, program=PROGRAM).arguments


def test_a_driver_on_the_worker_gets_the_absolute_path_of_the_spec() -> None:
    found = _arguments(LOCAL, files="/mine.conf", py_files="/mine.zip")
    assert found.application_args == ["--spec", "/scratch/s.json"]
    assert (found.files, found.py_files) == ("/mine.conf", "/c.zip,/mine.zip")
    assert (found.name, found.conf) == ("hiveacid-delete-db.t", {"spark.a": "1"})
    assert found.deploy_mode == "client"


@pytest.mark.parametrize("target", [YARN, UNASKED_YARN, KUBERNETES])
def test_a_driver_in_the_cluster_gets_the_spec_as_a_shipped_file(target: SparkTarget) -> None:
    found = _arguments(_in_cluster(target), files="/mine.conf")
    assert found.application_args == ["--spec", "s.json"]
    assert found.files == "/scratch/s.json,/mine.conf"
    assert found.deploy_mode == "cluster"


def test_the_programs_arguments_follow_the_spec_argument() -> None:
    program = replace(PROGRAM, own_arguments=("--day", "1"))
    found = Submission.of(SPEC, replace(GIVEN, name="mine"), LOCAL, program=program)
    assert found.arguments.application_args == ["--spec", "/scratch/s.json", "--day", "1"]
    assert (found.application, found.arguments.name) == ("/apps/delete.py", "mine")


@pytest.mark.parametrize(
    ("target", "wait"),
    [
        (_in_cluster(YARN), "false"),
        (UNASKED_YARN, None),  # then its end is that of `spark-submit`
        (YARN, None),
        (LOCAL, None),
        (_in_cluster(KUBERNETES), None),
    ],
)
def test_spark_submit_does_not_wait_for_a_driver_that_we_track_on_yarn(
    target: SparkTarget, wait: str | None
) -> None:
    assert (_arguments(target).conf or {}).get(_WAITS) == wait


def test_a_yarn_application_has_the_tag_of_its_attempt_in_client_and_cluster_mode() -> None:
    for target in (YARN, _in_cluster(YARN), UNASKED_YARN):
        conf = _arguments(target, conf={"spark.yarn.tags": "mine"}).conf or {}
        assert conf["spark.yarn.tags"] == f"mine,{TAG}"


def test_a_driver_pod_has_the_name_of_its_attempt_and_uploads_beside_the_result() -> None:
    conf = _arguments(_in_cluster(KUBERNETES)).conf or {}
    assert conf["spark.kubernetes.driver.pod.name"] == f"{TAG}-driver"
    assert conf[f"spark.kubernetes.executor.label.{LABEL}"] == TAG
    assert conf["spark.kubernetes.namespace"] == "etl"
    assert conf["spark.kubernetes.file.upload.path"] == "hdfs://nn/results/u-uploads"


@pytest.mark.parametrize("wanted", [True, False])
def test_in_cluster_mode_the_hook_tracks_pods_but_not_yarn_applications(wanted: bool) -> None:
    """On Kubernetes, and for YARN drivers that we track, we override the user's setting."""
    given = {"track_driver_via_k8s_api": wanted, "yarn_track_via_rm_api": wanted}
    assert _arguments(_in_cluster(KUBERNETES), **given).track_driver_via_k8s_api
    assert not _arguments(KUBERNETES, **given).track_driver_via_k8s_api
    assert not _arguments(_in_cluster(YARN), **given).yarn_track_via_rm_api
    for target in (LOCAL, YARN, UNASKED_YARN):
        assert _arguments(target, **given).yarn_track_via_rm_api is wanted
        assert _arguments(target, **given).track_driver_via_k8s_api is wanted


def test_the_users_arguments_are_not_modified() -> None:
    given = {"spark.yarn.tags": "mine"}
    arguments = replace(GIVEN, conf=given, py_files="/mine.zip")
    Submission.of(SPEC, arguments, _in_cluster(YARN), program=PROGRAM)
    assert (given, arguments.py_files) == ({"spark.yarn.tags": "mine"}, "/mine.zip")
    assert arguments.conf is given


@pytest.mark.parametrize("value", ["true", " True ", True])
def test_wait_app_completion_is_refused_for_a_driver_that_we_track_on_yarn(value: object) -> None:
    given = replace(GIVEN, conf={_WAITS: value})
    one = Submission.of(SPEC, given, _in_cluster(YARN), program=PROGRAM)
    with pytest.raises(ValueError, match="waitAppCompletion=true cannot be set for cluster mode"):
        one.check_new()
    for target in (LOCAL, YARN, UNASKED_YARN, _in_cluster(KUBERNETES)):
        Submission.of(SPEC, given, target, program=PROGRAM).check_new()


def test_the_repr_of_a_submission_contains_no_secret() -> None:
    given = replace(
        GIVEN,
        conf={"spark.hadoop.fs.s3a.secret.key": _CANARY},
        env_vars={"TOKEN": _CANARY},
        post_submit_commands=[f"curl -u {_CANARY}"],
        application_args=[_CANARY],
    )
    program = replace(PROGRAM, own_arguments=(_CANARY,))
    spec = replace(SPEC, job=DeleteSpec(target="db.t", where=f"id = '{_CANARY}'"))
    one = Submission.of(spec, given, _in_cluster(KUBERNETES), program=program)
    assert _CANARY in str(one.arguments.as_keywords())
    assert _CANARY not in repr(one)
