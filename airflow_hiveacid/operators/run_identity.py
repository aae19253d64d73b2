"""Which job a task instance is, and which run of it, so that a retry and a clear can be told apart.

A generation ends when the task has delivered its result. Only then does a clear begin a new one: a
task that Airflow believes to have failed may have committed, and running it again must find that
out. Airflow sets `max_tries` to the tries so far plus `retries` when a task instance is cleared,
and at no other time; what was delivered stands in the task's state store, which survives a clear.

Example:
    >>> from types import SimpleNamespace
    >>> context = {"ti": SimpleNamespace(max_tries=3, task=SimpleNamespace(retries=2))}
    >>> generation_of(context)  # without a state store, clears are all that can be counted
    1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from airflow_hiveacid.jobs.codec import JsonValue

DELIVERED_KEY: Final = "hiveacid_delivered"
"""The last generation that has delivered its result, in the task's state store."""


def generation_of(context: Context) -> int:
    """How often this task was cleared after it had delivered a result."""
    ti, store = context["ti"], context.get("task_state_store")
    if store is None:
        return max(0, ti.max_tries - (ti.task.retries or 0))
    delivered: Any = store.get(DELIVERED_KEY)
    if not isinstance(delivered, dict):
        return 0
    return int(delivered.get("generation", 0)) + int(_was_cleared(delivered, context))


def _was_cleared(delivered: Mapping[str, Any], context: Context) -> bool:
    ti = context["ti"]
    if delivered.get("max_tries") != ti.max_tries:
        return True
    # A clear leaves the number as it was if `retries` was lowered by the tries that were used. Then
    # the DAG run's own count of clears has to tell, which rises for any of its tasks.
    would_be = delivered.get("try_number", 0) + (ti.task.retries or 0)
    clears = context["dag_run"].clear_number or 0
    return bool(would_be == ti.max_tries and clears != delivered.get("clear_number", clears))


def note_delivered(context: Context, generation: int) -> None:
    """Remember that this generation's result has reached Airflow."""
    from airflow.sdk.execution_time.context import NEVER_EXPIRE  # noqa: PLC0415 - loads the task runner

    store = context.get("task_state_store")
    if store is not None:
        value: dict[str, JsonValue] = {
            "generation": generation,
            "max_tries": context["ti"].max_tries,
            "try_number": context["ti"].try_number,
            "clear_number": context["dag_run"].clear_number or 0,
        }
        store.set(DELIVERED_KEY, value, retention=NEVER_EXPIRE)


def key_of(context: Context, number: int = 1) -> str:
    """What makes a job of this task instance one job: the same for every try.

    The first has the key of a task with one job, so that a retry finds it done, however many have
    been added behind it meanwhile.

    Example:
        >>> from types import SimpleNamespace
        >>> ti = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=2)
        >>> key_of({"ti": ti}), key_of({"ti": ti}, 2)
        ('d/r/t/-1', 'd/r/t/-1#2')
    """
    ti = context["ti"]
    key = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{ti.map_index}"
    return key if number == 1 else f"{key}#{number}"
