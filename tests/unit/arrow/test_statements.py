"""Statements in one process: rows, files and results, over a fake metastore and real ORC files."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_hiveacid.arrow import Limits
from airflow_hiveacid.format.conflicts import ConflictPolicy
from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    MergeCardinalityError,
    OvertakenError,
    PartitionNotFoundError,
    SparkNeededError,
    WriteConflictError,
)
from airflow_hiveacid.jobs.job import JobResult, JobStatus, OnRerun
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    MergeClause,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.metastore.port import TxnState
from airflow_hiveacid.plan.statements.parameters import read_parameters
from airflow_hiveacid.reading import table_view
from tests.contract.fake_metastore import FakeMetastore
from tests.unit.arrow.lake import (
    DELETE_ALL,
    INSERT_ALL,
    ROW,
    UPDATE_ALL,
    KilledError,
    Lake,
    Make,
    die,
)
from tests.unit.storage.orc_tables import event, write_acid, write_plain

MERGES = json.loads(Path(__file__).with_name("merges.json").read_text())
_CLAUSES = {"update": UPDATE_ALL, "delete": DELETE_ALL, "insert": INSERT_ALL}


def price(text: str) -> Decimal:
    return Decimal(text)


@pytest.fixture
def bucketed(make: Make) -> Lake:
    return make(bucket_columns=("id",), num_buckets=4)


ONE, TWO, THREE = (1, "a", price("1.50")), (2, "b", None), (None, None, price("3.00"))


def test_an_insert_of_values_stores_them_in_the_types_of_the_columns(lake: Lake) -> None:
    result = lake.insert((1, "a", "1.5"), ("2", "b", None), (None, None, 3))
    assert lake.rows == sorted([ONE, TWO, THREE], key=str)
    assert (result.rows.inserted, result.rows.updated, result.rows.deleted) == (3, 0, 0)
    assert (result.kind, result.status, result.files) == ("insert", JobStatus.COMMITTED, 1)
    assert lake.files == ["delta_0000001_0000001_0000/bucket_00000"]


def test_an_insert_without_rows_changes_nothing(lake: Lake) -> None:
    result = lake.insert()
    assert (result.status, result.files, lake.rows) == (JobStatus.COMMITTED, 0, [])


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 1", [2, None]),
        ("id <> 1", [1, None]),
        ("id IN (1, 2, NULL)", [None]),
        ("id BETWEEN 2 AND 9", [1, None]),
        ("id IS NULL", [1, 2]),
        ("`name` IS NOT NULL AND t.id >= 2", [1, None]),
        ("(id = 1 OR name = 'b') AND price IS NULL", [1, None]),
        ("name > 'a'", [1, None]),
        ("price = 1.5", [2, None]),
        ("id = NULL", [1, 2, None]),
        (None, []),
    ],
)
def test_a_delete_removes_the_rows_that_meet_the_condition(
    lake: Lake, where: str | None, left: list[int | None]
) -> None:
    lake.insert((*ONE[:2], "1.5"), TWO, (None, None, 3))
    result = lake.delete(where)
    assert sorted((row[0] for row in lake.rows), key=str) == sorted(left, key=str)
    assert result.rows.deleted == 3 - len(left)


def test_an_insert_lists_no_directory(parted: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it works beside a lost directory, delete events without rows, and files on S3."""
    parted.insert((1, "a", None, "2026-01-01", 7))
    monkeypatch.setattr(table_view, "list_table", None)
    parted.insert((2, "b", None, "2026-01-01", 7))
    assert len(parted.rows) == 2


def test_a_delete_takes_the_values_of_parameters(lake: Lake) -> None:
    lake.insert(*[(number, str(number), None) for number in range(6)])
    parameters = read_parameters({"ids": [1, 2], "name": "4"})
    where = "id IN (:ids) OR name = :name"
    lake.run(DeleteSpec(target="default.s", where=where, parameters=parameters))
    assert [row[0] for row in lake.rows] == [0, 3, 5]


