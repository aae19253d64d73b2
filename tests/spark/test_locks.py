"""Jobs lock the partitions that they read and change, no others, and so never meet by accident."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from airflow_hiveacid.format.conflicts import LockType
from airflow_hiveacid.format.errors import TypeMismatchError
from airflow_hiveacid.jobs import statements
from airflow_hiveacid.jobs.job import Job, JobResult, JobStatus
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.reading.table_view import MOST_NAMED
from tests.support.merge_clauses import UPSERT_V
from tests.support.spark_lab import Lab
from tests.support.steps import at

NAMES = ["id", "v", "p"]
ROWS = [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
_MEETING_S = 25.0


def partitioned(lab: Lab, name: str = "t") -> str:
    lab.table(name, {"id": "bigint", "v": "int"}, partition={"p": "int"})
    lab.insert(name, ROWS, NAMES)
    return f"{lab.db}.{name}"


def locks(lab: Lab, name: str = "t") -> set[tuple[str | None, LockType]]:
    """What is locked of a table: partition (None is the whole table) and type."""
    found = lab.client.show_locks(lab.info(name).ref)
    return {(lock.partition, lock.lock_type) for lock in found}


def locks_inside(lab: Lab, job: Job, name: str = "t") -> set[tuple[str | None, LockType]]:
    """What is locked of a table while a job writes."""
    seen: list[set[tuple[str | None, LockType]]] = []
    look = at("staged", lambda: seen.append(locks(lab, name)))
    assert lab.run(job, on_step=look).status is JobStatus.COMMITTED
    (found,) = seen
    return found


def change_of(lab: Lab, kind: str, p: int) -> Job:
    """A change that stays in one partition."""
    target = f"{lab.db}.t"
    if kind == "update":
        return statements.UpdateSpec(target=target, set={"v": "v + 10"}, where=f"p = {p}")
    if kind == "delete":
        return statements.DeleteSpec(target=target, where=f"p = {p} AND id = {p}")
    source = statements.SourceSpec(values=((p, p + 10, p), (p + 100, 0, p)), columns=tuple(NAMES))
    return statements.MergeSpec(target=target, source=source, keys=("id", "p"), clauses=UPSERT_V)


@pytest.mark.promise("L1")
def test_a_reader_locks_the_partitions_it_reads_and_not_the_table(lab: Lab) -> None:
    name = partitioned(lab)
    with read_snapshot(lab.endpoint, [name], job_key=f"{lab.db}/r"):
        assert locks(lab) == {(f"p={p}", LockType.SHARED_READ) for p in (1, 2, 3)}
    assert locks(lab) == set()


@pytest.mark.promise("L1")
def test_a_job_locks_the_partitions_of_its_source_and_not_the_table(lab4: Lab) -> None:
    name = partitioned(lab4, "source")
    partitioned(lab4)
    job = statements.InsertSpec(target=f"{lab4.db}.t", source=statements.SourceSpec(table=name))
    assert locks_inside(lab4, job, "source") == {
        (f"p={p}", LockType.SHARED_READ) for p in (1, 2, 3)
    }


@pytest.mark.promise("L2")
@pytest.mark.parametrize("kind", ["update", "delete", "merge"])
@pytest.mark.long_cases("3.1.3-delete", "3.1.3-update", "4.0.1-delete")
def test_a_change_locks_only_the_partitions_it_changes(lab: Lab, kind: str) -> None:
    partitioned(lab)
    found = locks_inside(lab, change_of(lab, kind, 2))
    assert {partition for partition, _ in found} == {"p=2"}
    assert LockType.SHARED_WRITE in {lock_type for _, lock_type in found}


@pytest.mark.promise("L3")
@pytest.mark.promise("W20")
@pytest.mark.parametrize("kind", ["update", "merge"])
@pytest.mark.long_cases("3.1.3-update", "4.0.1-update")
def test_two_changes_of_different_partitions_run_concurrently(lab: Lab, kind: str) -> None:
    partitioned(lab)
    barrier = Barrier(2)

    # Passed only when both are here, locked and not yet committed.
    meet = at("staged", lambda: barrier.wait(timeout=_MEETING_S))

    def work(p: int) -> JobResult:
        return lab.run(change_of(lab, kind, p), on_step=meet, lock_timeout_s=_MEETING_S)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, (1, 2)))
    assert [r.status for r in results] == [JobStatus.COMMITTED] * 2
    changed = [(1, 11, 1), (2, 12, 2), (3, 3, 3)]
    inserted = [(101, 0, 1), (102, 0, 2)] if kind == "merge" else []
    assert lab.rows("t") == changed + inserted


@pytest.mark.promise("L2")
@pytest.mark.parametrize("spelling", ["01", " 1", "+1"])
@pytest.mark.long_cases("+1", " 1")
def test_a_static_partition_is_locked_and_overwritten_under_its_normalized_name(
    lab4: Lab, spelling: str
) -> None:
    name = partitioned(lab4)
    job = statements.InsertSpec(
        target=name,
        source=statements.SourceSpec(values=((9, 9),), columns=("id", "v")),
        mode=statements.InsertMode.OVERWRITE,
        partition={"p": spelling},
    )
    assert {partition for partition, _ in locks_inside(lab4, job)} == {"p=1"}
    assert lab4.rows("t") == [(2, 2, 2), (3, 3, 3), (9, 9, 1)]
    empty = dataclasses.replace(job, source=statements.SourceSpec(values=(), columns=("id", "v")))
    lab4.run(empty)
    assert lab4.rows("t") == [(2, 2, 2), (3, 3, 3)]
    found = lab4.client.list_partitions(lab4.info("t"))
    assert [str(p.name) for p in found] == ["p=1", "p=2", "p=3"]


@pytest.mark.parametrize("value", ["", None])
def test_a_static_partition_without_a_value_is_the_partition_of_null(
    lab4: Lab, value: str | None
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "string"})
    job = statements.InsertSpec(
        target=f"{lab4.db}.t",
        source=statements.SourceSpec(values=((9, 9),), columns=("id", "v")),
        mode=statements.InsertMode.OVERWRITE,
        partition={"p": value},
    )
    default = "p=__HIVE_DEFAULT_PARTITION__"
    assert {partition for partition, _ in locks_inside(lab4, job)} == {default}
    assert [str(p.name) for p in lab4.client.list_partitions(lab4.info("t"))] == [default]


def test_a_static_partition_value_that_does_not_fit_its_column_is_refused(lab4: Lab) -> None:
    name = partitioned(lab4)
    job = statements.InsertSpec(
        target=name,
        source=statements.SourceSpec(values=(), columns=("id", "v")),
        mode=statements.InsertMode.OVERWRITE,
        partition={"p": "one"},
    )
    message = f"{name}: column 'p' is int, but the value is 'one'"
    with pytest.raises(TypeMismatchError, match=message):
        lab4.run(job)
    assert lab4.rows("t") == ROWS


def test_one_lock_request_can_name_the_maximum_number_of_partitions_of_two_tables(lab: Lab) -> None:
    """Derby refuses queries that grow with the number of locks far sooner than other databases."""
    for name in ("a", "b"):
        table = lab.table(name, {"id": "bigint"}, partition={"p": "int"})
        partitions = [table.partition_name([f"{i}"]) for i in range(MOST_NAMED)]
        lab.client.add_partitions(table, partitions)
    names = [f"{lab.db}.a", f"{lab.db}.b"]
    with read_snapshot(lab.endpoint, names, job_key=f"{lab.db}/many"):
        assert len(locks(lab, "a")) == len(locks(lab, "b")) == MOST_NAMED
