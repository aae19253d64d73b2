"""One submission to YARN or Kubernetes: how long it may wait for what, how it is found and ended.

Takes whom the cluster is asked, a resource manager or an API server, and a tag that this submission
alone has; gives how its application ended, or the error that says what was waited for. The tag
finds an application whose ID nobody has read: because it still stands in a queue while
`spark-submit` is starting, or because the worker that read the ID is gone. On Kubernetes an
application is a pod.

Example:
    >>> tag_of("1-0123456789ab")
    'hiveacid-1-0123456789ab'
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from airflow_hiveacid.format.errors import (
    ClusterRefusedError,
    ClusterUnavailableError,
)
from airflow_hiveacid.operators.yarn import ORDER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow_hiveacid.format.errors import ApplicationNotStartedError

START_S: Final = 3600.0
"""How long an application may wait for its first container, unless told otherwise."""

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


class Application(Protocol):
    """How YARN's application or Kubernetes' pod stands, as far as it is followed."""

    @property
    def id(self) -> str:
        """By what it is asked for."""

    @property
    def state(self) -> str:
        """How it stands, in the cluster's word."""

    @property
    def place(self) -> str:
        """What it is called in a log: its name, and where it is."""

    @property
    def final_status(self) -> str:
        """How it has ended, in the cluster's words."""

    @property
    def diagnostics(self) -> str:
        """Why it waits or has ended, in the cluster's words; may be empty."""

    @property
    def is_waiting(self) -> bool:
        """Whether it has no container yet."""

    @property
    def is_ending(self) -> bool:
        """Whether it is ended, and goes on for its last moments."""

    @property
    def has_ended(self) -> bool:
        """Whether its driver is done."""

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended as it should."""


_App = TypeVar("_App", bound=Application)


class Cluster(Protocol[_App]):
    """Whom a cluster is asked; see `yarn.ResourceManager` and `kubernetes.ApiServer`."""

    @property
    def name(self) -> str:
        """What the cluster is called in a log."""

    @property
    def silence(self) -> type[ClusterUnavailableError]:
        """The error of a cluster that does not say what it should."""

    def report(self, application_id: str) -> _App | None:
        """How an application stands, or None if it is not known."""

    def find(self, tag: str, timeout: tuple[float, float] = ...) -> tuple[_App, ...]:
        """The applications with this tag that have not ended."""

    def end(self, application_id: str, timeout: tuple[float, float] = ...) -> None:
        """Order that an application is ended."""

    def last_words(self, application_id: str) -> str:
        """The end of what its driver wrote, if the cluster shows that."""

    def not_started(self, found: _App | None, waited_s: float) -> ApplicationNotStartedError:
        """What is said of an application that got no container."""


def tag_of(attempt: str) -> str:
    """The tag of an attempt's application; YARN's tags are in lower case."""
    return f"hiveacid-{attempt}"


def own_settings(given: Mapping[str, object], tag: str, *, is_cluster: bool) -> dict[str, object]:
    """Spark's settings of a submission, with what we have to have on YARN.

    A driver in the cluster is started once. YARN's own second attempt would be a second writer,
    with the ID of the first: whether to try again is for the retry to decide, which tells them
    apart.
    """
    settings: dict[str, object] = dict(given)
    settings[_TAGS] = ",".join(filter(None, [str(given.get(_TAGS) or ""), tag]))
    if is_cluster:
        if str(given.get(_ATTEMPTS, 1)) != "1":
            log.warning("%s=%s is not used: a driver is started once", _ATTEMPTS, given[_ATTEMPTS])
        settings[_ATTEMPTS] = "1"
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The longest waits: for a first container, for a resource manager that keeps silent.

    `refusal_s` is for one that does not let us ask: whoever renews a login may be late. `poll_s` is
    the longest pause between two questions.
    """

    start_s: float = START_S
    silence_s: float = _SILENCE_S
    refusal_s: float = _REFUSAL_S
    poll_s: float = _POLL_S