def test_an_update_keeps_the_columns_that_it_does_not_set(lake: Lake) -> None:
    lake.insert((*ONE[:2], "1.5"), TWO)
    result = lake.run(
        UpdateSpec(target="default.s", set={"name": "'x'", "price": "NULL"}, where="id = 1")
    )
    assert lake.rows == [(1, "x", None), TWO]
    assert result.rows.updated == 1


@pytest.mark.parametrize("name", MERGES)
def test_a_merge_changes_the_matched_rows_and_inserts_the_others(lake: Lake, name: str) -> None:
    case = MERGES[name]
    lake.insert(*case["rows"])
    clauses = [_CLAUSES[action] for action in case["clauses"]]
    counts = lake.merge(*case["source"], clauses=clauses, keys=tuple(case["keys"])).rows
    assert [counts.inserted, counts.updated, counts.deleted] == case["counts"]
    after = [(id_, name, price and Decimal(price)) for id_, name, price in case["after"]]
    assert lake.rows == sorted(after, key=str)


def test_a_merge_sets_source_columns_and_constants(lake: Lake) -> None:
    lake.insert((*ONE[:2], "1.5"), TWO)
    clause = dataclasses.replace(UPDATE_ALL, set={"name": "s.name", "price": "7"})
    lake.merge((1, "z", None), clauses=[clause])
    assert lake.rows == [(1, "z", price("7.00")), TWO]


@pytest.mark.parametrize("clause", [UPDATE_ALL, DELETE_ALL])
def test_two_source_rows_for_one_row_are_refused(lake: Lake, clause: MergeClause) -> None:
    lake.insert((*ONE[:2], "1.5"), TWO)
    with pytest.raises(MergeCardinalityError):
        lake.merge((1, "x", None), (1, "y", None), clauses=[clause])
    assert lake.rows == [ONE, TWO]


def test_rows_go_to_the_buckets_of_hives_hash_and_stay_there(bucketed: Lake) -> None:
    bucketed.insert(*[(number, "old", None) for number in range(40)])
    merged = [(number, "new", None) for number in range(20, 60)]
    bucketed.merge(*merged, clauses=[UPDATE_ALL, INSERT_ALL])
    assert Counter(row[1] for row in bucketed.rows) == {"old": 20, "new": 40}
    names = {name.split("/")[1] for name in bucketed.files}
    assert names == {f"bucket_0000{number}" for number in range(4)}
    bucketed.delete("id < 50")
    assert len(bucketed.rows) == 10


def test_statements_reach_only_the_partitions_that_they_can_touch(parted: Lake) -> None:
    one, two = "2026-01-01", "2026-01-02"
    parted.insert((1, "a", None, one, 1), (2, "b", None, one, 2), (3, "c", None, two, 1))
    result = parted.delete(f"day = DATE '{one}' AND id < 9 AND part = 2")
    assert result.partitions == ("day=2026-01-01/part=2",)
    assert [row[0] for row in parted.rows] == [1, 3]
    result = parted.merge(
        (1, "A", None, one, 1),
        (4, "d", None, two, 5),
        keys=("id", "day", "part"),
        clauses=[UPDATE_ALL, INSERT_ALL],
    )
    assert result.partitions == ("day=2026-01-01/part=1", "day=2026-01-02/part=5")
    expected = [(1, "A", None, one, "1"), (3, "c", None, two, "1"), (4, "d", None, two, "5")]
    assert parted.rows == expected
    with pytest.raises(ColumnUpdateError):
        parted.run(UpdateSpec(target="default.s", set={"part": "1"}))


def test_a_delete_reaches_whole_partitions_and_rows_of_others(parted: Lake) -> None:
    one, two = "2026-01-01", "2026-01-02"
    parted.insert((1, "a", None, one, 1), (2, "b", None, two, 1), (3, "c", None, two, 1))
    result = parted.delete(f"day = DATE '{one}' OR id = 3")
    assert result.partitions == (f"day={one}/part=1", f"day={two}/part=1")
    assert [row[0] for row in parted.rows] == [2]


