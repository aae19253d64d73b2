"""What a task does on YARN at exact borders: forgotten, found again, late, silent, killed."""

from __future__ import annotations

import itertools
import json
import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.apache.spark.operators import spark_submit

from airflow_hiveacid.format.errors import (
    ApplicationForgottenError,
    ApplicationNotStartedError,
    ClusterRefusedError,
    ClusterUnavailableError,
    JobFailedError,
)
from airflow_hiveacid.operators.cluster_run import Bounds, ClusterRun, own_settings, tag_of
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.resumption import ATTEMPT_KEY, RESULT_URI_KEY, SUBMISSION_KEY
from airflow_hiveacid.operators.run_identity import DELIVERED_KEY
from airflow_hiveacid.operators.spark_target import SparkTarget
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.yarn import ResourceManager, addresses_in, addresses_of
from airflow_support import METASTORE_URI, StateStore, context_of, killed_when, run_task
from pretended_yarn import ACCEPTED, FAILED, RUNNING, SUCCEEDED
from pretended_yarn import ResourceManager as Pretended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_support import Connections, FakeSpark

_APP = "application_1_0001"


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def yarn() -> Iterator[Pretended]:
    with Pretended.started() as server:
        yield server


@pytest.fixture
def connected(
    yarn: Pretended, connections: Connections, tmp_path: Path, spark: FakeSpark
) -> Connections:
    """A driver in the cluster, by a resource manager that pretends."""
    connections.add(
        "spark_default",
        "spark",
        host="yarn",
        extra={"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.web},
    )
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        extra={"uris": METASTORE_URI, "result_dir": f"file:{tmp_path}/results"},
    )
    spark.tell(says=f"Submitted application {_APP}")
    return connections


def _delete(spark: FakeSpark, **arguments: Any) -> HiveAcidDeleteOperator:  # noqa: ANN401
    return HiveAcidDeleteOperator(
        task_id="task",
        table="demo.flights",
        where="id = 1",
        spark_bin_dir=str(spark.bin_dir),
        **arguments,
    )


def _run(yarn: Pretended, clock: Clock, *, killed: bool = False, **bounds: float) -> ClusterRun:
    return ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(**bounds),
        is_killed=lambda: killed,
        now=clock.now,
        sleep=clock.sleep,
    )


def _settings(spark: FakeSpark) -> list[str]:
    arguments = spark.calls[-1]["arguments"]
    return [b for a, b in itertools.pairwise(arguments) if a == "--conf"]


# ---- what is submitted ---------------------------------------------------------------------------


@pytest.mark.usefixtures("connected")
def test_a_driver_in_the_cluster_is_started_once_and_has_the_tag_of_its_attempt(
    spark: FakeSpark,
) -> None:
    task = _delete(spark, conf={"spark.yarn.maxAppAttempts": "3", "spark.yarn.tags": "mine"})
    run_task(task, context_of(task_state_store=StateStore()))
    tag = tag_of(spark.calls[-1]["spec"]["attempt"])
    assert "spark.yarn.maxAppAttempts=1" in _settings(spark)
    assert f"spark.yarn.tags=mine,{tag}" in _settings(spark)
    assert task.conf["spark.yarn.maxAppAttempts"] == "3"
    assert (tag, len(tag) <= 100) == (tag.lower(), True)


def test_an_application_master_of_a_driver_on_the_worker_may_be_started_again() -> None:
    given = {"spark.yarn.maxAppAttempts": "3"}
    assert own_settings(given, "a", is_cluster=False) == {**given, "spark.yarn.tags": "a"}


@pytest.mark.usefixtures("connected")
def test_what_the_spark_provider_adds_as_it_executes_is_submitted_too(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        spark_submit,
        "inject_parent_job_information_into_spark_properties",
        lambda given, _: {**given, "spark.openlineage.parentRunId": "run"},
    )
    run_task(_delete(spark, openlineage_inject_parent_job_info=True), context_of())
    assert "spark.openlineage.parentRunId=run" in _settings(spark)
    assert any(one.startswith("spark.yarn.tags=") for one in _settings(spark))


