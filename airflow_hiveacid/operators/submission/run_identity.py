"""Job key and generation of a task instance, which show whether a run is a retry or was cleared.

A generation ends when the task has returned its result to Airflow. If a user clears the task after
that, a new generation begins. A task may have committed although Airflow considers it failed. So if
a user clears a failed task, it keeps its generation and finds its committed work. Airflow changes
`max_tries` only when a task instance is cleared. The new value is the number of tries so far plus
`retries`. The last generation with a result is in the task's state store, which survives a clear.

Two Airflow installations may have equal DAG, run and task IDs, but their tasks are different jobs.
So a job key ends with the name of its installation. The first try stores the installation's name in
the task's state store. So if the installation is renamed, retries do not repeat finished jobs. If
the first try dies before it stores the name, the next try stores the name. See
docs/decisions/ledger.md.

Example:
    >>> from types import SimpleNamespace
    >>> ti = SimpleNamespace(max_tries=3, task=SimpleNamespace(retries=2))
    >>> context = {"ti": ti, "dag_run": SimpleNamespace(clear_number=1)}
    >>> generation_of(context)  # without a state store: one try before the clear
    1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.sdk import Context

from airflow_hiveacid.airflow_names import COUNTS_EVERY_CLEAR, conf
from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import ConfigurationError

DELIVERED_KEY: Final = "hiveacid_delivered"
INSTALLATION_KEY: Final = "hiveacid_installation"

# A name must not contain '#', which precedes a job's number, or characters that a lock cannot
# store.
_INSTALLATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - only compared, never bound


def generation_of(context: Context) -> int:
    """Count how many times this task was cleared after its result had reached Airflow.

    Without a state store, any clear of the task begins a generation. Its number is then that of the
    tries before the clear.
    """
    ti, store = context["ti"], context.get("task_state_store")
    if store is None:
        # If `retries` was lowered, the difference is above 0 without a clear.
        if COUNTS_EVERY_CLEAR and not context["dag_run"].clear_number:
            return 0
        return max(0, ti.max_tries - (ti.task.retries or 0))
    delivered: Any = store.get(DELIVERED_KEY)
    if not isinstance(delivered, dict):
        return 0
    return int(delivered.get("generation", 0)) + int(_was_cleared(delivered, context))


def _was_cleared(delivered: Mapping[str, Any], context: Context) -> bool:
    ti = context["ti"]
    if delivered.get("max_tries") != ti.max_tries:
        return True
    # If `retries` was lowered by the number of used tries, a clear leaves `max_tries` unchanged. In
    # this case, the DAG run's `clear_number` decides, which increases when any task of the run is
    # cleared.
    would_be = delivered.get("try_number", 0) + (ti.task.retries or 0)
    clears = context["dag_run"].clear_number or 0
    return bool(would_be == ti.max_tries and clears != delivered.get("clear_number", clears))


def note_delivered(context: Context, generation: int) -> None:
    """Record in the state store that the result of this generation has reached Airflow."""
    store = context.get("task_state_store")
    if store is not None:
        from airflow.sdk.execution_time.context import NEVER_EXPIRE  # noqa: PLC0415 - loads the task runner

        value: dict[str, JsonValue] = {
            "generation": generation,
            "max_tries": context["ti"].max_tries,
            "try_number": context["ti"].try_number,
            "clear_number": context["dag_run"].clear_number or 0,
        }
        store.set(DELIVERED_KEY, value, retention=NEVER_EXPIRE)


def key_of(context: Context, number: int = 1) -> str:
    """Return the key of job `number` of this task instance; all tries have the same key.

    The key of a task's first job does not depend on the number of jobs. So a retry finds that the
    first job is done, even if a user has added jobs to the task.

    Example:
        >>> from types import SimpleNamespace
        >>> ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)
        >>> context = {"ti": ti, "task_state_store": {INSTALLATION_KEY: {"name": "prod"}}}
        >>> key_of(context), key_of(context, 2)
        ('d/r/t/-1@prod', 'd/r/t/-1@prod#2')
        >>> key_of({"ti": ti})
        'd/r/t/-1'
    """
    ti = context["ti"]
    key = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
    if installation := _kept_installation(context):
        key = f"{key}@{installation}"
    return key if number == 1 else f"{key}#{number}"


def _kept_installation(context: Context) -> str:
    """Return the installation name that the first try has stored; store it if it is missing.

    The name is empty if the task has no state store.
    """
    store = context.get("task_state_store")
    if store is None:
        return ""  # without a state store, a later try could not find this name
    from airflow.sdk.execution_time.context import NEVER_EXPIRE  # noqa: PLC0415 - loads the task runner

    noted: Any = store.get(INSTALLATION_KEY)
    if isinstance(noted, dict):
        return str(noted.get("name", ""))
    name = installation()
    store.set(INSTALLATION_KEY, {"name": name}, retention=NEVER_EXPIRE)
    return name


def installation() -> str:
    """Return the name of this Airflow installation, or an empty string if it has no name.

    The name is the option `installation` in section `[hiveacid]`. The default is the address of the
    API server (`base_url` of `[api]` or `execution_api_server_url` of `[core]`), unless it is
    local.
    """
    name = str(conf.get("hiveacid", "installation", fallback="") or "").strip()
    if not name:
        return _name_by_address()
    if not _INSTALLATION.fullmatch(name):
        raise ConfigurationError(
            f"option installation of section [hiveacid] is {name[:100]!r}; give at most 100"
            " letters, digits, '.', '_', ':', '/' and '-', beginning with a letter or digit"
        )
    return name


def _name_by_address() -> str:
    for section, option in (("api", "base_url"), ("core", "execution_api_server_url")):
        address = str(conf.get(section, option, fallback="") or "").strip()
        try:
            parts = urlsplit(address)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            continue
        path = parts.path.rstrip("/").removesuffix("/execution").rstrip("/")
        name = f"{host}{f':{port}' if port else ''}{path}"
        if host not in _LOCAL and _INSTALLATION.fullmatch(name):
            return name
    return ""
