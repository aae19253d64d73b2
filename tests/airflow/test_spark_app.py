from __future__ import annotations

import errno
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Asset, AssetAlias

from airflow_hiveacid.airflow_names import RetryAction
from airflow_hiveacid.assets import hive_asset
from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    ConfigurationError,
    ContractVersionError,
    FencedError,
    HiveAcidError,
    InputError,
    JobFailedError,
    LockNotAcquiredError,
    MergeCardinalityError,
    StoreUnavailableError,
    TableNotFoundError,
    WriteConflictError,
)
from airflow_hiveacid.jobs.contract import worker_lives
from airflow_hiveacid.jobs.job import JobResult, JobSpec, JobStatus, RowCounts
from airflow_hiveacid.operators.hive_acid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.submission import submitter
from airflow_hiveacid.operators.submission.cluster_run import ClusterRun
from airflow_hiveacid.operators.submission.result_file import ResultFile
from airflow_hiveacid.operators.submission.resumption import RESULT_URI_KEY
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY, INSTALLATION_KEY
from tests.support.airflow_minors import IS_3_3, since_3_3
from tests.support.airflow_support import (
    METASTORE_URI,
    Connections,
    FakeSpark,
    StateStore,
    TaskLog,
    context_of,
    run_task,
)
from tests.support.cluster_tasks import connect_yarn, is_running, killed_once, until
from tests.support.pretended_yarn import FAILED, RUNNING, SUCCEEDED, ResourceManager

pytestmark = pytest.mark.usefixtures("connections", "spark")

_JOB_KEY = "dag/scheduled__2013-01-02/task/-1"
_APPLICATION = "application_1_0001"
_NOTED = {INSTALLATION_KEY} if IS_3_3 else set()
_DELIVERED = {DELIVERED_KEY, INSTALLATION_KEY} if IS_3_3 else set()


def _delete(**arguments: Any) -> HiveAcidDeleteOperator:  # noqa: ANN401
    return HiveAcidDeleteOperator(task_id="task", table="demo.flights", where="id = 1", **arguments)


def _spec(spark: FakeSpark) -> JobSpec:
    return JobSpec.parse(json.dumps(spark.calls[-1]["spec"]))


# ---- what is submitted ---------------------------------------------------------------------------


def test_the_spark_submit_command_names_the_master_application_code_and_spec(
    spark: FakeSpark,
) -> None:
    run_task(_delete())
    arguments, options = spark.call["arguments"], spark.options
    assert options["--master"] == "local[1]"
    assert options["--name"] == "hiveacid-delete-demo.flights"
    assert arguments[-3].endswith("/spark_apps/delete.py")
    assert Path(arguments[-3]).is_file()
    assert arguments[-2:] == ["--spec", options["--spec"]]
    with zipfile.ZipFile(options["--py-files"]) as archive:
        assert "airflow_hiveacid/jobs/job.py" in archive.namelist()


