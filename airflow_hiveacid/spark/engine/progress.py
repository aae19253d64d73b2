"""Progress of Spark's stages, as lines in the driver's log.

A stage that is not short has one line when it ends, and one after one minute, two minutes, four
minutes and so on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

log = logging.getLogger("hiveacid")

_POLL_S: Final = 1.0
_SHORT_S: Final = 2.0
_FIRST_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageState:
    """The state of one stage; `rows` is the number of rows that it has read so far."""

    stage_id: int
    done: int
    tasks: int
    rows: int


class StageReporter:
    """Decides which lines to log. Mutable: it stores each stage's state, start and next line."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._running: dict[int, tuple[StageState, float, float]] = {}

    def lines(self, active: list[StageState], now: float) -> Iterator[str]:
        """Yield the lines that are due for the running stages; `now` is in monotonic seconds."""
        ids = {state.stage_id for state in active}
        for stage_id in [running_id for running_id in self._running if running_id not in ids]:
            last, began, _ = self._running.pop(stage_id)
            if now - began >= _SHORT_S:
                yield self._line(last, now - began, has_ended=True)
        for state in active:
            _, began, due = self._running.get(state.stage_id, (state, now, now + _FIRST_S))
            if now >= due:
                yield self._line(state, now - began, has_ended=False)
                due = now + (now - began)
            self._running[state.stage_id] = state, began, due

    def _line(self, state: StageState, seconds: float, *, has_ended: bool) -> str:
        # Most stages end between two polls, so the last known count may be too low.
        is_partial = has_ended and state.done < state.tasks
        read = f", {state.rows:,} rows read" if state.rows else ""
        return (
            f"{self._kind}: stage {state.stage_id}{' ended' if has_ended else ''}:"
            f" {'at least ' if is_partial else ''}{state.done:,} of {state.tasks:,} tasks"
            f"{read}, {seconds:.0f} s"
        )


@contextmanager
def reported_stages(spark: SparkSession, kind: str) -> Iterator[None]:
    """Log the progress of the stages that run in the `with` block, for a job of this kind."""
    end = threading.Event()
    thread = threading.Thread(
        target=_report, args=(spark, kind, end), name="hiveacid-progress", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(_POLL_S)


def active_stages(spark: SparkSession) -> list[StageState]:
    """Return the stages that run now."""
    # The public status tracker does not count rows.
    stages = spark.sparkContext._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - as above
    running_stages = (stages.apply(index) for index in range(stages.size()))
    return [
        StageState(
            stage_id=stage.stageId(),
            done=stage.numCompleteTasks(),
            tasks=stage.numTasks(),
            rows=stage.inputRecords() + stage.shuffleReadRecords(),
        )
        for stage in running_stages
    ]


def _report(spark: SparkSession, kind: str, end: threading.Event) -> None:
    reporter = StageReporter(kind)
    while not end.wait(_POLL_S):
        try:
            active = active_stages(spark)
        except (Py4JError, AttributeError) as error:  # the program has ended the session
            log.debug("cannot read the progress of stages: %s", error)
            return
        for line in reporter.lines(active, time.monotonic()):
            log.info("%s", line)
