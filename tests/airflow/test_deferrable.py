"""A task that waits in the triggerer for its driver on a cluster."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.listener import get_listener_manager
from airflow.sdk.module_loading import import_string
from airflow.triggers.base import BaseTrigger
from requests.auth import HTTPBasicAuth

from airflow_hiveacid.airflow_names import AirflowTaskTimeout, TaskDeferred
from airflow_hiveacid.format.errors import (
    ApplicationNotStartedError,
    ClusterUnavailableError,
    JobFailedError,
)
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission import kill as kill_module, trigger as trigger_module
from airflow_hiveacid.operators.submission.cluster_run import tag_of
from airflow_hiveacid.operators.submission.deferral import (
    DriverNote,
    End,
    Progress,
    Woken,
    client_arguments,
    event_of,
)
from airflow_hiveacid.operators.submission.kill import Attempt
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY, INSTALLATION_KEY
from airflow_hiveacid.operators.submission.submission import SparkArguments
from airflow_hiveacid.operators.submission.submitter import Submitter
from airflow_hiveacid.watch.poll_threads import in_thread_of
from tests.support.airflow_support import (
    Connections,
    FakeSpark,
    StateStore,
    TaskLog,
    context_of,
    run_task,
)
from tests.support.cluster_tasks import (
    APP,
    PATIENCE_S,
    SPACE,
    connect_kubernetes,
    connect_yarn,
    deletion,
    fired,
    keep_results,
    put_pod,
    resumed,
    until,
)
from tests.support.event_loop import in_event_loop
from tests.support.pretended_kubernetes import KubernetesServer
from tests.support.pretended_yarn import (
    ACCEPTED,
    FAILED,
    RUNNING,
    SUCCEEDED,
    ResourceManager as Pretended,
)

_SECRET = "s3cr3t"
_SECRETS: dict[str, Any] = {
    "conf": {"spark.hadoop.fs.s3a.secret.key": _SECRET},
    "env_vars": {"TOKEN": _SECRET, "HADOOP_USER_NAME": "etl"},
}


def _deferred(task: BaseOperator, store: StateStore, **more: Any) -> BaseTrigger:  # noqa: ANN401
    """Run a task until it defers; its trigger as a triggerer makes it."""
    with pytest.raises(TaskDeferred) as caught:
        run_task(task, context_of(task_state_store=store, **more))
    return _made_again(caught.value.trigger)


@pytest.fixture
def left_store(spark: FakeSpark, yarn: Pretended, on_yarn: Connections) -> StateStore:  # noqa: ARG001 - fixtures
    yarn.app = dict(RUNNING)
    return StateStore()


def _ended_process(task: BaseOperator, store: StateStore, ask: Callable[[], Any]) -> None:
    """Run a task until it defers, and end its process; `ask` answers for Airflow's database."""
    context = context_of(task_state_store=store)
    asked: list[dict[str, Any]] = []
    context["ti"].get_task_states = lambda **terms: (asked.append(terms), ask())[1]
    with pytest.raises(TaskDeferred):
        run_task(task, context)
    get_listener_manager().hook.before_stopping(component=object())
    run = {"dag_id": "dag", "map_index": -1, "run_ids": ["scheduled__2013-01-02"]}
    assert asked == [{**run, "task_ids": ["task"]}]
    get_listener_manager().hook.before_stopping(component=object())  # of a later task
    assert len(asked) == 1


