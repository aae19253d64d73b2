"""One submission to YARN or Kubernetes: find the application, wait for its end, and kill it.

Input is a cluster client (a resource manager or an API server) and a tag that is unique to this
submission. Output is the application's final state, or an error if a time limit has passed. If an
application's ID is unknown, the application is found by its tag. The ID is unknown while
`spark-submit` starts, or after the death of the worker that read the ID. On Kubernetes, an
application is a pod. Each wait is a generator that yields its pauses. A worker sleeps during a
pause, but a trigger must not block its event loop.

Example:
    >>> tag_of("1-0123456789ab")
    'hiveacid-1-0123456789ab'
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from airflow_hiveacid.format import errors
from airflow_hiveacid.jobs import START_TIMEOUT_S
from airflow_hiveacid.operators.submission.http import ORDER_S
from airflow_hiveacid.operators.submission.log_tail import NewLines

_SILENCE_S: Final = 600.0
_REFUSAL_S: Final = 120.0
_POLL_S: Final = 10.0
_FIRST_PAUSE_S: Final = 1.0
_NAP_S: Final = 0.5
_REMIND_S: Final = 60.0
_TAGS: Final = "spark.yarn.tags"
_ATTEMPTS: Final = "spark.yarn.maxAppAttempts"

_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The state of a YARN application or a Kubernetes pod.

    `state`, `final_status` and `diagnostics`, which explains the state, are the cluster's words;
    `display_name` is for log messages. An application that `is_waiting` has no container yet. One
    that `is_ending` is being killed but still runs. If it `has_ended`, its driver has finished.
    `application_id` is Spark's ID, and `ui_url` leads to Spark's UI or history. Both are empty if
    the cluster reports none.
    """

    id: str
    state: str
    display_name: str
    final_status: str = ""
    diagnostics: str = ""
    is_waiting: bool
    is_ending: bool = False
    has_ended: bool
    has_succeeded: bool
    application_id: str = ""
    ui_url: str = ""


_App = TypeVar("_App", bound=Application)


class Cluster(Protocol[_App]):
    """A client of a cluster; see `yarn.ResourceManager` and `kubernetes.ApiServer`.

    A call raises ClusterUnavailableError if the cluster does not answer in time, and
    ClusterRefusedError if it refuses the call. A call about an unknown application raises neither.
    """

    @property
    def name(self) -> str:
        """The cluster's name for log messages."""

    @property
    def kind(self) -> errors.ClusterKind:
        """The kind of cluster, for errors."""

    def report(self, application_id: str) -> _App | None:
        """Return the state of an application, or None if the cluster does not have it."""

    def find(self, tag: str, timeout: tuple[float, float] = ...) -> tuple[_App, ...]:
        """Return the applications with this tag that have not ended; pods that run are last."""

    def end(self, application_id: str, timeout: tuple[float, float] = ...) -> None:
        """Ask the cluster to kill an application."""

    def page_of(self, application_id: str) -> str:
        """Return the URL of the cluster's page about an application; empty if it has none."""

    def new_lines(self, found: _App, place: Any) -> NewLines:  # noqa: ANN401 - each client has its own
        """Return the lines of a driver's log since an earlier call that returned `place`.

        At first, `place` is None. If the driver has ended, its last line may lack its end. The call
        takes at most `log_tail.LOG_S`, and raises OSError if the log cannot be read.
        """

    def last_words(self, found: _App, *, is_copied: bool) -> Mapping[str, bytes]:
        """Return the ends of an ended driver's log files, by their names; or raise as `new_lines`.

        The only name on Kubernetes is empty. If `is_copied` is true, the log that `new_lines`
        reads is missing.
        """

    def log_command(self, application_id: str) -> str:
        """Return the shell command that shows the driver's whole log."""

    def not_started(self, found: _App | None, waited_s: float) -> errors.ApplicationNotStartedError:
        """Return the error to raise for an application that got no container."""


def tag_of(attempt: str) -> str:
    """Return the tag of an attempt's application; YARN's tags must be in lower case."""
    return f"hiveacid-{attempt}"


