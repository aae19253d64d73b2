"""The user's Spark settings: secrets, which pages must not show, and settings without effect.

A setting is a secret if its name suggests it, or if its value is a URL with a password. The
operator calls `mask_secrets` as soon as it has rendered its templates, because Airflow and the
Spark provider hide the values of only a few names.

Input is the resolved target and the operator's rendered arguments. Output is warnings in a task's
log, or an error. This module knows no running task.

Example:
    >>> from airflow_hiveacid.operators.submission.submission import SparkArguments
    >>> target = SparkTarget(conn_id="s", master="local[2]")
    >>> unused_settings(target, SparkArguments(conn_id="s", num_executors=4))
    ['num_executors has no effect: Spark runs in local mode (master local[2])']
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from airflow.sdk.log import mask_secret

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.operators.submission.spark_target import DEPLOY_MODE, YARN_QUEUE, SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.plan.statements.arguments import suggests_secret

_NOT_A_SECRET: Final = re.compile(
    # Not secret: settings whose values are only paths and key names of Kubernetes secrets.
    r"^spark\.kubernetes\.(?:driver|executor)\.secret(?:s|KeyRef)\."
    r"|(?:file|path|location|dir|provider|class|type|name|alias|enabled|length|ratio|wait"
    r"|itemKey|mechanism)s?$",
    re.IGNORECASE,
)
_LOGIN_HEADER: Final = re.compile(r"(?:authorization|bearer|cookie)$", re.IGNORECASE)
"""The ends of names of HTTP headers with a login, such as OpenLineage's transport may have."""
_PASSWORD_IN_URL: Final = re.compile(r"://[^/@:\s]*:([^/@\s]+)@")
_TRUTHS: Final = ("true", "false")

log = logging.getLogger(__name__)


def mask_secrets(*given: object) -> None:
    """Make Airflow hide the secrets in these settings or environment variables."""
    for settings in given:
        if isinstance(settings, Mapping):  # a wrong type is an error that the task reports
            for _, secret in _secrets(settings):
                # Airflow hides a secret with several lines only if one message has all of them.
                mask_secret(keep_secret(secret))


def hide_given_secrets(arguments: SparkArguments, target: SparkTarget) -> bool:
    """Have Airflow hide secrets in arguments, and warn of those that other users can see.

    Return true if there are secrets. All users of this machine can list the arguments of
    `spark-submit`.
    """
    settings = {**(arguments.conf or {}), "repositories": arguments.repositories}
    variables = arguments.env_vars or {}
    mask_secrets(settings, variables)
    # On YARN and Kubernetes, the Spark provider turns `env_vars` into arguments.
    in_arguments = {**settings, **(variables if target.is_asked else {})}
    shown = sorted({name for name, _ in _secrets(in_arguments)})
    if shown:
        log.warning(
            "every user of this machine can read these settings while spark-submit runs, because"
            " they are its arguments: %s. See docs/operations/secrets.md for other places",
            ", ".join(shown),
        )
    return any(_secrets({**settings, **variables}))


def _secrets(given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the name of a setting with each secret in its value."""
    for name, value in given.items():
        text = "" if value is None else str(value)
        if _is_secret(name) and text and text.lower() not in _TRUTHS:
            yield name, text
        else:
            yield from ((name, password) for password in _PASSWORD_IN_URL.findall(text))


def _is_secret(name: str) -> bool:
    is_suspect = suggests_secret(name) or _LOGIN_HEADER.search(name) is not None
    return is_suspect and _NOT_A_SECRET.search(name) is None


_MASTER: Final = "spark.master"
# A name, then blanks, "=" or ":", then the value, as Java reads properties.
_PROPERTY: Final = re.compile(r"([^\s=:#!][^\s=:]*)\s*(?:[=:]|\s)\s*(.*)")
_SIZING: Final = ("executor_cores", "executor_memory", "num_executors", "total_executor_cores")


def check_settings(
    target: SparkTarget,
    given: SparkArguments,
    environment: Mapping[str, str],
    *,
    worker_queue: str | None = None,
) -> None:
    """Refuse settings that contradict the target, and log a warning for those without effect.

    `worker_queue` is the queue of Airflow's workers, if the task sets one. Raise ConfigurationError
    if `conf` names another master or deploy mode, if `properties_file` names another deploy mode
    than Spark's default and nothing else names one, or if an entry of `conf` or `env_vars` is None.
    """
    _check_values(given)
    # spark-submit reads its defaults only without `properties_file`.
    defaults = environment.get("SPARK_CONF_DIR") or environment.get("SPARK_HOME", "") + "/conf"
    file = Path(given.properties_file or f"{defaults}/spark-defaults.conf")
    properties = _properties_in(file)
    has_queue = target.has_queue or bool(properties.get(YARN_QUEUE))
    for text in unused_settings(replace(target, has_queue=has_queue), given, worker_queue):
        log.warning("%s", text)
    settings = {_MASTER: target.master, DEPLOY_MODE: target.deploy_mode}
    for name, value in settings.items():
        if (conf_value := str((given.conf or {}).get(name) or value)) != value:
            raise ConfigurationError(
                f"conf[{name!r}] is {conf_value!r}, but the job is submitted with {value!r}, from"
                f" connection {target.conn_id!r} or the argument deploy_mode; remove it from conf"
            )
    master = properties.get(_MASTER, target.master)
    if given.properties_file and master != target.master:
        log.warning(
            "%s: %s=%s has no effect: the job is submitted to %s, from connection %s",
            *(file, _MASTER, master, target.master, target.conn_id),
        )
    mode = properties.get(DEPLOY_MODE, target.deploy_mode)
    if not target.has_deploy_mode and mode != target.deploy_mode:
        fault = (
            f"{file} sets {DEPLOY_MODE} to {mode!r}, but the driver runs in deploy mode"
            f" {target.deploy_mode}. Set the operator's deploy_mode, or the extra deploy-mode of"
            f" connection {target.conn_id!r}"
        )
        if given.properties_file:
            raise ConfigurationError(fault)
        log.warning("%s", fault)  # all jobs of this worker share the defaults


def _check_values(given: SparkArguments) -> None:
    for argument, entries in (("conf", given.conf), ("env_vars", given.env_vars)):
        for name, value in (entries or {}).items():
            if value is None:
                raise ConfigurationError(
                    f"{argument}[{name!r}] is None; give a value, or remove it"
                )


def unused_settings(
    target: SparkTarget, given: SparkArguments, worker_queue: str | None = None
) -> list[str]:
    """Return a text for each argument that this master ignores."""
    texts = [f"{name} has no effect: {why}" for name, why in _unused(target, given)]
    if worker_queue and target.is_yarn and not (given.yarn_queue or target.has_queue):
        texts.append(
            f"queue={worker_queue!r} is a queue of Airflow's workers, and the job runs in YARN's"
            " default queue; for a queue of YARN, set yarn_queue"
        )
    return texts


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


def _properties_in(path: Path) -> dict[str, str]:
    """Return Spark's properties in a file; none if the file is missing or cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}  # spark-submit reports a missing file
    matches = map(_PROPERTY.fullmatch, map(str.strip, lines))
    return {match[1]: match[2] for match in matches if match}