def _made_again(trigger: BaseTrigger) -> BaseTrigger:
    path, arguments = trigger.serialize()
    text = json.dumps(arguments)
    assert _SECRET not in text
    made: BaseTrigger = import_string(path)(**json.loads(text))
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first poll of a trigger: at once."""
    monkeypatch.setattr(trigger_module, "FIRST_POLL_S", 0.0)


# ---- the result ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_yarn")
def test_a_task_defers_while_its_driver_runs_on_yarn_and_returns_the_drivers_result(
    spark: FakeSpark, yarn: Pretended
) -> None:
    yarn.app = dict(RUNNING)
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True, **_SECRETS), store)
    assert (store["spark_job_id"], yarn.asked) == (APP, [])
    yarn.states, yarn.app = [dict(RUNNING)], dict(SUCCEEDED)
    event = fired(trigger)
    assert len(yarn.asked) == 2
    done = resumed(deletion(deferrable=True, **_SECRETS), store, event)
    plain = StateStore()
    assert done == run_task(deletion(), context_of(task_state_store=plain))
    assert store == plain
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}
    assert len(spark.calls) == 2


@pytest.mark.usefixtures("on_kubernetes")
def test_a_task_defers_while_its_driver_runs_on_kubernetes_and_then_cleans_up(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], tmp_path: Path
) -> None:
    submits |= {"phase": "Running"}
    store, ended = StateStore(), tmp_path / "ended"
    terms: dict[str, Any] = {"deferrable": True, "post_submit_commands": [f"mkdir {ended}"]}
    trigger = _deferred(deletion(**terms), store)
    assert not ended.exists()
    pod = f"{tag_of(spark.call['spec']['attempt'])}-driver"
    api.objects.say(SPACE, pod, phase="Succeeded")
    done = resumed(deletion(**terms), store, fired(trigger))
    assert done["status"] == "committed"
    assert api.deleted == [pod]
    assert ended.exists()
    assert list((tmp_path / "results").iterdir()) == []


@pytest.mark.usefixtures("on_yarn")
def test_a_failed_driver_fails_the_deferred_task_and_its_application_id_is_kept(
    spark: FakeSpark, yarn: Pretended
) -> None:
    spark.tell(answers=False)
    yarn.app = dict(FAILED)
    store = StateStore()
    event = fired(_deferred(deletion(deferrable=True), store))
    with pytest.raises(JobFailedError, match="FINISHED, FAILED: exit code 1"):
        resumed(deletion(deferrable=True), store, event)
    assert store["spark_job_id"] == APP
    assert len(spark.calls) == 1


@pytest.mark.usefixtures("on_yarn")
def test_the_retry_after_a_worker_lost_before_deferral_tracks_the_same_application(
    spark: FakeSpark, yarn: Pretended
) -> None:
    yarn.app = dict(RUNNING)
    store = StateStore()
    _deferred(deletion(deferrable=True), store)
    trigger = _deferred(deletion(deferrable=True), store, try_number=2)
    yarn.app = dict(SUCCEEDED)
    done = resumed(deletion(deferrable=True), store, fired(trigger), try_number=2)
    assert done["status"] == "committed"
    assert len(spark.calls) == 1
    assert yarn.killed == []


@pytest.mark.promise("A6")
@pytest.mark.parametrize("state", ["failed", "success", "skipped", None])
def test_the_driver_of_a_task_that_was_ended_before_it_deferred_is_killed(
    spark: FakeSpark, yarn: Pretended, left_store: StateStore, aborted: list[str], state: str | None
) -> None:
    run = {"scheduled__2013-01-02": {"task": state}} if state else {}  # else the run was deleted
    _ended_process(deletion(deferrable=True), left_store, lambda: run)
    assert yarn.killed == [APP]
    assert aborted == [spark.call["spec"]["attempt"]]


@pytest.mark.usefixtures("on_kubernetes")
def test_the_pod_of_a_task_that_was_ended_before_it_deferred_is_deleted(
    spark: FakeSpark, api: KubernetesServer, submits: dict[str, Any], aborted: list[str]
) -> None:
    submits |= {"phase": "Running"}
    states = {"scheduled__2013-01-02": {"task": "failed"}}
    _ended_process(deletion(deferrable=True), StateStore(), lambda: states)
    attempt = spark.call["spec"]["attempt"]
    assert api.deleted == [f"{tag_of(attempt)}-driver"]
    assert aborted == [attempt]


@pytest.mark.parametrize("state", ["deferred", "queued", "running", "restarting", None])
def test_the_driver_of_a_task_that_is_still_wanted_goes_on(
    yarn: Pretended, left_store: StateStore, aborted: list[str], state: str | None
) -> None:
    """If the task was cleared, its next try takes over the driver."""
    states = {"scheduled__2013-01-02": {"task": state}}
    _ended_process(deletion(deferrable=True), left_store, lambda: states)
    assert (yarn.killed, aborted) == ([], [])


def test_a_driver_is_not_killed_if_airflow_does_not_answer(
    yarn: Pretended, left_store: StateStore, aborted: list[str]
) -> None:
    def fail() -> None:
        raise OSError("no API server")

    _ended_process(deletion(deferrable=True), left_store, fail)
    assert (yarn.killed, aborted) == ([], [])


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_driver_may_begin_once_somebody_follows_it(
    spark: FakeSpark, yarn: Pretended, left_store: StateStore, *, deferrable: bool
) -> None:
    def has_follower() -> bool:
        return Path(spark.call["spec"]["follower_uri"].removeprefix("file:")).exists()

    def ended() -> dict[str, str]:
        assert has_follower()
        return dict(SUCCEEDED)

    if deferrable:
        trigger = _deferred(deletion(deferrable=True), left_store)
        assert not has_follower()
        yarn.app = dict(SUCCEEDED)
        event = fired(trigger)
        assert has_follower()
        resumed(deletion(deferrable=True), left_store, event)
    else:
        yarn.app = dict(SUCCEEDED)
        run_task(deletion(), context_of(task_state_store=left_store))
    assert not has_follower()


def test_a_task_whose_trigger_cannot_reach_the_result_directory_wakes_and_follows_its_driver(
    yarn: Pretended, left_store: StateStore, tmp_path: Path
) -> None:
    trigger = _deferred(deletion(deferrable=True), left_store)
    results = tmp_path / "results"
    results.rename(tmp_path / "away")
    event = fired(trigger)
    assert event["end"] == End.FAILED.value
    assert not results.exists()
    (tmp_path / "away").rename(results)
    yarn.app = dict(SUCCEEDED)
    done = resumed(deletion(deferrable=True), left_store, event)
    assert done["status"] == "committed"


@pytest.mark.usefixtures("on_yarn")
def test_a_script_defers_once_for_each_application(spark: FakeSpark) -> None:
    def script() -> HiveAcidSqlOperator:
        sql = "DELETE FROM demo.t WHERE id = 1; DELETE FROM demo.t WHERE id = 2"
        return HiveAcidSqlOperator(task_id="task", sql=sql, deferrable=True)

    store = StateStore()
    event = fired(_deferred(script(), store))
    with pytest.raises(TaskDeferred) as caught:
        resumed(script(), store, event)
    done = resumed(script(), store, fired(_made_again(caught.value.trigger)))
    wheres = [call["spec"]["job"]["where"] for call in spark.calls]
    assert len(wheres) == 2
    keys = [call["spec"]["job_key"] for call in spark.calls]
    assert [one["job_key"] for one in done["statements"]] == keys


@pytest.mark.usefixtures("on_yarn")
def test_execution_timeout_covers_all_applications_of_a_script() -> None:
    limit = timedelta(days=2)

    def script() -> HiveAcidSqlOperator:
        return HiveAcidSqlOperator(
            task_id="task",
            sql="DELETE FROM demo.t WHERE id = 1; DELETE FROM demo.t WHERE id = 2",
            deferrable=True,
            execution_timeout=limit,
        )

    store, began_s = StateStore(), time.time()
    first = _deferred(script(), store)
    until_s = first.serialize()[1]["note"]["until_s"]
    assert began_s <= until_s - limit.total_seconds() <= time.time()
    with pytest.raises(TaskDeferred) as caught:
        resumed(script(), store, fired(first))
    assert caught.value.trigger.serialize()[1]["note"]["until_s"] == until_s


@pytest.mark.parametrize(("job_key", "is_its_own"), [("key", True), ("key#2", False)])
def test_a_trigger_event_is_used_only_for_the_job_of_its_driver(
    job_key: str, *, is_its_own: bool
) -> None:
    note = DriverNote(
        application_id=APP,
        attempt="1-0123456789ab",
        job_key="key",
        targets=("demo.t",),
        result_uri="file:/nowhere/result.json",
        began_s=7.0,
        since_s=8.0,
    )
    progress = Progress()
    progress.resume(event_of(note.to_json(), End.ENDED))
    woken = progress.woken_for(job_key)
    assert (None if woken is None else woken.note) == (note if is_its_own else None)
    assert progress.began_s == (7.0 if is_its_own else 0.0)
    assert progress.woken_for("key") is None  # only the first job can be that of the event


# ---- the wait ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_yarn")
@in_event_loop
async def test_a_failed_poll_does_not_end_the_wait(yarn: Pretended) -> None:
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True), store)
    yarn.page = (503, "down")
    following = asyncio.ensure_future(anext(aiter(trigger.run())))
    await asyncio.to_thread(until, lambda: yarn.requests)
    yarn.page = None
    assert (await following).payload["end"] == "ended"


@pytest.mark.usefixtures("on_yarn")
def test_the_first_poll_waits_until_the_scheduler_can_record_the_deferral(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trigger_module, "FIRST_POLL_S", 600.0)
    path, arguments = _deferred(deletion(deferrable=True), StateStore()).serialize()
    naps: list[float] = []

    async def nap(seconds: float) -> None:
        assert yarn.asked == []
        naps.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", nap)
    limited = {**arguments, "note": {**arguments["note"], "until_s": time.time() + 60}}
    assert fired(import_string(path)(**limited))["end"] == "ended"
    assert 0 < naps.pop() <= 60
    yarn.requests.clear()
    for since_s, is_new in ((0.0, True), (600.0, False)):
        arguments["note"]["since_s"] -= since_s
        assert fired(import_string(path)(**arguments))["end"] == "ended"
        assert (naps.pop() > 0) == is_new
        yarn.requests.clear()


@pytest.mark.usefixtures("on_yarn")
def test_start_timeout_s_counts_from_the_deferral_even_in_a_new_triggerer(
    spark: FakeSpark, yarn: Pretended
) -> None:
    yarn.app = dict(ACCEPTED)
    spark.tell(answers=False)
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True, start_timeout_s=600), store)
    path, arguments = trigger.serialize()
    assert arguments["note"]["began_s"] < arguments["note"]["since_s"]
    arguments["note"]["since_s"] -= 601
    yarn.states, yarn.app = [dict(ACCEPTED)], dict(SUCCEEDED)
    event = fired(import_string(path)(**arguments))
    assert yarn.killed == [APP]
    with pytest.raises(ApplicationNotStartedError, match=r"root\.narrow.* waited 6\d\d "):
        resumed(deletion(deferrable=True), store, event)


@pytest.mark.usefixtures("on_yarn")
def test_the_worker_polls_a_cluster_that_the_triggerer_cannot_poll(
    yarn: Pretended, connections: Connections
) -> None:
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True), store)
    connections.remove("spark_default")
    event = fired(trigger)
    assert (event["end"], event["error"]["type"]) == ("failed", "ConfigurationError")
    connect_yarn(connections, yarn, "cluster")
    assert resumed(deletion(deferrable=True), store, event)["status"] == "committed"


@pytest.mark.usefixtures("on_yarn")
def test_the_triggerer_finds_the_cluster_by_the_settings_of_the_task(
    yarn: Pretended, connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "yarn-site.xml").write_text(
        "<configuration><property><name>yarn.resourcemanager.webapp.address</name>"
        f"<value>{yarn.web}</value></property></configuration>"
    )
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
    connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    own = {"HADOOP_CONF_DIR": str(tmp_path / "own"), "HADOOP_USER_NAME": "etl"}
    trigger = _deferred(deletion(deferrable=True, env_vars=own), StateStore())
    yarn.requests.clear()
    assert fired(trigger)["end"] == "ended"
    assert all("user.name=etl" in one for one in yarn.requests)


def test_the_triggerer_gets_only_the_arguments_of_the_login() -> None:
    submission = "spark.kubernetes.authenticate.submission"
    login: dict[str, Any] = {
        "conf": {
            "spark.kubernetes.namespace": SPACE,
            "spark.kubernetes.context": "etl",
            "spark.kubernetes.trust.certificates": "true",
            f"{submission}.oauthTokenFile": "/run/token",
            f"{submission}.caCertFile": "/run/ca",
            f"{submission}.clientCertFile": "/run/certificate",
            f"{submission}.clientKeyFile": "/run/key",
        },
        "env_vars": {
            "HADOOP_CONF_DIR": "/etc/hadoop",
            "HADOOP_HOME": "/opt/hadoop",
            "HADOOP_USER_NAME": "etl",
            "KRB5CCNAME": "/run/cache",
            "KRB5_CLIENT_KTNAME": "/run/keytab",
            "YARN_CONF_DIR": "/etc/yarn",
        },
        "proxy_user": "etl",
        "principal": "etl@R",
        "keytab": "/run/keytab",
    }
    given = {
        **login,
        "conf": {**login["conf"], **_SECRETS["conf"]},
        "env_vars": {**_SECRETS["env_vars"], **login["env_vars"]},
    }
    assert client_arguments(SparkArguments(conn_id="s", name="n", **given)) == login


@pytest.mark.usefixtures("on_yarn")
def test_the_task_raises_the_error_of_a_cluster_that_is_unavailable_for_too_long(
    spark: FakeSpark,
) -> None:
    spark.tell(answers=False)
    store = StateStore()
    trigger = _deferred(deletion(deferrable=True), store)
    note = trigger.serialize()[1]["note"]
    error = {"type": "ClusterUnavailableError", "message": "for 601 s"}
    with pytest.raises(ClusterUnavailableError, match="for 601 s"):
        resumed(deletion(deferrable=True), store, {"note": note, "end": "failed", "error": error})
    assert store["spark_job_id"] == APP


def test_an_unresponsive_cluster_does_not_block_the_event_loop(on_yarn: Connections) -> None:
    trigger = _deferred(deletion(deferrable=True), StateStore())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": address}
        on_yarn.add("spark_default", "spark", host="yarn", extra=extra)

        async def wait() -> None:
            following = asyncio.ensure_future(anext(aiter(trigger.run())))
            accepted, _ = await asyncio.to_thread(silent.accept)
            with accepted:
                for _ in range(10):
                    await asyncio.sleep(0.01)
                assert not following.done()
            following.cancel()

        asyncio.run(wait())


@pytest.mark.usefixtures("on_yarn")
def test_a_driver_note_of_a_different_release_causes_a_failed_event() -> None:
    trigger = _deferred(deletion(deferrable=True), StateStore())
    path, arguments = trigger.serialize()
    arguments["note"]["unknown"] = 1
    event = fired(import_string(path)(**arguments))
    assert (event["end"], event["error"]["type"]) == ("failed", "ContractVersionError")


# ---- the end -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_yarn")
@in_event_loop
async def test_a_stopped_triggerer_does_not_kill_the_driver(yarn: Pretended) -> None:
    yarn.app = dict(RUNNING)
    trigger = _deferred(deletion(deferrable=True), StateStore())
    following = asyncio.ensure_future(anext(aiter(trigger.run())))
    await asyncio.to_thread(until, lambda: yarn.requests)
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await trigger.cleanup()
    assert yarn.killed == []


def test_clearing_a_deferred_task_aborts_its_transactions_and_then_kills_its_driver(
    spark: FakeSpark,
    yarn: Pretended,
    on_yarn: Connections,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = {"uris": "thrift://other.example.com:9083", "result_dir": f"file:{tmp_path}/results"}
    on_yarn.add("other", "hive_acid_metastore", extra=other)
    yarn.app = dict(RUNNING)
    task = deletion(deferrable=True, hive_acid_conn_id="other")
    trigger = _deferred(task, StateStore())
    aborted: list[tuple[object, ...]] = []

    def abort(of: Attempt) -> None:
        aborted.append((of.metastore.uris, of.job_key, of.attempt, of.targets, *yarn.killed))

    monkeypatch.setattr("airflow_hiveacid.operators.submission.kill.abort_attempt", abort)
    asyncio.run(trigger.on_kill())
    spec = spark.call["spec"]
    uris, targets = (other["uris"],), ("demo.flights",)
    assert aborted == [(uris, spec["job_key"], spec["attempt"], targets)]
    assert yarn.killed == [APP]


@pytest.mark.usefixtures("on_yarn")
def test_a_deferred_tasks_driver_is_killed_even_if_its_transaction_cannot_be_aborted(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    yarn.app = dict(RUNNING)
    trigger = _deferred(deletion(deferrable=True), StateStore())

    def abort(_: object) -> None:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr("airflow_hiveacid.operators.submission.kill.abort_attempt", abort)
    asyncio.run(trigger.on_kill())
    assert yarn.killed == [APP]


@pytest.mark.usefixtures("on_yarn")
@in_event_loop
async def test_polls_of_an_unresponsive_cluster_do_not_delay_a_kill(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    yarn.app = dict(RUNNING)
    trigger = _deferred(deletion(deferrable=True), StateStore())
    monkeypatch.setattr("airflow_hiveacid.operators.submission.kill.abort_attempt", lambda _: None)
    answers = threading.Event()
    polls = [
        asyncio.ensure_future(in_thread_of(("spark_default",), answers.wait)) for _ in range(10)
    ]
    try:
        await asyncio.sleep(0)
        await asyncio.wait_for(trigger.on_kill(), PATIENCE_S)
    finally:
        answers.set()
        await asyncio.gather(*polls)
    assert yarn.killed == [APP]


@pytest.mark.usefixtures("on_yarn")
@in_event_loop
async def test_a_kill_that_airflow_cancels_still_kills_the_driver(
    yarn: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    yarn.app = dict(RUNNING)
    trigger = _deferred(deletion(deferrable=True), StateStore())
    aborting, goes_on = threading.Event(), threading.Event()

    def abort(_: object) -> None:
        aborting.set()
        assert goes_on.wait(120)

    monkeypatch.setattr("airflow_hiveacid.operators.submission.kill.abort_attempt", abort)
    killing = asyncio.create_task(trigger.on_kill())
    await asyncio.to_thread(aborting.wait, 120)
    killing.cancel()
    with suppress(asyncio.CancelledError):
        await killing
    goes_on.set()
    await asyncio.to_thread(until, lambda: yarn.killed)
    assert yarn.killed == [APP]


@pytest.mark.usefixtures("on_yarn")
def test_execution_timeout_includes_the_deferral_and_kills_the_driver(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trigger kills the driver, because the woken task may be ended before it runs."""
    by_trigger: list[str] = []
    monkeypatch.setattr(kill_module, "abort_attempt", lambda of: by_trigger.append(of.attempt))
    yarn.app = dict(RUNNING)
    store = StateStore()
    limit = {"execution_timeout": timedelta(seconds=1)}
    event = fired(_deferred(deletion(deferrable=True, **limit), store))
    attempt = spark.call["spec"]["attempt"]
    assert (event["end"], yarn.killed, by_trigger) == ("timed out", [APP], [attempt])
    task = deletion(deferrable=True, **limit)
    with pytest.raises(AirflowTaskTimeout, match=f"{APP} had not ended"):
        resumed(task, store, event)
    task.on_kill()  # as the task runner does after this error
    assert aborted == [attempt]


