"""The private names of Airflow's Spark provider that we use; all their uses are in this module.

A new release may change a private name without notice. So each function says why it needs one, and
has a test in `tests/airflow/test_spark_provider_contract.py`.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any, Final

from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_hiveacid.operators.submission.log_tail import LAST_LINES, log_line
from airflow_hiveacid.operators.submission.submission import SparkArguments

DRIVER_STATUS_KEY: Final = SparkSubmitOperator._K8S_DRIVER_STATUS_KEY  # noqa: SLF001 - see below
"""The state store's key for the status of a driver's pod.

The provider's own operator stores this status, and the key has no public name. We never read the
status, but we delete it together with the driver's ID.
"""

KEPT: Final = (
    "java_class",
    "status_poll_interval",
    "verbose",
    "spark_binary",
    "use_krb5ccache",
    "track_driver_via_k8s_api",
    "yarn_track_via_rm_api",
    "yarn_rm_auth",
)
"""Arguments of the hook that the provider's operator stores only under private names."""


def kept_arguments(operator: SparkSubmitOperator) -> dict[str, Any]:
    """Return the user's hook arguments that have no public attribute.

    The operator stores these arguments under private names. The operator's only public method that
    reads these arguments also submits the job.
    """
    return {name: getattr(operator, f"_{name}") for name in KEPT}


def adds_parent_job(operator: SparkSubmitOperator) -> bool:
    """Return whether OpenLineage's parent job is added to Spark's settings: a private argument."""
    return bool(operator._openlineage_inject_parent_job_info)  # noqa: SLF001 - as the docstring says


def adds_transport(operator: SparkSubmitOperator) -> bool:
    """Return whether OpenLineage's transport is added to Spark's settings: a private argument."""
    return bool(operator._openlineage_inject_transport_info)  # noqa: SLF001 - as the docstring says


def make_hook(arguments: SparkArguments) -> SparkSubmitHook:
    """Create the provider's hook.

    In version 6.3.4, the hook raises a NameError if the Kubernetes provider is not installed,
    because the hook's module then lacks the name of the Kubernetes client. We query Kubernetes
    ourselves, so the hook needs no client. The hook has no argument for a client, so this function
    defines the missing name.
    """
    if getattr(hooks, "kube_client", None) is None:
        hooks.kube_client = _Unused()  # type: ignore[attr-defined]  # or imported
    # Otherwise every user could read the file to which the hook writes the connection's keytab.
    old_mask = os.umask(0o077)
    try:
        return _Hook(**arguments.as_keywords())
    finally:
        os.umask(old_mask)


def login_of(hook: SparkSubmitHook) -> tuple[str | None, str | None]:
    """Return the principal of `spark-submit`, and the path of its keytab.

    Each value comes from the arguments or, if missing there, from the connection. If the connection
    contains the keytab itself, the hook writes the keytab to a file. Only a private dict of the
    hook has the path of this file.
    """
    merged = hook._connection  # noqa: SLF001 - as the docstring says
    return merged.get("principal"), merged.get("keytab")


def submit_process(hook: SparkSubmitHook) -> subprocess.Popen[str] | None:
    """Return the process of `spark-submit`, or None if none was started.

    No public attribute of the hook has the process, its exit code or its pipe. The hook's public
    method that kills the process also makes other calls, and may wait indefinitely.
    """
    return hook._submit_sp  # noqa: SLF001 - as the docstring says


def last_lines(hook: SparkSubmitHook) -> list[str]:
    """Return the last lines that `spark-submit` has printed, without passwords.

    The only public source of the lines is the hook's exception, whose text begins with the whole
    command.
    """
    tail = hook._submit_log_tail  # noqa: SLF001 - as the docstring says
    return tail.strip().splitlines()[1:][-LAST_LINES:]  # the first line is a heading


def without_passwords(line: str) -> str:
    """Return a line with asterisks in place of each value whose name suggests a password.

    The hook does this for the lines of `spark-submit`, in a private method that reads nothing of
    the hook. A driver in the cluster has no hook after its task has deferred.
    """
    hook = object.__new__(hooks.SparkSubmitHook)
    return hook._mask_cmd([line])


def yarn_application_id(hook: SparkSubmitHook) -> str | None:
    """Return the ID of the YARN application that `spark-submit` has printed, or None.

    The hook's `submit` does not return this ID: it returns a driver's ID only for Spark's own
    cluster manager.
    """
    return hook._yarn_application_id  # noqa: SLF001 - as the docstring says


def check_pod_tracking(hook: SparkSubmitHook) -> None:
    """Check the user's argument `track_driver_via_k8s_api`, as the provider's operator does.

    The operator makes this check only in its `execute`, which also submits the job.
    """
    hook._validate_track_driver_via_k8s_api_config()  # noqa: SLF001 - as the docstring says


def run_post_submit_commands(hook: SparkSubmitHook) -> None:
    """Run the user's `post_submit_commands`, unless this hook has run them.

    The hook itself runs the commands when `spark-submit` ends or is killed. But if the driver's pod
    outlives `spark-submit`, the hook would run them only after its own polling of the pod. We
    replace that polling, so we run the commands here.
    """
    hook._run_post_submit_commands()  # noqa: SLF001 - as the docstring says


class _LineLog:
    """A logger for the provider's hook, which logs each line of `spark-submit` at level INFO."""

    def __init__(self, log: Any) -> None:  # noqa: ANN401 - Airflow's
        self._log = log

    def info(self, text: str, *parts: object) -> None:
        if parts:
            self._log.info(text, *parts)
        else:
            log_line(self._log, text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - Airflow's
        return getattr(self._log, name)


class _Hook(hooks.SparkSubmitHook):
    """The provider's hook; a subclass, because its log has no public argument."""

    _logger_name = f"{hooks.SparkSubmitHook.__module__}.{hooks.SparkSubmitHook.__qualname__}"

    @property
    def log(self) -> Any:  # noqa: ANN401 - Airflow's
        return _LineLog(super().log)


class _Unused:
    """A placeholder for the Kubernetes client; the provider's hook only checks that it exists."""
