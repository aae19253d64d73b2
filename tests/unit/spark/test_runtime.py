"""What every application says before its own story; no Spark is started here."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import WriteConflictError
from airflow_hiveacid.format.winner import Winner
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.results import ExitCode, JobResult, JobStatus
from airflow_hiveacid.jobs.specs import DeleteSpec, JobSpec
from airflow_hiveacid.spark import runtime
from contract.fake_client import FakeClient
from contract.fake_metastore import FakeMetastore
from contract.manual_clock import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hiveacid.spark.writing.context import JobContext

SPEC = JobSpec(
    job_key="k",
    metastore=MetastoreEndpoint(uris=("thrift://h:1",)),
    job=DeleteSpec(target="d.t"),
)


def story(job: JobContext) -> JobResult:
    return JobResult(
        kind=job.spec.kind, job_key=job.spec.job_key, status=JobStatus.COMMITTED, table="d.t"
    )


def a_session() -> Any:  # noqa: ANN401 -- no session at all
    settings: dict[str, str] = {}
    conf = SimpleNamespace(get=settings.get)
    return SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app", getConf=lambda: conf))


def test_a_loser_says_in_its_result_who_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(job: JobContext) -> JobResult:
        del job
        winner = Winner(txn_id=9, write_id=4, job_key="dag/run/first/-1")
        raise WriteConflictError(txn_id=10, reason="it was late", winner=winner)

    server = FakeMetastore(MetastoreGeneration.V4, ManualClock())
    monkeypatch.setattr(runtime, "connect", lambda _: FakeClient(server))
    monkeypatch.setattr(runtime, "SparkFiles", SimpleNamespace(get=lambda name: name))
    answer = tmp_path / "result.json"
    spec = dataclasses.replace(SPEC, result_uri=f"file:{answer}")
    (tmp_path / "spec.json").write_text(spec.dump())
    code = runtime.run_spec(a_session(), lose, str(tmp_path / "spec.json"))
    result = JobResult.parse(answer.read_text())
    assert (code, result.status) == (ExitCode.RETRYABLE, JobStatus.FAILED)
    lost: Any = result.details["lost_against"]
    assert (lost["txn_id"], lost["write_id"], lost["job_key"]) == (9, 4, "dag/run/first/-1")


@pytest.mark.parametrize("is_reaping", [False, True])
def test_a_driver_warns_of_a_metastore_that_forgets_nobody(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    is_reaping: bool,
) -> None:
    server = FakeMetastore(MetastoreGeneration.V4, ManualClock())
    server.settings["metastore.housekeeping.threads.on"] = str(is_reaping).lower()
    monkeypatch.setattr(runtime, "connect", lambda _: FakeClient(server))
    monkeypatch.setattr(runtime, "SparkFiles", SimpleNamespace(get=lambda name: name))
    (tmp_path / "spec.json").write_text(SPEC.dump())
    spark = a_session()
    assert runtime.run_spec(spark, story, str(tmp_path / "spec.json")) is ExitCode.OK
    warned = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert any("clients that died" in text for text in warned) is not is_reaping


def test_a_program_may_stop_the_session_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeMetastore(MetastoreGeneration.V4, ManualClock())
    monkeypatch.setattr(runtime, "connect", lambda _: FakeClient(server))
    monkeypatch.setattr(runtime, "SparkFiles", SimpleNamespace(get=lambda name: name))
    spec = dataclasses.replace(SPEC, result_uri=f"file:{tmp_path}/result.json")
    (tmp_path / "spec.json").write_text(spec.dump())
    spark = a_session()

    def stops(job: JobContext) -> JobResult:
        del spark.sparkContext
        return story(job)

    assert runtime.run_spec(spark, stops, str(tmp_path / "spec.json")) is ExitCode.OK
    assert JobResult.parse((tmp_path / "result.json").read_text()).spark_app_id == "app"
