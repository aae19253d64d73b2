"""The waits of a task on YARN: for a container, a response, or a permission, each with a limit."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from tests.support.airflow_support import FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, Clock, deletion, is_running, run_on_yarn, until
from tests.support.pretended_yarn import ACCEPTED, RUNNING, ResourceManager as Pretended


def test_an_application_is_polled_until_it_ends(yarn: Pretended) -> None:
    clock = Clock()
    yarn.states = [dict(ACCEPTED), *[dict(RUNNING)] * 30]
    found = run_on_yarn(yarn, clock, start_s=5).follow(APP)
    assert found is not None
    assert found.has_succeeded
    assert clock.time == 1 + 2 + 4 + 8 + 10 * 27


def test_an_application_without_a_container_is_killed_and_the_wait_is_reported(
    yarn: Pretended,
) -> None:
    yarn.app = dict(ACCEPTED)
    with pytest.raises(errors.ApplicationNotStartedError, match=r"root\.narrow.*no room") as caught:
        run_on_yarn(yarn, Clock(), start_s=100).follow(APP)
    assert 100 < caught.value.waited_s <= 110
    assert yarn.killed == [APP]


def test_an_unavailable_resource_manager_is_polled_until_the_time_limit(yarn: Pretended) -> None:
    clock = Clock()
    yarn.page = (503, "")
    for ask in (
        lambda: run_on_yarn(yarn, clock, silence_s=60).follow(APP),
        lambda: run_on_yarn(yarn, clock, silence_s=60).status(APP),
        lambda: run_on_yarn(yarn, clock, silence_s=60).submitted("tag"),
    ):
        clock.time = 0
        with pytest.raises(errors.ClusterUnavailableError, match=r"for 6[0-9] s"):
            ask()
        assert 60 < clock.time <= 71
    assert yarn.killed == []


def test_a_resource_manager_that_refuses_requests_is_polled_until_the_time_limit(
    yarn: Pretended,
) -> None:
    """An administrator may need time to renew the login or to grant the right."""
    clock = Clock()
    yarn.page = (403, "")
    for ask in (
        lambda: run_on_yarn(yarn, clock, refusal_s=30).follow(APP),
        lambda: run_on_yarn(yarn, clock, refusal_s=30).submitted("tag"),
        lambda: run_on_yarn(yarn, clock, refusal_s=30).end_earlier(APP, "tag"),
    ):
        clock.time = 0
        with pytest.raises(errors.ClusterRefusedError, match=r"for 3[0-9] s.*HTTP 403"):
            ask()
        assert 30 < clock.time <= 41


def _answering(yarn: Pretended, pages: Callable[[float], tuple[int, str]]) -> Clock:
    """Return a clock that sets the resource manager's response to `pages(time)`."""

    def turn(at: float) -> None:
        yarn.page = pages(at)

    turn(0)
    return Clock(turn)


def test_an_outage_does_not_count_towards_the_time_limit_of_refusals(yarn: Pretended) -> None:
    """A refusal raises a final error, and an outage does not show whether we have the right."""
    clock = _answering(yarn, lambda at: (503, "") if 25 < at < 400 else (403, ""))
    with pytest.raises(errors.ClusterRefusedError, match=r"for 5[0-9] s"):
        run_on_yarn(yarn, clock, silence_s=600, refusal_s=50).follow(APP)
    assert clock.time > 425


def test_alternating_refusals_and_outages_end_with_a_retryable_error(yarn: Pretended) -> None:
    pages = ((503, ""), (403, ""))
    clock = _answering(yarn, lambda _: pages[len(yarn.requests) % 2])
    with pytest.raises(errors.ClusterUnavailableError, match=r"for 6[0-9] s"):
        run_on_yarn(yarn, clock, silence_s=60, refusal_s=20, poll_s=3).follow(APP)
    assert clock.time < 70


def test_polling_continues_after_an_outage_of_the_resource_manager(yarn: Pretended) -> None:
    def back(at: float) -> None:
        yarn.page = None if at > 50 else (503, "")

    yarn.page = (503, "")
    found = run_on_yarn(yarn, Clock(back), silence_s=60).follow(APP)
    assert found is not None
    assert found.has_succeeded


def test_a_killed_task_stops_waiting_for_its_driver(yarn: Pretended) -> None:
    yarn.app = dict(RUNNING)
    with pytest.raises(InterruptedError):
        run_on_yarn(yarn, Clock(), killed=True).follow(APP)


def test_a_submission_without_a_container_is_stopped_and_its_application_is_killed(
    yarn: Pretended,
) -> None:
    yarn.app, yarn.tagged = dict(ACCEPTED), {APP: "hiveacid-1-a"}
    stopped, killed_before = threading.Event(), list[str]()

    def stop() -> None:
        killed_before.extend(yarn.killed)
        stopped.set()

    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(start_s=0.5, poll_s=1),
        is_killed=lambda: False,
    )
    with run.watched(stop):
        assert stopped.wait(60)
        until(lambda: yarn.killed == [APP])
    assert killed_before == []  # `spark-submit` could submit after the search
    assert run.overdue is not None
    assert (run.overdue.application, run.overdue.queue) == (APP, "root.narrow")


def test_a_submission_with_a_running_application_is_not_stopped(yarn: Pretended) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: "hiveacid-1-a"}
    stopped = threading.Event()
    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(start_s=0, poll_s=1),
        is_killed=lambda: False,
    )
    with run.watched(stopped.set):
        until(lambda: bool(yarn.requests))
        assert not stopped.wait(1.5)
    assert run.overdue is None


@pytest.mark.usefixtures("on_yarn")
def test_a_spark_submit_that_hangs_is_killed(
    spark: FakeSpark, yarn: Pretended, aborted: list[str]
) -> None:
    yarn.app = None
    spark.tell(hangs=True)
    hanging = spark.directory / "hanging.json"
    timeout_s, tries = 0.5, 0
    while not hanging.exists():  # on a busy machine, spark-submit begins late
        tries += 1
        with pytest.raises(errors.ApplicationNotStartedError, match="spark-submit waited"):
            run_task(
                deletion(start_timeout_s=f"{{{{ {timeout_s} }}}}"),
                context_of(task_state_store=StateStore()),
            )
        timeout_s *= 4
    assert len(aborted) == tries
    process = json.loads(hanging.read_text())["child"]
    until(lambda: not is_running(process))
