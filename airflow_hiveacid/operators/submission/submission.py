"""One submission with `spark-submit`, as a value; this module starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from requests.auth import AuthBase

from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.operators.submission import cluster_run, kubernetes
from airflow_hiveacid.operators.submission.spark_target import SparkTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkArguments:
    """Arguments for `SparkSubmitHook`, with the hook's names and meanings.

    The `repr` leaves out values that may be secret.
    """

    conn_id: str
    conf: Mapping[str, Any] | None = field(default=None, repr=False)
    files: str | None = None
    py_files: str | None = None
    archives: str | None = None
    driver_class_path: str | None = None
    jars: str | None = None
    java_class: str | None = None
    packages: str | None = None
    exclude_packages: str | None = None
    repositories: str | None = None
    total_executor_cores: int | str | None = None
    executor_cores: int | str | None = None
    executor_memory: str | None = None
    driver_memory: str | None = None
    keytab: str | None = None
    principal: str | None = None
    proxy_user: str | None = None
    name: str = ""
    num_executors: int | str | None = None
    status_poll_interval: int = 1
    application_args: Sequence[Any] | None = field(default=None, repr=False)
    env_vars: Mapping[str, Any] | None = field(default=None, repr=False)
    verbose: bool = False
    spark_binary: str | None = None
    properties_file: str | None = None
    yarn_queue: str | None = None
    deploy_mode: str | None = None
    use_krb5ccache: bool = False
    post_submit_commands: Sequence[str] | None = field(default=None, repr=False)
    track_driver_via_k8s_api: bool = False
    yarn_track_via_rm_api: bool = False
    yarn_rm_auth: AuthBase | None = field(default=None, repr=False)

    def as_keywords(self) -> dict[str, Any]:
        """Return the keyword arguments with which the hook is created."""
        return {argument.name: getattr(self, argument.name) for argument in fields(self)}


_WAITS: Final = "spark.yarn.submit.waitAppCompletion"
_LOGIN: Final = ("spark.kerberos.", "spark.yarn.keytab", "spark.yarn.principal")
_STORES: Final = "spark.hadoop."


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The application of a job, its arguments, the zip of our code and the job's file."""

    application: str
    own_arguments: Sequence[str] = ()
    archive: str
    spec_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything that one run of `spark-submit` needs.

    `arguments` contains our own settings for the job and the cluster. OpenLineage's settings of the
    parent job and of the transport are added when the task runs, because they name the task
    instance.
    """

    spec: JobSpec = field(repr=False)
    target: SparkTarget
    application: str
    arguments: SparkArguments
    adds_parent_job: bool = False
    adds_transport: bool = False

    @classmethod
    def of(
        cls,
        spec: JobSpec,
        given: SparkArguments,
        target: SparkTarget,
        *,
        program: Program,
    ) -> Submission:
        """Add our settings for a job and its cluster to the user's arguments."""
        # A driver on this machine gets the file's local path, because YARN's client mode does not
        # give shipped files to the driver.
        spec_file = str(program.spec_file)
        spec_path = program.spec_file.name if target.is_cluster else spec_file
        arguments = replace(
            given,
            **_for_cluster(spec, given, target),
            application_args=["--spec", spec_path, *program.own_arguments],
            py_files=",".join(filter(None, [program.archive, given.py_files])),
            name=given.name or f"hiveacid-{spec.kind}-{spec.job.target}",
            deploy_mode=target.deploy_mode,
        )
        if target.is_cluster:
            shipped = ",".join(filter(None, [spec_file, given.files]))
            arguments = replace(arguments, files=shipped)
        return cls(
            spec=spec,
            target=target,
            application=program.application,
            arguments=arguments,
        )

    @property
    def binary(self) -> str:
        """The name or path of the `spark-submit` that the Spark provider runs."""
        return self.arguments.spark_binary or self.target.spark_binary

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which the Spark provider starts `spark-submit`."""
        # On Kubernetes, the provider sends `env_vars` only to the driver's pod.
        variables = {} if self.target.is_kubernetes else self.arguments.env_vars or {}
        return {**os.environ, **{name: str(value) for name, value in variables.items()}}

    @property
    def may_change_user(self) -> bool:
        """True if the driver may log in as a different user than this worker."""
        return may_change_user(self.arguments, self.target)

    def check_new(self) -> None:
        """Check the settings that affect only a new submission, and not a resumed submission."""
        if _is_released(self.target) and _keeps_waiting(self.arguments):
            raise ValueError(
                "spark.yarn.submit.waitAppCompletion=true cannot be set for cluster mode as it"
                " conflicts with the need to exit spark-submit immediately to persist the"
                " application ID for tracking. Either remove the explicit conf or set"
                " durable=False."
            )


def _for_cluster(spec: JobSpec, given: SparkArguments, target: SparkTarget) -> dict[str, Any]:
    tag, conf = cluster_run.tag_of(spec.attempt), given.conf or {}
    if target.is_kubernetes:
        settings = kubernetes.own_settings(
            conf,
            tag,
            namespace=target.namespace,
            result_uri=str(spec.result_uri),
            is_cluster=target.is_cluster,
        )
        return {"conf": settings, "track_driver_via_k8s_api": target.is_cluster}
    if not target.is_yarn:
        return {"conf": conf}
    settings = cluster_run.own_settings(conf, tag, is_cluster=target.is_cluster)
    if not _is_released(target):
        return {"conf": settings}
    if not _keeps_waiting(given):  # else see `check_new`
        settings[_WAITS] = "false"
    # We follow the application without the hook, so the hook needs no address or login for YARN.
    return {"conf": settings, "yarn_track_via_rm_api": False}


def _is_released(target: SparkTarget) -> bool:
    """Return whether `spark-submit` must end as soon as YARN has the application."""
    return target.is_yarn and target.is_followed


def _keeps_waiting(arguments: SparkArguments) -> bool:
    return str((arguments.conf or {}).get(_WAITS, "")).strip().lower() == "true"


def may_change_user(arguments: SparkArguments, target: SparkTarget | None) -> bool:
    """Return whether a driver may log in as a different user than this worker.

    `target` is None if Airflow has no connection to Spark. A driver in a cluster has Spark's
    credentials. In `env_vars`, a secret, a ticket cache or HADOOP_USER_NAME can change the driver's
    user. `conf` can contain a Kerberos login.
    """
    own = (arguments.proxy_user, arguments.principal, arguments.keytab, arguments.env_vars)
    if any(own) or _sets(arguments, _LOGIN):
        return True
    return target is not None and (target.is_cluster or target.has_login)


def may_change_store(arguments: SparkArguments) -> bool:
    """Return whether a driver may have other settings or keys for stores than this worker."""
    return bool(arguments.properties_file) or _sets(arguments, _STORES)


def _sets(arguments: SparkArguments, prefixes: str | tuple[str, ...]) -> bool:
    return any(name.startswith(prefixes) for name in arguments.conf or {})
