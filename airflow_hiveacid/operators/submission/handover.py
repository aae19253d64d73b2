"""The end of a worker's process after a deferral: kill the driver if the task has been ended.

A user or a time limit may end a task while `spark-submit` runs. If the task then defers before its
worker's next heartbeat, Airflow refuses the deferral: no trigger starts, and the process ends
without a signal. So neither the operator's nor the trigger's `on_kill` runs. Airflow calls a
listener at the end of each process. This listener asks Airflow for the task's state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from airflow.listeners import hookimpl

from airflow_hiveacid.airflow_names import get_listener_manager

_ENDED: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})

_log = logging.getLogger(__name__)


class _Handover:
    """The listener; it has at most one deferral, because a process defers once."""

    def __init__(self) -> None:
        self._deferral: tuple[Any, Callable[[], None]] | None = None

    def expect(self, ti: Any, kill: Callable[[], None]) -> None:  # noqa: ANN401 - Airflow's task instance
        """Expect that this task defers now; if it has been ended, call `kill`."""
        self._deferral = ti, kill
        get_listener_manager().add_listener(self)  # type: ignore[no-untyped-call]  # Airflow's

    @hookimpl
    def before_stopping(self, component: object) -> None:  # noqa: ARG002 - Airflow's signature
        if self._deferral is None:
            return
        (ti, kill), self._deferral = self._deferral, None
        try:
            state = _state_of(ti)
        except Exception as error:  # noqa: BLE001 - the driver itself waits for a follower
            _log.warning("cannot ask Airflow whether it has taken the deferral: %s", error)
            return
        if state in _ENDED:
            _log.warning("the task was set to %s before it deferred; killing its driver", state)
            kill()


def _state_of(ti: Any) -> str | None:  # noqa: ANN401 - as above
    """Return the task's state in Airflow's database; a task of a deleted run is `removed`."""
    states: dict[str, dict[str, str | None]] = ti.get_task_states(
        dag_id=ti.dag_id, map_index=ti.map_index, task_ids=[ti.task_id], run_ids=[ti.run_id]
    )
    of_run = states.get(ti.run_id) or {"": "removed"}
    (state,) = of_run.values()
    return state


HANDOVER: Final = _Handover()
