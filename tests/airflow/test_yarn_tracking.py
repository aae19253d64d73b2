"""A retry and the YARN applications of earlier tries: forgotten, running, of a later statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission import resumption
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun, tag_of
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY, INSTALLATION_KEY
from airflow_hiveacid.operators.submission.submitter import Submitter
from airflow_hiveacid.operators.submission.yarn import ResourceManager
from tests.support.airflow_support import FakeSpark, StateStore, context_of, run_task
from tests.support.cluster_tasks import APP, Clock, deletion, killed_once, run_on_yarn
from tests.support.pretended_yarn import FAILED, RUNNING, SUCCEEDED, ResourceManager as Pretended

pytestmark = pytest.mark.usefixtures("on_yarn")


def _left(spark: FakeSpark, yarn: Pretended, *, noted: bool = True) -> StateStore:
    """Return the task state of a worker that died while its driver ran; clear the fake's calls."""
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    with pytest.raises(errors.JobFailedError):
        run_task(deletion(), context_of(task_state_store=store))
    assert set(store) == {
        "spark_job_id",
        resumption.RESULT_URI_KEY,
        resumption.SUBMISSION_KEY,
        resumption.ATTEMPT_KEY,
        INSTALLATION_KEY,
    }
    if not noted:
        store.delete("spark_job_id")
    (spark.directory / "calls.jsonl").unlink()
    yarn.requests.clear()
    spark.tell(answers=True)
    return store


@pytest.mark.promise("A7")
def test_a_retry_submits_the_job_again_if_yarn_no_longer_knows_the_application(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = _left(spark, yarn)
    yarn.states, yarn.app = [None], dict(SUCCEEDED)
    done = run_task(deletion(), context_of(try_number=2, task_state_store=store))
    assert done["status"] == "committed"
    assert len(spark.calls) == 1
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}


def test_an_application_that_yarn_forgets_raises_an_error_unless_it_left_a_result(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = None
    with pytest.raises(errors.ApplicationForgottenError):
        run_task(deletion(), context_of(task_state_store=store))
    assert store["spark_job_id"] == APP
    # Where it left its result before it was forgotten, that is the answer.
    spark.tell(answers=True)
    done = run_task(deletion(), context_of("task", task_state_store=StateStore()))
    assert done["status"] == "committed"


def test_a_retry_finds_an_application_without_a_noted_id_by_its_tag(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = _left(spark, yarn, noted=False)
    yarn.tagged = {"application_1_0007": tag_of(store[resumption.ATTEMPT_KEY])}
    yarn.app, yarn.states = dict(RUNNING), [dict(RUNNING), dict(RUNNING), dict(FAILED)]
    with pytest.raises(errors.JobFailedError):
        run_task(deletion(), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == "application_1_0007"


def test_a_third_try_finds_the_second_submission_by_its_tag_if_its_id_was_not_noted(
    spark: FakeSpark, yarn: Pretended
) -> None:
    """The first application's ID is noted, but the second application's tag takes precedence."""
    store = _left(spark, yarn)
    submit = Submitter.submit

    def lost(submitter: Submitter) -> None:
        submit(submitter)
        raise KeyboardInterrupt  # the worker goes before it could note the ID

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Submitter, "submit", lost)
        with pytest.raises(KeyboardInterrupt):
            run_task(deletion(), context_of(try_number=2, task_state_store=store))
    assert len(spark.calls) == 1
    yarn.tagged = {"application_1_0007": tag_of(spark.calls[-1]["spec"]["attempt"])}
    yarn.app, yarn.states = dict(SUCCEEDED), [dict(RUNNING)]
    yarn.app["state"] = "RUNNING"  # until its container is gone
    yarn.requests.clear()
    done = run_task(deletion(), context_of(try_number=3, task_state_store=store))
    assert done["status"] == "committed"
    assert len(spark.calls) == 1
    assert set(yarn.asked) == {"application_1_0007"}


def _script() -> HiveAcidSqlOperator:
    return HiveAcidSqlOperator(
        task_id="task",
        sql="DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.flights WHERE id = 2",
    )


def _left_at_the_second(spark: FakeSpark, yarn: Pretended, *, noted: bool = True) -> StateStore:
    """Return the task state of a worker that died while the second statement's driver ran."""
    store = StateStore()
    submit = Submitter.submit

    def lost(submitter: Submitter) -> str:
        found = submit(submitter)
        if len(spark.calls) > 1:
            if noted:
                store.set("spark_job_id", APP)
            raise KeyboardInterrupt
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Submitter, "submit", lost)
        with pytest.raises(KeyboardInterrupt):
            run_task(_script(), context_of(task_state_store=store))
    assert store[resumption.ATTEMPT_KEY] == spark.calls[1]["spec"]["attempt"]
    (spark.directory / "calls.jsonl").unlink()
    yarn.requests.clear()
    return store


@pytest.mark.parametrize("noted", [True, False])
def test_a_retry_kills_the_driver_of_a_later_statement_before_it_submits(
    spark: FakeSpark, yarn: Pretended, noted: bool
) -> None:
    store = _left_at_the_second(spark, yarn, noted=noted)
    second = APP if noted else "application_1_0007"
    yarn.tagged, yarn.app = {second: tag_of(store[resumption.ATTEMPT_KEY])}, dict(RUNNING)
    submitted: list[int] = []
    end = ResourceManager.end

    def counted(manager: ResourceManager, application_id: str, *more: Any) -> None:  # noqa: ANN401
        submitted.append(len(spark.calls))
        end(manager, application_id, *more)
        # Its container is there for a while yet; then it is gone, and all goes well.
        yarn.states, yarn.app = [dict(RUNNING), {"state": "KILLED"}], dict(SUCCEEDED)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResourceManager, "end", counted)
        done = run_task(_script(), context_of(try_number=2, task_state_store=store))
    assert [one["status"] for one in done["statements"]] == ["committed", "committed"]
    assert yarn.killed == [second]
    assert submitted == [0]
    assert len(spark.calls) == 2


