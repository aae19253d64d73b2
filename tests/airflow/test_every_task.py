"""What holds for every operator and sensor, as docs/evidence/comparison.md says."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_hiveacid import operators, sensors
from airflow_hiveacid.airflow_names import TaskDeferred, stats
from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.operators.retries import DEFAULT_RETRY_POLICY
from airflow_hiveacid.operators.spark_app import HiveAcidSparkOperator
from airflow_hiveacid.operators.submission import submitter
from airflow_hiveacid.operators.worker_first import EngineOperator
from airflow_hiveacid.watch import Observation
from tests.support.airflow_support import Connections, FakeSpark, TaskLog, context_of, run_task
from tests.support.cases import cases_of

_CASES: Final = Path(__file__).with_name("cases")
_ARGUMENTS: Final[Mapping[str, dict[str, Any]]] = {
    text.partition(" ")[0]: json.loads(text.partition(" ")[2])
    for text, _ in cases_of(_CASES / "arguments.txt")
}
_OPERATORS: Final = [
    name for name in operators.__all__ if isinstance(getattr(operators, name), type)
]
_WITH_ENGINE: Final = [
    name for name in _OPERATORS if "engine" in getattr(operators, name).template_fields
]
_SUBMITTING: Final = [
    name for name in _OPERATORS if issubclass(getattr(operators, name), HiveAcidSparkOperator)
]

_TEXTS: Final = {"conn_id", "java_class", "spark_binary"}
_POLLING: Final = {"status_poll_interval", "max_outage_s"}
_SWITCHES: Final = {
    "deferrable",
    "durable",
    "openlineage_inject_parent_job_info",
    "openlineage_inject_transport_info",
    "reconnect_on_retry",
    "track_driver_via_k8s_api",
    "use_krb5ccache",
    "verbose",
    "yarn_track_via_rm_api",
}
_OBJECTS: Final = {"yarn_rm_auth"}


def _class_of(name: str) -> Any:  # noqa: ANN401 - an operator or a sensor
    return getattr(operators if name in operators.__all__ else sensors, name)


def _task(name: str, /, **more: Any) -> Any:  # noqa: ANN401
    return _class_of(name)(task_id="task", **{**_ARGUMENTS[name], **more})


def _parameters(*classes: type) -> set[str]:
    makers = [vars(one)["__init__"] for one in classes if "__init__" in vars(one)]
    return {name for maker in makers for name in inspect.signature(maker).parameters}


def test_the_arguments_here_are_of_every_operator_and_sensor() -> None:
    assert sorted(_ARGUMENTS) == sorted([*_OPERATORS, *sensors.__all__])


@pytest.mark.parametrize("name", _ARGUMENTS)
def test_every_argument_is_templated_except_polling_and_switches(name: str) -> None:
    cls = _class_of(name)
    airflows = (BaseOperator, BaseSensorOperator)
    classes = [one for one in cls.__mro__ if one not in airflows]
    given = _parameters(*classes) - _parameters(*airflows) - {"self", "args", "kwargs"}
    assert given
    untemplated = given - set(cls.template_fields)
    assert untemplated <= _TEXTS | _POLLING | _SWITCHES | _OBJECTS


@pytest.mark.parametrize("name", _ARGUMENTS)
def test_every_operator_and_sensor_has_a_retry_policy(name: str) -> None:
    assert _task(name).retry_policy is DEFAULT_RETRY_POLICY


@pytest.mark.parametrize(("text", "message"), cases_of(_CASES / "refused_arguments.txt"))
def test_a_wrong_argument_is_refused_while_the_dag_is_parsed(text: str, message: str) -> None:
    name, _, arguments = text.partition(" ")
    with pytest.raises(ConfigurationError, match=f"task 'task'.*{message.strip()}"):
        _task(name, **json.loads(arguments))


@pytest.mark.promise("A11")
@pytest.mark.parametrize("name", _ARGUMENTS)
def test_every_operator_and_sensor_has_its_pool_and_priority_in_the_scheduler(name: str) -> None:
    """The scheduler reads the serialized DAG, and applies the limits of pools and priorities."""
    given = {"pool": "hive", "pool_slots": 2, "priority_weight": 7}
    with DAG("dag", schedule=None) as dag:
        _task(name, **given, max_active_tis_per_dag=3)
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag)).get_task("task")
    assert {key: getattr(read, key) for key in given} == given
    assert read.max_active_tis_per_dag == 3


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("name", sensors.__all__)
def test_every_sensor_can_wait_in_the_triggerer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = _task(name, deferrable=True)
    monkeypatch.setattr(type(sensor), "observe", lambda _: Observation(summary="nothing"))
    with pytest.raises(TaskDeferred):
        run_task(sensor)


@pytest.mark.promise("A13")
@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("name", _SUBMITTING)
def test_every_operator_that_submits_jobs_counts_them(
    name: str, spark: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.touch()
    more: dict[str, Any] = (
        {"application": str(program)} if "application" in _ARGUMENTS[name] else {}
    )
    if issubclass(_class_of(name), EngineOperator):
        more["engine"] = "spark"
    counted: list[dict[str, str]] = []

    def incr(metric: str, _: int = 1, *, tags: dict[str, str]) -> None:
        if metric == "hiveacid.jobs":
            counted.append(tags)

    monkeypatch.setattr(stats, "incr", incr)
    spark.tell(details={"erasure": {"proved": True}})  # only one operator reads it
    run_task(_task(name, **more), context_of())
    kind = spark.call["spec"]["kind"]
    assert counted == [{"kind": kind, "status": "committed"}]


def test_the_operators_with_an_engine_are_those_whose_jobs_may_need_no_spark() -> None:
    cleanings = {"HiveAcidCleanOperator", "HiveAcidCleanTablesOperator"}
    compactions = {"HiveAcidCompactOperator", "HiveAcidCompactTablesOperator"}
    kinds = ("Insert", "Update", "Delete", "Merge", "Truncate", "Load", "Restore", "Sql")
    changes = {f"HiveAcid{kind}Operator" for kind in (*kinds, "Transaction")}
    assert set(_WITH_ENGINE) == cleanings | compactions | changes


@pytest.mark.parametrize("name", _WITH_ENGINE)
def test_the_default_engine_is_auto(
    name: str, spark: FakeSpark, connections: Connections, log: TaskLog
) -> None:
    """Here the only reason for a driver is an option, which `spark` and `worker` ignore."""
    connections.metastore(engine=None)
    run_task(_task(name), context_of())
    assert len(spark.calls) == 1
    assert log.lines[0] == (
        "a Spark driver does this job, because the option check_before_submit is False"
    )


@pytest.mark.usefixtures("connections")
def test_openlineages_parent_job_is_passed_to_spark(
    spark: FakeSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        submitter,
        "inject_parent_job_information_into_spark_properties",
        lambda given, _: {**given, "spark.openlineage.parentJobName": "dag.task"},
    )
    run_task(_task("HiveAcidDeleteOperator", openlineage_inject_parent_job_info=True), context_of())
    assert spark.options["--conf"] == "spark.openlineage.parentJobName=dag.task"