def test_a_driver_in_the_cluster_is_followed_where_the_site_says(
    spark: FakeSpark,
    yarn: Pretended,
    connected: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.webapp.address</name>"
        f"<value>{yarn.web}</value></property></configuration>"
    )
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    connected.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    run_task(_delete(spark), context_of(task_state_store=StateStore()))
    assert yarn.asked == [_APP]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "owner", [{"env_vars": {"HADOOP_USER_NAME": "etl"}}, {"proxy_user": "etl"}]
)
def test_yarn_is_asked_in_the_name_of_the_applications_owner(
    spark: FakeSpark, yarn: Pretended, owner: dict[str, Any]
) -> None:
    run_task(_delete(spark, **owner), context_of(task_state_store=StateStore()))
    assert yarn.requests
    assert all("user.name=etl" in one for one in yarn.requests)


def test_a_master_whose_host_is_called_like_yarn_is_not_yarn(
    tmp_path: Path, connections: Connections
) -> None:
    # A watch would find no application of it there, and end it after an hour.
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name>"
        "<value>rm.example.com</value></property></configuration>"
    )
    found = {}
    for master in ("spark://yarn-edge:7077", "yarn"):
        connections.add("spark_default", "spark", host=master)
        target = SparkTarget.resolve("spark_default", None, {}, {"YARN_CONF_DIR": str(tmp_path)})
        found[master] = (target.is_yarn, len(target.resource_managers))
    assert found == {"spark://yarn-edge:7077": (False, 0), "yarn": (True, 1)}


def test_the_resource_manager_is_found_as_the_site_says(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.hostname</name>"
        "<value>rm.example.com</value></property></configuration>"
    )
    assert addresses_of(None, {"HADOOP_CONF_DIR": str(tmp_path)}) == ("http://rm.example.com:8088",)
    own = {"HADOOP_CONF_DIR": "/nowhere", "YARN_CONF_DIR": str(tmp_path)}
    assert addresses_of(" ", own) == ("http://rm.example.com:8088",)
    assert addresses_of("rm:8088/", own) == ("http://rm:8088",)
    assert addresses_of(None, {}) == ()


def test_of_two_resource_managers_both_are_asked_over_what_the_site_speaks() -> None:
    prefix = "yarn.resourcemanager."
    settings = {
        f"{prefix}ha.rm-ids": "a, b",
        f"{prefix}hostname.a": "one",
        f"{prefix}hostname.b": "two",
        f"{prefix}webapp.address.b": f"${{{prefix}hostname.b}}:1",
    }
    assert addresses_in(settings) == ("http://one:8088", "http://two:1")
    https = {**settings, "yarn.http.policy": "HTTPS_ONLY"}
    assert addresses_in(https) == ("https://one:8090", "https://two:8090")


# ---- what is asked -------------------------------------------------------------------------------


def test_the_second_is_asked_where_the_first_is_away(yarn: Pretended) -> None:
    manager = ResourceManager(addresses=("http://127.0.0.1:1", yarn.web))
    yarn.app = dict(RUNNING)
    found = manager.report(_APP)
    assert found is not None
    assert (found.id, found.has_ended) == (_APP, False)


@pytest.mark.parametrize("page", [(200, "standby"), (404, "no such page"), (503, "")])
def test_a_page_is_no_answer_and_a_missing_page_no_missing_application(
    yarn: Pretended, page: tuple[int, str]
) -> None:
    yarn.page = page
    manager = ResourceManager(addresses=(yarn.web,))
    for ask in (manager.report, manager.find, manager.end):
        with pytest.raises(ClusterUnavailableError, match=f"HTTP {page[0]}"):
            ask(_APP)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_told_from_silence(yarn: Pretended, status: int) -> None:
    yarn.page = (status, "you?")
    manager = ResourceManager(addresses=("http://127.0.0.1:1", yarn.web))
    for ask in (manager.report, manager.find, manager.end):
        with pytest.raises(ClusterRefusedError, match=rf"HTTP {status} 'you\?'") as caught:
            ask(_APP)
        assert "yarn_rm_auth" in str(caught.value)


def test_an_application_that_is_not_known_is_an_answer(yarn: Pretended) -> None:
    yarn.app = None
    assert ResourceManager(addresses=(yarn.web,)).report(_APP) is None


# ---- how long is waited --------------------------------------------------------------------------


def test_an_application_is_followed_to_its_end(yarn: Pretended) -> None:
    clock = Clock()
    yarn.states = [dict(ACCEPTED), *[dict(RUNNING)] * 30]
    found = _run(yarn, clock, start_s=5).follow(_APP)
    assert found is not None
    assert found.has_succeeded
    assert clock.time == 1 + 2 + 4 + 8 + 10 * 27


