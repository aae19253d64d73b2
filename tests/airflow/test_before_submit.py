"""What a worker finds before it starts Spark: `spark-submit` leaves a mark if it is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk import BaseOperator

from airflow_hiveacid import errors
from airflow_hiveacid.airflow_names import RetryAction
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    InsertOnlyTableError,
    JobFailedError,
    MetastoreUnavailableError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import Column, TableRef, TransactionalKind
from airflow_hiveacid.metastore.catalog import NewTable, table_struct
from airflow_hiveacid.metastore.gen.faults.ttypes import MetaException, NoSuchObjectException
from airflow_hiveacid.metastore.gen.tables.ttypes import GetTableResult
from airflow_hiveacid.metastore.gen.transactions.ttypes import GetOpenTxnsResponse
from airflow_hiveacid.operators.hive_acid import HiveAcidMergeOperator
from airflow_hiveacid.operators.maintenance import HiveAcidCompactOperator
from airflow_hiveacid.operators.pyspark import HiveAcidPySparkOperator
from airflow_hiveacid.operators.sql import HiveAcidSqlOperator
from airflow_hiveacid.operators.submission.resumption import ATTEMPT_KEY
from airflow_hiveacid.operators.submission.spark_target import SparkTarget
from airflow_hiveacid.operators.submission.submission import SparkArguments, Submission
from tests.airflow.test_submission import KUBERNETES, SPEC, YARN
from tests.contract.stub_server import StubServer
from tests.support.airflow_minors import since_3_3
from tests.support.airflow_support import (
    Connections,
    FakeSpark,
    StateStore,
    context_of,
    operator_of,
    run_task,
)
from tests.support.cases import cases_of

_COLUMNS: Final = (Column(name="id", type="bigint"), Column(name="name", type="string"))
_KINDS: Final = {
    "acid": TransactionalKind.FULL_ACID,
    "plain": TransactionalKind.INSERT_ONLY,
    "flat": TransactionalKind.NONE,
}
_ROWS: Final = {"values": [[1, "a"]], "columns": ["id", "name"]}


def _table(request: Any) -> GetTableResult:  # noqa: ANN401 - generated code has no types
    """Each table has a partition column, and no partition."""
    kind = _KINDS.get(request.tblName)
    if kind is None:
        raise NoSuchObjectException(f"{request.dbName}.{request.tblName} table not found")
    table = NewTable(
        ref=TableRef("demo", request.tblName),
        columns=_COLUMNS,
        partition_columns=(Column(name="day", type="string"),),
        kind=kind,
        location=f"file:/warehouse/{request.tblName}",
    )
    return GetTableResult(table=table_struct(table))


_ANSWERS: Final[dict[str, Any]] = {
    "get_open_txns_req": lambda _: GetOpenTxnsResponse(
        txn_high_water_mark=0, open_txns=[], abortedBits=b""
    ),
    "get_table_req": _table,
    "get_partitions_by_names": lambda *_: [],
    "get_config_value": lambda _, default: default,
}


@pytest.fixture(autouse=True)
def metastore(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    """A metastore with three tables in database `demo`; the check has its default."""
    monkeypatch.delenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT")
    with StubServer(**_ANSWERS) as server:
        connections.metastore(server.uri)
        yield server


def _refused(task: BaseOperator, spark: FakeSpark, **context: Any) -> HiveAcidError:  # noqa: ANN401
    """Run a task, and return the error that it raises without a start of Spark."""
    with pytest.raises(HiveAcidError) as caught:
        run_task(task, context_of("task", **context))
    assert spark.calls == []
    return caught.value


def _merge(**given: Any) -> HiveAcidMergeOperator:  # noqa: ANN401
    arguments: dict[str, Any] = {
        "table": "demo.acid",
        "source": _ROWS,
        "keys": ["id"],
        "clauses": [{"when": "matched", "action": "update", "set": {"name": "s.name"}}],
        **given,
    }
    return HiveAcidMergeOperator(task_id="task", **arguments)


@pytest.mark.parametrize("engine", ["spark", "auto"])
@pytest.mark.parametrize(
    ("operator", "error"), cases_of(Path(__file__).with_name("cases") / "refused_tables.txt")
)
def test_a_wrong_table_column_or_partition_fails_before_spark_starts(
    spark: FakeSpark,
    connections: Connections,
    metastore: StubServer,
    operator: str,
    error: str,
    engine: str,
) -> None:
    connections.metastore(metastore.uri, engine=engine)
    cls, arguments = operator_of(operator)
    name, says = error.split()
    found = _refused(cls(task_id="task", **arguments), spark)
    assert type(found) is getattr(errors, name)
    assert says in str(found)


def test_a_later_statement_is_checked_only_after_the_earlier_ones_ran(spark: FakeSpark) -> None:
    """Here the first statement runs, and the error names the second."""
    sql = "DELETE FROM demo.acid WHERE id = 1;\nDELETE FROM demo.gone WHERE id = 1"
    task = HiveAcidSqlOperator(task_id="task", sql=sql)
    with pytest.raises(TableNotFoundError) as caught:
        run_task(task)
    assert caught.value.__notes__ == ["in statement 2 of sql, line 2, column 1"]
    assert len(spark.calls) == 1


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_a_valid_job_is_checked_with_one_metastore_connection_and_submitted(
    spark: FakeSpark, metastore: StubServer, engine: str
) -> None:
    """With `auto`, its source alone says that it needs Spark."""
    task = _merge(source={"table": "demo.acid"}, engine=engine)
    assert run_task(task)["status"] == "committed"
    assert len(spark.calls) == metastore.connections == 1


def test_with_check_before_submit_off_only_the_driver_checks_the_job(
    spark: FakeSpark, metastore: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__HIVEACID__CHECK_BEFORE_SUBMIT", "False")
    run_task(_merge(table="demo.gone"))
    assert len(spark.calls) == 1
    assert metastore.connections == 0


@pytest.mark.parametrize(
    "given", [{"proxy_user": "etl"}, {"keytab": "/etl.keytab"}, {"env_vars": {"A": "b"}}]
)
def test_objects_not_found_by_the_worker_are_left_to_a_driver_of_a_different_user(
    spark: FakeSpark, given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    run_task(_merge(table="demo.hidden", **given))
    task = HiveAcidCompactOperator(
        task_id="task", table="demo.acid", partition="day=hidden", **given
    )
    run_task(task)
    assert len(spark.calls) == 2
    warnings = [one for one in caplog.messages if one.startswith("the driver must check")]
    assert len(warnings) == 2
    with pytest.raises(InsertOnlyTableError):
        run_task(_merge(table="demo.plain", **given))


@pytest.mark.parametrize(
    "target", [replace(YARN, deploy_mode="cluster"), replace(YARN, has_login=True)]
)
def test_a_driver_in_a_cluster_or_with_its_own_login_may_run_as_a_different_user(
    target: SparkTarget,
) -> None:
    given = SparkArguments(conn_id="spark")
    one = Submission(spec=SPEC, target=target, application="a.py", arguments=given)
    assert one.may_change_user
    assert not replace(one, target=YARN).may_change_user


@pytest.mark.parametrize(
    "name",
    [
        "spark.kerberos.keytab",
        "spark.kerberos.principal",
        "spark.yarn.keytab",
        "spark.yarn.principal",
    ],
)
def test_a_driver_with_a_login_in_conf_may_run_as_a_different_user(name: str) -> None:
    for conf, expected in (({name: "x"}, True), ({"spark.app.name": "x"}, False)):
        given = SparkArguments(conn_id="spark", conf=conf)
        one = Submission(spec=SPEC, target=YARN, application="a.py", arguments=given)
        assert one.may_change_user is expected


def test_a_program_is_submitted_even_if_the_worker_cannot_reach_the_metastore(
    spark: FakeSpark, metastore: StubServer, tmp_path: Path
) -> None:
    """None of its tables is checked, and its driver may reach the metastore from a cluster."""
    metastore.close()
    program = tmp_path / "program.py"
    program.touch()
    task = HiveAcidPySparkOperator(task_id="task", application=str(program), inserts=["demo.acid"])
    run_task(task)
    assert len(spark.calls) == 1


def test_an_unreachable_metastore_raises_a_retryable_error_that_names_the_connection(
    spark: FakeSpark, metastore: StubServer
) -> None:
    uri, task = metastore.uri, _merge()
    metastore.close()
    error = _refused(task, spark)
    assert type(error) is MetastoreUnavailableError
    assert uri in str(error)
    assert "connection 'hive_acid_default'" in error.__notes__[0]
    assert task.retry_policy is not None
    assert task.retry_policy.evaluate(error, 1, 3).action is RetryAction.RETRY


_PASSWORD: Final = {
    "authentication": "password",
    "secret_from": "env:NO_SUCH_SECRET",
    "secret_in_clear": True,
}


def test_a_failed_login_on_the_worker_fails_the_task_unless_the_driver_may_log_in(
    spark: FakeSpark, metastore: StubServer, connections: Connections
) -> None:
    connections.add(
        "hive_acid_default",
        "hive_acid_metastore",
        login="etl",
        extra={"uris": metastore.uri, "engine": "spark", **_PASSWORD},
    )
    error = _refused(_merge(), spark)
    assert type(error) is ConfigurationError
    assert "NO_SUCH_SECRET" in str(error)
    variables = {"NO_SUCH_SECRET": "it is only in the driver's environment"}
    task = _merge(table="demo.gone", env_vars=variables)
    run_task(task)
    assert len(spark.calls) == 1


def test_a_check_that_the_metastore_refuses_is_left_to_the_driver(
    spark: FakeSpark, connections: Connections
) -> None:
    def refuse(_: object) -> None:
        raise MetaException("this user may not see the table")

    with StubServer(**{**_ANSWERS, "get_table_req": refuse}) as server:
        connections.metastore(server.uri)
        run_task(_merge())
    assert len(spark.calls) == 1


@since_3_3
@pytest.mark.usefixtures("spark")
def test_a_retry_with_a_driver_of_an_earlier_try_skips_the_checks(metastore: StubServer) -> None:
    """That driver may have committed before the table was dropped."""
    store = StateStore({ATTEMPT_KEY: "1-0123456789ab"})
    context = context_of(try_number=2, task_state_store=store)
    run_task(_merge(table="demo.gone"), context)
    assert metastore.connections == 0


def test_without_a_state_store_a_retry_checks_its_job_again(spark: FakeSpark) -> None:
    error = _refused(_merge(table="demo.gone"), spark, try_number=2)
    assert type(error) is TableNotFoundError


def test_a_missing_java_raises_an_error_before_spark_submit_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, mark = tmp_path / "bin" / "spark-submit", tmp_path / "was-run"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {mark}\n# org.apache.spark.deploy.SparkSubmit\n")
    script.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    task = _merge(spark_bin_dir=str(script.parent), env_vars={"JAVA_HOME": "/nowhere"})
    with pytest.raises(ConfigurationError, match="JAVA_HOME is /nowhere, where there is no bin/"):
        run_task(task)
    assert not mark.exists()


def test_java_home_of_a_driver_pod_is_not_used_for_spark_submit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/here")
    given = SparkArguments(conn_id="spark", env_vars={"JAVA_HOME": "/in/the/pod"})
    found = {}
    for target in (YARN, KUBERNETES):
        submission = Submission(spec=SPEC, target=target, application="a.py", arguments=given)
        found[target.master] = submission.environment["JAVA_HOME"]
    assert found == {YARN.master: "/in/the/pod", KUBERNETES.master: "/here"}


def test_java_is_checked_for_the_spark_binary_of_the_operator(
    spark: FakeSpark, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = spark.bin_dir / "spark3-submit"
    script.write_text("#!/bin/sh\n# org.apache.spark.deploy.SparkSubmit\n")
    script.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    connections.add("spark_default", "spark", host="local", extra={"spark-binary": "spark-submit"})
    error = _refused(_merge(spark_binary="spark3-submit"), spark)
    assert str(error).startswith(f"{script} cannot run java")


def test_a_failed_driver_is_not_reported_as_missing_java_beside_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its programs are in a directory that is on PATH only while `spark-submit` runs."""
    for name, text in (("java", ""), ("spark-submit", "exit $CODE")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for code, java, advice in (
        (1, {}, r"\(exit code 1\)\. The driver's last lines"),
        (137, {}, r"\(exit code 137\)\. The driver was killed by SIGKILL"),
        (137, {"JAVA_HOME": "/nix"}, r"\(exit code 137\)\. The driver was killed by SIGKILL"),
    ):
        task = _merge(spark_bin_dir=str(tmp_path), env_vars={"CODE": str(code), **java})
        with pytest.raises(JobFailedError, match=advice):
            run_task(task)


def test_a_spark_submit_that_is_not_executable_is_reported(tmp_path: Path) -> None:
    (tmp_path / "spark-submit").write_text("#!/bin/sh\n")
    task = _merge(spark_bin_dir=str(tmp_path), env_vars={"PATH": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"it is not executable\. Set spark_bin_dir"):
        run_task(task)


def test_a_missing_connection_is_reported_without_a_chained_exception(spark: FakeSpark) -> None:
    error = _refused(_merge(hive_acid_conn_id="nowhere"), spark)
    assert str(error).startswith("there is no connection 'nowhere'")
    assert error.__suppress_context__
