"""One job's submitter without an operator, and what an operator leaves to it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases import resumablejobmixin

from airflow_hiveacid.airflow_names import AirflowException
from airflow_hiveacid.format.errors import ConfigurationError, JobFailedError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.operators.submission.cluster_run import Bounds, ClusterRun, tag_of
from airflow_hiveacid.operators.submission.kill import stop_submit
from airflow_hiveacid.operators.submission.resumption import (
    ATTEMPT_KEY,
    RESULT_URI_KEY,
    SUBMISSION_KEY,
    Resumable,
)
from airflow_hiveacid.operators.submission.spark_target import SparkTarget, spark_on_path
from airflow_hiveacid.operators.submission.submission import Program, SparkArguments, Submission
from airflow_hiveacid.operators.submission.submitter import Submitter
from tests.support.airflow_support import (
    METASTORE_URI,
    Connections,
    FakeSpark,
    StateStore,
    context_of,
    run_task,
)
from tests.support.cluster_tasks import APP, connect_yarn, deletion, until
from tests.support.pretended_yarn import FAILED, RUNNING, ResourceManager as Pretended

_NOTES = {RESULT_URI_KEY, SUBMISSION_KEY, ATTEMPT_KEY}
_CONTEXT: Any = {}


@pytest.fixture
def job(spark: FakeSpark, tmp_path: Path) -> Iterator[JobSpec]:
    """A job whose file is there, with a `spark-submit` on PATH."""
    spec = JobSpec(
        job_key="k",
        metastore=MetastoreEndpoint(uris=(METASTORE_URI,)),
        job=DeleteSpec(target="db.t", where="id = 1"),
        attempt="1-0123456789ab",
        result_uri=f"file:{tmp_path}/results/1/result.json",
    )
    (tmp_path / "spec.json").write_text(spec.dump())
    with spark_on_path(str(spark.bin_dir)):
        yield spec


def _submission(
    spec: JobSpec,
    tmp_path: Path,
    target: SparkTarget,
    **given: Any,  # noqa: ANN401
) -> Submission:
    arguments = SparkArguments(conn_id="spark_default", **given)
    program = Program(application="/a.py", archive="/c.zip", spec_file=tmp_path / "spec.json")
    return Submission.of(spec, arguments, target, program=program)


def _submitter(submission: Submission, store: StateStore | None = None, **more: Any) -> Submitter:  # noqa: ANN401
    terms: dict[str, Any] = {"is_durable": True, "is_killed": lambda: False, **more}
    return Submitter(
        submission.target,
        attempt=submission.spec.attempt,
        arguments=submission.arguments,
        bounds=Bounds(silence_s=0, refusal_s=0),
        store=store,
        **terms,
    )


def _never() -> None:
    raise AssertionError


@pytest.fixture
def here(connections: Connections) -> SparkTarget:
    """A driver on this machine."""
    del connections
    return SparkTarget(conn_id="spark_default", master="local[1]")


@pytest.fixture
def there(on_yarn: Connections, yarn: Pretended) -> SparkTarget:
    """A driver in the cluster of a resource manager that pretends."""
    del on_yarn
    return SparkTarget(
        conn_id="spark_default",
        master="yarn",
        deploy_mode="cluster",
        resource_managers=(yarn.web,),
    )


# ---- one job -------------------------------------------------------------------------------------


def test_a_driver_on_the_worker_runs_to_its_end_and_its_output_pipe_is_closed(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, here: SparkTarget
) -> None:
    one = _submission(job, tmp_path, here)
    submitter = _submitter(one, StateStore())
    assert submitter.exit_code is None
    assert submitter.run(one, _CONTEXT, resume=_never) is None
    assert (submitter.exit_code, len(spark.calls)) == (0, 1)
    assert submitter.process is not None
    assert submitter.process.stdout is not None
    assert submitter.process.stdout.closed
    result = submitter.collect(job, None)
    assert result is not None
    assert result.job_key == "k"


@pytest.mark.parametrize("where", ["here", "there"])
def test_nothing_is_submitted_for_a_killed_task(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, request: pytest.FixtureRequest, where: str
) -> None:
    one = _submission(job, tmp_path, request.getfixturevalue(where))
    submitter = _submitter(one, StateStore(), is_killed=lambda: True)
    failure = submitter.run(one, _CONTEXT, resume=submitter.submit)
    assert isinstance(failure, InterruptedError)
    assert spark.calls == []


def test_a_submission_is_noted_before_spark_submit_starts(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, there: SparkTarget
) -> None:
    """Else nothing finds the driver of a worker that is lost meanwhile."""
    store = StateStore(spark_job_id="application_1_0000")
    spark.tell(exit_code=1)
    one = _submission(job, tmp_path, there)
    submitter = _submitter(one, store)
    assert isinstance(submitter.run(one, _CONTEXT, resume=submitter.submit), AirflowException)
    assert set(store) == _NOTES
    assert store[ATTEMPT_KEY] == job.attempt


def test_a_task_that_is_not_durable_is_not_resumed_although_its_submission_is_noted(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, there: SparkTarget
) -> None:
    store = StateStore()
    one = _submission(job, tmp_path, there)
    submitter = _submitter(one, store, is_durable=False)
    assert submitter.run(one, _CONTEXT, resume=submitter.submit) is None
    assert (submitter.notes, set(store)) == (None, _NOTES)
    assert len(spark.calls) == 1


def test_a_spark_submit_that_prints_no_application_id_causes_an_error(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, there: SparkTarget
) -> None:
    spark.tell(says="no ID")
    one = _submission(job, tmp_path, there)
    submitter = _submitter(one)
    failure = submitter.run(one, _CONTEXT, resume=submitter.submit)
    assert isinstance(failure, RuntimeError)
    assert str(failure) == "No YARN application id found after spark-submit completed."


def test_submit_returns_the_id_of_the_yarn_application(
    job: JobSpec, tmp_path: Path, there: SparkTarget
) -> None:
    one = _submission(job, tmp_path, there)
    found: list[str] = []
    submitter = _submitter(one)
    assert submitter.run(one, _CONTEXT, resume=lambda: found.append(submitter.submit())) is None
    assert found == [APP]


def test_wait_app_completion_is_refused_only_for_a_new_submission(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, there: SparkTarget
) -> None:
    conf = {"spark.yarn.submit.waitAppCompletion": "true"}
    one = _submission(job, tmp_path, there, conf=conf)
    submitter = _submitter(one)
    assert submitter.run(one, _CONTEXT, resume=lambda: submitter.follow(APP)) is None
    with pytest.raises(ValueError, match="waitAppCompletion=true cannot be set"):
        submitter.run(one, _CONTEXT, resume=submitter.submit)
    assert spark.calls == []


@pytest.mark.parametrize("app", [FAILED, None])
def test_post_submit_commands_run_only_once_even_if_the_driver_failed(
    job: JobSpec, tmp_path: Path, there: SparkTarget, yarn: Pretended, app: dict[str, str] | None
) -> None:
    yarn.app = app
    commands = [f"mkdir {tmp_path / 'done'}"]
    one = _submission(job, tmp_path, there, post_submit_commands=commands)
    submitter = _submitter(one)
    failure = submitter.run(one, _CONTEXT, resume=lambda: submitter.follow(APP))
    assert isinstance(failure, Exception)
    (tmp_path / "done").rmdir()
    submitter.finish_end(submitter.begin_end(), 1.0)
    assert not (tmp_path / "done").exists()


# ---- earlier tries -------------------------------------------------------------------------------


def _noted(attempt: str = "0-0123456789ab") -> StateStore:
    return StateStore({ATTEMPT_KEY: attempt, SUBMISSION_KEY: {"another": 1}, RESULT_URI_KEY: "u"})


def test_a_kill_finds_the_driver_of_an_earlier_try_by_its_tag(
    job: JobSpec, tmp_path: Path, there: SparkTarget, yarn: Pretended
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: tag_of("0-0123456789ab")}
    store = _noted()
    submitter = _submitter(_submission(job, tmp_path, there), store)
    submitter.answer_for_left()
    end = submitter.begin_end()
    assert end is not None
    end.join(60)
    assert yarn.killed == [APP]
    assert set(store) == _NOTES


def test_a_kill_before_the_first_poll_kills_the_driver_of_an_earlier_try(
    job: JobSpec, tmp_path: Path, there: SparkTarget, yarn: Pretended
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {}
    store = StateStore(spark_job_id=APP)
    Resumable(store).note(replace(job, attempt="0-0123456789ab"))
    one = _submission(job, tmp_path, there)
    submitter = _submitter(one, store)

    def resume() -> None:
        end = submitter.begin_end()
        assert end is not None
        end.join(60)
        raise InterruptedError

    assert isinstance(submitter.run(one, _CONTEXT, resume=resume), InterruptedError)
    assert yarn.killed == [APP]


@pytest.mark.parametrize("is_durable", [True, False])
def test_the_driver_of_an_earlier_try_is_killed_only_if_the_task_is_durable(
    job: JobSpec, tmp_path: Path, there: SparkTarget, yarn: Pretended, is_durable: bool
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: tag_of("0-0123456789ab")}
    store = _noted()
    submitter = _submitter(_submission(job, tmp_path, there), store, is_durable=is_durable)
    submitter.end_left()
    assert yarn.killed == ([APP] if is_durable else [])
    assert set(store) == (set() if is_durable else _NOTES)


def test_a_task_that_is_killed_before_submission_runs_no_post_submit_commands(
    job: JobSpec, tmp_path: Path, there: SparkTarget
) -> None:
    """As while it ends an earlier try's driver; its hook is one for the login only."""
    commands = [f"mkdir {tmp_path / 'done'}"]
    one = _submission(job, tmp_path, there, post_submit_commands=commands)
    submitter = _submitter(one, _noted())
    submitter.answer_for_left()
    end = submitter.begin_end()
    assert end is not None
    end.join(60)
    submitter.finish_end(end, 1.0)
    assert not (tmp_path / "done").exists()