def test_one_that_gets_no_container_is_ended_and_the_wait_is_told(yarn: Pretended) -> None:
    yarn.app = dict(ACCEPTED)
    with pytest.raises(ApplicationNotStartedError, match=r"root\.narrow.*no room") as caught:
        _run(yarn, Clock(), start_s=100).follow(_APP)
    assert 100 < caught.value.waited_s <= 110
    assert yarn.killed == [_APP]


def test_a_silent_resource_manager_is_waited_for_and_then_given_up(yarn: Pretended) -> None:
    clock = Clock()
    yarn.page = (503, "")
    for ask in (
        lambda: _run(yarn, clock, silence_s=60).follow(_APP),
        lambda: _run(yarn, clock, silence_s=60).status(_APP),
        lambda: _run(yarn, clock, silence_s=60).submitted("tag"),
    ):
        clock.time = 0
        with pytest.raises(ClusterUnavailableError, match=r"for 6[0-9] s"):
            ask()
        assert 60 < clock.time <= 71
    assert yarn.killed == []


def test_a_resource_manager_that_refuses_us_is_asked_on_for_a_while(yarn: Pretended) -> None:
    """Whoever renews a login, or gives a right, may be late."""
    clock = Clock()
    yarn.page = (403, "")
    for ask in (
        lambda: _run(yarn, clock, refusal_s=30).follow(_APP),
        lambda: _run(yarn, clock, refusal_s=30).submitted("tag"),
        lambda: _run(yarn, clock, refusal_s=30).end_earlier(_APP, "tag"),
    ):
        clock.time = 0
        with pytest.raises(ClusterRefusedError, match=r"for 3[0-9] s.*HTTP 403"):
            ask()
        assert 30 < clock.time <= 41


def test_refusals_and_silence_in_turns_have_an_end(yarn: Pretended) -> None:
    clock = Clock()
    pages = itertools.cycle([(503, ""), (403, "")])

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        yarn.page = next(pages)

    yarn.page = (503, "")
    run = _run(yarn, clock, silence_s=600, refusal_s=50)
    run._sleep = sleep
    with pytest.raises(ClusterRefusedError):
        run.follow(_APP)
    assert clock.time < 120


def test_a_resource_manager_that_comes_back_is_asked_on(yarn: Pretended) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        yarn.page = None if clock.time > 50 else (503, "")

    yarn.page = (503, "")
    run = _run(yarn, clock, silence_s=60)
    run._sleep = sleep
    found = run.follow(_APP)
    assert found is not None
    assert found.has_succeeded


def test_a_killed_task_waits_no_more(yarn: Pretended) -> None:
    yarn.app = dict(RUNNING)
    with pytest.raises(InterruptedError):
        _run(yarn, Clock(), killed=True).follow(_APP)


def test_a_submission_without_a_container_is_stopped_and_ended(yarn: Pretended) -> None:
    yarn.app, yarn.tagged = dict(ACCEPTED), {_APP: "hiveacid-1-a"}
    stopped = threading.Event()
    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(start_s=0.5, poll_s=1),
        is_killed=lambda: False,
    )
    with run.watched(stopped.set):
        assert stopped.wait(60)
        _until(lambda: yarn.killed == [_APP])
    assert run.overdue is not None
    assert (run.overdue.application, run.overdue.queue) == (_APP, "root.narrow")


def test_a_submission_that_runs_is_left_alone(yarn: Pretended) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {_APP: "hiveacid-1-a"}
    stopped = threading.Event()
    run = ClusterRun(
        ResourceManager(addresses=(yarn.web,)),
        "hiveacid-1-a",
        Bounds(start_s=0, poll_s=1),
        is_killed=lambda: False,
    )
    with run.watched(stopped.set):
        _until(lambda: bool(yarn.requests))
        assert not stopped.wait(1.5)
    assert run.overdue is None


@pytest.mark.usefixtures("connected")
def test_a_spark_submit_that_hangs_is_ended(
    spark: FakeSpark, yarn: Pretended, aborted: list[str]
) -> None:
    yarn.app = None
    spark.tell(hangs=True)
    with pytest.raises(ApplicationNotStartedError, match="spark-submit has waited"):
        run_task(
            _delete(spark, start_timeout_s="{{ 0.5 }}"), context_of(task_state_store=StateStore())
        )
    assert len(aborted) == 1
    process = json.loads((spark.directory / "hanging.json").read_text())["child"]
    _until(lambda: not _is_running(process))


