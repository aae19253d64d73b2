"""The private names of Airflow's Spark provider that we use; no other module uses private names.

A new release of the provider may change a private name without notice. So each function says why
there is no public way, and `tests/airflow/test_spark_provider_contract.py` has a test for each
function.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

if TYPE_CHECKING:
    import subprocess

    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from airflow_hiveacid.operators.submission.spark_arguments import SparkArguments

_LAST_LINES: Final = 20

DRIVER_STATUS_KEY: Final = SparkSubmitOperator._K8S_DRIVER_STATUS_KEY  # noqa: SLF001 - see below
"""The state store's key for the status of a driver's pod.

The provider's own operator stores this status, and the key has no public name. We never read the
status, but we remove it with the driver's ID.
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
"""The hook's arguments that the provider's operator stores only under private names."""


def kept_arguments(operator: SparkSubmitOperator) -> dict[str, Any]:
    """Return the user's hook arguments that have no public attribute.

    The operator stores these arguments under private names. The operator's public method that reads
    the arguments also submits the job.
    """
    return {name: getattr(operator, f"_{name}") for name in KEPT}


def adds_parent_job(operator: SparkSubmitOperator) -> bool:
    """Return whether OpenLineage's parent job is added to Spark's settings.

    The operator stores the argument for this setting only under a private name.
    """
    return bool(operator._openlineage_inject_parent_job_info)  # noqa: SLF001 - as the docstring says


def adds_transport(operator: SparkSubmitOperator) -> bool:
    """Return whether OpenLineage's transport is added to Spark's settings.

    The operator stores the argument for this setting only under a private name.
    """
    return bool(operator._openlineage_inject_transport_info)  # noqa: SLF001 - as the docstring says


def make_hook(arguments: SparkArguments) -> SparkSubmitHook:
    """Create the provider's hook.

    In version 6.3.4, the hook raises a NameError if the Kubernetes provider is not installed,
    because the hook's module then lacks the client's name. The hook needs no client, because we
    query Kubernetes ourselves. No argument of the hook replaces the client, so this function
    defines the missing name.
    """
    if getattr(hooks, "kube_client", None) is None:
        hooks.kube_client = _Unused()  # type: ignore[attr-defined]  # or imported
    # The hook writes a keytab of the connection to a file that every user could read.
    before = os.umask(0o077)
    try:
        return hooks.SparkSubmitHook(**arguments.as_keywords())
    finally:
        os.umask(before)


def login_of(hook: SparkSubmitHook) -> tuple[str | None, str | None]:
    """Return the principal of `spark-submit`, and the path of its keytab.

    Each value comes from the arguments or, if missing there, from the connection. If the connection
    contains the keytab itself, the hook writes it to a file. Only the hook's private dict has that
    path.
    """
    merged = hook._connection  # noqa: SLF001 - as the docstring says
    return merged.get("principal"), merged.get("keytab")


def submit_process(hook: SparkSubmitHook) -> subprocess.Popen[str] | None:
    """Return the process of `spark-submit`, or None if none was started.

    The hook's public method to kill the process also makes other calls, and waits without a limit.
    No public attribute has the process, its exit code or its pipe.
    """
    return hook._submit_sp  # noqa: SLF001 - as the docstring says


def last_lines(hook: SparkSubmitHook) -> list[str]:
    """Return the last lines that `spark-submit` has printed, without passwords.

    The hook shows these lines publicly only in its exception, whose text begins with the whole
    command.
    """
    tail = hook._submit_log_tail  # noqa: SLF001 - as the docstring says
    return tail.strip().splitlines()[1:][-_LAST_LINES:]  # the first line is a heading


def yarn_application_id(hook: SparkSubmitHook) -> str | None:
    """Return the ID of the YARN application that `spark-submit` has printed, or None.

    The return value of the hook's `submit` is the ID of a driver of Spark's own cluster manager.
    """
    return hook._yarn_application_id  # noqa: SLF001 - as the docstring says


def check_pod_tracking(hook: SparkSubmitHook) -> None:
    """Check the user's argument `track_driver_via_k8s_api`, as the provider's operator does.

    The operator calls this method in its `execute`, which also submits.

    Raises:
        ValueError: the Spark master, or the deploy mode, does not allow the argument.
    """
    hook._validate_track_driver_via_k8s_api_config()  # noqa: SLF001 - as the docstring says


def run_post_submit_commands(hook: SparkSubmitHook) -> None:
    """Run the user's `post_submit_commands`, unless this hook has run them.

    The hook itself runs the commands when `spark-submit` ends or is killed. If the driver's pod
    outlives `spark-submit`, the hook waits for its own polling of the pod, which we replace.
    """
    hook._run_post_submit_commands()  # noqa: SLF001 - as the docstring says


class _Unused:
    """A placeholder for the Kubernetes client; the provider's hook only checks that one exists."""
