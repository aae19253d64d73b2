"""Compaction and cleaning on the worker; Spark starts only if it is necessary.

The files of the table are no ORC files: the worker cannot compact them, so that a driver tries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias

import pytest
from airflow.sdk import Asset

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    LocationPermissionError,
    MetastoreCallError,
    MetastoreLoginError,
    MetastoreUnavailableError,
    MetastoreVersionError,
    PartitionsFailedError,
    TableNotFoundError,
    TaskKilledError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.names import METADATA_FILE
from airflow_hiveacid.format.table import Column, PartitionName, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.job import JobResult
from airflow_hiveacid.maintenance import clean_tables, compaction_facts, compaction_planner
from airflow_hiveacid.metastore import preflight
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from airflow_hiveacid.operators import (
    HiveAcidCleanOperator,
    HiveAcidCleanTablesOperator,
    HiveAcidCompactOperator,
    HiveAcidCompactTablesOperator,
    spark_app,
)
from airflow_hiveacid.operators.submission.deferral import DriverNote, End, Progress, event_of
from airflow_hiveacid.operators.submission.resumption import ATTEMPT_KEY
from airflow_hiveacid.operators.submission.run_identity import DELIVERED_KEY
from airflow_hiveacid.operators.worker_first import EngineOperator
from airflow_hiveacid.storage.stores import locations
from airflow_hiveacid.storage.stores.listing import metadata_text
from airflow_hiveacid.writing import compact_tables
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import (
    Connections,
    FakeSpark,
    StateStore,
    TaskLog,
    context_of,
    run_task,
)

pytestmark = pytest.mark.usefixtures("spark")

Make: TypeAlias = Callable[..., "EngineOperator"]
_REF = TableRef("d", "t")
_DRIVER = "a Spark driver does this job"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture(autouse=True)
def client(connections: Connections, monkeypatch: pytest.MonkeyPatch, root: Path) -> FakeClient:
    """A metastore with a table of two deltas, which the hook uses; no connection has an engine."""
    connections.metastore(engine=None)
    monkeypatch.delenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT")
    made = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: made)
    made.create_database("d")
    made.create_table(
        NewTable(ref=_REF, columns=(Column(name="id", type="int"),), location=f"file:{root}")
    )
    for number in (1, 2):
        txn_id = made.open_txn()
        made.allocate_write_id(txn_id, _REF)
        _put(root, f"delta_{number:07d}_{number:07d}_0000")
        made.commit_txn(txn_id)
    return made


def _put(root: Path, name: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "bucket_00000").write_text("rows")


def _put_base(root: Path) -> None:
    _put(root, "base_0000002")
    (root / "base_0000002" / METADATA_FILE).write_bytes(metadata_text("compacted"))


def _there(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("_"))


def _compact(**given: Any) -> HiveAcidCompactOperator:  # noqa: ANN401
    return HiveAcidCompactOperator(task_id="task", table="d.t", **given)


def _clean(**given: Any) -> HiveAcidCleanOperator:  # noqa: ANN401
    return HiveAcidCleanOperator(task_id="task", table="d.t", **given)


def _clean_tables(**given: Any) -> HiveAcidCleanTablesOperator:  # noqa: ANN401
    return HiveAcidCleanTablesOperator(task_id="task", tables="d.*", **given)


def _compact_tables(**given: Any) -> HiveAcidCompactTablesOperator:  # noqa: ANN401
    return HiveAcidCompactTablesOperator(task_id="task", tables="d.*", **given)


def test_an_automatic_compaction_with_nothing_due_starts_no_spark(spark: FakeSpark) -> None:
    task = _compact(outlets=[Asset("a")])
    result = run_task(task)
    assert spark.calls == []
    assert result["status"] == "nothing_to_do"
    assert result["kind"] == "compact"
    assert result["job_key"] == "dag/scheduled__2013-01-02/task/-1"
    assert [one["kind"] for one in result["details"]["compactions"]] == ["none"]
    assert result["details"]["conflict_policy"] == "hive"
    assert task.outlets == []


def test_a_template_sets_the_threshold_of_a_compaction(spark: FakeSpark) -> None:
    result = run_task(_compact(delta_count="{{ 2 }}", plan_only=True))
    assert [one["kind"] for one in result["details"]["compactions"]] == ["major"]
    run_task(_compact(delta_count="{{ 2 }}"))
    assert len(spark.calls) == 1


def test_a_request_of_another_client_makes_the_table_due(
    spark: FakeSpark, client: FakeClient
) -> None:
    run_task(_compact())
    assert spark.calls == []
    client.request_compaction(_REF, None, CompactionType.MAJOR)
    run_task(_compact())
    assert len(spark.calls) == 1


@pytest.mark.parametrize("make", [_compact, _compact_tables])
def test_a_worker_of_the_queue_compacts_only_for_a_waiting_request(
    spark: FakeSpark, client: FakeClient, make: Make
) -> None:
    result = run_task(make(choice="queued", delta_count=1))
    assert (spark.calls, result["status"]) == ([], "nothing_to_do")
    client.request_compaction(_REF, None, CompactionType.MAJOR)
    planned = run_task(make(choice="queued", plan_only=True))
    assert [one["kind"] for one in planned["details"]["compactions"]] == ["major"]
    assert spark.calls == []
    run_task(make(choice="queued"))
    assert len(spark.calls) == 1


def test_an_empty_queue_needs_no_files_on_the_worker(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_facts, "list_table", None)
    assert run_task(_compact_tables(choice="queued"))["status"] == "nothing_to_do"
    assert spark.calls == []


def test_a_worker_of_the_queue_starts_no_spark_on_hive_3(
    spark: FakeSpark, client: FakeClient
) -> None:
    client.server.generation = MetastoreGeneration.V3
    for make in (_compact, _compact_tables):
        with pytest.raises(MetastoreVersionError, match="only Hive's own workers"):
            run_task(make(choice="queued"))
    assert spark.calls == []


def _of_night(begin: datetime) -> dict[str, Any]:
    """The context of a task whose DAG run began then."""
    return context_of(dag_run=SimpleNamespace(clear_number=0, run_after=begin))


@pytest.mark.promise("C6", "A10")
def test_a_compaction_starts_in_its_window_and_not_after_it(
    spark: FakeSpark, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tries of the night's run have the same window, and the retry comes after it."""
    begin = datetime(2026, 3, 29, 0, tzinfo=UTC)  # 01:00 in Zurich; the clocks are set forward

    def run_at(hour: int) -> dict[str, Any]:
        now_s = (begin + timedelta(hours=hour, minutes=-1)).timestamp()
        with monkeypatch.context() as patch:
            patch.setattr(compaction_planner, "time", SimpleNamespace(time=lambda: now_s))
            task = _compact_tables(delta_count=2, until="{{ '05:00' }} Europe/Zurich")
            return run_task(task, _of_night(begin))  # type: ignore[no-any-return]

    run_at(3)
    log.lines.clear()
    assert len(spark.calls) == 1
    result = run_at(4)
    assert len(spark.calls) == 1
    assert (result["status"], result["details"]["window_ended"]) == ("nothing_to_do", True)
    assert "the window ends at 2026-03-29T05:00:00+02:00" in log.lines
    assert "the window has ended; a later run continues" in log.lines