def own_settings(given: Mapping[str, object], tag: str, *, is_cluster: bool) -> dict[str, object]:
    """Return the Spark settings of a submission to YARN: the user's settings and our own.

    YARN must not restart a driver in the cluster, because the new driver would write with the first
    driver's attempt ID. Only Airflow repeats a job, and each try has its own attempt ID.
    """
    settings: dict[str, object] = dict(given)
    settings[_TAGS] = ",".join(filter(None, [str(given.get(_TAGS) or ""), tag]))
    if is_cluster:
        if str(given.get(_ATTEMPTS, 1)) != "1":
            log.warning("%s=%s is ignored: Airflow does the retries", _ATTEMPTS, given[_ATTEMPTS])
        settings[_ATTEMPTS] = "1"
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Time limits for the wait for a first container, and for answers of a cluster's manager.

    `start_s` limits the wait for the first container. `silence_s` limits the wait for a manager
    that does not answer. `refusal_s` limits the time in which a manager refuses our login; a
    refusal may end when the login is renewed. `poll_s` is the longest pause between two polls.
    """

    start_s: float = START_TIMEOUT_S
    silence_s: float = _SILENCE_S
    refusal_s: float = _REFUSAL_S
    poll_s: float = _POLL_S


class ClusterRun(Generic[_App]):
    """One of our submissions to YARN or Kubernetes.

    Args:
        is_killed: returns true if the task is killed. `ClusterRun` polls this function during every
            pause, because a signal handler cannot wake the pausing thread: the handler would need a
            lock that the thread may hold.
        seen: a function that is called with each state of the application that the cluster reports.
        show_log: a function that shows the new lines of a driver's log. `following` calls it after
            each poll, once the application has been seen alive.
    """

    def __init__(  # noqa: PLR0913 - tests replace the clock and the sleep
        self,
        manager: Cluster[_App],
        tag: str,
        bounds: Bounds,
        *,
        is_killed: Callable[[], bool],
        seen: Callable[[_App], None] = lambda _: None,
        show_log: Callable[[Cluster[_App], _App], None] = lambda *_: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.manager, self._tag, self._bounds = manager, tag, bounds
        self._is_killed, self._seen, self._now, self._sleep = is_killed, seen, now, sleep
        self._show_log = show_log
        self._known: str | None = None
        self._earlier: str | None = None
        self.overdue: errors.ApplicationNotStartedError | None = None
        """The error if the submission got no container in time and was killed, else None."""

    def submitted(self, tag: str) -> str | None:
        """Return the ID of an unfinished application of an earlier attempt, found by its tag.

        From this call on, killing this task also kills that application.
        """
        # Set the tag before the query: a kill during the query must also kill that application.
        self._earlier = tag
        applications = self._patiently(lambda: self.manager.find(tag))
        self._known, self._earlier = applications[-1].id if applications else None, None
        return self._known

    def answer_for(self, application_id: str | None, tag: str) -> None:
        """Register an earlier try's application, so that killing this task also kills it.

        If no ID is stored, the application is found by the tag of the earlier attempt.
        """
        self._known, self._earlier = application_id, tag

    def end_earlier(self, application_id: str | None, tag: str) -> None:
        """Kill an application of an earlier try (see `answer_for`), and wait until it has ended.

        Raise InterruptedError if this task is killed, which also kills the application.
        """
        self.answer_for(application_id, tag)
        running_id = application_id or self.submitted(tag)
        if running_id is None:
            return
        if (app := self.status(running_id)) is not None and not app.has_ended:
            # Do not kill an application that has ended: the user may have no permission to kill it.
            self._patiently(lambda: self.manager.end(running_id))
        began, pauses = self._now(), _pauses(self._bounds.poll_s)
        while (app := self.status(running_id)) is not None and not app.has_ended:
            waited_s = self._now() - began
            if waited_s > self._bounds.silence_s:
                raise errors.ClusterUnavailableError(
                    kind=self.manager.kind,
                    asked=f"confirmation that {running_id} has ended,"
                    f" {waited_s:.0f} s after the kill,",
                    reason=f"its state is {app.state}",
                )
            self._pause(next(pauses))
        self._known = self._earlier = None

    def status(self, application_id: str) -> _App | None:
        """Return an application's state, or None if the cluster has forgotten the application."""
        self._known, self._earlier = application_id, None  # a kill with the ID needs no search
        return self._patiently(lambda: self.manager.report(application_id))

    def follow(self, application_id: str) -> _App | None:
        """Return an application when it has ended, or None if the cluster has forgotten it."""
        return self._waited(self.following(application_id))

    def following(
        self, application_id: str, *, waited_s: float = 0.0
    ) -> Generator[float, None, _App | None]:
        """Poll an application until it has ended; return it, or None if the cluster forgets it.

        The application has already waited for a container for `waited_s` seconds.

        Yields:
            The seconds to wait before the next poll.

        Raises:
            ApplicationNotStartedError: the application got no container in time, and was killed.
            ClusterUnavailableError: the cluster gave no answer within the time limit. The
                application may still run.
            ClusterRefusedError: the cluster refused all queries until the time limit. The
                application may still run.
        """
        self._known = application_id
        pauses, reporter = _pauses(self._bounds.poll_s), self._reporter()
        began, was_alive = self._now() - waited_s, False
        while True:
            application = yield from self._asking(lambda: self.manager.report(application_id))
            if application is not None:
                self._seen(application)
                was_alive |= not (application.has_ended or application.is_ending)
                if was_alive and not application.is_waiting and not self._is_killed():
                    self._show_log(self.manager, application)
            if application is None or application.has_ended:
                return application
            reporter.report(application)
            waited_s = self._now() - began
            if application.is_waiting and waited_s > self._bounds.start_s:
                # Kill the application, because it could otherwise start later, and commit.
                yield from self._asking(lambda: self.manager.end(application_id))
                raise self.manager.not_started(application, waited_s)
            yield next(pauses)

    @contextmanager
    def watched(self, stop: Callable[[], None]) -> Iterator[None]:
        """If the application gets no container in time, call `stop` and kill the application.

        A thread watches the application while the `with` block runs. The thread is necessary
        because the Spark provider waits for the output of `spark-submit` without a time limit. If
        the thread has called `stop`, the property `overdue` is the error.
        """
        is_over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(is_over, stop), daemon=True)
        watch.start()
        try:
            yield
        finally:
            is_over.set()

    def begin_end(self) -> threading.Thread:
        """Start and return a thread that kills the application, found by its ID or its tag.

        Call this method if the task is killed, and only after `spark-submit` has ended.
        """
        order = threading.Thread(target=self._end, name="hiveacid-end", daemon=True)
        order.start()
        return order

    def forget_succeeded(self) -> None:
        """Delete the application from the cluster if it succeeded; keep it if it failed."""
        if self._known is None:
            return
        application = self.manager.report(self._known)
        if application is not None and application.has_succeeded:
            self.manager.end(self._known)

    def _end(self) -> None:
        ids = {self._known} if self._known else set()
        for tag in filter(None, (self._tag, self._earlier)):
            try:
                ids |= {application.id for application in self.manager.find(tag, ORDER_S)}
            except Exception as error:  # noqa: BLE001 - edge of a thread; known applications can still be ended
                log.warning("cannot look for applications with the tag %s: %s", tag, error)
        for application_id in sorted(ids):
            try:
                self.manager.end(application_id, ORDER_S)
            except Exception as error:  # noqa: BLE001 - the other applications and the task still have to end
                log.warning("cannot kill %s: %s", application_id, error)
            else:
                log.info("%s was asked to kill %s", self.manager.name, application_id)

    def _watch(self, done: threading.Event, stop: Callable[[], None]) -> None:
        began, pauses, reporter = self._now(), _pauses(self._bounds.poll_s), self._reporter()
        last: _App | None = None
        while not done.wait(next(pauses)):
            try:
                applications = self.manager.find(self._tag)
            except (errors.ClusterUnavailableError, errors.ClusterRefusedError) as error:
                # Never kill an application whose state is unknown, because it may have started.
                log.warning("%s", error)
                continue
            if applications:
                last = applications[-1]
                self._seen(last)
                if not last.is_waiting:
                    return
                reporter.report(last)
            waited_s = self._now() - began
            if waited_s > self._bounds.start_s and not done.is_set():
                self.overdue = self.manager.not_started(last, waited_s)
                log.error("%s", self.overdue)
                stop()
                self._end()
                return

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        return self._waited(self._asking(ask))

    def _asking(self, ask: Callable[[], _Answer]) -> Generator[float, None, _Answer]:
        """Repeat a query until the cluster answers it or a time limit passes; yield the pauses.

        The limit for refusals applies to the time in which every query was refused. The time before
        and after a query without an answer does not count, because the login may have been valid in
        that time.
        """
        began, pauses = self._now(), _pauses(self._bounds.poll_s)
        refused_s, last_refusal = 0.0, None
        while True:
            try:
                return ask()
            except (errors.ClusterUnavailableError, errors.ClusterRefusedError) as error:
                heard = self._now()
                if isinstance(error, errors.ClusterRefusedError):
                    refused_s += heard - (heard if last_refusal is None else last_refusal)
                    last_refusal = heard
                    waited_s, longest_s = refused_s, self._bounds.refusal_s
                else:
                    last_refusal = None
                    waited_s, longest_s = heard - began, self._bounds.silence_s
                if waited_s > longest_s:
                    question = f"{error.asked}, for {waited_s:.0f} s"
                    raise type(error)(
                        kind=error.kind, asked=question, reason=error.reason
                    ) from error
                log.warning("%s", error)
            yield next(pauses)

    def _waited(self, steps: Generator[float, None, _Answer]) -> _Answer:
        while True:
            try:
                pause_s = next(steps)
            except StopIteration as end:
                answer: _Answer = end.value
                return answer
            self._pause(pause_s)

    def _reporter(self) -> _Reporter:
        return _Reporter(self.manager.name, self._now)

    def _pause(self, seconds: float) -> None:
        until = self._now() + seconds
        while (remaining_s := until - self._now()) > 0 and not self._is_killed():
            self._sleep(min(remaining_s, _NAP_S))
        if self._is_killed():
            raise InterruptedError("the task is killed")


class _Reporter:
    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self._cluster, self._now, self._last_state, self._when = cluster, now, "", 0.0

    def report(self, found: Application) -> None:
        """Log a new state, and repeat that of a waiting application every minute."""
        if found.state == self._last_state and (
            not found.is_waiting or self._now() - self._when < _REMIND_S
        ):
            return
        self._last_state, self._when = found.state, self._now()
        why = f": {found.diagnostics.strip()}" if found.is_waiting and found.diagnostics else ""
        log.info("%s: %s is %s%s", self._cluster, found.display_name, found.state, why)


def _pauses(longest_s: float) -> Iterator[float]:
    """Yield the seconds between polls: short pauses first, then longer ones up to `longest_s`."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(pause * 2, longest_s)