def test_a_static_partition_gets_all_rows_and_null_its_own(parted: Lake) -> None:
    source = SourceSpec(columns=("id", "part"), values=((1, 7), (2, None)))
    parted.run(InsertSpec(target="default.s", source=source, partition={"day": "2026-01-01"}))
    assert parted.rows == [
        (1, None, None, "2026-01-01", "7"),
        (2, None, None, "2026-01-01", None),
    ]
    parted.delete("part IS NULL")
    assert [row[0] for row in parted.rows] == [1]


def test_a_truncation_empties_the_table_or_the_partitions_with_these_values(parted: Lake) -> None:
    parted.insert((1, None, None, "2026-01-01", 1), (2, None, None, "2026-01-02", 2))
    parted.run(TruncateSpec(target="default.s", partition={"part": "1"}))
    assert [row[0] for row in parted.rows] == [2]
    with pytest.raises(PartitionNotFoundError):
        parted.run(TruncateSpec(target="default.s", partition={"part": "9"}))
    parted.run(TruncateSpec(target="default.s"))
    assert parted.rows == []


def test_rows_from_before_the_table_was_transactional_are_changed_like_others(lake: Lake) -> None:
    import pyarrow as pa  # noqa: PLC0415 - the types of one file

    root = lake.root
    types = [("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(8, 2))]
    rows = [{"id": n, "name": f"o{n}", "price": None} for n in range(4)]
    write_plain(root / "000000_0", rows, row=pa.struct(types))
    lake.delete("id = 1")
    lake.merge((2, "m", None), (9, "n", None), clauses=[UPDATE_ALL, INSERT_ALL])
    lake.run(UpdateSpec(target="default.s", set={"price": "1.00"}, where="id = 3"))
    assert lake.rows == [
        (0, "o0", None), (2, "m", None), (3, "o3", price("1.00")), (9, "n", None)
    ]  # fmt: skip


def test_deleted_aborted_and_open_rows_are_not_found(lake: Lake, server: FakeMetastore) -> None:
    def killed() -> None:
        raise KilledError

    lake.insert((1, "a", None), (2, "b", None))
    lake.delete("id = 2")
    lake.at["published"] = killed
    with pytest.raises(KilledError):
        lake.insert((1, "aborted", None))
    result = lake.merge((1, "x", None), (2, "y", None), clauses=[UPDATE_ALL, INSERT_ALL])
    assert (result.rows.updated, result.rows.inserted) == (1, 1)
    assert lake.rows == [(1, "x", None), (2, "y", None)]
    assert TxnState.ABORTED in {txn.state for txn in server.txns.values()}


@pytest.mark.parametrize("step", ["locked", "staged", "noted", "published"])
@pytest.mark.parametrize("aborts", [False, True])
def test_a_killed_try_is_repeated_exactly_once(lake: Lake, step: str, *, aborts: bool) -> None:
    lake.insert((1, "a", None))
    merge: dict[str, Any] = {"clauses": [UPDATE_ALL, INSERT_ALL], "key": "merge"}
    die(lake, step, lambda: lake.merge((1, "x", None), (2, "y", None), **merge), aborts=aborts)
    lake.merge((1, "x", None), (2, "y", None), attempt=2, **merge)
    assert lake.server.locks == {}, "the retry ends the transaction of the killed try"
    again = lake.merge((1, "x", None), (2, "y", None), attempt=3, on_rerun=OnRerun.SKIP, **merge)
    assert again.status is JobStatus.ALREADY_DONE
    assert lake.rows == [(1, "x", None), (2, "y", None)]


def test_a_change_that_commits_first_wins(lake: Lake) -> None:
    lake.insert((1, "a", None))
    other = lake.other()
    lake.at["opened"] = lambda: other.run(
        UpdateSpec(target="default.s", set={"name": "'first'"}),
        conflict_policy=ConflictPolicy.STRICT,
    )
    with pytest.raises(WriteConflictError):
        lake.run(
            UpdateSpec(target="default.s", set={"name": "'second'"}),
            conflict_policy=ConflictPolicy.STRICT,
        )
    assert lake.rows == [(1, "first", None)]


def test_a_change_sees_rows_that_were_committed_while_it_waited_for_its_locks(lake: Lake) -> None:
    lake.insert((1, "a", None))
    other = lake.other()
    lake.at["allocated"] = lambda: other.insert((2, "late", None))
    result = lake.delete("id >= 1")
    assert (result.rows.deleted, lake.rows) == (2, [])


def retried(result: JobResult) -> Any:  # noqa: ANN401 - a part of a result's details
    return result.details.get("retried", {})


def base_of(lake: Lake, *numbers: int) -> None:
    """Commit a base with these rows, as an engine that takes no lock."""
    txn_id = lake.client.open_txn()
    write_id = lake.client.allocate_write_id(txn_id, lake.table.ref)
    rows = [{"id": number, "name": "foreign", "price": None} for number in numbers]
    events = [event(write_id, position, row) for position, row in enumerate(rows)]
    path = lake.root / f"base_{write_id:07d}/bucket_00000"
    path.parent.mkdir()
    write_acid(path, events, row=ROW)
    lake.client.commit_txn(txn_id)


def test_an_overtaken_insert_uses_its_files_again(lake: Lake) -> None:
    lake.insert((1, "a", None))
    lake.at["registered"] = lambda: base_of(lake, 7)
    result = lake.insert((2, "b", None))
    assert lake.rows == [(2, "b", None), (7, "foreign", None)]
    assert retried(result)["how"] == "metadata"


@pytest.mark.parametrize("step", ["registered", "staged"])
def test_an_overtaken_change_runs_again_on_the_rows_that_are_there_now(
    lake: Lake, step: str
) -> None:
    lake.insert((1, "a", None))
    lake.at[step] = lambda: base_of(lake, 7, 8)
    result = lake.merge((7, "x", None), (9, "y", None), clauses=[UPDATE_ALL, INSERT_ALL])
    assert lake.rows == [(7, "x", None), (8, "foreign", None), (9, "y", None)]
    assert (result.rows.updated, result.rows.inserted) == (1, 1)
    assert retried(result)["how"] == "in full"


def test_a_job_that_is_always_overtaken_fails_in_the_end(lake: Lake) -> None:
    def overtaken() -> None:
        base_of(lake, 1)
        lake.at["registered"] = overtaken

    lake.insert((1, "a", None))
    lake.at["registered"] = overtaken
    with pytest.raises(OvertakenError):
        lake.delete("id = 1")
    assert lake.rows == [(1, "foreign", None)]
    assert TxnState.OPEN not in {txn.state for txn in lake.server.txns.values()}


def test_the_limit_of_key_bytes_counts_all_files_together(lake: Lake) -> None:
    rows = [(number, f"name {number * 7919 % 100003}", None) for number in range(4000)]
    for start in range(4):
        lake.insert(*rows[start::4])
    one_file = Limits(key_bytes=max(file.stat().st_size for file in lake.root.rglob("bucket_*")))
    with pytest.raises(SparkNeededError, match="bytes of keys must be searched"):
        lake.delete("name = 'x'", limits=one_file)


def test_a_merge_counts_an_updated_row_once(lake: Lake) -> None:
    lake.insert((1, "a", None), (2, "a", None))
    lake.merge((1, "b", None), (2, "b", None), clauses=[UPDATE_ALL], limits=Limits(changed_rows=2))
    assert lake.rows == [(1, "b", None), (2, "b", None)]
    with pytest.raises(SparkNeededError, match="changes more than 1 rows"):
        lake.merge(
            (1, "c", None), (2, "c", None), clauses=[UPDATE_ALL], limits=Limits(changed_rows=1)
        )


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(rows=3), "4 rows must be searched"),
        (Limits(changed_rows=3), "changes more than 3 rows"),
        (Limits(key_bytes=1), "bytes of keys must be searched"),
        (Limits(memory_bytes=1), "of memory"),
    ],
)
def test_above_a_limit_nothing_is_written(lake: Lake, limits: Limits, why: str) -> None:
    lake.insert(*[(number, None, None) for number in range(4)])
    with pytest.raises(SparkNeededError, match=why):
        lake.delete("id >= 0", limits=limits)
    assert len(lake.rows) == 4
    assert len(lake.files) == 1
