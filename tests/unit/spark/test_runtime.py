"""What every application does before and after its job; starts no Spark."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    LocationPermissionError,
    StoreUnavailableError,
    Winner,
    WriteConflictError,
)
from airflow_hiveacid.jobs.endpoint import SecretSource
from airflow_hiveacid.jobs.job import ExitCode, Job, JobError, JobResult, JobStatus, ProgramSpec
from airflow_hiveacid.jobs.statements import DeleteSpec
from airflow_hiveacid.metastore.auth.secret import read_secret_text
from airflow_hiveacid.spark import runtime
from airflow_hiveacid.spark.writing.context import JobContext
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.steps import raises
from tests.support.terms import job_spec

SPEC = job_spec(DeleteSpec(target="d.t"), "k")


def succeed(job: JobContext) -> JobResult:
    return JobResult(
        kind=job.spec.kind, job_key=job.spec.job_key, status=JobStatus.COMMITTED, table="d.t"
    )


class Driver:
    """Runs a job without Spark; its result goes to `answer`, unless the spec says otherwise."""

    def __init__(self, root: Path) -> None:
        self.server = FakeMetastore(MetastoreGeneration.V4, ManualClock())
        self.root, self.answer = root, root / "result.json"
        settings: dict[str, str] = {}
        conf = SimpleNamespace(get=settings.get)
        context = SimpleNamespace(applicationId="app", getConf=lambda: conf)
        self.spark: Any = SimpleNamespace(sparkContext=context)

    def __call__(
        self,
        told: Callable[[JobContext], JobResult] = succeed,
        **terms: Any,  # noqa: ANN401 - fields of the spec
    ) -> ExitCode:
        spec = dataclasses.replace(SPEC, **{"result_uri": f"file:{self.answer}", **terms})
        (self.root / "spec.json").write_text(spec.dump())
        return runtime.run_spec(self.spark, told, str(self.root / "spec.json"))

    @property
    def result(self) -> JobResult:
        return JobResult.parse(self.answer.read_text())

    @property
    def error(self) -> JobError:
        error = self.result.error
        assert error is not None
        return error


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver(tmp_path)
    monkeypatch.setattr(runtime, "connect", lambda _: FakeClient(driver.server))
    monkeypatch.setattr(runtime, "SparkFiles", SimpleNamespace(get=lambda name: name))
    return driver


def test_the_result_of_a_lost_conflict_names_the_winning_transaction_and_job(
    run: Driver,
) -> None:
    winner = Winner(txn_id=9, write_id=4, job_key="dag/run/first/-1")
    conflict = WriteConflictError(txn_id=10, reason="it was late", winner=winner)
    code, result = run(raises(conflict)), run.result
    assert (code, result.status) == (ExitCode.RETRYABLE, JobStatus.FAILED)
    lost: Any = result.details["lost_against"]
    assert (lost["txn_id"], lost["write_id"], lost["job_key"]) == (9, 4, "dag/run/first/-1")


@pytest.mark.parametrize(
    ("job", "code", "kind"),
    [
        (DeleteSpec(target="d.t", where="id = :id"), ExitCode.BAD_INPUT, "ExpressionError"),
        (ProgramSpec(application="a.py", changes=("d.t",)), ExitCode.UNEXPECTED, "JobFailedError"),
    ],
)
def test_an_error_that_a_value_of_a_statement_causes_is_not_retried(
    run: Driver, job: Job, code: ExitCode, kind: str
) -> None:
    class ValueOfRowError(PySparkException):  # type: ignore[misc]
        def getSqlState(self) -> str:  # noqa: N802 - Spark's name
            return "22018"

    wrong = ValueOfRowError("[CAST_INVALID_INPUT] 'seven' is no BIGINT")
    assert run(raises(wrong), job=job) is code
    error = run.error
    assert error.type == kind
    assert error.rebuild().retryable is (kind == "JobFailedError")
    if kind == "ExpressionError":
        part = "table d.t: cannot use the expression 'DELETE FROM d.t\\nWHERE id = :id'"
        assert part in error.message


@pytest.mark.parametrize("is_reaping", [False, True])
def test_a_driver_warns_of_a_metastore_without_housekeeping_threads(
    run: Driver, caplog: pytest.LogCaptureFixture, *, is_reaping: bool
) -> None:
    run.server.settings["metastore.housekeeping.threads.on"] = str(is_reaping).lower()
    assert run() is ExitCode.OK
    warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert any("clients that died" in text for text in warned) is not is_reaping


def test_a_program_may_stop_its_spark_session_when_it_is_done(run: Driver) -> None:
    def stops(job: JobContext) -> JobResult:
        del run.spark.sparkContext
        return succeed(job)

    assert run(stops) is ExitCode.OK
    assert run.result.spark_app_id == "app"


def test_a_result_reports_how_long_each_phase_took(run: Driver) -> None:
    def stepping(job: JobContext) -> JobResult:
        for step in ("opened", "locked", "staged", "published", "committed"):
            job.terms.on_step(step)
        return succeed(job)

    assert run(stepping) is ExitCode.OK
    result = run.result
    assert list(result.phases) == ["prepare", "lock", "work", "publish", "commit"]
    assert sum(result.phases.values()) <= result.seconds + 0.01


def test_a_result_reports_an_error_of_spark_without_its_stack_trace(run: Driver) -> None:
    lost = PySparkException("the shuffle is lost\nJVM stacktrace:\n\tat org.apache.spark.x")
    assert run(raises(lost)) is ExitCode.UNEXPECTED
    assert run.error.message.endswith("the shuffle is lost. The driver's log has the details")


begins_nothing = raises(AssertionError("it was begun"))


def test_a_driver_that_cannot_write_its_result_does_not_start_the_job(
    tmp_path: Path,
    run: Driver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file stands where the directory of results would have to be."""
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    monkeypatch.setattr(runtime.os, "geteuid", lambda: 4_000_000_001)
    (tmp_path / "results").touch()
    place = f"file:{tmp_path}/results/1/result.json"
    assert run(begins_nothing, result_uri=place) is ExitCode.REFUSED
    (said,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    assert "the driver (user number 4000000001 (etl to Hadoop)) cannot write" in said
    assert place in said
    assert "result_dir" in said


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LocationPermissionError, ExitCode.REFUSED),
        (StoreUnavailableError, ExitCode.RETRYABLE),
    ],
)
def test_an_unavailable_result_store_is_retryable_and_a_missing_permission_is_not(
    tmp_path: Path,
    run: Driver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[LocationPermissionError | StoreUnavailableError],
    code: ExitCode,
) -> None:
    def fails(_: object, path: str, __: bytes) -> None:
        raise error(location=path, action="write", reason="whatever it said")

    monkeypatch.setattr(runtime, "write_bytes", fails)
    place = f"file:{tmp_path}/results/1/result.json"
    assert run(begins_nothing, result_uri=place) is code
    (said,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    for words in (place, "whatever it said", "user ", "he job was not started"):
        assert words in said


def test_the_write_probe_of_the_result_is_removed_before_the_job_starts(
    tmp_path: Path, run: Driver
) -> None:
    shared = tmp_path / "results"
    seen: list[list[str]] = []

    def looks(job: JobContext) -> JobResult:
        seen.append(sorted(p.name for p in shared.rglob("*")))
        return succeed(job)

    assert run(looks, result_uri=f"file:{shared}/1/result.json") is ExitCode.OK
    assert seen == [[]]
    assert [p.name for p in (shared / "1").iterdir()] == ["result.json"]


def test_other_files_in_the_directory_of_the_result_are_kept(tmp_path: Path, run: Driver) -> None:
    """For example on a worker, where the spec of the job is in that directory."""
    assert run() is ExitCode.OK
    assert sorted(p.name for p in tmp_path.iterdir()) == ["result.json", "spec.json"]


def test_a_driver_that_may_write_but_not_delete_still_writes_its_result(
    tmp_path: Path, run: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = LocationPermissionError(location="/r", action="delete", reason="no right to that")
    for name in ("delete_file", "delete_directory"):
        monkeypatch.setattr(runtime, name, raises(refused))
    assert run(result_uri=f"file:{tmp_path}/results/1/result.json") is ExitCode.OK
    names = sorted(p.name for p in (tmp_path / "results" / "1").iterdir())
    assert names == ["result.json", "result.json.probe"]


def test_the_last_line_of_a_driver_without_a_session_and_a_result_says_why(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login that is refused may prevent both; a task shows the last 20 lines of the log."""
    refused = StoreUnavailableError(location="hdfs://nn/r", action="write", reason="no login")
    monkeypatch.setattr(runtime, "read_spec", raises(refused))
    trace = "\n".join(["login refused for etl", *["\tat org.apache.hadoop.security.Login"] * 30])
    assert runtime._without_session("missing.json", PySparkException(trace)) is not ExitCode.OK
    last = [logging.Formatter().format(one) for one in caplog.records][-1]
    assert "cannot start a Spark session" in last
    assert "login refused for etl" in last
    assert "\n" not in last


def test_a_driver_hides_a_secret_that_an_error_quotes_in_its_log_and_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "open sesame")
    read_secret_text(SecretSource(variable="ORDERS_PASSWORD"))
    for error in (PySparkException("no: open sesame"), ValueError("no: open sesame")):
        record = logging.makeLogRecord(
            {"msg": "%s", "args": (error,), "exc_info": (None, error, None)}
        )
        assert "sesame" not in runtime.LogFormatter().format(record)
        assert "no: ***" in str(runtime._failed(SPEC, error).error)


def test_a_driver_begins_its_job_only_when_somebody_follows_it(
    tmp_path: Path, run: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, naps = tmp_path / "follower", list[float]()
    begun: list[bool] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        assert begun == []
        if len(naps) == 3:
            follower.touch()

    def begin(job: JobContext) -> JobResult:
        begun.append(True)
        return succeed(job)

    monkeypatch.setattr(runtime.time, "sleep", nap)
    code = run(begin, follower_uri=f"file:{follower}")
    assert (code, begun, len(naps)) == (ExitCode.OK, [True], 3)


def test_a_driver_that_nobody_follows_ends_without_its_job(tmp_path: Path, run: Driver) -> None:
    begun: list[JobContext] = []
    terms = {"follower_uri": f"file:{tmp_path}/follower", "start_timeout_s": 0.0}
    code = run(begun.append, **terms)  # type: ignore[arg-type]
    assert (code is ExitCode.OK, begun) == (False, [])
    assert run.error.type == "TaskKilledError"
    assert "has changed nothing" in run.error.message


@pytest.mark.parametrize("step", ["opened", "locked", "staged", "body_done", "table", "partition"])
def test_a_driver_on_a_worker_does_not_commit_or_clean_after_its_worker_has_died(
    tmp_path: Path, run: Driver, step: str
) -> None:
    """The worker is a process that holds the lock until it is killed."""
    file = tmp_path / "worker"
    file.touch()
    holds = (
        "import pathlib, sys; from airflow_hiveacid.jobs.contract import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    steps: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()

        def work(job: JobContext) -> JobResult:
            job.terms.on_step(step)
            steps.append("while the worker lives")
            worker.kill()
            worker.wait()
            job.terms.on_step(step)
            steps.append("after its end")
            return succeed(job)

        code = run(work, worker_file=str(file))
    assert code is not ExitCode.OK
    assert steps == ["while the worker lives"]
    assert run.error.type == "TaskKilledError"


def test_a_driver_whose_workers_file_was_removed_does_not_commit(
    tmp_path: Path, run: Driver
) -> None:
    def work(job: JobContext) -> JobResult:
        job.terms.on_step("body_done")
        return succeed(job)

    code = run(work, worker_file=str(tmp_path / "gone"))
    assert code is not ExitCode.OK


def test_names_of_other_clients_are_escaped_in_the_drivers_log() -> None:
    record = logging.makeLogRecord({"msg": "removed %s", "args": ("t/\x1b[2J\u202ex",)})
    assert runtime.LogFormatter().format(record) == "removed t/\\x1b[2J\\u202ex"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (
            LocationPermissionError(location="hdfs://nn/", action="log in to", reason="no ticket"),
            "LocationPermissionError",
            ExitCode.REFUSED,
        ),
        (PySparkException("no ticket"), "JobFailedError", ExitCode.UNEXPECTED),
        (RuntimeError("no ticket"), "JobFailedError", ExitCode.UNEXPECTED),
    ],
)
def test_an_error_before_the_session_starts_reaches_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, code: ExitCode
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.4")
    monkeypatch.setattr(runtime, "open_session", raises(error))
    spec, result = tmp_path / "spec.json", tmp_path / "result.json"
    spec.write_text(dataclasses.replace(SPEC, result_uri=f"file:{result}").dump())
    assert runtime.run_application("insert", succeed, ["--spec", str(spec)]) is code
    found = JobResult.parse(result.read_text()).error
    assert found is not None
    assert (found.type, "no ticket" in found.message) == (kind, True)


@pytest.mark.parametrize(
    ("pyspark", "java", "fault"),
    [
        ("3.5.9", "11.0.20", None),
        ("4.1.4", "21.0.1", None),
        ("4.4.0", "17.0.9", "PySpark 4.4.0 is too new"),
        ("3.5.9", "1.8.0_392", "Java 1.8.0_392 is too old"),
    ],
)
def test_a_driver_refuses_unsupported_versions_before_its_job_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pyspark: str, java: str, fault: str | None
) -> None:
    system = SimpleNamespace(getProperty={"java.version": java}.get)
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    session = SimpleNamespace(stop=lambda: None)
    monkeypatch.setattr("pyspark.__version__", pyspark)
    monkeypatch.setattr(runtime, "open_session", lambda _: session)
    monkeypatch.setattr(runtime, "jvm_of", lambda _: jvm)
    monkeypatch.setattr(runtime, "reported_stages", lambda *_: nullcontext())
    monkeypatch.setattr(runtime, "run_spec", lambda *_: ExitCode.OK)
    spec, result = tmp_path / "spec.json", tmp_path / "result.json"
    spec.write_text(dataclasses.replace(SPEC, result_uri=f"file:{result}").dump())
    code = runtime.run_application("insert", succeed, ["--spec", str(spec)])
    assert code is (ExitCode.BAD_INPUT if fault else ExitCode.OK)
    if fault is not None:
        found = JobResult.parse(result.read_text()).error
        assert found is not None
        assert found.message.startswith(fault)