def test_the_spec_contains_the_metastore_address_and_the_job_key(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.metastore(lock_timeout_s=42)
    run_task(_delete(heartbeat_s=2.0))
    spec = _spec(spark)
    assert spec.metastore.uris == (METASTORE_URI,)
    assert (spec.job_key, spec.lock_timeout_s, spec.heartbeat_s) == (_JOB_KEY, 42.0, 2.0)
    run_task(_delete(lock_timeout_s="{{ 3 * 5 }}"))
    assert _spec(spark).lock_timeout_s == 15.0


def test_the_job_gets_the_operators_conflict_policy_and_the_connections_as_its_default(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.metastore(conflict_policy="strict")
    run_task(_delete(conflict_policy="{{ 'hi' ~ 've' }}"))
    spec = _spec(spark)
    assert spec.conflict_policy is ConflictPolicy.HIVE
    assert spec.default_conflict_policy is ConflictPolicy.STRICT


def test_the_arguments_and_the_spec_do_not_contain_the_password(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        host="hms",
        login="etl",
        password="hunter2",
    )
    run_task(_delete())
    assert "hunter2" not in json.dumps([spark.call["arguments"], spark.call["spec"]])


def test_only_the_current_user_can_read_the_spec(spark: FakeSpark) -> None:
    run_task(_delete())
    assert spark.call["spec_mode"] == "0o700"


def test_the_temporary_directory_of_the_spec_is_removed(spark: FakeSpark) -> None:
    run_task(_delete())
    assert not Path(spark.options["--spec"]).parent.exists()


def test_the_users_own_code_and_configuration_are_kept(spark: FakeSpark) -> None:
    run_task(
        _delete(
            py_files="/mine.zip",
            files="/mine.conf",
            conf={"spark.executor.instances": "{{ 2 }}"},
            name="nightly-{{ ds }}",
        )
    )
    options = spark.options
    assert options["--py-files"].split(",")[1:] == ["/mine.zip"]
    assert options["--files"] == "/mine.conf"
    assert options["--conf"] == "spark.executor.instances=2"
    assert options["--name"] == "nightly-2013-01-02"


def test_settings_that_the_spark_provider_adds_at_execution_are_submitted(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        submitter,
        "inject_transport_information_into_spark_properties",
        lambda given, _: {**given, "spark.openlineage.transport.type": "http"},
    )
    run_task(_delete(openlineage_inject_transport_info=True))
    assert spark.options["--conf"] == "spark.openlineage.transport.type=http"


@pytest.mark.parametrize("wait", ["-1", "nan", "soon"])
def test_an_invalid_start_timeout_s_in_airflows_configuration_is_refused(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__START_TIMEOUT_S", wait)
    with pytest.raises(ConfigurationError, match=r"start_timeout_s of section \[hiveacid\]"):
        run_task(_delete())
    assert spark.calls == []


def test_start_timeout_s_comes_from_the_operator_or_airflows_configuration(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__START_TIMEOUT_S", "90.5")
    run_task(_delete())
    run_task(_delete(start_timeout_s=7))
    assert [call["spec"]["start_timeout_s"] for call in spark.calls] == [90.5, 7.0]


def test_spark_bin_dir_is_first_on_the_path_of_spark_submit_but_not_of_the_worker(
    spark: FakeSpark,
) -> None:
    before = os.environ["PATH"]
    run_task(_delete())
    assert spark.call["environment"]["PATH"] == f"{spark.bin_dir}{os.pathsep}{before}"
    assert "PYSPARK_PYTHON" not in spark.call["environment"]
    assert os.environ["PATH"] == before


def test_spark_bin_dir_can_be_set_in_airflows_configuration(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR", str(spark.bin_dir))
    run_task(HiveAcidDeleteOperator(task_id="task", table="db.t"))
    assert spark.calls


def test_without_spark_bin_dir_spark_submit_is_found_on_the_path(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR")
    monkeypatch.setenv("PATH", f"{spark.bin_dir}{os.pathsep}{os.environ['PATH']}")
    run_task(HiveAcidDeleteOperator(task_id="task", table="db.t"))
    assert spark.calls


def test_a_spark_bin_dir_without_spark_submit_is_refused(spark: FakeSpark, tmp_path: Path) -> None:
    task = HiveAcidDeleteOperator(task_id="task", table="db.t", spark_bin_dir=str(tmp_path))
    with pytest.raises(ConfigurationError, match="no spark-submit in"):
        run_task(task)
    assert spark.calls == []


def test_a_missing_spark_submit_raises_an_error_that_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"Set spark_bin_dir .* spark-environment DIR"):
        run_task(HiveAcidDeleteOperator(task_id="task", table="db.t"))


# ---- what comes back -----------------------------------------------------------------------------


@pytest.mark.promise("A15")
def test_the_task_returns_the_result_of_the_job() -> None:
    returned = run_task(_delete())
    assert returned == json.loads(json.dumps(returned))
    assert returned["status"] == "committed"
    assert returned["rows"] == {"inserted": 1, "updated": 2, "deleted": 0}
    assert returned["write_ids"] == {"demo.flights": 3}
    assert (returned["files"], returned["size_bytes"], returned["seconds"]) == (4, 500, 1.5)


def test_the_asset_event_of_an_outlet_contains_the_write_id() -> None:
    asset = Asset(name="flights", uri="hive://hms:10000/demo/flights")
    context = context_of()
    run_task(_delete(outlets=[asset]), context)
    assert context["outlet_events"][asset].extra == {
        "table": "demo.flights",
        "status": "committed",
        "txn_id": 7,
        "write_id": 3,
        "rows": {"inserted": 1, "updated": 2, "deleted": 0},
        "partitions": ["month=1"],
        "partitions_omitted": 0,
    }


def test_an_asset_alias_gets_an_event_for_each_changed_table(spark: FakeSpark) -> None:
    alias, context = AssetAlias("flights"), context_of()
    run_task(_delete(outlets=[alias]), context)
    (event,) = context["outlet_events"][alias].asset_alias_events
    assert event.dest_asset_key.to_asset() == hive_asset("demo.flights")
    assert event.extra["write_id"] == 3
    spark.tell(status="nothing_to_do")
    run_task(_delete(outlets=[alias]), context := context_of())
    assert not context["outlet_events"][alias].asset_alias_events


@pytest.mark.parametrize("argument", ["application", "application_args"])
def test_a_program_given_to_an_operator_of_statements_is_refused(argument: str) -> None:
    with pytest.raises(ConfigurationError, match=f"HiveAcidDeleteOperator sets {argument} itself"):
        _delete(**{argument: ["/x.py"]})


@pytest.mark.parametrize(
    ("status", "on_rerun", "is_cleared", "tells"),
    [
        ("committed", "apply", False, True),
        ("committed", "skip", True, True),
        ("nothing_to_do", "apply", False, False),
        ("planned", "apply", False, False),
        # An earlier try has committed and was lost before it could tell: this one does.
        ("already_done", "apply", False, True),
        ("already_done", "skip", False, True),
        ("already_done", "apply", True, True),
        # Cleared after a success, which has told.
        ("already_done", "skip", True, False),
    ],
)
def test_an_asset_event_is_sent_only_for_a_change(
    spark: FakeSpark, status: str, on_rerun: str, *, is_cleared: bool, tells: bool
) -> None:
    asset = Asset(name="flights", uri="hive://hms:10000/demo/flights")
    spark.tell(status=status)
    task = _delete(outlets=[asset], on_rerun=on_rerun)
    delivered = {DELIVERED_KEY: {"generation": 0, "max_tries": 1}}
    context = context_of(task_state_store=StateStore(delivered if is_cleared else {}))
    # Below Airflow 3.3, any clear counts, even of a task that has delivered nothing.
    context["ti"].max_tries = 2 if is_cleared or IS_3_3 else 0
    context["dag_run"].clear_number = 1
    run_task(task, context)
    assert task.outlets == ([asset] if tells else [])
    assert bool(context["outlet_events"][asset].extra) is tells


@pytest.mark.parametrize("status", ["already_done", "nothing_to_do", "planned"])
def test_a_job_without_changes_succeeds(spark: FakeSpark, status: str) -> None:
    spark.tell(status=status)
    assert run_task(_delete())["status"] == status


@pytest.mark.parametrize(
    ("error", "exit_code", "then"),
    [
        (TableNotFoundError, 10, RetryAction.FAIL),
        (MergeCardinalityError, 10, RetryAction.FAIL),
        (FencedError, 11, RetryAction.FAIL),
        (LockNotAcquiredError, 20, RetryAction.RETRY),
        (WriteConflictError, 20, RetryAction.RETRY),
        (CommitStateUnknownError, 20, RetryAction.RETRY),
        (WriteConflictError, 0, RetryAction.RETRY),
    ],
)
def test_an_error_of_the_driver_is_raised_with_its_type_and_retried_if_it_may_pass(
    spark: FakeSpark, error: type[HiveAcidError], exit_code: int, then: RetryAction
) -> None:
    spark.tell(error={"type": error.__name__, "message": "table x: no"}, exit_code=exit_code)
    task = _delete()
    with pytest.raises(error, match="table x: no") as caught:
        run_task(task)
    assert task.retry_policy is not None
    assert task.retry_policy.evaluate(caught.value, 1, 3).action is then


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ({"answers": False, "exit_code": 137}, JobFailedError, r"left no result \(exit code 137\)"),
        ({"answers": False}, JobFailedError, "left no result"),
        ({"answers": False, "exit_code": 10}, InputError, "exit code 10"),
        ({"cut": 40}, JobFailedError, "truncated"),
        ({"job_key": "somebody/else"}, JobFailedError, "somebody/else"),
        ({"status": "failed"}, JobFailedError, "failed without an error"),
        ({"version": 0}, ContractVersionError, "the application is older"),
    ],
)
def test_a_result_that_is_missing_broken_foreign_or_old_fails_the_task(
    spark: FakeSpark, told: dict[str, Any], error: type[HiveAcidError], message: str
) -> None:
    spark.tell(**told)
    with pytest.raises(error, match=message):
        run_task(_delete())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            (
                'Exception in thread "main" org.apache.hadoop.KerberosAuthException: no key\n'
                "\tat org.apache.hadoop.X.login(X.java:1)\n"
                "Caused by: javax.security.auth.login.LoginException: Checksum failed\n"
                "\t... 12 more\n26/11/27 INFO ShutdownHookManager: Shutdown hook called"
            ),
            r"javax\.security\.auth\.login\.LoginException: Checksum failed",
        ),
        ("Traceback (most recent call last):\n  f()\nValueError: no key", "ValueError: no key"),
        ("Error: Missing application resource", "Error: Missing application resource"),
        ("12:30:01 ERROR the driver cannot write its result", "the driver cannot write its result"),
    ],
)
def test_the_reason_of_a_driver_without_a_result_reaches_the_task(
    spark: FakeSpark, said: str, reason: str
) -> None:
    spark.tell(answers=False, exit_code=1, says=said)
    with pytest.raises(JobFailedError, match=rf"\(exit code 1\), but wrote: {reason}\. The"):
        run_task(_delete())