def _failed_on_yarn(yarn: Pretended) -> tuple[StateStore, dict[str, Any]]:
    """Defer a task; return its state and the event of a trigger that failed beside its driver."""
    yarn.app, store = dict(RUNNING), StateStore()
    note = _deferred(deletion(deferrable=True), store).serialize()[1]["note"]
    yarn.tagged = {APP: tag_of(note["attempt"])}
    return store, {"note": note, "end": "failed", "error": None}


@pytest.mark.usefixtures("on_yarn")
def test_a_resumed_task_that_is_killed_before_it_polls_the_cluster_kills_its_driver(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, event = _failed_on_yarn(yarn)
    task = deletion(deferrable=True)
    resolve = task._resolve_target
    monkeypatch.setattr(task, "_resolve_target", lambda: (task.on_kill(), resolve())[1])
    with pytest.raises(JobFailedError, match="the task was killed"):
        resumed(task, store, event)
    until(lambda: yarn.killed)
    assert yarn.killed == [APP]
    assert aborted == [spark.call["spec"]["attempt"]]


@pytest.mark.usefixtures("on_yarn")
def test_an_unknown_error_of_a_resumed_task_kills_its_driver(
    spark: FakeSpark, yarn: Pretended, aborted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, event = _failed_on_yarn(yarn)

    def follow(*_: object) -> None:
        raise ValueError("an answer that nobody expected")

    monkeypatch.setattr(Submitter, "follow", follow)
    with pytest.raises(ValueError, match="nobody expected"):
        resumed(deletion(deferrable=True), store, event)
    until(lambda: yarn.killed)
    assert yarn.killed == [APP]
    assert aborted == [spark.call["spec"]["attempt"]]


# ---- the worker waits itself ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "arguments", "why"),
    [
        ("local", {}, r"the master local\[1\], the driver is a child of the worker's process"),
        ("client", {}, "the master yarn, the driver is a child of the worker's process"),
        ("pods", {}, "the master k8s://.*, the driver is a child of the worker's process"),
        ("cluster", {"yarn_rm_auth": HTTPBasicAuth("etl", _SECRET)}, "yarn_rm_auth exists only in"),
        ("nowhere", {}, "no resource manager is known for the connection spark_default"),
    ],
)
def test_the_log_names_the_reason_why_a_task_does_not_defer(
    spark: FakeSpark,
    yarn: Pretended,
    api: KubernetesServer,
    connections: Connections,
    log: TaskLog,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    mode: str,
    arguments: dict[str, Any],
    why: str,
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    keep_results(connections, tmp_path)
    if mode in ("client", "cluster"):
        connect_yarn(connections, yarn, mode)
        spark.tell(says=f"Submitted application {APP}")
    if mode == "pods":
        connect_kubernetes(connections, api, "client")
        put_pod(api)
    if mode == "nowhere":
        connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    done = run_task(deletion(deferrable=True, **arguments))
    assert done["status"] == "committed"
    (line,) = [line for line in log.lines if "does not defer" in line]
    assert re.search(why, line)


@pytest.mark.parametrize("event", [{}, {"note": {}, "end": "slept"}, {"note": {}, "end": []}])
def test_an_unknown_trigger_event_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(JobFailedError, match="unknown event"):
        Woken.of(event)
