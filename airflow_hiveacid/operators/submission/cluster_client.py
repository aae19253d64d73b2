"""The `ClusterRun` of one submission, with the login that `spark-submit` uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from requests.auth import AuthBase

from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.operators.submission import cluster_run, provider_names
from airflow_hiveacid.operators.submission.http import Negotiate
from airflow_hiveacid.operators.submission.kubernetes import DRIVER, EXECUTOR, ApiServer
from airflow_hiveacid.operators.submission.kubernetes_login import login_of, server_of
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.operators.submission.yarn import ResourceManager


def cluster_run_of(  # noqa: PLR0913 - each is a separate choice
    target: SparkTarget,
    tag: str,
    arguments: SparkArguments,
    bounds: cluster_run.Bounds,
    *,
    is_killed: Callable[[], bool],
    seen: Callable[[cluster_run.Application], None] = lambda _: None,
    show_log: Callable[[cluster_run.Cluster[Any], cluster_run.Application], None] = lambda *_: None,
) -> cluster_run.ClusterRun[Any] | None:
    """Return the client for a submission's cluster, or None if its address is unknown."""
    manager = _manager(target, arguments)
    if manager is None:
        return None
    return cluster_run.ClusterRun(
        manager, tag, bounds, is_killed=is_killed, seen=seen, show_log=show_log
    )


def _manager(target: SparkTarget, arguments: SparkArguments) -> cluster_run.Cluster[Any] | None:
    if target.is_kubernetes:
        return ApiServer(
            address=server_of(target.master),
            namespace=target.namespace,
            login=login_of(arguments.conf or {}, os.environ, is_cluster=target.is_cluster),
            role=DRIVER if target.is_cluster else EXECUTOR,
        )
    if not target.resource_managers:
        return None
    return ResourceManager(
        addresses=target.resource_managers,
        auth=_yarn_login(arguments, target.realm),
        user=arguments.proxy_user or (arguments.env_vars or {}).get("HADOOP_USER_NAME"),
    )


def _yarn_login(arguments: SparkArguments, realm: str | None) -> AuthBase:
    if arguments.yarn_rm_auth is not None:
        keep_secret(str(getattr(arguments.yarn_rm_auth, "password", "")))
        return arguments.yarn_rm_auth
    # Only the login is read from this hook. A different hook, created after OpenLineage's settings
    # are known, submits the job.
    principal, keytab = provider_names.login_of(provider_names.make_hook(arguments))
    variables = arguments.env_vars or {}
    keytab = keytab or variables.get("KRB5_CLIENT_KTNAME")
    return Negotiate(
        client=principal,
        keytab=keytab,
        cache=None if keytab else variables.get("KRB5CCNAME"),
        realm=realm,
    )