class ClusterRun(Generic[_App]):
    """A submission of ours on YARN or Kubernetes.

    Args:
        manager: who is asked.
        tag: what its application is called by.
        bounds: the longest waits.
        is_killed: whether the task is killed; every pause ends then. It is asked, since a signal's
            handler may not touch a lock that who pauses may hold.
    """

    def __init__(  # noqa: PLR0913 - a clock and a sleep, so that tests need none
        self,
        manager: Cluster[_App],
        tag: str,
        bounds: Bounds,
        *,
        is_killed: Callable[[], bool],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.manager, self._tag, self._bounds = manager, tag, bounds
        self._is_killed, self._now, self._sleep = is_killed, now, sleep
        self._known: str | None = None
        self._earlier: str | None = None
        self.overdue: ApplicationNotStartedError | None = None
        """Why the submission was ended by who watched it, if it was."""

    def submitted(self, tag: str) -> str | None:
        """The ID of an application with a tag, of an earlier attempt, that has not ended.

        It is this submission's from the question on: who is killed ends it.

        Raises:
            ClusterUnavailableError: nobody says, for as long as one waits.
            ClusterRefusedError: we may not ask, for as long as one waits.
        """
        self._earlier = tag  # whoever kills us before somebody answers ends it as well
        found = self._patiently(lambda: self.manager.find(tag))
        self._known, self._earlier = found[-1].id if found else None, None
        return self._known

    def answer_for(self, application_id: str | None, tag: str) -> None:
        """From now on who is killed ends what an earlier try has submitted, too.

        Args:
            application_id: if somebody has noted it; else it is looked for by its tag.
            tag: of the earlier attempt.
        """
        self._known, self._earlier = application_id, tag

    def end_earlier(self, application_id: str | None, tag: str) -> None:
        """End what an earlier try has submitted (see `answer_for`), and return when it has ended.

        Raises:
            ClusterUnavailableError: nobody says, or it does not end, for as long as one waits.
            ClusterRefusedError: we may not ask or order it, for as long as one waits.
            InterruptedError: the task is killed; whoever kills it ends it, too.
        """
        self.answer_for(application_id, tag)
        found = application_id or self.submitted(tag)
        if found is None:
            return
        if (app := self.status(found)) is not None and not app.has_ended:
            # One that has ended is left alone: who may not end it may see that.
            self._patiently(lambda: self.manager.end(found))
        began, pauses = self._now(), _pauses(self._bounds.poll_s)
        while (app := self.status(found)) is not None and not app.has_ended:
            waited_s = self._now() - began
            if waited_s > self._bounds.silence_s:
                raise self.manager.silence(
                    asked=f"that {found} has ended, {waited_s:.0f} s after it was told to end it",
                    reason=f"it is {app.state}",
                )
            self._pause(next(pauses))
        self._known = self._earlier = None

    def status(self, application_id: str) -> _App | None:
        """How an application stands, or None if YARN has forgotten it.

        Raises:
            ClusterUnavailableError: nobody says, for as long as one waits.
            ClusterRefusedError: we may not ask, for as long as one waits.
        """
        self._known = application_id
        return self._patiently(lambda: self.manager.report(application_id))

    def follow(self, application_id: str) -> _App | None:
        """Wait until an application has ended, or YARN has forgotten it, which is None.

        Raises:
            ApplicationNotStartedError: it got no container in time; it is ended.
            ClusterUnavailableError: nobody says, for as long as one waits. It may go on.
            ClusterRefusedError: we may not ask, for as long as one waits. It may go on.
            InterruptedError: the task is killed.
        """
        self._known = application_id
        began, pauses, teller = self._now(), _pauses(self._bounds.poll_s), self._teller()
        while True:
            found = self._patiently(lambda: self.manager.report(application_id))
            if found is None or found.has_ended:
                return found
            teller.tell(found)
            waited_s = self._now() - began
            if found.is_waiting and waited_s > self._bounds.start_s:
                # Whoever is not told to end may begin at any later time, and commit.
                self._patiently(lambda: self.manager.end(application_id))
                raise self.manager.not_started(found, waited_s)
            self._pause(next(pauses))

    @contextmanager
    def watched(self, stop: Callable[[], None]) -> Iterator[None]:
        """Call `stop` if what the block submits has no container in time, and end the application.

        For as long as `spark-submit` runs, in whose output nobody can wait for anything. `overdue`
        says afterwards whether that happened.
        """
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(done, stop), daemon=True)
        watch.start()
        try:
            yield
        finally:
            done.set()

    def begin_end(self) -> threading.Thread:
        """Begin to end the application, known by its ID or found by its tag; the answer does it.

        For a task that is killed. Whoever could submit it has to be gone by now.
        """
        order = threading.Thread(target=self._end, name="hiveacid-end", daemon=True)
        order.start()
        return order

    def forget_succeeded(self) -> None:
        """End, in the cluster's books, what has succeeded; what failed stays to be looked at.

        Raises:
            ClusterUnavailableError: nobody says.
            ClusterRefusedError: we may not ask, or order that.
        """
        if self._known is None:
            return
        found = self.manager.report(self._known)
        if found is not None and found.has_succeeded:
            self.manager.end(self._known)

    def _end(self) -> None:
        known = {self._known} if self._known else set()
        for tag in filter(None, (self._tag, self._earlier)):
            try:
                known |= {one.id for one in self.manager.find(tag, ORDER_S)}
            except Exception as error:  # noqa: BLE001 - edge of a thread; what is known can be ended
                log.warning("cannot look for applications with the tag %s: %s", tag, error)
        self._order_end(sorted(known))

    def _order_end(self, application_ids: list[str]) -> None:
        for application_id in application_ids:
            try:
                self.manager.end(application_id, ORDER_S)
            except Exception as error:  # noqa: BLE001 - others have to end, and the task, too
                log.warning("cannot end %s: %s", application_id, error)
            else:
                log.info("%s was told to end %s", self.manager.name, application_id)

    def _watch(self, done: threading.Event, stop: Callable[[], None]) -> None:
        began, pauses, teller = self._now(), _pauses(self._bounds.poll_s), self._teller()
        last: _App | None = None
        while not done.wait(next(pauses)):
            try:
                found = self.manager.find(self._tag)
            except (ClusterUnavailableError, ClusterRefusedError) as error:
                # It may be running meanwhile: what nobody knows is not ended.
                log.warning("%s", error)
                continue
            last = found[-1] if found else last
            if found and not found[-1].is_waiting:
                return
            if found:
                teller.tell(found[-1])
            waited_s = self._now() - began
            if waited_s > self._bounds.start_s and not done.is_set():
                self.overdue = self.manager.not_started(last, waited_s)
                log.error("%s", self.overdue)
                stop()
                self._end()
                return

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask until somebody answers.

        A refusal is final, so only the time between two refusals in a row counts for it: between
        one and a silence nobody knows whether we still were refused.
        """
        began, pauses = self._now(), _pauses(self._bounds.poll_s)
        refused_s, last_refusal = 0.0, None
        while True:
            try:
                return ask()
            except (ClusterUnavailableError, ClusterRefusedError) as error:
                heard = self._now()
                if isinstance(error, ClusterRefusedError):
                    refused_s += heard - (heard if last_refusal is None else last_refusal)
                    last_refusal = heard
                    waited_s, longest_s = refused_s, self._bounds.refusal_s
                else:
                    last_refusal = None
                    waited_s, longest_s = heard - began, self._bounds.silence_s
                if waited_s > longest_s:
                    asked = f"{error.asked}, for {waited_s:.0f} s"
                    raise type(error)(asked=asked, reason=error.reason) from error
                log.warning("%s", error)
            self._pause(next(pauses))

    def _teller(self) -> _Teller:
        return _Teller(self.manager.name, self._now)

    def _pause(self, seconds: float) -> None:
        until = self._now() + seconds
        while (left := until - self._now()) > 0 and not self._is_killed():
            self._sleep(min(left, _NAP_S))
        if self._is_killed():
            raise InterruptedError("the task is killed")


class _Teller:
    """Logs a state when it is new, and a wait every minute."""

    def __init__(self, cluster: str, now: Callable[[], float]) -> None:
        self._cluster, self._now, self._told, self._when = cluster, now, "", 0.0

    def tell(self, found: Application) -> None:
        if found.state == self._told and (
            not found.is_waiting or self._now() - self._when < _REMIND_S
        ):
            return
        self._told, self._when = found.state, self._now()
        why = f": {found.diagnostics.strip()}" if found.is_waiting and found.diagnostics else ""
        log.info("%s: %s is %s%s", self._cluster, found.place, found.state, why)


def _pauses(longest_s: float) -> Iterator[float]:
    """Seconds between questions: a short job is not kept waiting, nor YARN asked too often."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(pause * 2, longest_s)