def test_after_the_window_no_spark_starts_even_if_a_driver_would_plan(spark: FakeSpark) -> None:
    begin = datetime(2020, 1, 1, tzinfo=UTC)
    for given in ({"engine": "spark"}, {"env_vars": {"A": "b"}}, {"choice": "major"}):
        result = run_task(_compact_tables(until="05:00 UTC", **given), _of_night(begin))
        assert result["details"]["window_ended"] is True
    assert spark.calls == []


def test_the_job_of_the_driver_knows_the_end_of_the_window() -> None:
    begin = datetime(2026, 11, 27, 0, tzinfo=UTC)
    moments = {
        "05:00 Europe/Zurich": datetime(2026, 11, 27, 4, tzinfo=UTC),
        "{{ dag_run.run_after + macros.timedelta(hours=3) }}": begin + timedelta(hours=3),
        "": None,
    }
    for until, end in moments.items():
        task = _compact_tables(until=until, plan_only=True)
        context = {**_of_night(begin), "macros": SimpleNamespace(timedelta=timedelta)}
        run_task(task, context)
        assert task.build_job().until_s == (None if end is None else end.timestamp())


def test_the_worker_plans_a_requested_compaction_without_spark(spark: FakeSpark) -> None:
    result = run_task(_compact(choice="major", plan_only=True))
    assert spark.calls == []
    assert result["status"] == "planned"
    assert [one["kind"] for one in result["details"]["compactions"]] == ["major"]