@pytest.mark.promise("A16")
@pytest.mark.usefixtures("aborted")
@pytest.mark.parametrize("noted", [True, False])
def test_killing_a_retry_repeats_the_kill_of_the_driver_of_a_later_statement(
    spark: FakeSpark, yarn: Pretended, noted: bool
) -> None:
    store = _left_at_the_second(spark, yarn, noted=noted)
    yarn.tagged, yarn.app = {APP: tag_of(store[resumption.ATTEMPT_KEY])}, dict(RUNNING)
    yarn.ends = False  # as when nobody heard the first order
    killed_once(
        _script(),
        context_of(try_number=2, task_state_store=store),
        lambda: bool(yarn.killed),
    )
    assert len(yarn.killed) > 1
    assert set(yarn.killed) == {APP}
    assert spark.calls == []
    assert store[resumption.ATTEMPT_KEY]


@pytest.mark.parametrize(
    ("page", "error"), [(503, errors.ClusterUnavailableError), (403, errors.ClusterRefusedError)]
)
def test_nothing_is_submitted_while_the_driver_of_a_later_statement_may_run(
    spark: FakeSpark,
    yarn: Pretended,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
    error: type[Exception],
) -> None:
    store = _left_at_the_second(spark, yarn)
    before = dict(store)
    yarn.page = (page, "")
    monkeypatch.setattr(HiveAcidSqlOperator, "_bounds", lambda _: Bounds(silence_s=0, refusal_s=0))
    with pytest.raises(error):
        run_task(_script(), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert dict(store) == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.end_earlier(None, "hiveacid-0-a"),
        lambda run: run.submitted("hiveacid-0-a"),
    ],
)
def test_a_kill_before_an_earlier_application_is_found_still_kills_it(
    yarn: Pretended, ask: Callable[[ClusterRun], object]
) -> None:
    yarn.app, yarn.tagged, yarn.page = dict(RUNNING), {APP: "hiveacid-0-a"}, (503, "")
    is_killed: list[bool] = []

    def sleep(_: float) -> None:
        is_killed.append(True)

    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(),
        is_killed=lambda: bool(is_killed),
        sleep=sleep,
    )
    with pytest.raises(InterruptedError):
        ask(run)
    yarn.page = None
    run.begin_end().join(60)
    assert yarn.killed == [APP]


def test_an_application_that_still_runs_after_its_kill_raises_an_error_after_a_wait(
    yarn: Pretended,
) -> None:
    clock = Clock()
    yarn.app, yarn.ends = dict(RUNNING), False
    with pytest.raises(
        errors.ClusterUnavailableError, match=r"after the kill, failed: its state is RUNNING"
    ):
        run_on_yarn(yarn, clock, silence_s=60).end_earlier(APP, "tag")
    assert 60 < clock.time <= 81
    assert yarn.killed == [APP]


@pytest.mark.parametrize("app", [SUCCEEDED, FAILED, None])
def test_an_application_that_has_ended_is_not_killed(
    yarn: Pretended, app: dict[str, str] | None
) -> None:
    """A user who may see but not kill the application would otherwise get a final error."""
    yarn.app = app
    run_on_yarn(yarn, Clock()).end_earlier(APP, "tag")
    assert yarn.asked
    assert yarn.killed == []


def test_nothing_is_submitted_while_the_resource_manager_is_unavailable(
    spark: FakeSpark, yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _left(spark, yarn)
    yarn.page = (503, "")
    monkeypatch.setattr(HiveAcidDeleteOperator, "_bounds", lambda _: Bounds(silence_s=0))
    with pytest.raises(errors.ClusterUnavailableError):
        run_task(deletion(), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == APP


@pytest.mark.promise("A16")
def test_killing_a_retry_kills_the_application_that_it_found(
    spark: FakeSpark, yarn: Pretended, aborted: list[str]
) -> None:
    store = _left(spark, yarn)
    yarn.app = dict(RUNNING)
    killed_once(
        deletion(),
        context_of(try_number=2, task_state_store=store),
        lambda: len(yarn.requests) > 1,
    )
    assert yarn.killed == [APP]
    assert spark.calls == []
    assert len(aborted) == 1


def test_a_kill_uses_the_noted_application_id_if_the_tag_finds_nothing(yarn: Pretended) -> None:
    yarn.app = dict(RUNNING)
    run = run_on_yarn(yarn, Clock())
    run.answer_for(APP, "hiveacid-0-a")
    run.begin_end().join(60)
    assert yarn.killed == [APP]


def test_a_kill_also_kills_an_application_found_by_the_tag_of_an_earlier_try(
    yarn: Pretended,
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: "hiveacid-0-a"}
    run = run_on_yarn(yarn, Clock())
    assert run.submitted("hiveacid-0-a") == APP
    run.begin_end().join(60)
    assert yarn.killed == [APP]