def test_output_in_another_encoding_does_not_end_the_task(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = TaskLog.of_tasks(monkeypatch)
    spark.tell(says="Stra\u00dfe", encoding="latin-1")
    assert run_task(_delete())["status"] == "committed"
    assert "Stra\ufffde" in shown.lines


def test_a_result_that_is_not_utf8_raises_a_job_failed_error(spark: FakeSpark) -> None:
    result = spark.directory / "result.json"
    result.write_bytes(b'{"table": "Stra\xdfe"}')
    with pytest.raises(JobFailedError, match="truncated"):
        ResultFile.local(spark.directory).read()


def test_a_worker_holds_its_drivers_lock_until_the_driver_has_ended(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def read(_: object, lines: Iterator[str]) -> None:
        next(lines)
        seen.append(worker_lives(spark.call["spec"]["worker_file"]))

    monkeypatch.setattr(SparkSubmitHook, "_process_spark_submit_log", read)
    run_task(_delete())
    assert seen == [True]
    assert not worker_lives(spark.call["spec"]["worker_file"])


def test_an_error_in_the_reader_of_the_output_kills_the_driver(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: object, lines: Iterator[str]) -> None:
        next(lines)
        until((spark.directory / "hanging.json").exists)
        raise ValueError("a line that nobody expected")

    monkeypatch.setattr(SparkSubmitHook, "_process_spark_submit_log", read)
    spark.tell(hangs=True)
    with pytest.raises(ValueError, match="nobody expected"):
        run_task(_delete())
    processes = json.loads((spark.directory / "hanging.json").read_text())
    until(lambda: not any(map(is_running, processes.values())))


def test_every_try_has_the_same_job_key(spark: FakeSpark) -> None:
    task = _delete()
    spark.tell(error={"type": "WriteConflictError", "message": "lost"}, exit_code=20)
    with pytest.raises(WriteConflictError):
        run_task(task, context_of(try_number=1))
    spark.tell(error=None, exit_code=0)
    run_task(task, context_of(try_number=2))
    first, second = (call["spec"] for call in spark.calls)
    assert first["job_key"] == second["job_key"] == _JOB_KEY
    assert first["result_uri"] != second["result_uri"]


def test_running_an_operator_twice_does_not_accumulate_arguments(spark: FakeSpark) -> None:
    task = _delete(py_files="/mine.zip")
    run_task(task)
    run_task(task)
    first, second = (call["arguments"] for call in spark.calls)
    assert first[first.index("--py-files") + 1] == second[second.index("--py-files") + 1]
    assert len(first) == len(second)


# ---- connections that are not as they must be ----------------------------------------------------


def test_a_missing_spark_connection_raises_an_error_instead_of_meaning_yarn(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.remove("spark_default")
    with pytest.raises(ConfigurationError, match="no connection 'spark_default' for Spark"):
        run_task(_delete())
    assert spark.calls == []


def test_a_missing_metastore_connection_raises_an_error_with_its_name(spark: FakeSpark) -> None:
    with pytest.raises(ConfigurationError, match="no connection 'nowhere'"):
        run_task(_delete(hive_acid_conn_id="nowhere"))
    assert spark.calls == []


def test_a_spark_connection_without_a_master_raises_an_error_with_its_name(
    connections: Connections,
) -> None:
    connections.add("spark_default", "spark")
    with pytest.raises(ConfigurationError, match="'spark_default' has no host"):
        run_task(_delete())


@pytest.mark.parametrize(
    "given",
    [
        {"host": "spark://master:7077"},
        {"host": "spark://master", "port": 7077},
        {"host": "master", "port": 7077},  # what is left of a URI
    ],
)
def test_a_standalone_master_keeps_its_scheme(
    spark: FakeSpark, connections: Connections, given: dict[str, Any]
) -> None:
    connections.add("spark_default", "spark", **given)
    run_task(_delete())
    assert spark.options["--master"] == "spark://master:7077"


@pytest.mark.parametrize("master", ["spark://master:7077", "local[2]"])
def test_cluster_mode_is_refused_for_masters_that_do_not_support_it_for_python(
    connections: Connections, master: str
) -> None:
    connections.add("spark_default", "spark", host=master, extra={"deploy-mode": "cluster"})
    with pytest.raises(ConfigurationError, match="does not run Python drivers in cluster mode"):
        run_task(_delete())


# ---- cluster deploy mode -------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def yarn(connections: Connections, results: Path) -> None:
    connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    connections.metastore(result_dir=f"file:{results}")


@pytest.mark.usefixtures("yarn")
def test_in_cluster_mode_the_spec_is_shipped_and_the_result_is_read_from_the_shared_directory(
    spark: FakeSpark, results: Path
) -> None:
    assert run_task(_delete(files="/mine.conf"))["status"] == "committed"
    shipped = spark.options["--files"].split(",")
    assert Path(shipped[0]).name == spark.options["--spec"]
    assert shipped[1] == "/mine.conf"
    assert spark.options["--deploy-mode"] == "cluster"
    assert _spec(spark).result_uri is not None
    assert str(_spec(spark).result_uri).startswith(f"file:{results}/")
    assert list(results.iterdir()) == []


@pytest.mark.usefixtures("yarn")
def test_result_dir_of_the_operator_overrides_that_of_the_connection(
    spark: FakeSpark, tmp_path: Path
) -> None:
    run_task(_delete(result_dir=f"file:{tmp_path}/other"))
    assert str(_spec(spark).result_uri).startswith(f"file:{tmp_path}/other/")


def test_cluster_mode_without_a_result_directory_is_refused_before_submission(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    with pytest.raises(ConfigurationError, match="result_dir"):
        run_task(_delete())
    assert spark.calls == []


@pytest.mark.usefixtures("yarn")
def test_yarn_without_a_resource_manager_address_runs_without_resumption(spark: FakeSpark) -> None:
    task = _delete()
    run_task(task)
    assert task.durable is IS_3_3
    assert "spark.yarn.submit.waitAppCompletion=false" not in spark.call["arguments"]


@pytest.fixture
def resource_manager(
    spark: FakeSpark, connections: Connections, results: Path
) -> Iterator[ResourceManager]:
    with ResourceManager.started() as server:
        connect_yarn(connections, server, "cluster")
        connections.metastore(result_dir=f"file:{results}")
        spark.tell(says=f"Submitted application {_APPLICATION}")
        yield server


def test_with_a_resource_manager_address_a_driver_on_yarn_is_tracked(
    spark: FakeSpark, resource_manager: ResourceManager
) -> None:
    store = StateStore()
    run_task(_delete(), context_of(task_state_store=store))
    assert "spark.yarn.submit.waitAppCompletion=false" in spark.call["arguments"]
    assert resource_manager.asked == [_APPLICATION]
    assert set(store) == _DELIVERED


def _lose_the_worker(
    spark: FakeSpark, resource_manager: ResourceManager, context: dict[str, Any]
) -> None:
    """Run a task whose worker goes while it waits for the next poll."""

    def lost(*_: object) -> None:
        raise KeyboardInterrupt

    spark.tell(answers=False)
    resource_manager.app = RUNNING
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRun, "_pause", lost)
        with pytest.raises(KeyboardInterrupt):
            run_task(_delete(), context)


def test_without_a_state_store_a_retry_submits_its_job_again_and_warns_once(
    spark: FakeSpark, resource_manager: ResourceManager, log: TaskLog
) -> None:
    """The ledger of the table keeps the second driver from applying the change again."""
    _lose_the_worker(spark, resource_manager, context_of())
    assert not [text for text in log.warnings if "cannot find a driver" in text]
    spark.tell(answers=True)
    resource_manager.app = SUCCEEDED
    run_task(_delete(), context_of(try_number=2))
    (_,) = [text for text in log.warnings if "cannot find a driver" in text]
    first, second = (call["spec"] for call in spark.calls)
    assert first["job_key"] == second["job_key"] == _JOB_KEY
    assert first["generation"] == second["generation"] == 0
    assert first["result_uri"] != second["result_uri"]


@since_3_3
@pytest.mark.promise("A7")
def test_a_retry_finds_the_driver_of_a_lost_worker_and_its_result(
    spark: FakeSpark, resource_manager: ResourceManager
) -> None:
    store = StateStore()
    _lose_the_worker(spark, resource_manager, context_of(task_state_store=store))
    assert store["spark_job_id"] == _APPLICATION
    # The driver that nobody watched has ended by now and left its result.
    left = Path(str(store[RESULT_URI_KEY]).removeprefix("file:"))
    left.parent.mkdir(parents=True, exist_ok=True)
    result = JobResult(
        kind="delete",
        job_key=_spec(spark).job_key,
        status=JobStatus.COMMITTED,
        table="demo.flights",
        txn_id=9,
        write_ids={"demo.flights": 4},
        rows=RowCounts(deleted=1),
        files=1,
        size_bytes=10,
        seconds=2.0,
    )
    left.write_text(result.dump())
    resource_manager.app = SUCCEEDED
    returned = run_task(_delete(), context_of(try_number=2, task_state_store=store))
    assert returned["write_ids"] == {"demo.flights": 4}
    assert len(spark.calls) == 1
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}


@since_3_3
def test_a_retry_does_not_take_the_result_of_a_different_statement(
    spark: FakeSpark, resource_manager: ResourceManager
) -> None:
    other = {"generation": 0, "statement": {"kind": "another"}}
    store = StateStore(
        spark_job_id="application_1_0001",
        hiveacid_result_uri="file:/nowhere/result.json",
        hiveacid_submission=other,
    )
    run_task(_delete(), context_of(try_number=2, task_state_store=store))
    assert len(spark.calls) == 1
    assert resource_manager.asked == [_APPLICATION]
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}


@since_3_3
def test_a_task_cleared_after_its_success_is_submitted_again(
    spark: FakeSpark, resource_manager: ResourceManager
) -> None:
    # The Spark provider notes a pod's success, and would take a running driver for done by it.
    store = StateStore(k8s_driver_status="Succeeded")
    run_task(_delete(), context_of(task_state_store=store))
    assert set(store) == {DELIVERED_KEY, INSTALLATION_KEY}
    run_task(_delete(), context_of(task_state_store=store))
    assert len(spark.calls) == 2
    assert resource_manager.asked == [_APPLICATION] * 2


def test_a_typed_error_of_a_driver_in_the_cluster_is_raised(
    spark: FakeSpark, resource_manager: ResourceManager
) -> None:
    spark.tell(error={"type": "WriteConflictError", "message": "lost"})
    resource_manager.app = FAILED
    store = StateStore()
    with pytest.raises(WriteConflictError):
        run_task(_delete(), context_of(task_state_store=store))
    assert set(store) == _NOTED


@pytest.mark.usefixtures("aborted")
def test_killing_the_task_kills_the_driver_in_the_cluster(
    resource_manager: ResourceManager,
) -> None:
    task = _delete()
    run_task(task, context_of(task_state_store=StateStore()))
    task.on_kill()
    assert resource_manager.killed == [_APPLICATION]


def test_a_full_temporary_directory_raises_an_error_that_names_tmpdir(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(StoreUnavailableError, match=r"cannot write /.*No space left.*TMPDIR"):
        run_task(_delete())
    assert spark.calls == []


# ---- being killed --------------------------------------------------------------------------------


def test_killing_the_task_kills_every_child_process_of_spark_submit(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted: list[str] = []
    monkeypatch.setattr(
        "airflow_hiveacid.operators.spark_app.abort_attempt",
        lambda spec: aborted.append(spec.job_key),
    )
    spark.tell(hangs=True)
    hanging = spark.directory / "hanging.json"
    killed_once(_delete(), context_of(), lambda: hanging.exists() and hanging.read_text())
    pids = json.loads(hanging.read_text())
    until(lambda: not any(map(is_running, pids.values())))
    assert aborted == [_JOB_KEY]


@pytest.mark.usefixtures("aborted")
def test_a_task_killed_before_it_submits_does_not_submit(spark: FakeSpark) -> None:
    task = _delete()
    task.on_kill()
    with pytest.raises(JobFailedError, match="the task was killed"):
        run_task(task)
    assert spark.calls == []


def test_a_kill_ends_with_a_log_line_if_the_metastore_is_unreachable(
    caplog: pytest.LogCaptureFixture, connections: Connections
) -> None:
    connections.metastore("thrift://127.0.0.1:1")
    task = _delete()
    run_task(task)
    task.on_kill()
    assert "cannot abort the transaction" in caplog.text
