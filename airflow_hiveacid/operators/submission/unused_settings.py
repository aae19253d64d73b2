"""Settings of a submission that have no effect, although their names promise one.

Input is the resolved target and the operator's rendered arguments. Output is warnings in a task's
log, or an error. This module knows no running task.

Example:
    >>> from airflow_hiveacid.operators.submission.spark_arguments import SparkArguments
    >>> target = SparkTarget(conn_id="s", master="local[2]")
    >>> unused_settings(target, SparkArguments(conn_id="s", num_executors=4))
    ['num_executors has no effect: Spark runs in local mode (master local[2])']
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.submission.spark_target import DEPLOY_MODE, SparkTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.operators.submission.spark_arguments import SparkArguments

log = logging.getLogger(__name__)

_MASTER: Final = "spark.master"
_SIZING: Final = ("executor_cores", "executor_memory", "num_executors", "total_executor_cores")


def check_settings(
    target: SparkTarget,
    given: SparkArguments,
    environment: Mapping[str, str],
    *,
    worker_queue: str | None = None,
) -> None:
    """Refuse settings that contradict the target, and log a warning for those without effect.

    Args:
        target: the resolved target.
        given: the operator's arguments.
        environment: the environment of `spark-submit`.
        worker_queue: the queue of Airflow's workers, if the task sets one.

    Raises:
        ConfigurationError: `conf` or `properties_file` names another master or deploy mode.
    """
    for text in unused_settings(target, given, worker_queue):
        log.warning("%s", text)
    used = {_MASTER: target.master, DEPLOY_MODE: target.deploy_mode}
    for name, value in used.items():
        if (other := str((given.conf or {}).get(name) or value)) != value:
            raise ConfigurationError(
                f"conf[{name!r}] is {other!r}, but the job is submitted with {value!r}, from"
                f" connection {target.conn_id!r} or the argument deploy_mode; remove it from conf"
            )
    if target.has_deploy_mode:
        return
    # spark-submit reads its defaults only without `properties_file`.
    defaults = environment.get("SPARK_CONF_DIR") or environment.get("SPARK_HOME", "") + "/conf"
    file = Path(given.properties_file or f"{defaults}/spark-defaults.conf")
    if (mode := _mode_in(file)) not in (None, target.deploy_mode):
        fault = (
            f"{file} sets {DEPLOY_MODE} to {mode!r}, but the driver runs in deploy mode"
            f" {target.deploy_mode}. Set the operator's deploy_mode, or the extra deploy-mode of"
            f" connection {target.conn_id!r}"
        )
        if given.properties_file:
            raise ConfigurationError(fault)
        log.warning("%s", fault)  # all jobs of this worker share the defaults


def unused_settings(
    target: SparkTarget, given: SparkArguments, worker_queue: str | None = None
) -> list[str]:
    """Return a text for each argument that this master ignores."""
    found = [f"{name} has no effect: {why}" for name, why in _unused(target, given)]
    if worker_queue and target.is_yarn and not (given.yarn_queue or target.has_queue):
        found.append(
            f"queue={worker_queue!r} is a queue of Airflow's workers, and the job runs in YARN's"
            " default queue; for a queue of YARN, set yarn_queue"
        )
    return found


def _unused(target: SparkTarget, given: SparkArguments) -> Iterator[tuple[str, str]]:
    if target.is_local:
        for name in _SIZING:
            if getattr(given, name) is not None:
                yield name, f"Spark runs in local mode (master {target.master})"
    elif given.total_executor_cores is not None and target.is_asked:
        yield "total_executor_cores", "only a standalone master uses it; set num_executors"
    elif given.num_executors is not None and not target.is_asked:
        yield "num_executors", "a standalone master ignores it; set total_executor_cores"
    if given.yarn_queue and not target.is_yarn:
        yield "yarn_queue", f"the master is {target.master}, not YARN"
    if given.java_class:
        yield "java_class", "the application is a Python program"


def _mode_in(path: Path) -> str | None:
    """Return the deploy mode in a file of Spark's properties; None without one, or on an error."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None  # spark-submit reports a missing file
    found = None
    for line in lines:
        name, _, value = line.strip().replace("=", " ", 1).replace(":", " ", 1).partition(" ")
        if name == DEPLOY_MODE:
            found = value.strip()
    return found
