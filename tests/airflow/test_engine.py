"""A change of rows, a restore or a compaction on the worker or with Spark; `engine` chooses."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_hiveacid.arrow import compaction, job as arrow_job
from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    CorruptFileError,
    HiveAcidError,
    LockNotAcquiredError,
    PartitionsFailedError,
    SparkNeededError,
    StoreUnavailableError,
    TaskKilledError,
    TypeMismatchError,
)
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.maintenance.pauses import pauses
from airflow_hiveacid.metastore import client as metastore_client
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.operators import (
    HiveAcidCompactOperator,
    HiveAcidCompactTablesOperator,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidLoadOperator,
    HiveAcidMergeOperator,
    HiveAcidRestoreOperator,
    HiveAcidSqlOperator,
    HiveAcidTransactionOperator,
    HiveAcidTruncateOperator,
    HiveAcidUpdateOperator,
)
from airflow_hiveacid.operators.submission import before_submit
from tests.contract.fake_client import FakeClient
from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.support.airflow_support import Connections, FakeSpark, TaskLog, run_task
from tests.unit.storage.orc_tables import write_plain

pytestmark = pytest.mark.usefixtures("spark")
_REF = TableRef("d", "t")
_HERE = "the worker did this job without Spark"


@pytest.fixture(autouse=True)
def client(connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeClient:
    """A metastore with an empty table, which the hook uses; no connection has an engine."""
    connections.metastore(engine=None)
    monkeypatch.delenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT")
    made = FakeClient(FakeMetastore(MetastoreGeneration.V4, ManualClock()))
    monkeypatch.setattr(HiveAcidHook, "metastore", lambda _: made)
    made.create_database("d")
    (tmp_path / "t").mkdir()
    columns = (Column(name="id", type="int"), Column(name="name", type="string"))
    made.create_table(NewTable(ref=_REF, columns=columns, location=f"file:{tmp_path}/t"))
    return made


def _insert(*rows: tuple[Any, ...], number: int = 1, **given: Any) -> HiveAcidInsertOperator:  # noqa: ANN401
    source = {"columns": ["id", "name"], "values": [list(row) for row in rows]}
    return HiveAcidInsertOperator(task_id=f"insert{number}", table="d.t", source=source, **given)


def test_statements_run_on_the_worker_without_spark(spark: FakeSpark) -> None:
    result = run_task(_insert((1, "a"), (2, "b"), (3, "c"), engine="worker"))
    assert (result["status"], result["rows"]["inserted"]) == ("committed", 3)
    delete = HiveAcidDeleteOperator(task_id="delete", table="d.t", where="id = 1", engine="auto")
    assert run_task(delete)["rows"]["deleted"] == 1
    merge = HiveAcidMergeOperator(
        task_id="merge",
        table="d.t",
        source={"columns": ["id", "name"], "values": [[2, "B"], [9, "i"]]},
        keys=["id"],
        clauses=[
            {"when": "matched", "action": "update"},
            {"when": "not_matched", "action": "insert"},
        ],
        engine="worker",
    )
    rows = run_task(merge)["rows"]
    assert (rows["updated"], rows["inserted"]) == (1, 1)
    update = HiveAcidUpdateOperator(
        task_id="update", table="d.t", assignments={"name": "'z'"}, engine="{{ 'worker' }}"
    )
    assert run_task(update)["rows"]["updated"] == 3
    truncate = HiveAcidTruncateOperator(task_id="truncate", table="d.t", engine="worker")
    assert run_task(truncate)["status"] == "committed"
    assert spark.calls == []


class _State(str, Enum):  # noqa: UP042 - whose text is not its value
    OPEN = "open"


def test_the_worker_reads_values_from_json_as_a_driver_does() -> None:
    result = run_task(_insert((1, _State.OPEN), engine="worker"))
    assert {"prepare", "lock", "work", "publish", "commit"} <= result["phases"].keys()
    delete = HiveAcidDeleteOperator(
        task_id="delete", table="d.t", where="name = 'open'", engine="worker"
    )
    assert run_task(delete)["rows"]["deleted"] == 1


def _choosing(log: TaskLog) -> list[str]:
    """The lines that say which engine did the job, and why."""
    return [line for line in log.lines if "without Spark" in line or "a Spark driver" in line]


def test_the_worker_runs_simple_statements_by_default(spark: FakeSpark, log: TaskLog) -> None:
    assert run_task(_insert((1, "a")))["rows"]["inserted"] == 1
    assert spark.calls == []
    assert _choosing(log) == [_HERE]


def _merge_table(**given: Any) -> HiveAcidMergeOperator:  # noqa: ANN401
    clauses = [{"when": "matched", "action": "delete"}]
    source = {"table": "d.t"}
    return HiveAcidMergeOperator(
        task_id="merge", table="d.t", source=source, keys=["id"], clauses=clauses, **given
    )


def _delete(**given: Any) -> HiveAcidDeleteOperator:  # noqa: ANN401
    return HiveAcidDeleteOperator(task_id="delete", **{"table": "d.t", "where": "id = 1", **given})


def _both(**given: Any) -> HiveAcidTransactionOperator:  # noqa: ANN401
    statements = ["DELETE FROM d.t WHERE id = 1", "DELETE FROM d.t WHERE upper(name) = 'A'"]
    return HiveAcidTransactionOperator(task_id="both", statements=statements, **given)


@pytest.mark.parametrize(
    ("make", "given", "why"),
    [
        (_merge_table, {}, "its rows are not values, but files, tables or a query"),
        (
            partial(_insert, (1, "a")),
            {"mode": "overwrite"},
            "INSERT OVERWRITE is not done in one process yet",
        ),
        (_delete, {"where": "upper(name) = 'A'"}, "'(' after upper is not a comparison"),
        (_both, {}, "'(' after upper is not a comparison, in statement 2 of the transaction"),
        (_delete, {"env_vars": {"A": "b"}}, "the driver may run as a different user"),
        (_delete, {"proxy_user": "etl"}, "the driver may run as a different user"),
        (
            _delete,
            {"conf": {"spark.hadoop.fs.s3a.endpoint": "x"}},
            "it has settings for stores in conf or properties_file",
        ),
    ],
)
def test_a_default_task_whose_job_needs_spark_logs_why_and_otherwise_what_spark_logs(
    make: Callable[..., BaseOperator],
    given: dict[str, Any],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    def lines(**more: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401
        caplog.clear()
        with monkeypatch.context() as patch:
            log = TaskLog.of_tasks(patch)
            result = run_task(make(**given, **more))
        assert result["status"] == "committed"
        own = [re.sub(r"Spark-Submit cmd: .*|\b\d+\.\d+\b", "...", line) for line in log.lines]
        return own, caplog.messages

    by_default, others = lines()
    with_spark, others_with_spark = lines(engine="spark")
    assert by_default == [f"a Spark driver does this job, because {why}", *with_spark]
    assert others == others_with_spark


def test_a_default_task_with_too_many_rows_leaves_them_to_spark_and_nothing_behind(
    spark: FakeSpark, client: FakeClient, log: TaskLog, tmp_path: Path
) -> None:
    source = {"columns": ["id"], "values": [[number] for number in range(100_001)]}
    run_task(HiveAcidInsertOperator(task_id="insert", table="d.t", source=source))
    assert len(spark.calls) == 1
    assert _choosing(log) == [
        "a Spark driver does this job, because it changes more than 100000 rows"
    ]
    assert [txn for txn in client.open_txns_info() if txn.state is TxnState.OPEN] == []
    assert client.show_locks() == ()
    assert [file for file in (tmp_path / "t").rglob("*") if file.is_file()] == []


def test_without_a_spark_connection_the_worker_runs_what_it_can(
    spark: FakeSpark, connections: Connections
) -> None:
    connections.remove("spark_default")
    assert run_task(_insert((1, "a")))["status"] == "committed"
    for task in (_merge_table(), _delete(env_vars={"A": "b"}), _delete(engine="spark")):
        with pytest.raises(ConfigurationError, match="there is no connection 'spark_default'"):
            run_task(task)
    with pytest.raises(ConfigurationError, match="there is no connection 'cluster'"):
        run_task(_delete(spark_conn_id="cluster"))
    assert spark.calls == []


_TYPE_OF_7 = r"string '7' may not be exact in id, of type int; write 7, or the parameter .*\"7\"\}$"


def test_an_error_that_spark_cannot_start_says_why_the_task_needs_it(
    spark: FakeSpark, connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = partial(_delete, where="id = :id", parameters={"id": "{{ 7 }}"})
    needed = rf"\. Spark is needed because {_TYPE_OF_7}"
    with pytest.raises(ConfigurationError, match=rf"no spark-submit in .*{needed}"):
        run_task(task(spark_bin_dir=str(tmp_path)))
    with monkeypatch.context() as patch:

        def no_java(*_: object) -> None:
            raise ConfigurationError("spark-submit cannot run java.")

        patch.setattr(before_submit, "check_java", no_java)
        with pytest.raises(ConfigurationError, match=rf"cannot run java{needed}"):
            run_task(task())
    connections.remove("spark_default")
    with pytest.raises(ConfigurationError, match=rf"no connection 'spark_default'.*{needed}"):
        run_task(task())
    with pytest.raises(ConfigurationError, match=r"or set spark_conn_id$"):
        run_task(task(engine="spark"))
    with pytest.raises(SparkNeededError, match=_TYPE_OF_7.replace("$", r"\. Use engine=")):
        run_task(task(engine="worker"))
    assert spark.calls == []


def _with_seven(kind: str, **given: Any) -> BaseOperator:  # noqa: ANN401
    source = {"columns": ["id", "name"], "values": [["seven", "a"]]}
    match kind:
        case "delete":
            return _delete(where="id = :id", parameters={"id": "{{ 'seven' }}"}, **given)
        case "update":
            return HiveAcidUpdateOperator(
                task_id="update",
                table="d.t",
                assignments={"id": ":id"},
                parameters={"id": "{{ 'seven' }}"},
                **given,
            )
        case "merge":
            clauses = [{"when": "matched", "action": "delete"}]
            return HiveAcidMergeOperator(
                task_id="merge", table="d.t", source=source, keys=["id"], clauses=clauses, **given
            )
        case _:
            return _insert(("seven", "a"), **given)


@pytest.mark.parametrize("kind", ["delete", "update", "merge", "insert"])
def test_a_string_that_is_no_number_is_the_only_cause_unless_spark_can_decide(
    spark: FakeSpark, connections: Connections, tmp_path: Path, kind: str
) -> None:
    cause = r"^table d\.t: column 'id' is int, but the value is 'seven'; give a value of this type"
    with pytest.raises(TypeMismatchError, match=cause):
        run_task(_with_seven(kind, engine="worker"))
    with pytest.raises(TypeMismatchError, match=cause) as caught:
        run_task(_with_seven(kind, spark_bin_dir=str(tmp_path)))
    assert "cannot start: there is no spark-submit" in caught.value.__notes__[0]
    run_task(_with_seven(kind))  # no row may need the cast
    assert len(spark.calls) == 1
    spark.tell(error={"type": "ConfigurationError", "message": "the driver's own"}, exit_code=10)
    with pytest.raises(ConfigurationError, match=r"^the driver's own$"):
        run_task(_with_seven(kind))
    connections.remove("spark_default")
    with pytest.raises(TypeMismatchError, match=cause):
        run_task(_with_seven(kind))


def test_a_killed_task_changes_nothing_on_the_worker(
    spark: FakeSpark, client: FakeClient, aborted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, lock = _insert((1, "a")), client.lock

    def killed(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        task.on_kill()
        return lock(*given, **more)

    monkeypatch.setattr(client, "lock", killed)
    with pytest.raises(TaskKilledError):
        run_task(task)
    assert len(aborted) == 1
    assert [txn for txn in client.open_txns_info() if txn.state is TxnState.OPEN] == []
    assert spark.calls == []


@pytest.mark.promise("A6")
@pytest.mark.parametrize("call", ["lock", "forget_statistics"])
def test_a_kill_aborts_the_transaction_of_a_merge_on_the_worker_at_once(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The task may have no time to do this itself."""
    monkeypatch.setattr(metastore_client, "connect", lambda _: client.clone())
    run_task(_insert((1, "a"), (2, "b")))
    source = {"columns": ["id"], "values": [[1]]}
    clauses = [{"when": "matched", "action": "delete"}]
    given = {"task_id": "merge", "table": "d.t", "source": source, "keys": ["id"]}
    task = HiveAcidMergeOperator(**given, clauses=clauses, engine="worker")
    real, states = getattr(client, call), list[TxnState]()

    def killed(*given: Any, **more: Any) -> Any:  # noqa: ANN401
        answer = real(*given, **more)
        task.on_kill()
        states.extend(txn.state for txn in client.server.txns.values())
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(client, call, killed)
        with pytest.raises(TaskKilledError):
            run_task(task)
    assert states == [TxnState.COMMITTED, TxnState.ABORTED]
    assert run_task(_delete(where="id >= 1"))["rows"]["deleted"] == 2