# ---- what a retry finds --------------------------------------------------------------------------


def _left(spark: FakeSpark, yarn: Pretended, *, noted: bool = True) -> StateStore:
    """What a worker leaves that was lost while its driver ran; the fake's calls are forgotten."""
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    with pytest.raises(JobFailedError):
        run_task(_delete(spark), context_of(task_state_store=store))
    assert set(store) == {"spark_job_id", RESULT_URI_KEY, SUBMISSION_KEY, ATTEMPT_KEY}
    if not noted:
        store.delete("spark_job_id")
    (spark.directory / "calls.jsonl").unlink()
    yarn.requests.clear()
    spark.tell(answers=True)
    return store


@pytest.mark.promise("A7")
@pytest.mark.usefixtures("connected")
def test_what_yarn_has_forgotten_is_submitted_anew_so_that_the_ledger_is_asked(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = _left(spark, yarn)
    yarn.states, yarn.app = [None], dict(SUCCEEDED)
    done = run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert done["status"] == "committed"
    assert len(spark.calls) == 1
    assert set(store) == {DELIVERED_KEY}


@pytest.mark.usefixtures("connected")
def test_what_is_forgotten_while_it_runs_is_asked_for_by_the_retry(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = StateStore()
    spark.tell(answers=False)
    yarn.app = None
    with pytest.raises(ApplicationForgottenError):
        run_task(_delete(spark), context_of(task_state_store=store))
    assert store["spark_job_id"] == _APP
    # Where it left its result before it was forgotten, that is the answer.
    spark.tell(answers=True)
    done = run_task(_delete(spark), context_of("task", task_state_store=StateStore()))
    assert done["status"] == "committed"


@pytest.mark.usefixtures("connected")
def test_an_application_whose_id_nobody_could_note_is_found_by_its_tag(
    spark: FakeSpark, yarn: Pretended
) -> None:
    store = _left(spark, yarn, noted=False)
    yarn.tagged = {"application_1_0007": tag_of(store[ATTEMPT_KEY])}
    yarn.app, yarn.states = dict(RUNNING), [dict(RUNNING), dict(RUNNING), dict(FAILED)]
    with pytest.raises(JobFailedError):
        run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == "application_1_0007"


@pytest.mark.usefixtures("connected")
def test_a_second_submission_whose_id_nobody_could_note_is_found_by_its_tag(
    spark: FakeSpark, yarn: Pretended
) -> None:
    """The first one's ID is noted, and must not stand before the second's tag."""
    store = _left(spark, yarn)
    submit = spark_submit.SparkSubmitOperator.submit_job

    def lost(task: Any, context: Any) -> None:  # noqa: ANN401 - the Spark provider's
        submit(task, context)
        raise KeyboardInterrupt  # the worker goes before it could note the ID

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_submit.SparkSubmitOperator, "submit_job", lost)
        with pytest.raises(KeyboardInterrupt):
            run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert len(spark.calls) == 1
    yarn.tagged = {"application_1_0007": tag_of(spark.calls[-1]["spec"]["attempt"])}
    yarn.app, yarn.states = dict(SUCCEEDED), [dict(RUNNING)]
    yarn.app["state"] = "RUNNING"  # until its container is gone
    yarn.requests.clear()
    done = run_task(_delete(spark), context_of(try_number=3, task_state_store=store))
    assert done["status"] == "committed"
    assert len(spark.calls) == 1
    assert set(yarn.asked) == {"application_1_0007"}


def _script(spark: FakeSpark) -> HiveAcidSqlOperator:
    return HiveAcidSqlOperator(
        task_id="task",
        sql="DELETE FROM demo.flights WHERE id = 1; DELETE FROM demo.flights WHERE id = 2",
        spark_bin_dir=str(spark.bin_dir),
    )


def _left_at_the_second(spark: FakeSpark, yarn: Pretended, *, noted: bool = True) -> StateStore:
    """What a worker leaves that was lost while the driver of the second statement ran."""
    store = StateStore()
    submit = spark_submit.SparkSubmitOperator.submit_job

    def lost(task: Any, context: Any) -> Any:  # noqa: ANN401 - the Spark provider's
        found = submit(task, context)
        if len(spark.calls) > 1:
            if noted:
                store.set("spark_job_id", _APP)
            raise KeyboardInterrupt
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_submit.SparkSubmitOperator, "submit_job", lost)
        with pytest.raises(KeyboardInterrupt):
            run_task(_script(spark), context_of(task_state_store=store))
    assert store[ATTEMPT_KEY] == spark.calls[1]["spec"]["attempt"]
    (spark.directory / "calls.jsonl").unlink()
    yarn.requests.clear()
    return store


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("noted", [True, False])
def test_a_later_statements_driver_of_an_earlier_try_ends_before_anything_is_submitted(
    spark: FakeSpark, yarn: Pretended, noted: bool
) -> None:
    store = _left_at_the_second(spark, yarn, noted=noted)
    second = _APP if noted else "application_1_0007"
    yarn.tagged, yarn.app = {second: tag_of(store[ATTEMPT_KEY])}, dict(RUNNING)
    submitted: list[int] = []
    end = ResourceManager.end

    def counted(manager: ResourceManager, application_id: str, *more: Any) -> None:  # noqa: ANN401
        submitted.append(len(spark.calls))
        end(manager, application_id, *more)
        # Its container is there for a while yet; then it is gone, and all goes well.
        yarn.states, yarn.app = [dict(RUNNING), {"state": "KILLED"}], dict(SUCCEEDED)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ResourceManager, "end", counted)
        done = run_task(_script(spark), context_of(try_number=2, task_state_store=store))
    assert [one["status"] for one in done["statements"]] == ["committed", "committed"]
    assert yarn.killed == [second]
    assert submitted == [0]
    assert len(spark.calls) == 2


