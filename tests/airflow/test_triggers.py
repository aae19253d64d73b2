from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.module_loading import import_string

from airflow_hiveacid.airflow_names import AirflowNotFoundException
from airflow_hiveacid.format.errors import (
    ConnectionUnavailableError,
    JobFailedError,
    MetastoreUnavailableError,
    TableNotFoundError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.hooks.hive_acid import HiveAcidHook
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.maintenance import Off
from airflow_hiveacid.maintenance.health import MeasuredTable
from airflow_hiveacid.plan.compaction_policy import COUNT_PARAMETER, GivenThresholds
from airflow_hiveacid.plan.thresholds import TableHealth
from airflow_hiveacid.watch.conditions import CompactionNeeded, Condition
from airflow_hiveacid.watch.poll_threads import poll_in_thread
from airflow_hiveacid.watch.trigger import ConditionTrigger, findings_in
from tests.support.airflow_support import Connections, Warehouse
from tests.support.event_loop import in_event_loop
from tests.support.keytabs import keytab_of

pytestmark = pytest.mark.usefixtures("connections")

_CONDITION = CompactionNeeded(
    table="db.t",
    partition="month=1",
    thresholds=GivenThresholds(
        delta_count=4, delta_ratio=0.2, also_when={"oldest_delta_s": 0.5, "small_files": Off.OFF}
    ),
)
_ARGUMENTS: dict[str, Any] = {
    "condition": _CONDITION.to_json(),
    "hive_acid_conn_id": "hms",
    "poke_interval_s": 7.0,
    "exponential_backoff": True,
    "max_wait_s": 70.0,
    "max_outage_s": 60.0,
}
_HEALTHY = TableHealth(table="db.t", location="/t", base_bytes=1000)
_DUE = TableHealth(table="db.t", location="/t", base_bytes=1000, deltas=9, delta_bytes=500)


_MEASURE = "airflow_hiveacid.watch.health.measure"


def _trigger(
    table: TableInfo | str = "db.t", thresholds: dict[str, Any] | None = None, **settings: object
) -> ConditionTrigger:
    """A trigger that waits for a need for compaction, by default for nine deltas."""
    condition = CompactionNeeded(
        table=table if isinstance(table, str) else str(table.ref),
        thresholds=GivenThresholds(**(thresholds or {"delta_count": 9})),
    )
    arguments: dict[str, Any] = {
        "condition": condition.to_json(),
        "hive_acid_conn_id": HiveAcidHook.default_conn_name,
        "poke_interval_s": 60.0,
        "exponential_backoff": False,
        "max_wait_s": None,
        "max_outage_s": 900.0,
    }
    return ConditionTrigger(**(arguments | settings))


def _quick(**settings: object) -> ConditionTrigger:
    """A trigger that polls often, and gives up at the second failure."""
    return _trigger(poke_interval_s=0.01, max_outage_s=0, **settings)


async def _first(trigger: ConditionTrigger) -> dict[str, Any]:
    async with asyncio.timeout(60):  # a trigger that waits for what never comes waits indefinitely
        async for event in trigger.run():
            payload: dict[str, Any] = event.payload
            return payload
    raise AssertionError


def _findings(trigger: ConditionTrigger) -> list[dict[str, Any]]:
    findings, _ = findings_in(asyncio.run(_first(trigger)))
    return findings


def _measured(*healths: TableHealth) -> MeasuredTable:
    """What measuring returns: a table whose owner left compaction on, and its health."""
    table: Any = SimpleNamespace(parameters={}, table_id="7", location="file:/does/not/exist")
    snapshot: Any = None
    return MeasuredTable(table=table, snapshot=snapshot, healths=healths)


def test_a_trigger_can_be_recreated_from_its_serialised_arguments() -> None:
    path, arguments = ConditionTrigger(**_ARGUMENTS).serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert type(again) is ConditionTrigger
    assert arguments == _ARGUMENTS
    assert again.serialize() == (path, arguments)
    assert Condition.from_json(again.condition) == _CONDITION


@in_event_loop
async def test_the_trigger_fires_once_with_the_table_that_is_due(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.base(table, 1000)
    warehouse.delta(table, 100)
    trigger = _trigger(table, {"delta_ratio": 0.1})
    (event,) = [event.payload async for event in trigger.run()]
    ((finding,), _) = findings_in(event)
    assert (finding["table"], finding["delta_count"]) == (str(table.ref), 1)
    assert finding["delta_ratio"] == 0.1


@pytest.mark.parametrize(("count", "fires"), [("1", True), ("2", False), ("one", False)])
def test_without_thresholds_the_trigger_uses_the_tables_own(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture, count: str, fires: bool
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    warehouse.client.set_table_parameters(table.ref, {COUNT_PARAMETER: count})
    path, arguments = _trigger(table, {"delta_ratio": Off.OFF}).serialize()
    thresholds = arguments["condition"]["thresholds"]
    assert (thresholds["delta_count"], thresholds["delta_ratio"]) == (None, "off")
    trigger = import_string(path)(**arguments)
    observation = Condition.from_json(trigger.condition).observe(warehouse.client)
    assert bool(observation.findings) is fires
    assert ("is not a whole number of 1 or more" in caplog.text) is (count == "one")


def test_the_trigger_of_a_sensor_counts_deleted_rows_only_if_there_is_a_threshold(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    monkeypatch.setattr(
        "airflow_hiveacid.maintenance.health._with_deleted_rows",
        lambda measured: [replace(health, deleted_rows=7) for health, _ in measured],
    )
    for also_when, rows in (({"deleted_rows": 7}, [7]), ({}, [])):
        trigger = _trigger(table, {"also_when": also_when})
        findings = Condition.from_json(trigger.condition).observe(warehouse.client).findings
        assert [finding["deleted_rows"] for finding in findings] == rows


@in_event_loop
async def test_the_trigger_waits_until_the_threshold_is_reached(warehouse: Warehouse) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    trigger = _trigger(table, {"delta_count": 2}, poke_interval_s=0.1)
    waiting = asyncio.ensure_future(_first(trigger))
    done, _ = await asyncio.wait([waiting], timeout=1.0)
    assert not done
    await asyncio.to_thread(warehouse.delta, table, 1)
    ((finding,), _) = findings_in(await asyncio.wait_for(waiting, timeout=20))
    assert finding["delta_count"] == 2


@in_event_loop
async def test_measuring_a_table_does_not_block_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def slow(*_: object, **__: object) -> object:
        threads.append(threading.current_thread())
        time.sleep(0.5)
        return _measured(_DUE)

    monkeypatch.setattr(_MEASURE, slow)
    trigger = _trigger(thresholds={"delta_ratio": 0.1})
    waiting = asyncio.ensure_future(_first(trigger))
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 10
    assert threads[0] is not threading.main_thread()


def test_the_trigger_measures_again_after_the_poke_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([_measured(_HEALTHY), _measured(_HEALTHY), _measured(_DUE)])
    monkeypatch.setattr(_MEASURE, lambda *_, **__: next(answers))
    trigger = _trigger(poke_interval_s=0.2)
    started = time.monotonic()
    asyncio.run(_first(trigger))
    assert time.monotonic() - started >= 0.4
    assert list(answers) == []


def test_a_missing_table_raises_its_own_error_in_the_task(warehouse: Warehouse) -> None:
    with pytest.raises(TableNotFoundError):
        _findings(_trigger(f"{warehouse.db}.t"))


_DOWN = MetastoreUnavailableError(uris=("thrift://hms:9083",), method="get_table", reason="refused")


@pytest.fixture
def answers(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> list[object]:  # noqa: ARG001 - sets the environment
    """What measuring answers, one after the other: errors are raised."""
    planned: list[object] = []

    def measure(*_: object, **__: object) -> object:
        answer = planned.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(_MEASURE, measure)
    return planned


def test_one_failed_poll_does_not_end_the_wait(answers: list[object]) -> None:
    answers += [_DOWN, _measured(_HEALTHY), _DOWN, _measured(_DUE)]
    assert _findings(_quick())[0]["delta_count"] == 9


def test_polls_that_fail_for_longer_than_max_outage_s_raise_their_error_in_the_task(
    answers: list[object],
) -> None:
    answers += [_DOWN, _DOWN, _measured(_DUE)]
    with pytest.raises(MetastoreUnavailableError, match=r"thrift://hms:9083"):
        _findings(_quick())


def test_a_temporary_failure_to_read_the_connection_does_not_end_the_wait(
    answers: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the triggerer, Airflow reports an outage of its database as a missing connection.
    failures = [OSError("the secrets backend is away"), AirflowNotFoundException("isn't defined")]
    real = HiveAcidHook.aget_connection

    async def fetch(_: HiveAcidHook, conn_id: str) -> Any:  # noqa: ANN401
        if failures:
            raise failures.pop()
        return await real(conn_id)

    monkeypatch.setattr(HiveAcidHook, "aget_connection", fetch)
    answers += [_measured(_DUE)]
    assert _findings(_trigger(poke_interval_s=0.01))[0]["delta_count"] == 9
    assert (failures, answers) == ([], [])


def test_a_connection_unreadable_for_longer_than_max_outage_s_raises_in_the_task(
    answers: list[object],
) -> None:
    with pytest.raises(ConnectionUnavailableError, match=r"connection 'nowhere'.*isn't defined"):
        _findings(_quick(hive_acid_conn_id="nowhere"))
    assert answers == []


def test_an_unexpected_error_in_the_trigger_fails_the_task(answers: list[object]) -> None:
    # Raised in the triggerer, it would be a deferral error there, and `soft_fail` a skip.
    answers += [ZeroDivisionError("oops")]
    with pytest.raises(JobFailedError, match="ZeroDivisionError: oops"):
        _findings(_quick())


def test_exponential_backoff_doubles_the_interval_up_to_max_wait_s() -> None:
    trigger = ConditionTrigger(**_ARGUMENTS)
    assert [trigger.interval_s(polls) for polls in (0, 1, 2, 3, 4, 10**6)] == [
        7,
        14,
        28,
        56,
        70,
        70,
    ]
    assert _trigger(poke_interval_s=7.0).interval_s(9) == 7


def test_the_trigger_backs_off_with_asynchronous_sleeps(
    answers: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []

    async def sleep(s: float) -> None:
        slept_s.append(s)

    monkeypatch.setattr("airflow_hiveacid.watch.trigger.asyncio.sleep", sleep)
    answers += [_measured(_HEALTHY), _DOWN, *[_measured(_HEALTHY)] * 3, _measured(_DUE)]
    arguments = {**_ARGUMENTS, "hive_acid_conn_id": HiveAcidHook.default_conn_name}
    asyncio.run(_first(ConditionTrigger(**arguments)))
    assert slept_s == [7, 14, 28, 56, 70]


def test_an_unknown_trigger_event_is_refused() -> None:
    with pytest.raises(JobFailedError, match="unknown event"):
        findings_in({"status": "success"})


def test_the_serialised_trigger_contains_no_secret() -> None:
    _, arguments = _trigger().serialize()
    assert set(arguments) == set(_ARGUMENTS)
    assert set(arguments["condition"]) == {"kind", "table", "partition", "thresholds"}


def test_an_unresponsive_kdc_does_not_block_the_event_loop(
    connections: Connections, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as kdc:
        (tmp_path / "krb5.conf").write_text(
            "[libdefaults]\n default_realm = LAB.TEST\n dns_lookup_kdc = false\n"
            " udp_preference_limit = 1\n"
            f"[realms]\n LAB.TEST = {{\n  kdc = 127.0.0.1:{kdc.getsockname()[1]}\n }}\n"
        )
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        connections.add(
            "hive_acid_default",
            "hive_acid_metastore",
            host="127.0.0.1",
            port=kdc.getsockname()[1],  # takes the connection as well, and is not asked for more
            extra={
                "authentication": "kerberos",
                "kerberos_service": "hive/_HOST@LAB.TEST",
                "kerberos_client": "etl@LAB.TEST",
                "kerberos_keytab": keytab_of("etl@LAB.TEST", tmp_path / "keytab"),
                "connect_timeout_s": 0.7,
            },
        )

        async def wait() -> tuple[int, dict[str, Any]]:
            waiting = asyncio.ensure_future(_first(_quick()))
            turns = 0
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
            return turns, waiting.result()

        turns, event = asyncio.run(wait())
    with pytest.raises(MetastoreUnavailableError, match="KDC did not answer within"):
        findings_in(event)
    assert turns > 10


def test_thirty_unresponsive_metastores_do_not_delay_the_poll_of_a_healthy_one(
    connections: Connections, warehouse: Warehouse
) -> None:
    table = warehouse.table("t")
    warehouse.delta(table, 1)
    with contextlib.ExitStack() as servers:
        for number in range(30):
            silent = servers.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = silent.getsockname()[1]
            connections.add(f"silent_{number}", "hive_acid_metastore", host="127.0.0.1", port=port)

        async def wait() -> dict[str, Any]:
            silent = [
                asyncio.ensure_future(_first(_quick(hive_acid_conn_id=f"silent_{number}")))
                for number in range(30)
            ]
            await asyncio.sleep(0.5)  # they have begun
            healthy = _first(_trigger(table, {"delta_count": 1}))
            # The default time-out of a call is 120 s.
            found = await asyncio.wait_for(healthy, timeout=60)
            other = await asyncio.wait_for(asyncio.to_thread(lambda: "done"), timeout=60)
            assert (other, [waiting.done() for waiting in silent]) == ("done", [False] * 30)
            servers.close()  # resets what is connected, so that every look ends
            await asyncio.gather(*silent)
            return found

        ((finding,), _) = findings_in(asyncio.run(wait()))
        assert finding["delta_count"] == 1


@in_event_loop
async def test_slow_polls_of_one_metastore_do_not_delay_polls_of_other_metastores() -> None:
    ended = threading.Event()
    slow, quick = (MetastoreEndpoint(uris=(f"thrift://{name}:9083",)) for name in ("a", "b"))
    occupied = [asyncio.ensure_future(poll_in_thread(slow, ended.wait)) for _ in range(40)]
    await asyncio.sleep(0)  # they begin
    try:
        assert await poll_in_thread(quick, lambda: "done", longest_s=20) == "done"
    finally:
        ended.set()
        await asyncio.gather(*occupied)


@in_event_loop
async def test_a_poll_that_exceeds_its_time_limit_raises_metastore_unavailable_error() -> None:
    ended = threading.Event()
    endpoint = MetastoreEndpoint(uris=("thrift://slow:9083",))
    with pytest.raises(MetastoreUnavailableError, match=r"slow:9083.*within 0\.2 s"):
        await poll_in_thread(endpoint, ended.wait, longest_s=0.2)
    ended.set()


@pytest.mark.parametrize("turns", range(8))
@in_event_loop
async def test_a_poll_that_is_cancelled_while_its_result_arrives_is_cancelled(turns: int) -> None:
    ended = threading.Event()
    endpoint = MetastoreEndpoint(uris=("thrift://cancelled:9083",))

    async def poll_twice() -> None:
        await poll_in_thread(endpoint, ended.wait)
        await asyncio.Event().wait()  # as a trigger that waits for the next poll

    task = asyncio.ensure_future(poll_twice())
    await asyncio.sleep(0.02)
    ended.set()
    time.sleep(0.02)  # noqa: ASYNC251 - the thread ends while the event loop does nothing
    for _ in range(turns):  # the result needs a few turns of the event loop
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    task.cancel()
    assert done
    assert task.cancelled()


def test_a_timeout_error_of_the_poll_itself_is_not_its_time_limit() -> None:
    endpoint = MetastoreEndpoint(uris=("thrift://timed-out:9083",))

    def look() -> None:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        asyncio.run(poll_in_thread(endpoint, look))


@in_event_loop
async def test_at_most_four_polls_of_one_metastore_run_concurrently() -> None:
    names: set[str] = set()
    endpoint = MetastoreEndpoint(uris=("thrift://busy:9083",))

    def look() -> None:
        names.add(threading.current_thread().name)
        time.sleep(0.01)

    await asyncio.gather(*(poll_in_thread(endpoint, look) for _ in range(40)))
    assert len(names) == 4


@in_event_loop
async def test_polls_without_a_free_thread_wait_in_the_event_loop() -> None:
    ended = threading.Event()
    endpoint = MetastoreEndpoint(uris=("thrift://burst:9083",))
    submitted: list[object] = []
    loop = asyncio.get_running_loop()
    run_in_executor = loop.run_in_executor

    def submit(executor: Any, work: Any) -> Any:  # noqa: ANN401 - asyncio's own types
        submitted.append(work)
        return run_in_executor(executor, work)

    loop.run_in_executor = submit  # type: ignore[assignment, method-assign]
    polls = [asyncio.ensure_future(poll_in_thread(endpoint, ended.wait)) for _ in range(40)]
    await asyncio.sleep(0.1)
    while_busy = len(submitted)
    ended.set()
    await asyncio.gather(*polls)
    assert while_busy == 4
    assert len(submitted) == 40
