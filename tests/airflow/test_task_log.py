"""The end of a task's log: a table after a success, one paragraph after a failure.

`task_log_failures.txt` has the last lines after every failure; change it by hand, and read it.
"""

from __future__ import annotations

import os
import re
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk import BaseOperator

from airflow_hiveacid import operators
from airflow_hiveacid.format import errors
from airflow_hiveacid.sensors import HiveAcidLockFreeSensor
from tests.support.airflow_support import METASTORE_URI, Connections, FakeSpark, TaskLog, run_task

pytestmark = pytest.mark.usefixtures("connections")

_TABLE: Final = "demo.customers"
_GOLDEN: Final = Path(__file__).with_name("task_log_failures.txt")
_LAST: Final = 10
_TRACE: Final = "Exception in thread 'main'\n\tat org.apache.spark.deploy.SparkSubmit.main\n" * 9


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What `spark-submit` does, and what is missing on the worker."""

    error: errors.HiveAcidError | None = None
    tells: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    lacks: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


_TYPED: Final = (
    errors.UnknownColumnError(table=_TABLE, column="nix", known=("id", "name")),
    errors.TableNotFoundError(table=_TABLE),
    errors.NotTransactionalError(table=_TABLE),
    errors.ExpressionError(
        table=_TABLE, expression="t.id = s.nix", reason="there is no column s.nix"
    ),
    errors.MergeCardinalityError(table=_TABLE, count=3, example="id=1"),
    errors.ConstraintViolationError(table=_TABLE, constraint="nn", demand="name IS NOT NULL"),
    errors.WriteConflictError(txn_id=7, reason="transaction 8 changed the same rows"),
    errors.LockNotAcquiredError(
        tables=(_TABLE,), lock_id=4, waited_s=60.0, holders="transaction 8"
    ),
    errors.FencedError(job_key="dag/run/task/-1", txn_id=7, newer_txn_id=8),
    errors.CommitStateUnknownError(txn_id=7, reason="connection reset"),
    errors.MetastoreUnavailableError(uris=(METASTORE_URI,), method="open_txns", reason="timed out"),
    errors.StoreUnavailableError(location="s3a://lake/t", action="write", reason="503 Slow Down"),
    errors.LocationPermissionError(location="hdfs://nn/t", action="write", reason="user=etl"),
    errors.CorruptFileError(path="hdfs://nn/t/base_1/bucket_00000", reason="it has no footer"),
)
_DIED: Final = {"answers": False, "says": _TRACE + "OutOfMemoryError: Java heap space"}

FAILURES: Final[Mapping[str, Failure]] = {
    **{type(error).__name__: Failure(error=error) for error in _TYPED},
    "the driver dies": Failure(tells={**_DIED, "exit_code": 1}),
    "the driver is killed": Failure(tells={**_DIED, "exit_code": 128 + signal.SIGKILL}),
    "the driver refuses its spec": Failure(tells={"answers": False, "exit_code": 10}),
    "the driver ends without a result": Failure(tells={"answers": False}),
    "the result is truncated": Failure(tells={"cut": 40}),
    "the result is of another job": Failure(tells={"job_key": "another"}),
    "another release answers": Failure(tells={"version": 0}),
    "no Java": Failure(
        tells={"answers": False, "exit_code": 1, "says": "/nix/bin/java: No such file"},
        environment={"JAVA_HOME": "/nix"},
    ),
    "no spark-submit on PATH": Failure(arguments={"spark_bin_dir": None}),
    "no spark-submit in the directory": Failure(arguments={"spark_bin_dir": "/nix/bin"}),
    "no Spark connection": Failure(lacks="spark_default"),
    "no metastore connection": Failure(lacks="hive_acid_default"),
    "no result directory": Failure(arguments={"deploy_mode": "cluster"}),
}


def _merge(**arguments: Any) -> operators.HiveAcidMergeOperator:  # noqa: ANN401
    return operators.HiveAcidMergeOperator(
        task_id="merge",
        table=_TABLE,
        source={"columns": ["id"], "values": [[1], [2]]},
        keys=["id"],
        clauses=[{"when": "not_matched", "action": "insert"}],
        **arguments,
    )


def _run(task: BaseOperator, log: TaskLog) -> list[str]:
    """Run a task; return the lines of its log, with those that Airflow adds after a failure."""
    try:
        run_task(task)
    except Exception as error:  # noqa: BLE001 - as Airflow does
        said = "".join(traceback.TracebackException.from_exception(error).format())
        # Airflow prints the stack of the error, and those of its causes before it.
        frames = re.compile(r'^(?:  File "|    |Traceback ).*\n', re.MULTILINE)
        log.info("Task failed with exception")
        log.lines += frames.sub("", said).splitlines()
    return log.lines


def _steady(line: str) -> str:
    """Return a line without what differs from run to run."""
    line = re.sub(r"file:/\S+/hiveacid-\w+/", "file:/scratch/", line)
    return re.sub(r"Spark-Submit cmd: .*", "Spark-Submit cmd: ...", line)


@pytest.mark.parametrize("name", FAILURES)
def test_the_log_of_a_failure_ends_with_what_happened_and_what_to_do(
    name: str,
    spark: FakeSpark,
    connections: Connections,
    monkeypatch: pytest.MonkeyPatch,
    log: TaskLog,
) -> None:
    failure = FAILURES[name]
    if failure.error is not None:
        error = {"type": type(failure.error).__name__, "message": str(failure.error)}
        spark.tell(error=error, exit_code=10, says="12:00:00 ERROR merge failed: see the error")
    spark.tell(**failure.tells)
    for variable, value in failure.environment.items():
        monkeypatch.setenv(variable, value)
    if failure.lacks:
        connections.remove(failure.lacks)
    if "deploy_mode" in failure.arguments:
        connections.add("spark_default", "spark", host="yarn")
    if "spark_bin_dir" in failure.arguments:
        monkeypatch.delenv("AIRFLOW__HIVEACID__SPARK_BIN_DIR")
        monkeypatch.setenv("PATH", os.defpath)
    lines = [_steady(line) for line in _run(_merge(**failure.arguments), log)]
    found = "\n".join([f"== {name}", *lines[-_LAST:], ""])
    assert found in f"{_GOLDEN.read_text(encoding='utf-8')}\n", found


def test_the_golden_file_contains_exactly_the_tested_failures() -> None:
    text = _GOLDEN.read_text(encoding="utf-8")
    assert re.findall(r"^== (.*)$", text, re.MULTILINE) == list(FAILURES)


def test_the_lines_of_a_driver_on_the_worker_keep_their_level_and_have_no_second_time(
    spark: FakeSpark, log: TaskLog
) -> None:
    spark.tell(
        says="12:00:00 INFO opened\n12:00:01 WARN Executor: lost one\n"
        "26/11/27 12:00:02 ERROR Client: refused\n12:00:03 CRITICAL: stopped\n"
        "100 % of 12:00:00 WARN"
    )
    _run(_merge(), log)
    assert {"opened", "12:00:03 CRITICAL: stopped", "100 % of 12:00:00 WARN"} < set(log.lines)
    assert log.warnings == ["Executor: lost one"]
    assert log.errors == ["Client: refused"]


@pytest.mark.parametrize("answers", [True, False])
def test_names_of_other_clients_in_the_lines_of_spark_submit_are_escaped(
    spark: FakeSpark, log: TaskLog, answers: bool
) -> None:
    says = "12:00:00 WARN no file t/\x1b[2J\u202ex\njava.io.IOException: t/\x1b[2J"
    spark.tell(says=says, answers=answers, exit_code=int(not answers))
    shown = "\n".join(_run(_merge(), log))
    assert "no file t/\\x1b[2J\\u202ex" in shown
    assert not {"\x1b", "\u202e"} & set(shown)


def test_names_of_other_clients_in_the_lines_of_a_result_are_escaped(
    spark: FakeSpark, log: TaskLog
) -> None:
    why = "transaction 7 (\x1b[2Jann\n99:99 forged) is open"
    left = {"partition": "d=\u202e1", "kind": "minor", "done": False, "why": why}
    spark.tell(status="nothing_to_do", details={"compactions": [left]})
    task = operators.HiveAcidCompactOperator(task_id="task", table=_TABLE, engine="spark")
    _run(task, log)
    assert any("left 1: transaction 7 (\\x1b[2Jann\\n99:99 forged) is open" in x for x in log.lines)
    assert any(line.startswith("d=\\u202e1") for line in log.lines)


def test_the_traceback_of_our_own_error_has_no_frame_below_the_operator(
    connections: Connections,
) -> None:
    connections.remove("hive_acid_default")
    tasks: list[BaseOperator] = [
        operators.HiveAcidDeleteOperator(task_id="spark", table="d.t", where="true"),
        operators.HiveAcidTagOperator(task_id="tag", table="d.t", name="n"),
        operators.HiveAcidCollectOperator(task_id="collect", tables=["d.t"]),
        operators.HiveAcidCreateTableOperator(task_id="create", table="d.t", columns={"id": "int"}),
        HiveAcidLockFreeSensor(task_id="sensor", table="d.t"),
    ]
    for task in tasks:
        with pytest.raises(errors.ConfigurationError) as caught:
            run_task(task)
        frames = [frame.name for frame in caught.traceback]
        assert frames[-1] == "short", (task.task_id, frames)
        assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_the_log_names_a_missing_program(spark: FakeSpark, log: TaskLog) -> None:
    spark.tell(answers=False, exit_code=2)
    task = operators.HiveAcidPySparkOperator(task_id="task", application="/nix.py", changes=["d.t"])
    assert "There is no file /nix.py here" in _run(task, log)[-1]


@pytest.mark.usefixtures("spark")
def test_the_log_of_a_success_ends_with_a_result_table(log: TaskLog) -> None:
    lines = _run(_merge(), log)
    head, _, row, seconds, spent = (line.split() for line in lines[-5:])
    assert head[:5] == ["merge", "of", "demo.customers:", "committed", "in"]
    assert row == ["merge", "demo.customers", "1", "2", "0", "3", "4", "500", "B"]
    assert seconds[:2] == ["seconds", "Spark"]
    assert len(spent) == len(seconds) - 1