@pytest.mark.promise("A16")
@pytest.mark.usefixtures("connected", "aborted")
@pytest.mark.parametrize("noted", [True, False])
def test_a_kill_while_a_later_statements_driver_is_being_ended_ends_it(
    spark: FakeSpark, yarn: Pretended, noted: bool
) -> None:
    store = _left_at_the_second(spark, yarn, noted=noted)
    yarn.tagged, yarn.app = {_APP: tag_of(store[ATTEMPT_KEY])}, dict(RUNNING)
    yarn.ends = False  # as when nobody heard the first order
    _killed_when(
        _script(spark),
        context_of(try_number=2, task_state_store=store),
        lambda: bool(yarn.killed),
    )
    assert len(yarn.killed) > 1
    assert set(yarn.killed) == {_APP}
    assert spark.calls == []
    assert store[ATTEMPT_KEY]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("page", "error"), [(503, ClusterUnavailableError), (403, ClusterRefusedError)]
)
def test_nothing_is_submitted_while_a_later_statements_driver_may_run(
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
        run_task(_script(spark), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert dict(store) == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.end_earlier(None, "hiveacid-0-a"),
        lambda run: run.submitted("hiveacid-0-a"),
    ],
)
def test_a_kill_before_an_earlier_application_was_found_ends_it(
    yarn: Pretended, ask: Callable[[ClusterRun], object]
) -> None:
    yarn.app, yarn.tagged, yarn.page = dict(RUNNING), {_APP: "hiveacid-0-a"}, (503, "")
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
    assert yarn.killed == [_APP]


def test_one_that_does_not_end_when_it_is_told_to_is_waited_for_and_then_told(
    yarn: Pretended,
) -> None:
    clock = Clock()
    yarn.app, yarn.ends = dict(RUNNING), False
    with pytest.raises(ClusterUnavailableError, match=r"told to end it: it is RUNNING"):
        _run(yarn, clock, silence_s=60).end_earlier(_APP, "tag")
    assert 60 < clock.time <= 81
    assert yarn.killed == [_APP]


@pytest.mark.parametrize("app", [SUCCEEDED, FAILED, None])
def test_one_that_has_ended_by_itself_is_not_told_to_end(
    yarn: Pretended, app: dict[str, str] | None
) -> None:
    """Who may see it, and not end it, would be refused for good."""
    yarn.app = app
    _run(yarn, Clock()).end_earlier(_APP, "tag")
    assert yarn.asked
    assert yarn.killed == []