def test_a_job_of_many_tables_compacts_only_if_a_partition_is_due(
    spark: FakeSpark,
) -> None:
    result = run_task(_compact_tables())
    assert spark.calls == []
    assert (result["status"], result["kind"]) == ("nothing_to_do", "compact_tables")
    assert (result["details"]["tables"], result["details"]["partitions"]) == (1, 1)
    run_task(_compact_tables(delta_count=2))
    assert len(spark.calls) == 1
    run_task(_compact_tables(choice="major"))
    assert len(spark.calls) == 2


def test_the_worker_plans_the_compaction_of_many_tables(spark: FakeSpark) -> None:
    result = run_task(_compact_tables(delta_count=2, plan_only=True))
    assert spark.calls == []
    assert result["status"] == "planned"
    assert [(one["table"], one["kind"]) for one in result["details"]["compactions"]] == [
        ("d.t", "major")
    ]


def test_a_driver_plans_only_what_the_settings_of_the_worker_may_prevent(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(compaction_planner, "partitions_of", refuse)
    error: HiveAcidError = MetastoreCallError(method="get_partitions", reason="busy")
    for given in ({"plan_only": True, "engine": "worker"}, {}):
        with pytest.raises(PartitionsFailedError, match="busy"):
            run_task(_compact_tables(**given))
    error = ConfigurationError("no HDFS client")
    with pytest.raises(PartitionsFailedError, match="no HDFS client"):
        run_task(_compact_tables(engine="worker"))
    assert spark.calls == []
    run_task(_compact_tables())
    assert len(spark.calls) == 1


def test_the_worker_ends_the_queue_entries_of_dead_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[object] = []

    def end(_: object, ref: object) -> list[Any]:
        ended.append(ref)
        return []

    monkeypatch.setattr(compaction_facts, "end_dead_entries", end)
    run_task(_compact(plan_only=True))
    assert ended == []
    run_task(_compact())
    assert ended == [_REF]


def test_the_worker_cleans_a_table_without_spark(spark: FakeSpark, root: Path) -> None:
    _put_base(root)
    planned = run_task(_clean(plan_only=True))
    assert len(_there(root)) == 3
    result = run_task(_clean())
    assert spark.calls == []
    assert _there(root) == ["base_0000002"]
    assert (planned["status"], result["status"]) == ("planned", "committed")
    for one in (planned, result):
        (outcome,) = one["details"]["cleanings"]
        assert [r["path"].rsplit("/", 1)[-1] for r in outcome["removed"]] == [
            "delta_0000001_0000001_0000",
            "delta_0000002_0000002_0000",
        ]
        assert (one["kind"], one["files"], one["size_bytes"]) == ("clean", 2, 8)
    again = run_task(_clean())
    assert again["status"] == "nothing_to_do"


@pytest.mark.promise("K9")
def test_the_worker_lists_unknown_files_of_a_table(
    spark: FakeSpark, root: Path, log: TaskLog
) -> None:
    (root / "delta_0000002_0000002_0000" / "notes.txt").write_text("words")
    result = run_task(_clean(remove_unknown_after="1 day"))
    assert (spark.calls, result["status"]) == ([], "nothing_to_do")
    (outcome,) = result["details"]["cleanings"]
    (one,) = outcome["unknown"]["largest"]
    assert one["path"] == "delta_0000002_0000002_0000/notes.txt"
    assert any(line.startswith("1 unknown path (5 B) found") for line in log.lines)
    assert (root / one["path"]).exists()


def test_the_worker_cleans_many_tables_without_spark(
    spark: FakeSpark, root: Path, log: TaskLog
) -> None:
    _put_base(root)
    planned = run_task(_clean_tables(plan_only=True))
    assert len(_there(root)) == 3
    result = run_task(_clean_tables())
    assert spark.calls == []
    assert _there(root) == ["base_0000002"]
    assert (planned["status"], result["status"]) == ("planned", "committed")
    for one in (planned, result):
        assert (one["kind"], one["files"], one["size_bytes"]) == ("clean_tables", 2, 8)
        assert [found["table"] for found in one["details"]["cleanings"]] == ["d.t"]
    assert any(line.startswith("1 tables with 1 partitions: 2 directories") for line in log.lines)
    assert run_task(_clean_tables())["status"] == "nothing_to_do"


def test_the_other_tables_are_cleaned_if_one_fails_on_the_worker(
    spark: FakeSpark, root: Path, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_base(root)
    columns = (Column(name="id", type="int"),)
    bad = client.create_table(
        NewTable(ref=TableRef("d", "bad"), columns=columns, location="hdfs://nn/bad")
    )

    def check(location: str) -> None:
        if location == bad.location:
            raise ConfigurationError("no HDFS client")

    monkeypatch.setattr(clean_tables, "check_writable", check)
    with pytest.raises(PartitionsFailedError, match=r"(?s)d\.bad: no HDFS client.*d\.t: removed 2"):
        run_task(_clean_tables(engine="worker"))
    assert _there(root) == ["base_0000002"]
    assert spark.calls == []
    run_task(_clean_tables())
    assert len(spark.calls) == 1


@pytest.mark.parametrize("make", [_compact, _clean])
@pytest.mark.parametrize(
    "given",
    [
        {"proxy_user": "etl"},
        {"keytab": "/k", "principal": "p"},
        {"env_vars": {"A": "b"}},
        {"conf": {"spark.kerberos.keytab": "/k"}},
        {"conf": {"spark.yarn.principal": "p"}},
        {"conf": {"spark.hadoop.fs.s3a.endpoint": "http://s3"}},
        {"properties_file": "/spark.conf"},
    ],
)
def test_a_task_with_its_own_login_or_store_settings_for_spark_starts_spark(
    spark: FakeSpark,
    root: Path,
    make: Make,
    given: dict[str, Any],
    log: TaskLog,
) -> None:
    _put_base(root)
    run_task(make(**given))
    assert len(spark.calls) == 1
    is_store = "properties_file" in given or "spark.hadoop" in str(given)
    why = "it has settings for stores" if is_store else "the driver may run as a different user"
    assert any(line.startswith(f"{_DRIVER}, because {why}") for line in log.lines)
    assert len(_there(root)) == 3
    run_task(make(engine="worker", **given))
    assert len(spark.calls) == 1


def test_a_driver_in_a_cluster_cleans_the_table_unless_the_task_names_the_worker(
    spark: FakeSpark, root: Path, connections: Connections, tmp_path: Path
) -> None:
    _put_base(root)
    connections.add("spark_default", "spark", host="yarn", extra={"deploy-mode": "cluster"})
    run_task(_clean(result_dir=f"file:{tmp_path}/results"))
    assert len(spark.calls) == 1
    assert len(_there(root)) == 3
    connections.remove("spark_default")
    assert run_task(_clean(engine="worker"))["status"] == "committed"


@pytest.mark.parametrize("make", [_compact, _clean, _clean_tables])
def test_with_the_engine_spark_a_driver_does_everything(
    spark: FakeSpark, make: Make, log: TaskLog
) -> None:
    run_task(make(engine="spark"))
    assert len(spark.calls) == 1
    assert not any(line.startswith(_DRIVER) for line in log.lines)


@pytest.mark.parametrize("make", [_compact, _clean, _clean_tables])
def test_spark_does_everything_if_workers_may_not_reach_the_metastore(
    spark: FakeSpark, make: Make, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT", "False")
    run_task(make())
    assert len(spark.calls) == 1
    assert f"{_DRIVER}, because the option check_before_submit is False" in log.lines


@pytest.mark.parametrize(
    ("make", "where", "name"),
    [(_compact, compaction_facts, "list_table"), (_clean, clean_tables, "check_writable")],
)
@pytest.mark.parametrize(
    "error",
    [
        LocationPermissionError(location="file:/t", action="write to", reason="no"),
        ConfigurationError("no HDFS client"),
    ],
)
def test_spark_does_everything_if_the_worker_cannot_reach_the_files(
    spark: FakeSpark,
    log: TaskLog,
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    where: ModuleType,
    name: str,
    error: Exception,
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(where, name, refuse)
    with pytest.raises(type(error)):
        run_task(make(engine="worker"))
    assert spark.calls == []
    run_task(make())
    assert len(spark.calls) == 1
    assert f"the worker cannot do this job, so a Spark driver does it: {error}" in log.lines


@pytest.mark.parametrize(
    ("make", "given", "module", "name"),
    [
        (_compact, {"plan_only": True}, compact_tables, "plan_tables"),
        (_clean, {}, clean_tables, "clean_tables"),
    ],
)
def test_a_driver_does_everything_if_the_worker_cannot_reach_some_partitions(
    spark: FakeSpark,
    log: TaskLog,
    monkeypatch: pytest.MonkeyPatch,
    make: Make,
    given: dict[str, Any],
    module: ModuleType,
    name: str,
) -> None:
    def refuse(*_: object) -> None:
        failed = {"a=1": "no HDFS client"}
        causes = [ConfigurationError("no HDFS client")]
        raise PartitionsFailedError(table="d.t", failed=failed, of=2, done={}, causes=causes)

    monkeypatch.setattr(module, name, refuse)
    with pytest.raises(PartitionsFailedError):
        run_task(make(engine="worker", **given))
    assert spark.calls == []
    run_task(make(**given))
    assert len(spark.calls) == 1
    assert any("so a Spark driver does it: table d.t: 1 of 2 part" in one for one in log.lines)


def test_a_missing_client_of_the_store_is_reported_once_for_all_partitions(
    spark: FakeSpark, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = (Column(name="id", type="int"),)
    ref = TableRef("d", "parted")
    parts = (Column(name="p", type="int"),)
    client.create_table(
        NewTable(ref=ref, columns=columns, partition_columns=parts, location="hdfs://nn/parted")
    )
    names = [PartitionName.parse(f"p={number}") for number in range(3)]
    client.add_partitions(client.get_table(ref), names)

    def refuse(*_: object) -> None:
        raise ConfigurationError("no HDFS client")

    monkeypatch.setattr(locations, "client_of", refuse)
    task = HiveAcidCompactOperator(task_id="task", table="d.parted", engine="worker")
    with pytest.raises(ConfigurationError, match="no HDFS client"):
        run_task(task)
    assert spark.calls == []


def test_spark_does_everything_if_only_sparks_settings_allow_changes_on_the_store(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedTableError(table="d.t", detail="it is on abfss://")

    monkeypatch.setattr(clean_tables, "check_publishable", refuse)
    with pytest.raises(UnsupportedTableError):
        run_task(_clean(engine="worker"))
    run_task(_clean())
    assert len(spark.calls) == 1


@pytest.mark.parametrize("make", [_compact, _clean])
@pytest.mark.parametrize("kind", [MetastoreUnavailableError, MetastoreLoginError])
def test_an_error_of_the_metastore_on_the_worker_says_how_to_let_spark_do_the_work(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, make: Make, kind: type[HiveAcidError]
) -> None:
    def refuse(*_: object) -> None:
        error = kind.__new__(kind)
        Exception.__init__(error, "no answer")
        raise error

    monkeypatch.setattr(HiveAcidHook, "metastore", refuse)
    with pytest.raises(kind) as caught:
        run_task(make())
    assert spark.calls == []
    (note,) = caught.value.__notes__
    assert "connection 'hive_acid_default'" in note
    assert note.endswith("set check_before_submit=False in section [hiveacid]")
    with pytest.raises(kind) as caught:
        run_task(make(engine="worker"))
    assert caught.value.__notes__[0].endswith("and remove the argument engine")


@pytest.mark.parametrize("make", [_compact, _clean])
def test_a_missing_table_fails_the_task_without_spark(
    spark: FakeSpark, client: FakeClient, make: Make
) -> None:
    client.drop_table(_REF)
    with pytest.raises(TableNotFoundError):
        run_task(make())
    assert spark.calls == []


@pytest.mark.parametrize("make", [_compact, _clean, _clean_tables])
def test_a_driver_that_an_earlier_try_left_is_resumed(
    spark: FakeSpark, root: Path, make: Make
) -> None:
    _put_base(root)
    store = StateStore({ATTEMPT_KEY: "earlier"})
    run_task(make(engine="worker"), context_of(task_state_store=store))
    assert len(spark.calls) == 1
    assert len(_there(root)) == 3


@pytest.mark.parametrize("make", [_compact, _clean, _clean_tables])
def test_a_task_that_its_trigger_has_woken_reads_its_drivers_result(
    spark: FakeSpark, root: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    _put_base(root)
    monkeypatch.setattr(Progress, "is_woken", True)
    run_task(make(engine="worker"))
    assert len(spark.calls) == 1
    assert len(_there(root)) == 3


def test_a_trigger_has_woken_the_task_until_a_job_reads_the_event() -> None:
    note = DriverNote(
        application_id="application_1_0001",
        attempt="1-0123456789ab",
        job_key="d/r/t/-1",
        targets=("d.t",),
        result_uri="hdfs://nn/result.json",
        began_s=0.0,
        since_s=5.0,
    )
    progress = Progress()
    assert not progress.is_woken
    progress.resume(event_of(note.to_json(), End.ENDED))
    assert progress.is_woken
    assert progress.woken_for("d/r/t/-1") is not None
    assert not progress.is_woken


def test_the_workers_result_is_logged_counted_and_timed(
    root: Path, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_base(root)
    counted: list[tuple[JobResult, float]] = []
    monkeypatch.setattr(spark_app, "count_job", lambda *given: counted.append(given))
    real = clean_tables.with_past

    def slow(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        time.sleep(0.01)
        return real(*given, **more)

    monkeypatch.setattr(clean_tables, "with_past", slow)
    result = run_task(_clean())
    assert "the worker did this job without Spark" in log.lines
    ((one, took_s),) = counted
    assert one.kind == "clean"
    assert 0.01 <= result["seconds"] <= took_s + 0.001 < 60
    assert any("delta_0000001_0000001_0000" in line for line in log.lines)


def test_the_worker_reports_the_policy_of_the_task_then_of_the_table(client: FakeClient) -> None:
    def policy(**given: Any) -> str:  # noqa: ANN401
        result = run_task(_compact(plan_only=True, **given))
        return str(result["details"]["conflict_policy"])

    assert policy(conflict_policy="strict") == "strict"
    client.set_table_parameters(_REF, {"hiveacid.conflict.policy": "strict"})
    assert policy() == "strict"
    assert policy(conflict_policy="hive") == "hive"


def test_the_worker_reports_the_connections_policy_if_no_other_is_given(
    connections: Connections,
) -> None:
    extra = {"uris": "thrift://no-server:1", "conflict_policy": "strict"}
    connections.remove("hive_acid_default")
    connections.add("hive_acid_default", "hive_acid_metastore", extra=extra)
    result = run_task(_compact())
    assert result["details"]["conflict_policy"] == "strict"


@pytest.mark.parametrize("make", [_compact, _clean, _clean_tables])
def test_a_cleared_task_without_spark_begins_a_new_generation(spark: FakeSpark, make: Make) -> None:
    store = StateStore()
    for clears in range(3):
        context = context_of(task_state_store=store)
        context["ti"].max_tries = clears
        run_task(make(), context)
        assert store[DELIVERED_KEY]["generation"] == clears
    assert spark.calls == []


def test_the_worker_warns_about_settings_of_the_metastore(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preflight, "preflight", lambda _: ["the initiator is off"])
    for make in (_compact, _clean):
        caplog.clear()
        run_task(make())
        assert caplog.messages.count("the initiator is off") == 1


def test_a_killed_cleaning_stops_at_its_next_step(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_base(root)
    task = _clean()
    real = clean_tables.with_past

    def killed(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        task.on_kill()
        return real(*given, **more)

    monkeypatch.setattr(clean_tables, "with_past", killed)
    with pytest.raises(TaskKilledError, match="the task was killed"):
        run_task(task)
    assert len(_there(root)) == 3


def test_a_killed_cleaning_of_many_tables_stops_before_the_next_table(
    spark: FakeSpark, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_base(root)
    task = _clean_tables()
    monkeypatch.setattr(preflight, "log_findings", lambda _: task.on_kill())
    with pytest.raises(TaskKilledError, match="the task was killed"):
        run_task(task)
    assert len(_there(root)) == 3
    assert spark.calls == []


def test_a_killed_cleaning_of_partitions_does_not_announce_a_driver(
    log: TaskLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = _clean()

    def killed(*_: object) -> None:
        task.on_kill()
        failed, causes = {"a=1": "killed"}, [ConfigurationError("killed")]
        raise PartitionsFailedError(table="d.t", failed=failed, of=2, done={}, causes=causes)

    monkeypatch.setattr(clean_tables, "clean_tables", killed)
    with pytest.raises(PartitionsFailedError):
        run_task(task)
    assert not any("a Spark driver does it" in line for line in log.lines)


def test_names_of_other_clients_in_the_lines_of_maintenance_on_the_worker_are_escaped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logging.getLogger("hiveacid").warning("removed %s", "delta\x1b[2J\u202e")
    assert caplog.messages == ["removed delta\\x1b[2J\\u202e"]
