from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import PartitionInfo, PartitionName, TableInfo
from airflow_hiveacid.jobs.maintenance import CleanSpec
from airflow_hiveacid.maintenance import many_tables
from airflow_hiveacid.maintenance.many_tables import TableOrPartition, TablesRun, each_piece
from airflow_hiveacid.metastore.port import MetastorePort
from tests.contract.fake_client import FakeClient

_R = TypeVar("_R")
DAYS = tuple(
    PartitionInfo(name=PartitionName(("day",), (day,)), location=f"file:/t/day={day}")
    for day in ("1", "2", "3")
)
ENDS = (errors.FencedError(job_key="k", txn_id=1, newer_txn_id=2), errors.TaskKilledError())


def outcome(
    client: FakeClient,
    table: TableInfo,
    failures: dict[str, errors.HiveAcidError],
    days: tuple[PartitionInfo, ...] = DAYS,
) -> list[str]:
    """The results of work that fails as told, or else returns its partition's name."""

    def work(own: MetastorePort, partition: PartitionInfo) -> str:
        assert own is not client
        if str(partition.name) in failures:
            raise failures[str(partition.name)]
        return str(partition.name)

    return each_partition(client, table, days, work)


def each_partition(
    client: FakeClient,
    table: TableInfo,
    days: Sequence[PartitionInfo],
    work: Callable[[MetastorePort, PartitionInfo], _R],
    *,
    at_once: int = 2,
) -> list[_R]:
    """The results of the partitions of a job of one table."""
    run = TablesRun(spec=CleanSpec.of_table(str(table.ref)), partitions=len(days))
    results = run.each(
        client,
        days,
        work,
        where=lambda day: TableOrPartition(table=table, partition=day),
        at_once=at_once,
    )
    done = {f"{table.ref} {day.name}": str(result).upper() for day, result in results}
    run.check(done)
    return [result for _, result in results]


def test_results_come_in_the_order_of_the_partitions(client: FakeClient, table: TableInfo) -> None:
    assert outcome(client, table, {}) == ["day=1", "day=2", "day=3"]
    assert outcome(client, table, {}, days=()) == []


@pytest.mark.parametrize("failing", [("day=2",), ("day=1", "day=3"), ("day=1", "day=2", "day=3")])
def test_the_error_names_each_failed_and_each_finished_partition(
    client: FakeClient, table: TableInfo, failing: tuple[str, ...]
) -> None:
    with pytest.raises(errors.PartitionsFailedError) as caught:
        outcome(client, table, {day: errors.StorageError(f"no {day}") for day in failing})
    assert caught.value.failed == {day: f"no {day}" for day in failing}
    done = {f"day={i}" for i in (1, 2, 3)} - set(failing)
    assert caught.value.done == {day: day.upper() for day in done}
    assert all(day.upper() in str(caught.value) for day in done), "which crosses the seam"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_a_newer_copy_or_a_kill_is_reported_before_all_other_failures(
    client: FakeClient, table: TableInfo, end: errors.HiveAcidError
) -> None:
    with pytest.raises(type(end)):
        outcome(client, table, {"day=1": errors.StorageError("no disk"), "day=3": end})


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_after_a_newer_copy_or_a_kill_no_further_piece_is_started(
    client: FakeClient, end: errors.HiveAcidError
) -> None:
    started: list[int] = []

    def work(_: MetastorePort, piece: int) -> int:
        started.append(piece)
        if piece == 2:
            raise end
        return piece

    assert each_piece(client, range(5), work, at_once=1, name=str) == [0, 1, end, end, end]
    assert started == [0, 1, 2]


DOWN = errors.MetastoreUnavailableError(uris=("thrift://hms:9083",), method="m", reason="no answer")


@pytest.mark.parametrize("at_once", [1, 8])
def test_after_many_pieces_without_an_answer_of_the_metastore_no_further_piece_is_started(
    client: FakeClient, at_once: int
) -> None:
    started: list[int] = []

    def work(_: MetastorePort, piece: int) -> int:
        started.append(piece)
        raise DOWN

    found = each_piece(client, range(1000), work, at_once=at_once, name=str)
    assert found == [DOWN] * 1000
    assert 24 <= len(started) <= 24 + at_once


def test_a_metastore_that_answers_now_and_then_gets_every_piece(client: FakeClient) -> None:
    def work(_: MetastorePort, piece: int) -> int:
        if piece % 24:
            raise DOWN
        return piece

    found = each_piece(client, range(1000), work, at_once=1, name=str)
    assert [one for one in found if one is not DOWN] == list(range(0, 1000, 24))


def test_other_failures_never_keep_the_next_piece_from_being_started(client: FakeClient) -> None:
    started: list[int] = []

    def work(_: MetastorePort, piece: int) -> int:
        started.append(piece)
        raise errors.StorageError("no disk")

    each_piece(client, range(100), work, at_once=8, name=str)
    assert sorted(started) == list(range(100))


def test_the_end_of_a_tasks_time_stops_the_work_after_the_current_pieces(
    client: FakeClient,
) -> None:
    started: list[int] = []

    def work(_: MetastorePort, piece: int) -> int:
        started.append(piece)
        time.sleep(0.01)
        return piece

    def time_out(*_: object) -> None:
        raise TimeoutError("the task's time is over")

    before = signal.signal(signal.SIGALRM, time_out)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError, match="time is over"):
            each_piece(client, range(10_000), work, at_once=2, name=str)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert 0 < len(started) < 1000


def test_a_connection_is_reused_for_the_next_partition_unless_a_partition_failed_on_it(
    client: FakeClient, table: TableInfo
) -> None:
    served: list[tuple[MetastorePort, str]] = []
    closed: list[MetastorePort] = []

    class Own(type(client)):  # type: ignore[misc] # only known as the fixture's
        def close(self) -> None:
            closed.append(self)

    def work(own: MetastorePort, partition: PartitionInfo) -> None:
        served.append((own, str(partition.name)))
        if str(partition.name) == "day=2":
            raise errors.StorageError("no disk")

    with pytest.raises(errors.PartitionsFailedError):
        each_partition(Own(client.server), table, DAYS * 2, work, at_once=1)
    one, two, three, four, five, six = (own for own, _ in served)
    assert one is two
    assert three is four is five
    assert len({id(own) for own in (one, three, six)}) == 3
    assert closed == [one, three, six]


def test_a_thousand_partitions_use_at_most_eight_connections_at_once(
    client: FakeClient, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, most: int) -> None:
            asked.append(most)
            super().__init__(most)

    monkeypatch.setattr(many_tables, "ThreadPoolExecutor", Pool)
    done = each_partition(client, table, DAYS * 333, lambda _c, p: str(p.name), at_once=999)
    assert len(done) == 999
    assert asked == [8]


@pytest.mark.parametrize("pieces", [1, 2])
def test_an_error_of_another_library_ends_no_other_piece_even_if_it_is_the_only_one(
    client: FakeClient, pieces: int
) -> None:
    """A job of many tables may have one piece at a time, such as the last table of its group."""

    def work(_: MetastorePort, piece: int) -> int:
        if piece == 0:
            raise OverflowError("date value out of range")
        return piece

    error, *others = each_piece(client, range(pieces), work, at_once=1, name=str)
    assert isinstance(error, errors.JobFailedError)
    assert "unexpected OverflowError: date value out of range" in str(error)
    assert others == list(range(1, pieces))