def test_the_notes_of_an_earlier_try_are_kept_if_no_cluster_can_be_polled(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, on_yarn: Connections
) -> None:
    on_yarn.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    target = SparkTarget(conn_id="spark_default", master="yarn", deploy_mode="cluster")
    store = _noted()
    one = _submission(job, tmp_path, target)
    assert _submitter(one, store).run(one, _CONTEXT, resume=_never) is None
    assert (set(store), store[ATTEMPT_KEY]) == (_NOTES, "0-0123456789ab")
    assert len(spark.calls) == 1


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_try_collects_its_own_result_if_no_cluster_can_be_polled(
    job: JobSpec, spark: FakeSpark, tmp_path: Path, on_yarn: Connections, exit_code: int
) -> None:
    """Such a submission is not noted, so the notes are of a try whose driver may still run."""
    spark.tell(exit_code=exit_code)
    on_yarn.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    target = SparkTarget(conn_id="spark_default", master="yarn", deploy_mode="cluster")
    store = StateStore(_noted(), **{RESULT_URI_KEY: f"file:{tmp_path}/results/0/result.json"})
    one = _submission(job, tmp_path, target)
    submitter = _submitter(one, store)
    failure = submitter.run(one, _CONTEXT, resume=_never)
    result = submitter.collect(job, failure)
    assert result is not None
    assert result.job_key == "k"
    assert set(store) == (_NOTES if exit_code else set())


