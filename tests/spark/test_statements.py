"""What one statement does, and leaves: its rows, its files, its one transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    LockNotAcquiredError,
    TypeMismatchError,
    UnknownColumnError,
)
from airflow_hiveacid.format.ids import decode
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.statements import (
    InsertMode,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.writing import event_files
from tests.support.merge_clauses import UPSERT_ALL
from tests.support.spark_lab import Lab
from tests.support.steps import StopError, at, stop_at

COLUMNS = {"id": "bigint", "v": "int"}


@pytest.mark.promise("W4")
def test_an_update_can_swap_columns_set_null_and_use_a_subquery(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "a": "int", "b": "int"})
    lab4.insert("t", [(1, 1, 10), (2, 2, 20), (3, None, 30)], ["id", "a", "b"])
    lab4.update("t", {"a": "b", "b": "a"}, "id <> 2")
    assert lab4.rows("t") == [(1, 10, 1), (2, 2, 20), (3, 30, None)]
    assert lab4.update("t", {"a": "NULL"}, "b IS NULL").rows == RowCounts(updated=1)
    assert lab4.rows("t") == [(1, 10, 1), (2, 2, 20), (3, None, None)]
    lab4.update("t", {"b": "(SELECT max(id) FROM range(5))"}, "id = 1")
    assert lab4.rows("t") == [(1, 10, 4), (2, 2, 20), (3, None, None)]


@pytest.mark.promise("W5")
def test_a_delete_counts_each_row_once_and_keeps_rows_whose_condition_is_null(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, 1), (2, None), (3, 9)], ["id", "v"])
    assert lab4.delete("t", "v > 5").rows == RowCounts(deleted=1)
    assert lab4.delete("t", "v > 5").rows == RowCounts()
    assert lab4.delete("t", "v = NULL").rows == RowCounts()
    assert lab4.rows("t") == [(1, 1), (2, None)]
    assert lab4.delete("t").rows == RowCounts(deleted=2)
    assert lab4.delete("t").rows == RowCounts()
    assert lab4.rows("t") == []


def test_a_change_of_no_rows_conflicts_with_no_other_transaction(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, 1)], ["id", "v"])
    beside: list[JobStatus] = []
    delete = at("staged", lambda: beside.append(lab4.delete("t", "id = 99").status))
    assert lab4.update("t", {"v": "v + 1"}, on_step=delete).status is JobStatus.COMMITTED
    assert beside == [JobStatus.COMMITTED]
    assert lab4.rows("t") == [(1, 2)]


@pytest.mark.promise("W1")
def test_an_insert_of_no_rows_commits_and_leaves_no_directory(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, 1)], ["id", "v"])
    before = lab4.directories("t")
    result = lab4.insert("t", [], ["id", "v"])
    assert (result.status, result.rows, result.files) == (JobStatus.COMMITTED, RowCounts(), 0)
    assert lab4.directories("t") == before
    assert lab4.rows("t") == [(1, 1)]


@pytest.mark.promise("W1")
def test_a_source_table_is_read_as_of_the_snapshot_of_the_job(lab4: Lab) -> None:
    for name in ("source", "copy", "merged"):
        lab4.table(name, COLUMNS)
    lab4.insert("source", [(i, i) for i in range(6)], ["id", "v"])
    lab4.delete("source", "id = 0")
    lab4.update("source", {"v": "v + 100"}, "id = 1")
    lab4.insert("merged", [(1, 1), (9, 9)], ["id", "v"])

    def write_beside(step: str) -> None:
        if step == "snapshot":
            lab4.insert("source", [(77, 77)], ["id", "v"])
            lab4.delete("source", "id > 3")

    then = [(1, 101), (2, 2), (3, 3), (4, 4), (5, 5)]
    source = SourceSpec(table=f"{lab4.db}.source")
    lab4.run(InsertSpec(target=f"{lab4.db}.copy", source=source), on_step=write_beside)
    assert lab4.rows("copy") == then
    assert lab4.rows("source") == [(1, 101), (2, 2), (3, 3)]
    write_again = at("snapshot", lambda: lab4.update("source", {"v": "-1"}))
    merge = MergeSpec(target=f"{lab4.db}.merged", source=source, keys=("id",), clauses=UPSERT_ALL)
    result = lab4.run(merge, on_step=write_again)
    assert result.rows == RowCounts(inserted=2, updated=1)
    assert lab4.rows("merged") == [(1, 101), (2, 2), (3, 3), (9, 9)]
    assert {v for _, v in lab4.rows("source")} == {-1}


@pytest.mark.promise("W2")
@pytest.mark.promise("L4")
def test_an_overwrite_waits_for_readers_and_old_snapshots_still_read_their_rows(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    rows = [(1, 1), (2, 2)]
    lab.insert("t", rows, ["id", "v"])
    lab.delete("t", "id = 2")
    old = lab.snapshot("t")
    values = SourceSpec(values=((3, 3),), columns=("id", "v"))
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key=f"{lab.db}/r") as snapshot:
        frame = read_table(lab.spark, f"{lab.db}.t", snapshot)
        with pytest.raises(LockNotAcquiredError):
            lab.run(overwrite(lab, values), lock_timeout_s=0.5)
        assert [tuple(row) for row in frame.collect()] == [(1, 1)]
    lab.run(overwrite(lab, values))
    assert lab.rows("t") == [(3, 3)]
    # Nobody has cleaned: a reader that took its snapshot before still finds what it needs.
    late = resolve_target(lab.spark, lab.client, lab.info("t"), old).rows().collect()
    assert [tuple(row) for row in late] == [(1, 1)]


def overwrite(lab: Lab, source: SourceSpec) -> InsertSpec:
    return InsertSpec(target=f"{lab.db}.t", source=source, mode=InsertMode.OVERWRITE)


@pytest.mark.promise("T11")
@pytest.mark.long_cases("3.1.3")
def test_each_statement_opens_at_most_one_transaction_and_always_ends_it(lab: Lab) -> None:
    lab.table("t", COLUMNS)

    def spent(work: Callable[[], object]) -> list[str]:
        """How the transactions ended that the work opened."""
        before = lab.client.valid_txns().high_watermark
        work()
        txns = lab.client.valid_txns()
        assert [t for t in txns.open if t > before] == []
        opened = range(before + 1, txns.high_watermark + 1)
        return ["aborted" if txns.is_aborted(t) else "committed" for t in opened]

    def failing(work: Callable[[], object], error: type[Exception]) -> Callable[[], None]:
        def fail() -> None:
            with pytest.raises(error):
                work()

        return fail

    rows, names, key = [(1, 1), (2, 2)], ["id", "v"], f"{lab.db}/once"
    done = ["committed"]
    assert spent(lambda: lab.insert("t", rows, names, job_key=key)) == done
    assert spent(lambda: lab.update("t", {"v": "v + 1"})) == done
    assert spent(lambda: lab.merge("t", [(2, 5), (3, 5)], names, ["id"], UPSERT_ALL)) == done
    assert spent(lambda: lab.delete("t", "id = 1")) == done
    assert spent(lambda: lab.delete("t", "id = 1")) == done
    assert spent(lambda: lab.overwrite("t", rows, names)) == done
    assert spent(lambda: lab.insert("t", rows, names, job_key=key)) == ["aborted"]
    for step in ("staged", "body_done"):
        stopped = failing(lambda at=step: lab.delete("t", on_step=stop_at(at)), StopError)
        assert spent(stopped) == ["aborted"], step
    assert spent(failing(lambda: lab.update("t", {"nope": "1"}), UnknownColumnError)) == []
    assert spent(failing(lambda: lab.update("t", {"v": "id / 0"}), Exception)) == ["aborted"]
    assert lab.client.show_locks(lab.info("t").ref) == ()


def data_files(lab: Lab, name: str) -> dict[Path, int]:
    return {f: f.stat().st_size for f in lab.root(name).rglob("delta_*/bucket_*")} | {
        f: f.stat().st_size for f in lab.root(name).rglob("delete_delta_*/bucket_*")
    }


@pytest.mark.promise("A15")
@pytest.mark.parametrize("few", [0, 50_000], ids=["by tasks", "by the driver"])
def test_a_result_counts_the_rows_files_and_bytes_that_are_on_the_disk(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(event_files, "MOST_EVENTS", few)
    lab4.table("t", COLUMNS, partition={"p": "int"}, buckets=("id", 3))
    known: dict[Path, int] = {}

    def check(result: JobResult, rows: RowCounts, partitions: set[str]) -> None:
        found = data_files(lab4, "t")
        added = {f: size for f, size in found.items() if f not in known}
        assert {f: size for f, size in found.items() if f in known} == known
        assert (result.files, result.size_bytes) == (len(added), sum(added.values()))
        assert result.rows == rows
        (write_id,) = result.write_ids.values()
        assert {f.parent.name.split("delta_")[1][:15] for f in added} == {
            f"{write_id:07d}_{write_id:07d}"
        }
        assert set(result.partitions) == partitions == {f.parent.parent.name for f in added}
        known.update(added)

    names = ["id", "v", "p"]
    inserted = lab4.insert("t", [(i, i, i % 2) for i in range(12)], names)
    check(inserted, RowCounts(inserted=12), {"p=0", "p=1"})
    check(lab4.update("t", {"v": "0"}, "id < 3"), RowCounts(updated=3), {"p=0", "p=1"})
    check(lab4.delete("t", "p = 1 AND id > 6"), RowCounts(deleted=3), {"p=1"})
    merged = lab4.merge("t", [(0, 5, 0), (50, 5, 2)], names, ["id"], UPSERT_ALL)
    check(merged, RowCounts(inserted=1, updated=1), {"p=0", "p=2"})


@pytest.mark.promise("F2")
@pytest.mark.parametrize(
    ("buckets", "count"), [(None, 1), (("id", 2), 2)], ids=["by Spark", "by us"]
)
def test_row_ids_of_each_file_count_from_zero_in_file_order(
    lab4: Lab, buckets: tuple[str, int] | None, count: int
) -> None:
    lab4.table("t", COLUMNS, buckets=buckets)
    lab4.insert("t", [(i, 0) for i in range(100)], ["id", "v"])
    lab4.update("t", {"v": "1"}, "id % 3 = 0")
    writers: dict[str, list[int]] = {}
    for file in sorted(lab4.root("t").glob("delta_*/bucket_*")):
        events = orc.read_table(file)
        directory = file.parent.name
        write_id, statement = int(directory.split("_")[1]), int(directory.split("_")[3])
        properties = {decode(p) for p in events["bucket"].to_pylist()}
        (place,) = properties
        assert file.name == f"bucket_{place.bucket_id:05d}"
        assert place.statement_id == statement
        assert set(events["originalTransaction"].to_pylist()) == {write_id}
        assert events["rowId"].to_pylist() == list(range(events.num_rows))
        writers.setdefault(directory, []).append(events.num_rows)
    first, second = writers.values()
    assert (sum(first), sum(second)) == (100, 34)
    assert len(first) == count


def test_rows_with_more_than_a_hundred_text_columns_can_be_updated_and_merged(lab4: Lab) -> None:
    kinds = ("string", "varchar(5)", "binary", "array<string>")
    columns = {f"{kind[:2]}{i}": kind for i in range(30) for kind in kinds}
    lab4.table("t", {"id": "bigint", **columns})
    lab4.insert("t", [(1, "a", "b"), (2, "c", "d")], ["id", "st1", "va29"])
    lab4.update("t", {"st29": "st1 || va29"}, "id = 2")
    lab4.merge("t", [(2, "e"), (3, "f")], ["id", "st1"], ["id"], UPSERT_ALL)
    found = {row[0]: row[1:] for row in lab4.rows("t")}
    names = list(columns)
    assert {
        key: [row[names.index(n)] for n in ("st1", "va29", "st29")] for key, row in found.items()
    } == {
        1: ["a", "b", None],
        2: ["e", "d", "cd"],
        3: ["f", None, None],
    }
    assert lab4.delete("t", "st1 = 'a'").rows == RowCounts(deleted=1)


def test_a_merge_that_would_move_a_row_to_a_different_partition_is_refused(lab4: Lab) -> None:
    lab4.table("t", COLUMNS, partition={"p": "string", "d": "date"})
    names = ["id", "v", "p", "d"]
    lab4.insert("t", [(1, 1, "a", "2020-01-31"), (2, 2, None, "2020-01-31")], names)
    with pytest.raises(ColumnUpdateError, match="'p' cannot be updated"):
        lab4.merge("t", [(1, 5, "b", "2020-01-31")], names, ["id"], UPSERT_ALL)
    with pytest.raises(ColumnUpdateError, match="'p' cannot be updated"):
        lab4.merge("t", [(2, 5, "b", "2020-01-31")], names, ["id"], UPSERT_ALL)
    before = [(1, 1, "a", "2020-01-31"), (2, 2, None, "2020-01-31")]
    assert [(*row[:3], str(row[3])) for row in lab4.rows("t")] == before
    same = [(1, 5, "a", "2020-01-31"), (2, 6, None, "2020-01-31"), (3, 7, "c", "2020-02-01")]
    lab4.merge("t", same, names, ["id"], UPSERT_ALL)
    assert [(*row[:3], str(row[3])) for row in lab4.rows("t")] == same
    lab4.merge("t", [(1, 9)], ["id", "v"], ["id"], UPSERT_ALL[:1])
    assert lab4.rows("t")[0][1] == 9


def test_the_error_about_a_too_long_text_names_the_table_and_the_column(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "c": "varchar(3)"})
    lab4.insert("t", [(1, "abc")], ["id", "c"])
    with pytest.raises(TypeMismatchError, match=rf"table {lab4.db}\.t: column 'c'"):
        lab4.update("t", {"c": "'abcd'"}, "id = 1")


def test_a_merge_with_an_empty_source_that_deletes_every_row_is_logged(
    lab4: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, 1)], ["id", "v"])
    gone = MergeClause(when=MergeWhen.NOT_MATCHED_BY_SOURCE, action=MergeAction.DELETE)
    source = SourceSpec(tables={"x": f"{lab4.db}.t"}, query="SELECT id, v FROM x WHERE id > 1")
    lab4.run(MergeSpec(target=f"{lab4.db}.t", source=source, keys=("id",), clauses=(gone,)))
    assert lab4.rows("t") == []
    assert "has no rows: WHEN NOT MATCHED BY SOURCE applies to every row" in caplog.text