def test_statements_of_sql_run_on_the_worker(spark: FakeSpark) -> None:
    sql = "INSERT INTO d.t VALUES (1, 'a'), (2, 'b'); DELETE FROM d.t WHERE id = 2"
    results = run_task(HiveAcidSqlOperator(task_id="sql", sql=sql, engine="worker"))["statements"]
    assert [result["rows"]["deleted"] for result in results] == [0, 1]
    assert spark.calls == []


def test_several_statements_of_a_transaction_run_on_the_worker(spark: FakeSpark) -> None:
    statements = [
        {"insert": {"table": "d.t", "source": {"columns": ["id"], "values": [[1], [2]]}}},
        "UPDATE d.t SET name = 'u' WHERE id = 1",
    ]
    task = HiveAcidTransactionOperator(task_id="both", statements=statements, engine="auto")
    rows = run_task(task)["rows"]
    assert (rows["inserted"], rows["updated"]) == (2, 1)
    assert spark.calls == []


def test_the_connection_chooses_the_engine_of_tasks_that_choose_none(
    connections: Connections, spark: FakeSpark
) -> None:
    connections.metastore(engine="spark")
    run_task(_insert((1, "a")))
    assert len(spark.calls) == 1
    run_task(_insert((1, "a"), number=2, engine="auto"))
    assert len(spark.calls) == 1
    connections.metastore(engine="worker")
    with pytest.raises(SparkNeededError):
        run_task(_merge_table())
    assert len(spark.calls) == 1