# ---- a killed task -------------------------------------------------------------------------------


def test_the_cluster_is_searched_only_after_spark_submit_has_ended(
    job: JobSpec,
    spark: FakeSpark,
    tmp_path: Path,
    there: SparkTarget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it could still submit what the search has not found."""
    spark.tell(hangs=True)
    one = _submission(job, tmp_path, there)
    submitter = _submitter(one, StateStore())
    task = threading.Thread(target=submitter.run, args=(one, _CONTEXT, submitter.submit))
    task.start()
    hanging = spark.directory / "hanging.json"
    until(lambda: hanging.exists() and hanging.read_text())
    ended: list[int] = []
    begin = ClusterRun.begin_end

    def searched(run: ClusterRun[Any]) -> threading.Thread:
        assert submitter.process is not None
        ended.append(submitter.process.wait(10))
        return begin(run)

    monkeypatch.setattr(ClusterRun, "begin_end", searched)
    try:
        submitter.finish_end(submitter.begin_end(), 1.0)
    finally:
        stop_submit(submitter.process)
        task.join(60)
    assert ended == [-signal.SIGKILL]


# ---- what an operator leaves to it ---------------------------------------------------------------


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_running_a_task_changes_no_attribute_of_the_providers_operator(
    spark: FakeSpark,
    yarn: Pretended,
    on_yarn: Connections,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    connect_yarn(on_yarn, yarn, mode)
    task = deletion(conf={"spark.a": "1"}, files="/mine.conf", executor_cores=2)
    context = context_of(task_state_store=StateStore())
    changed: list[str] = []
    execute = task.execute
    set_attribute = SparkSubmitOperator.__setattr__

    def noted(self: object, name: str, value: object) -> None:
        changed.append(name)
        set_attribute(self, name, value)  # type: ignore[arg-type]

    def executed(seen: Any) -> Any:  # noqa: ANN401 - the context and the result
        monkeypatch.setattr(SparkSubmitOperator, "__setattr__", noted)
        return execute(seen)

    object.__setattr__(task, "execute", executed)
    run_task(task, context)
    assert len(spark.calls) == 1
    assert set(changed) - {"_cached_logger"} == {"_spec", "_submitter"}  # the first is Airflow's


def test_airflow_counts_resumable_jobs_by_the_name_of_the_operator(
    on_yarn: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason why `execute_resumable` is the operator's, and not of a class of its own."""
    del on_yarn
    counted: dict[str, str] = {}

    def incr(name: str, *, tags: dict[str, str]) -> None:
        counted[name] = tags["operator"]

    monkeypatch.setattr(resumablejobmixin.stats, "incr", incr)
    run_task(deletion(), context_of(task_state_store=StateStore()))
    assert counted == {"resumable_job.fresh_submit": "HiveAcidDeleteOperator"}


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("track_driver_via_k8s_api", "requires Spark master to be Kubernetes"),
        ("yarn_track_via_rm_api", "requires Spark master to be YARN"),
    ],
)
@pytest.mark.usefixtures("connections")
def test_a_tracking_argument_for_a_different_kind_of_master_is_refused(
    spark: FakeSpark, argument: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        run_task(deletion(**{argument: True}))
    assert spark.calls == []


@pytest.mark.usefixtures("on_yarn")
def test_a_failed_driver_is_reported_with_its_final_status_and_its_notes_are_kept(
    spark: FakeSpark, yarn: Pretended
) -> None:
    yarn.app = dict(FAILED)
    spark.tell(answers=False)
    store = StateStore()
    with pytest.raises(JobFailedError) as caught:
        run_task(deletion(), context_of(task_state_store=store))
    # The exit code of `spark-submit` says nothing about a driver in the cluster.
    reason = f"left no result: {APP} ended as FINISHED, FAILED: exit code 1. See the driver's log"
    assert reason in str(caught.value)
    assert _NOTES | {"spark_job_id"} <= set(store)


@pytest.mark.usefixtures("on_yarn")
@pytest.mark.parametrize("is_durable", [True, False])
def test_only_a_durable_task_takes_over_the_driver_of_an_earlier_try(
    yarn: Pretended, is_durable: bool
) -> None:
    yarn.app, yarn.tagged = dict(RUNNING), {APP: tag_of("0-0123456789ab")}
    task: Any = deletion(durable=is_durable)
    context = context_of(task_state_store=_noted())
    task.take_over_left_driver(context, "1-0123456789ab", ends=True)
    assert yarn.killed == ([APP] if is_durable else [])
    assert (task._submitter is not None) is is_durable


def test_a_user_without_name_may_give_a_directory_below_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(ConfigurationError, match=r"no spark-submit in .*~/s"), spark_on_path("~/s"):
        pass