@pytest.mark.usefixtures("connected")
def test_nothing_is_submitted_while_yarn_does_not_say_what_runs(
    spark: FakeSpark, yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _left(spark, yarn)
    yarn.page = (503, "")
    monkeypatch.setattr(HiveAcidDeleteOperator, "_bounds", lambda _: Bounds(silence_s=0))
    with pytest.raises(ClusterUnavailableError):
        run_task(_delete(spark), context_of(try_number=2, task_state_store=store))
    assert spark.calls == []
    assert store["spark_job_id"] == _APP


# ---- being killed --------------------------------------------------------------------------------


def _until(holds: Any) -> None:  # noqa: ANN401 - a question
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stat:  # noqa: PTH123 - a line
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def _killed_when(task: HiveAcidDeleteOperator, context: dict[str, Any], holds: Any) -> float:  # noqa: ANN401
    return killed_when(task, context, lambda: _until(holds))


@pytest.mark.promise("A16")
@pytest.mark.usefixtures("connected")
def test_what_a_retry_has_found_again_is_ended_when_that_is_killed(
    spark: FakeSpark, yarn: Pretended, aborted: list[str]
) -> None:
    store = _left(spark, yarn)
    yarn.app = dict(RUNNING)
    _killed_when(
        _delete(spark),
        context_of(try_number=2, task_state_store=store),
        lambda: len(yarn.requests) > 1,
    )
    assert yarn.killed == [_APP]
    assert spark.calls == []
    assert len(aborted) == 1


def test_what_is_found_by_the_tag_of_an_earlier_try_is_ended_from_then_on(yarn: Pretended) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {_APP: "hiveacid-0-a"}
    run = _run(yarn, Clock())
    assert run.submitted("hiveacid-0-a") == _APP
    run.begin_end().join(60)
    assert yarn.killed == [_APP]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_task_that_is_killed_while_it_makes_ready_submits_nothing(
    spark: FakeSpark,
    yarn: Pretended,
    aborted: list[str],
    connected: Connections,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """A signal's handler returns to where the task was, which is just before `spark-submit`."""
    connected.add(
        "spark_default",
        "spark",
        host="yarn",
        extra={"deploy-mode": mode, "yarn_resourcemanager_webapp_address": yarn.web},
    )
    task = _delete(spark)
    monkeypatch.setattr(task, "watched", lambda: (task.on_kill(), nullcontext())[1])
    with pytest.raises(JobFailedError, match="the task was killed"):
        run_task(task, context_of(task_state_store=StateStore()))
    assert spark.calls == []
    assert len(aborted) == 1


@pytest.mark.promise("A16")
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_what_stands_in_a_queue_is_ended_before_anybody_has_read_its_id(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], connected: Connections, mode: str
) -> None:
    connected.add(
        "spark_default",
        "spark",
        host="yarn",
        extra={"deploy-mode": mode, "yarn_resourcemanager_webapp_address": yarn.web},
    )
    yarn.app = dict(ACCEPTED)
    spark.tell(says="no ID yet", hangs=True)

    def submitted() -> bool:
        if not (spark.directory / "hanging.json").exists():
            return False
        yarn.tagged = {_APP: tag_of(spark.calls[-1]["spec"]["attempt"])}
        return True

    _killed_when(_delete(spark), context_of(task_state_store=StateStore()), submitted)
    assert yarn.killed == [_APP]
    assert [tag_of(attempt) for attempt in aborted] == list(yarn.tagged.values())
    processes = json.loads((spark.directory / "hanging.json").read_text())
    _until(lambda: not any(map(_is_running, processes.values())))


@pytest.mark.usefixtures("connected", "aborted")
def test_a_resource_manager_that_is_silent_does_not_keep_a_killed_task(
    spark: FakeSpark, yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    yarn.app = dict(RUNNING)
    silent = threading.Event()

    def never(*_: object, **__: object) -> None:
        silent.wait(120)

    task = _delete(spark)
    context = context_of(task_state_store=StateStore())

    def followed() -> bool:
        if not yarn.requests:
            return False
        monkeypatch.setattr(ResourceManager, "find", never)
        return True

    took_s = _killed_when(task, context, followed)
    silent.set()
    assert took_s < 5  # Airflow sends SIGKILL then


@pytest.mark.usefixtures("aborted")
def test_a_missing_command_of_hadoops_is_no_error_of_a_killed_task(
    spark: FakeSpark, connected: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    connected.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    monkeypatch.setattr("airflow_hiveacid.operators.cluster_operator.shutil.which", lambda _: None)
    spark.tell(hangs=True)
    hanging = spark.directory / "hanging.json"
    _killed_when(_delete(spark), context_of(), hanging.exists)
    processes = json.loads(hanging.read_text())
    _until(lambda: not any(map(_is_running, processes.values())))
