from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_hiveacid.airflow_names import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow_hiveacid.format.errors import (
    ConfigurationError,
    MetastoreUnavailableError,
    StorageError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.short_form import MOST_BYTES
from airflow_hiveacid.plan.compaction_policy import COUNT_PARAMETER, RATIO_PARAMETER
from airflow_hiveacid.plan.thresholds import DueDirectory, Exceeded, TableHealth, Threshold
from airflow_hiveacid.sensors.hive_acid import (
    HiveAcidCompactionNeededSensor,
    HiveAcidDeltaCountSensor,
    HiveAcidDeltaRatioSensor,
    HiveAcidThresholdSensor,
)
from airflow_hiveacid.watch.health import CompactionNeed
from airflow_hiveacid.watch.trigger import ConditionTrigger
from tests.support.airflow_minors import AirflowRescheduleException, since_3_3
from tests.support.airflow_support import Connections, StateStore, Warehouse, context_of, run_task
from tests.support.event_loop import in_event_loop

_SENSORS = (HiveAcidDeltaCountSensor, HiveAcidDeltaRatioSensor, HiveAcidCompactionNeededSensor)


def _fires(sensor: HiveAcidThresholdSensor) -> bool:
    sensor.render_template_fields(context_of())  # type: ignore[arg-type]
    return bool(sensor.poke(context_of()))  # type: ignore[arg-type]


def _context() -> dict[str, Any]:
    context = context_of()
    context["ti"].get_first_reschedule_date = lambda _: None
    return context


# ---- when ----------------------------------------------------------------------------------------


@pytest.mark.promise("A1")
def test_the_count_sensor_fires_at_the_tenth_delta(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    sensor = HiveAcidDeltaCountSensor(task_id="s", table=str(table.ref))
    for _ in range(9):
        warehouse.delta(table, 1)
    assert not _fires(sensor)
    warehouse.delta(table, 1)
    assert _fires(sensor)


@pytest.mark.promise("A2")
def test_the_ratio_sensor_fires_at_exactly_ten_percent(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    sensor = HiveAcidDeltaRatioSensor(task_id="s", table=str(table.ref))
    warehouse.base(table, 1000)
    warehouse.delta(table, 99)
    assert not _fires(sensor)
    warehouse.delta(table, 1)
    assert _fires(sensor)


def test_the_combined_sensor_fires_at_either_threshold(warehouse: Warehouse) -> None:
    by_count, by_ratio = warehouse.table("a"), warehouse.table("b")
    warehouse.base(by_count, 10**6)
    for _ in range(2):
        warehouse.delta(by_count, 1)
    warehouse.base(by_ratio, 1000)
    warehouse.delta(by_ratio, 300)
    for table, rule in ((by_count, "2 delta directories"), (by_ratio, "30.0 % of the base")):
        sensor = HiveAcidCompactionNeededSensor(
            task_id="s", table=str(table.ref), delta_count="{{ 2 }}", delta_ratio="{{ 0.3 }}"
        )
        (found,) = run_task(sensor)
        assert rule in found["why"]


def test_only_the_combined_sensor_has_further_thresholds(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    for _ in range(3):
        warehouse.delta(table, 1)
    combined = {"table": str(table.ref), "also_when": {"small_files": "{{ 1 + 1 }}"}}
    (found,) = run_task(HiveAcidCompactionNeededSensor(task_id="s", **combined))
    assert found["why"] == "2 small files (threshold 2)"
    for one in (HiveAcidDeltaCountSensor, HiveAcidDeltaRatioSensor):
        given = one(task_id="s", table="db.t").thresholds()
        assert given.also_limits == {}


@pytest.mark.parametrize("sensor", _SENSORS)
def test_without_arguments_a_sensor_uses_the_tables_own_thresholds(
    warehouse: Warehouse, sensor: type[HiveAcidThresholdSensor]
) -> None:
    table = warehouse.table("t")
    warehouse.base(table, 1000)
    warehouse.delta(table, 300)
    own = {COUNT_PARAMETER: "2", RATIO_PARAMETER: "0.4"}
    warehouse.client.set_table_parameters(table.ref, own)
    assert not _fires(sensor(task_id="s", table=str(table.ref)))
    warehouse.delta(table, 100)
    found = run_task(sensor(task_id="s", table=str(table.ref)))
    assert "by table parameter compactorthreshold." in found[0]["why"]


def test_a_threshold_that_is_off_does_not_end_the_wait(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.base(table, 1000)
    warehouse.delta(table, 300)
    for off, fires in (("delta_ratio", False), ("delta_count", True)):
        sensor = HiveAcidCompactionNeededSensor(task_id="s", table=str(table.ref), **{off: "off"})
        assert _fires(sensor) is fires


def test_the_sensor_returns_only_partitions_that_are_due(warehouse: Warehouse) -> None:
    table = warehouse.table("t", partitioned=True)
    for month in (1, 2, 2, 3, 3):
        warehouse.delta(table, 5, f"month={month}")
    found = run_task(HiveAcidDeltaCountSensor(task_id="s", table=str(table.ref), delta_count=2))
    assert [(f["partition"], f["delta_count"], f["delta_bytes"]) for f in found] == [
        ("month=2", 2, 10),
        ("month=3", 2, 10),
    ]


def test_a_sensor_can_watch_a_single_partition(warehouse: Warehouse) -> None:
    table = warehouse.table("t", partitioned=True)
    warehouse.delta(table, 5, "month=1")
    warehouse.delta(table, 5, "month=2")
    warehouse.delta(table, 5, "month=2")
    assert not _fires(_watching(table, "month={{ ti.try_number }}"))
    assert _fires(_watching(table, "month=2"))


def _watching(table: TableInfo, partition: str) -> HiveAcidDeltaCountSensor:
    return HiveAcidDeltaCountSensor(
        task_id="s", table=str(table.ref), partition=partition, delta_count=2
    )


# ---- the three modes -----------------------------------------------------------------------------


@pytest.fixture
def quiet(warehouse: Warehouse) -> TableInfo:
    """A table that is due at its second delta and has one."""
    table = warehouse.table("quiet")
    warehouse.delta(table, 5)
    return table


def _sensor(table: TableInfo, **arguments: Any) -> HiveAcidDeltaCountSensor:  # noqa: ANN401
    return HiveAcidDeltaCountSensor(
        task_id="s", table=str(table.ref), delta_count=2, **{"poke_interval": 0.1, **arguments}
    )


def test_in_poke_mode_the_sensor_pokes_until_its_timeout(quiet: TableInfo) -> None:
    with pytest.raises(AirflowSensorTimeout):
        run_task(_sensor(quiet, timeout=0.5))


def test_in_reschedule_mode_the_sensor_releases_its_worker_slot(quiet: TableInfo) -> None:
    with pytest.raises(AirflowRescheduleException) as caught:
        run_task(_sensor(quiet, mode="reschedule", poke_interval=300), _context())
    waits = caught.value.reschedule_date - datetime.now(UTC)
    assert timedelta(seconds=290) < waits <= timedelta(seconds=300)


@pytest.mark.promise("A4")
def test_in_deferrable_mode_the_sensor_defers_to_its_trigger(quiet: TableInfo) -> None:
    with pytest.raises(TaskDeferred) as caught:
        run_task(_sensor(quiet, deferrable=True, poke_interval=7, timeout=60))
    deferred = caught.value
    assert isinstance(deferred.trigger, ConditionTrigger)
    assert deferred.trigger.serialize()[1] == {
        "condition": {
            "kind": "CompactionNeeded",
            "table": str(quiet.ref),
            "partition": None,
            "thresholds": {
                "delta_count": 2,
                "delta_ratio": "off",
                "also_when": {"aborted_transactions": "off"},
            },
        },
        "hive_acid_conn_id": "hive_acid_default",
        "poke_interval_s": 7.0,
        "exponential_backoff": False,
        "max_wait_s": None,
        "max_outage_s": 900.0,
    }
    # The first look's time is taken off.
    assert timedelta(seconds=50) < deferred.timeout < timedelta(seconds=60)
    assert deferred.method_name == "execute_complete"


@pytest.mark.parametrize("arguments", [{}, {"mode": "reschedule"}, {"deferrable": True}])
def test_in_every_mode_a_table_that_is_due_is_returned_by_the_first_poke(
    quiet: TableInfo, warehouse: Warehouse, arguments: dict[str, Any]
) -> None:
    warehouse.delta(quiet, 5)
    (found,) = run_task(_sensor(quiet, **arguments), _context())
    assert (found["table"], found["delta_count"]) == (str(quiet.ref), 2)


def test_the_task_returns_what_its_trigger_found() -> None:
    found = [{"table": "db.t", "partition": "month=1", "delta_count": 10}]
    sensor = HiveAcidDeltaCountSensor(task_id="s", table="db.t")
    assert sensor.execute_complete(context_of(), {"due": found}) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("is_mapped", [True, False])
def test_the_sensor_returns_no_more_partitions_than_airflow_can_map_over(
    answers: list[object], monkeypatch: pytest.MonkeyPatch, is_mapped: bool
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    healths = [TableHealth(table="db.t", location="/t", deltas=n) for n in (12, 10, 11)]
    with DAG("d", schedule=None):
        sensor = _polling()
        if is_mapped:
            EmptyOperator.partial(task_id="mapped").expand(doc=sensor.output)
    answers.append(tuple(DueDirectory(health=health, reached=()) for health in healths))
    poked = sensor.poke(context_of())  # type: ignore[arg-type]
    answer = poked.xcom_value
    event = {"due": [DueDirectory(health=health, reached=()).record() for health in healths]}
    assert sensor.execute_complete(context_of(), event) == answer  # type: ignore[arg-type]
    expected = [12, 11] if is_mapped else [12, 10, 11]
    assert [found["delta_count"] for found in answer] == expected


@in_event_loop
async def test_a_shortened_event_keeps_the_partitions_with_the_most_deltas(
    answers: list[object],
) -> None:
    healths = [
        TableHealth(table="db.t", location="/t", partition=f"month={n}", deltas=n)
        for n in range(1, 1001)
    ]
    answers.append(tuple(DueDirectory(health=health, reached=()) for health in healths))
    sensor = _polling()
    event = (await anext(sensor.trigger().run())).payload
    assert len(json.dumps(event)) <= MOST_BYTES
    assert [one["delta_count"] for one in event["due"][:3]] == [1000, 999, 998]
    context = context_of()
    answer = sensor.execute_complete(context, event)  # type: ignore[arg-type]
    assert answer == event["due"]
    assert len(answer) + context["ti"].xcoms["return_value_omitted"] == 1000


def test_the_sensor_and_its_trigger_return_the_same_result(
    quiet: TableInfo, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(time=lambda: 1e10)  # the result has ages
    monkeypatch.setattr("airflow_hiveacid.maintenance.health.time", clock)
    warehouse.delta(quiet, 5)
    poked = run_task(_sensor(quiet))
    sensor = _sensor(quiet, deferrable=True)

    async def event() -> dict[str, Any]:
        (only,) = [e.payload async for e in sensor.trigger().run()]
        return only

    assert sensor.execute_complete(context_of(), asyncio.run(event())) == poked  # type: ignore[arg-type]


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"deferrable": True}])
def test_a_table_that_does_not_exist_fails_the_task_at_once(
    warehouse: Warehouse, arguments: dict[str, Any]
) -> None:
    sensor = HiveAcidDeltaCountSensor(task_id="s", table=f"{warehouse.db}.nowhere", **arguments)
    with pytest.raises(TableNotFoundError, match="nowhere"):
        run_task(sensor)


def test_a_table_dropped_while_the_trigger_waits_fails_the_task_at_once() -> None:
    sensor = HiveAcidDeltaCountSensor(task_id="s", table="db.t")
    event = {"error": {"type": "TableNotFoundError", "message": "table db.t: gone"}}
    with pytest.raises(TableNotFoundError, match="gone"):
        sensor.execute_complete(context_of(), event)  # type: ignore[arg-type]


# ---- polls that fail -----------------------------------------------------------------------------

_DUE = DueDirectory(
    health=TableHealth(table="db.t", location="/t", deltas=2),
    reached=(Exceeded(threshold=Threshold.DELTA_COUNT, measured=2, limit=2),),
)
_DOWN = MetastoreUnavailableError(uris=("thrift://hms:9083",), method="get_table", reason="refused")


@pytest.fixture
def answers(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> list[object]:  # noqa: ARG001 - sets the environment
    """What looking at the table answers, one after the other: errors are raised."""
    planned: list[object] = []

    def need(*_: object) -> CompactionNeed:
        answer = planned.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, tuple)
        return CompactionNeed(table="db.t", table_id="1", healths=(), due=answer)

    monkeypatch.setattr("airflow_hiveacid.watch.health.compaction_need", need)
    return planned


def _polling(**arguments: Any) -> HiveAcidDeltaCountSensor:  # noqa: ANN401
    return HiveAcidDeltaCountSensor(
        task_id="s", table="db.t", **{"poke_interval": 0.01, **arguments}
    )


@pytest.mark.parametrize("failure", [_DOWN, StorageError("cannot list /t: name node restarts")])
def test_one_failed_poll_does_not_end_the_wait(answers: list[object], failure: Exception) -> None:
    answers += [failure, (), failure, (_DUE,)]
    assert run_task(_polling(max_outage_s=0))[0]["table"] == "db.t"


def test_polls_that_fail_for_longer_than_max_outage_s_end_the_wait(answers: list[object]) -> None:
    answers += [_DOWN, _DOWN, (_DUE,)]
    with pytest.raises(MetastoreUnavailableError):
        run_task(_polling(max_outage_s=0))
    assert answers == [(_DUE,)]


@pytest.mark.parametrize("arguments", [{"max_outage_s": None}, {"silent_fail": True}])
def test_with_silent_fail_or_without_max_outage_s_failed_polls_never_end_the_wait(
    answers: list[object], arguments: dict[str, Any]
) -> None:
    answers += [_DOWN] * 20 + [(_DUE,)]
    assert run_task(_polling(**{"max_outage_s": 0, **arguments}))
    assert answers == []


def test_silent_fail_does_not_hide_a_missing_table(answers: list[object]) -> None:
    answers += [TableNotFoundError(table="db.t"), (_DUE,)]
    with pytest.raises(TableNotFoundError):
        run_task(_polling(silent_fail=True))


@since_3_3
def test_in_reschedule_mode_the_start_of_an_outage_is_stored_between_pokes(
    answers: list[object],
) -> None:
    context = {**_context(), "task_state_store": StateStore()}
    answers += [_DOWN, (), _DOWN, _DOWN]
    for _ in range(3):
        with pytest.raises(AirflowRescheduleException):
            run_task(_polling(mode="reschedule", max_outage_s=0), context)
    with pytest.raises(MetastoreUnavailableError):
        run_task(_polling(mode="reschedule", max_outage_s=0), context)


def test_without_a_state_store_an_outage_never_ends_the_wait_in_reschedule_mode(
    answers: list[object],
) -> None:
    """Each poke runs in a process of its own, so the sensor waits until its timeout."""
    answers += [_DOWN] * 5
    for _ in range(5):
        with pytest.raises(AirflowRescheduleException):
            run_task(_polling(mode="reschedule", max_outage_s=0), _context())


@since_3_3
def test_an_outage_of_an_earlier_try_does_not_count(answers: list[object]) -> None:
    context = {**_context(), "task_state_store": StateStore()}
    answers += [_DOWN, _DOWN]
    with pytest.raises(AirflowRescheduleException):
        run_task(_polling(mode="reschedule", max_outage_s=0), context)
    context["ti"].try_number = 2
    with pytest.raises(AirflowRescheduleException):
        run_task(_polling(mode="reschedule", max_outage_s=0), context)


def test_a_deferrable_sensor_defers_even_if_its_first_poll_fails(answers: list[object]) -> None:
    answers += [_DOWN]
    with pytest.raises(TaskDeferred):
        run_task(_polling(deferrable=True, max_outage_s=0))


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize(
    ("soft_fail", "ending"), [(True, AirflowSkipException), (False, AirflowSensorTimeout)]
)
def test_a_timeout_skips_the_task_only_with_soft_fail(
    answers: list[object], ending: type[Exception], *, soft_fail: bool, deferrable: bool
) -> None:
    answers += [()]
    with pytest.raises(ending):
        run_task(_polling(timeout=0, soft_fail=soft_fail, deferrable=deferrable))


def test_never_fail_skips_the_task_in_deferrable_mode(answers: list[object]) -> None:
    answers += [TableNotFoundError(table="db.t")]
    with pytest.raises(AirflowSkipException):
        run_task(_polling(never_fail=True, deferrable=True))


def test_backoff_and_outage_settings_are_passed_to_the_trigger(answers: list[object]) -> None:
    answers += [()]
    with pytest.raises(TaskDeferred) as caught:
        run_task(_polling(deferrable=True, exponential_backoff=True, max_wait=300, max_outage_s=60))
    trigger = caught.value.trigger
    assert isinstance(trigger, ConditionTrigger)
    assert (trigger.exponential_backoff, trigger.max_wait_s, trigger.max_outage_s) == (
        True,
        300,
        60,
    )


@pytest.mark.parametrize(
    ("sensor", "arguments"),
    [
        (HiveAcidDeltaCountSensor, {"delta_count": 0}),
        (HiveAcidDeltaCountSensor, {"delta_count": "many"}),
        (HiveAcidDeltaRatioSensor, {"delta_ratio": 0}),
        (HiveAcidDeltaRatioSensor, {"delta_ratio": "off"}),
        (HiveAcidCompactionNeededSensor, {"delta_ratio": "-0.1"}),
        (HiveAcidCompactionNeededSensor, {"also_when": "small_files=0"}),
    ],
)
def test_an_invalid_threshold_is_refused(
    sensor: type[HiveAcidThresholdSensor], arguments: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=f"task 's'.*{next(iter(arguments))}"):
        sensor(task_id="s", table="db.t", **arguments)
    rendered = {name: f"{{{{ '{value}' }}}}" for name, value in arguments.items()}
    with pytest.raises(ConfigurationError, match=next(iter(arguments))):
        run_task(sensor(task_id="s", table="db.t", **rendered))