def test_a_wrong_engine_is_an_import_error_of_the_dag() -> None:
    with pytest.raises(ConfigurationError, match="engine must be one of auto, worker, spark"):
        _insert((1, "a"), engine="java")


def test_files_are_loaded_on_the_worker(spark: FakeSpark, tmp_path: Path) -> None:
    write_plain(tmp_path / "in.orc", [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    load = partial(HiveAcidLoadOperator, table="d.t", location=f"file:{tmp_path}/in.orc")
    result = run_task(load(task_id="load", engine="worker"))
    assert (result["status"], result["rows"]["inserted"]) == ("committed", 2)
    run_task(load(task_id="by_default"))
    assert spark.calls == []
    run_task(load(task_id="with_spark", engine="spark"))
    assert len(spark.calls) == 1


def test_a_load_of_sql_runs_on_the_worker(spark: FakeSpark, tmp_path: Path) -> None:
    write_plain(tmp_path / "in.orc", [{"id": 1, "name": "a"}])
    sql = f"LOAD DATA INPATH 'file:{tmp_path}/in.orc' INTO TABLE d.t"
    run_task(HiveAcidSqlOperator(task_id="sql", sql=sql, engine="auto"))
    assert spark.calls == []


def test_a_version_is_restored_on_the_worker(spark: FakeSpark) -> None:
    for number in (1, 2):
        run_task(_insert((number, "a"), number=number, engine="worker"))
    restore = partial(HiveAcidRestoreOperator, table="d.t", version=1)
    planned = run_task(restore(task_id="plan", plan_only=True, engine="worker"))
    result = run_task(restore(task_id="restore"))
    assert (planned["status"], result["status"]) == ("planned", "committed")
    assert result["details"]["restore"] == planned["details"]["restore"]
    assert (result["rows"]["inserted"], result["rows"]["deleted"]) == (0, 1)
    assert spark.calls == []
    run_task(restore(task_id="with_spark", engine="spark"))
    assert len(spark.calls) == 1


# ---- compactions ---------------------------------------------------------------------------------


@pytest.fixture
def _two_deltas() -> None:
    """The table has something to compact."""
    for number in (1, 2):
        run_task(_insert((number, "a"), number=number, engine="worker"))


def _compact(**given: Any) -> HiveAcidCompactOperator:  # noqa: ANN401
    given = {"task_id": "compact", "choice": "major", **given}
    return HiveAcidCompactOperator(table="d.t", **given)


@pytest.mark.usefixtures("_two_deltas")
@pytest.mark.parametrize("given", [{}, {"engine": "auto"}, {"engine": "worker"}])
def test_a_small_partition_is_compacted_on_the_worker_by_default(
    spark: FakeSpark, log: TaskLog, given: dict[str, Any]
) -> None:
    result = run_task(_compact(**given))
    assert (result["status"], result["kind"], result["files"]) == ("committed", "compact", 1)
    (outcome,) = result["details"]["compactions"]
    assert (outcome["kind"], outcome["done"], outcome["rows"]) == ("major", True, 2)
    assert {"prepare", "lock", "work", "commit"} <= result["phases"].keys()
    assert (spark.calls, _choosing(log)) == ([], [_HERE])
    again = run_task(_compact(**given))
    assert again["status"] == "nothing_to_do"


@pytest.mark.usefixtures("_two_deltas")
def test_a_compaction_of_many_tables_runs_on_the_worker(spark: FakeSpark) -> None:
    task = HiveAcidCompactTablesOperator(
        task_id="all", tables="d.*", choice="minor", engine="worker"
    )
    result = run_task(task)
    assert (result["status"], result["kind"]) == ("committed", "compact_tables")
    assert spark.calls == []


@pytest.mark.usefixtures("_two_deltas")
def test_a_compaction_of_sql_runs_on_the_worker(spark: FakeSpark) -> None:
    sql = "ALTER TABLE d.t COMPACT 'major'"
    assert run_task(HiveAcidSqlOperator(task_id="sql", sql=sql))["status"] == "committed"
    assert spark.calls == []


@pytest.mark.usefixtures("_two_deltas")
def test_a_driver_compacts_if_the_task_or_its_connection_says_so(
    spark: FakeSpark, connections: Connections, log: TaskLog
) -> None:
    run_task(_compact(engine="spark"))
    connections.metastore(engine="spark")
    run_task(_compact())
    assert (len(spark.calls), _choosing(log)) == (2, [])


@pytest.mark.usefixtures("_two_deltas")
def test_a_driver_does_a_compaction_that_is_too_large_for_the_worker(
    spark: FakeSpark, log: TaskLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(compaction.prepared_compaction, most_bytes=10)
    monkeypatch.setattr(compaction, "prepared_compaction", small)
    with pytest.raises(SparkNeededError, match=r"more than 10\. Use engine='auto' or 'spark'$"):
        run_task(_compact(engine="worker"))
    assert spark.calls == []
    run_task(_compact())
    assert len(spark.calls) == 1
    (line,) = _choosing(log)
    assert line.startswith("a Spark driver does this job, because the compaction reads ")


_LATE = LockNotAcquiredError(tables=("d.t",), lock_id=1, waited_s=1.0, holders="")


def _failing(error: HiveAcidError, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(compaction, "compact_bucket", fail)


@pytest.mark.usefixtures("_two_deltas")
def test_a_driver_compacts_what_the_worker_cannot_write(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_login = StoreUnavailableError(location="file:/t", action="write to", reason="no login")
    _failing(no_login, monkeypatch)
    with pytest.raises(StoreUnavailableError):
        run_task(_compact(engine="worker"))
    run_task(_compact(engine="auto"))
    assert len(spark.calls) == 1


def _away(*_: object, **__: object) -> None:
    raise StoreUnavailableError(location="s3a://b", action="read", reason="503")


@pytest.mark.usefixtures("_two_deltas")
@pytest.mark.parametrize("has_submit", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        partial(_insert, (1, "a"), number=3),
        partial(HiveAcidSqlOperator, task_id="sql", sql="DELETE FROM d.t WHERE id = 1"),
        _compact,
        partial(HiveAcidCompactTablesOperator, task_id="all", tables="d.*", choice="major"),
    ],
)
def test_an_outage_is_retried_where_spark_cannot_start(
    make: Callable[..., BaseOperator],
    has_submit: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def no_java(*_: object) -> None:
        raise ConfigurationError("spark-submit cannot run java.")

    monkeypatch.setattr(arrow_job, "prepared_job", _away)
    monkeypatch.setattr(compaction, "prepared_compaction", _away)
    monkeypatch.setattr(before_submit, "check_java", no_java)
    given = {} if has_submit else {"spark_bin_dir": str(tmp_path)}
    with pytest.raises(StoreUnavailableError, match="503") as caught:
        run_task(make(**given))
    why = "spark-submit cannot run java" if has_submit else "there is no spark-submit"
    assert f"Spark, which may succeed, cannot start: {why}" in caught.value.__notes__[0]


@pytest.mark.usefixtures("_two_deltas")
def test_a_task_that_is_killed_while_spark_starts_is_not_retried_for_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = _insert((1, "a"), number=3)

    def killed(*_: object) -> None:
        operator._is_killed = True
        raise ConfigurationError("spark-submit cannot run java.")

    monkeypatch.setattr(arrow_job, "prepared_job", _away)
    monkeypatch.setattr(before_submit, "check_java", killed)
    with pytest.raises(ConfigurationError):
        run_task(operator)


@pytest.mark.usefixtures("_two_deltas")
@pytest.mark.parametrize("engine", ["auto", "worker"])
def test_only_failures_after_which_no_driver_tries_pause_a_partition(
    spark: FakeSpark, client: FakeClient, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    _failing(CorruptFileError(path="file:/t/bucket_0", reason="no footer"), monkeypatch)
    for night in range(3):
        with contextlib.suppress(CorruptFileError):
            run_task(_compact(task_id=f"night_{night}", engine=engine))
    table = client.get_table(_REF)
    paused = pauses(table, [""], now_s=time.time())
    # Otherwise, the third driver would find the partition paused, and end as if all were done.
    assert (len(spark.calls), list(paused)) == ((3, []) if engine == "auto" else (0, [""]))


@pytest.mark.usefixtures("_two_deltas")
def test_without_a_spark_connection_the_task_fails_with_the_error_of_the_worker(
    connections: Connections, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections.remove("spark_default")
    _failing(CorruptFileError(path="file:/t/bucket_0", reason="no footer"), monkeypatch)
    for night in range(2):
        with pytest.raises(CorruptFileError):
            run_task(_compact(task_id=f"night_{night}"))
    assert list(pauses(client.get_table(_REF), [""], now_s=time.time())) == [""]
    small = partial(compaction.prepared_compaction, most_bytes=10)
    monkeypatch.setattr(compaction, "prepared_compaction", small)
    with pytest.raises(ConfigurationError, match="there is no connection 'spark_default'"):
        run_task(_compact())


@pytest.mark.usefixtures("_two_deltas")
def test_no_driver_repeats_partitions_that_failed_for_another_reason_than_their_files(
    spark: FakeSpark, client: FakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = client.get_table(_REF)
    causes: list[HiveAcidError] = [_LATE]

    def fail(*_: object, **__: object) -> None:
        failed = {str(number): str(error) for number, error in enumerate(causes)}
        raise PartitionsFailedError(table=table.ref, failed=failed, of=3, done={}, causes=causes)

    monkeypatch.setattr(compaction, "compact_tables", fail)
    with pytest.raises(PartitionsFailedError):
        run_task(_compact(engine="auto"))
    assert spark.calls == []
    causes[:] = [ConfigurationError("no such key")]
    with pytest.raises(ConfigurationError, match=r"(?s)no spark-submit in .*no such key"):
        run_task(_compact(spark_bin_dir=str(tmp_path)))
    causes.append(StoreUnavailableError(location="file:/t", action="read", reason="no login"))
    with pytest.raises(PartitionsFailedError, match="no login"):
        run_task(_compact(spark_bin_dir=str(tmp_path)))
    run_task(_compact(engine="auto"))
    assert len(spark.calls) == 1


@pytest.mark.usefixtures("_two_deltas")
def test_a_killed_compaction_leaves_the_table_for_the_next_try(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch, aborted: list[str], tmp_path: Path
) -> None:
    task = _compact(engine="auto")
    real = compaction.compact_bucket

    def killed(work: Any) -> Any:  # noqa: ANN401
        task.on_kill()
        return real(work)

    with monkeypatch.context() as patch:
        patch.setattr(compaction, "compact_bucket", killed)
        with pytest.raises(TaskKilledError):
            run_task(task)
    assert (len(aborted), spark.calls) == (1, [])
    assert not [*tmp_path.glob("t/base_*")]
    assert run_task(_compact(engine="auto"))["status"] == "committed"
