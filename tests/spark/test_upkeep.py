"""Upkeep beside readers, writers and what dead ones left; what old snapshots read after it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.errors import NotEnoughHistoryError
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.names import DeltaName
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.locks import LockComponent, LockRequest
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import resolve_target
from tests.support.spark_lab import Lab, Row
from tests.support.steps import StopError, raises
from tests.unit.storage.orc_tables import insert, write_acid

COLUMNS = {"id": "bigint", "v": "int"}
NAMES = ["id", "v"]
# Else a minor compaction of inserts and deletes becomes a major one.
MINOR_WITH_DELETES = {ONLY_HIVE_4_READS: "true"}


def rows_of(lab: Lab, snapshot: Snapshot) -> list[Row]:
    """What a reader of this snapshot reads now."""
    frame = resolve_target(lab.spark, lab.client, lab.info("t"), snapshot).rows()
    return sorted(tuple(row) for row in frame.collect())


def fingerprints(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Inode, time of change and digest of every file."""
    return {
        file.name: (
            file.stat().st_ino,
            file.stat().st_mtime_ns,
            hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in directory.iterdir()
    }


def leave_behind(lab: Lab, rows: list[Row], keep_in: Path) -> str:
    """Abort an insert and leave its published directory, as a driver does that was killed."""
    left: list[Path] = []

    def stop(step: str) -> None:
        if step == "published":
            left.append(max(lab.root("t").glob("delta_*"), key=lambda d: d.name))
            shutil.copytree(left[0], keep_in / left[0].name)
            raise StopError

    source = SourceSpec(values=tuple(rows), columns=tuple(NAMES))  # type: ignore[arg-type]
    with pytest.raises(StopError):
        lab.run(InsertSpec(target=f"{lab.db}.t", source=source), on_step=stop)
    shutil.copytree(keep_in / left[0].name, left[0], dirs_exist_ok=True)
    return left[0].name


@pytest.mark.promise("T13")
@pytest.mark.promise("C7")
@pytest.mark.promise("K2")
@pytest.mark.parametrize(
    ("server", "choice"),
    [
        ("4.0.1", CompactionChoice.MINOR),
        ("4.0.1", CompactionChoice.MAJOR),
        ("3.1.3", CompactionChoice.MAJOR),
    ],
    indirect=["server"],
)
@pytest.mark.long_cases("*.MINOR")
def test_maintenance_keeps_each_row_once_beside_an_aborted_and_an_open_write(
    lab: Lab, tmp_path: Path, choice: CompactionChoice
) -> None:
    """Compact and clean while write ID 2 lies aborted and 4 is being written."""
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, 1)], NAMES)
    aborted = leave_behind(lab, [(2, 2)], tmp_path)
    lab.insert("t", [(3, 3)], NAMES)
    made = "base_0000003" if choice is CompactionChoice.MAJOR else "delta_0000001_0000003"
    seen: dict[str, set[str]] = {}

    def upkeep(step: str) -> None:
        if step != "published":
            return
        lab.insert("t", [(5, 5)], NAMES)
        seen["before"] = set(lab.directories("t"))
        assert lab.compact("t", choice).status is JobStatus.COMMITTED
        seen["compacted"] = set(lab.directories("t"))
        assert lab.rows("t") == [(1, 1), (3, 3), (5, 5)]
        lab.clean("t")
        seen["cleaned"] = set(lab.directories("t"))
        assert lab.rows("t") == [(1, 1), (3, 3), (5, 5)]

    lab.insert("t", [(4, 4)], NAMES, on_step=upkeep)
    assert aborted in seen["before"]
    # Nothing at or above the open write goes in, and what it may read stays.
    (result,) = seen["compacted"] - seen["before"]
    # Hive 4 must not read a base by an older snapshot, such as the writer's
    # (docs/decisions/compaction.md).
    is_hidden = lab.client.generation is MetastoreGeneration.V4 and made.startswith("base_")
    assert (re.sub(r"_v\d+\Z", "", result), "_v" in result) == (made, is_hidden)
    assert seen["compacted"] - seen["cleaned"] == {aborted}
    rows = [(1, 1), (3, 3), (4, 4), (5, 5)]
    assert lab.rows("t") == rows
    lab.clean("t")
    others = {"delta_0000004_0000004_0000", "delta_0000005_0000005_0000"}
    assert set(lab.directories("t")) == {result, *others}
    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    lab.clean("t")
    assert lab.directories("t") == ["base_0000005"]
    assert lab.rows("t") == rows


@pytest.mark.promise("C12")
def test_aborted_writes_in_a_streamed_delta_start_a_major_compaction_that_keeps_the_rows(
    lab: Lab,
) -> None:
    lab.table("t", {"id": "bigint", "name": "string"})
    lab.insert("t", [(100, "a")], ["id", "name"])
    ref, events = lab.info("t").ref, []
    for is_aborted in (False, True, True, True, False):
        txn_id = lab.client.open_txn()
        write_id = lab.client.allocate_write_id(txn_id, ref)
        # The server forgets an aborted transaction that has locked no table for a change.
        component = LockComponent(
            table=ref, lock_type=LockType.SHARED_READ, operation=DataOperation.INSERT
        )
        lab.client.lock(LockRequest(txn_id=txn_id, components=(component,), agent_info="stream"))
        events.append(insert(write_id, 0, write_id))
        if is_aborted:
            lab.client.abort_txn(txn_id)
        else:
            lab.client.commit_txn(txn_id)
    delta = DeltaName(low=WriteId(2), high=WriteId(6))
    write_acid(lab.root("t") / str(delta) / "bucket_00000", events)
    rows = [(2, "n2"), (6, "n6"), (100, "a")]
    assert lab.rows("t") == rows
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key=f"{lab.db}/reader") as snapshot:
        frame = read_table(lab.spark, f"{lab.db}.t", snapshot)
        spec = CompactSpec.of_table(f"{lab.db}.t", also_when={"aborted_transactions": 4})
        assert lab.run(spec).status is JobStatus.NOTHING_TO_DO
        due = dataclasses.replace(spec, also_when={"aborted_transactions": 3})
        (found,) = lab.run(due).details["compactions"]
        assert (found["kind"], found["rows"]) == ("major", 3)
        assert found["why"] == "3 aborted transactions (threshold 3)"
        assert sorted(tuple(row) for row in frame.collect()) == rows
    assert lab.rows("t") == rows
    assert lab.run(due).status is JobStatus.NOTHING_TO_DO
    lab.clean("t")
    (base,) = lab.directories("t")
    assert base.startswith("base_0000006")
    assert lab.rows("t") == rows


@pytest.mark.promise("C2")
def test_a_minor_compaction_does_not_change_the_base(lab4: Lab) -> None:
    lab4.table("t", COLUMNS, parameters=MINOR_WITH_DELETES)
    lab4.insert("t", [(i, 0) for i in range(50)], NAMES)
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    base = lab4.root("t") / "base_0000001"
    before = fingerprints(base)
    for i in (100, 101):
        lab4.insert("t", [(i, 1)], NAMES)
    lab4.delete("t", "id < 10")
    rows = lab4.rows("t")
    assert lab4.compact("t", CompactionChoice.MINOR).status is JobStatus.COMMITTED
    lab4.clean("t")
    names = [d.partition("_v")[0] for d in lab4.directories("t")]
    assert names == ["base_0000001", "delete_delta_0000002_0000004", "delta_0000002_0000004"]
    assert fingerprints(base) == before
    assert lab4.rows("t") == rows


@pytest.mark.promise("C3")
@pytest.mark.promise("W2")
def test_every_snapshot_reads_its_rows_after_compactions_or_raises_not_enough_history(
    lab4: Lab,
) -> None:
    lab4.table("t", COLUMNS, parameters=MINOR_WITH_DELETES)
    history: list[tuple[Snapshot, list[Row]]] = []

    def note(result: JobResult) -> None:
        assert result.status is JobStatus.COMMITTED, result.details
        history.append((lab4.snapshot("t"), lab4.rows("t")))

    def readable() -> list[bool]:
        found = []
        for snapshot, rows in history:
            try:
                assert rows_of(lab4, snapshot) == rows
            except NotEnoughHistoryError:
                found.append(False)
            else:
                found.append(True)
        return found

    note(lab4.insert("t", [(i, i) for i in range(8)], NAMES))
    note(lab4.insert("t", [(i, i) for i in range(10, 12)], NAMES))
    note(lab4.delete("t", "id < 2"))
    note(lab4.compact("t", CompactionChoice.MINOR))
    assert readable() == [True] * 4
    note(lab4.update("t", {"v": "v + 1"}, "id > 4"))
    note(lab4.compact("t", CompactionChoice.MAJOR))
    # A base under its plain name hides from older readers whether their deltas are still there.
    assert readable() == [False] * 4 + [True] * 2
    note(lab4.insert("t", [(50, 50)], NAMES))
    note(lab4.delete("t", "id = 50 OR id = 3"))
    note(lab4.compact("t", CompactionChoice.MAJOR))
    assert readable() == [False] * 4 + [True] * 5
    note(lab4.overwrite("t", [(9, 9)], NAMES))
    assert readable() == [False] * 4 + [True] * 6
    assert lab4.rows("t") == [(9, 9)]


@pytest.mark.long
@pytest.mark.promise("C4")
def test_a_compaction_job_can_set_its_own_delta_threshold(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    spec = CompactSpec.of_table(f"{lab4.db}.t", delta_count=3)
    for i in range(2):
        lab4.insert("t", [(i, i)], NAMES)
    assert lab4.run(spec).status is JobStatus.NOTHING_TO_DO
    lab4.insert("t", [(2, 2)], NAMES)
    assert lab4.compact("t").status is JobStatus.NOTHING_TO_DO
    assert lab4.run(spec).status is JobStatus.COMMITTED


@pytest.mark.promise("C5")
def test_the_size_ratio_of_deltas_to_the_base_starts_a_major_compaction(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(i, i * 7919 % 1000) for i in range(2000)], NAMES)
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    lab4.delete("t", "id = 7")

    def size(kind: str) -> int:
        return sum(f.stat().st_size for f in lab4.root("t").glob(f"{kind}_*/bucket_*"))

    share = size("delete_delta") / size("base")
    assert 0 < share < 1

    def run(ratio: float) -> tuple[JobStatus, str]:
        spec = CompactSpec.of_table(f"{lab4.db}.t", delta_count=100, delta_ratio=ratio)
        result = lab4.run(spec)
        (one,) = result.details["compactions"]  # type: ignore[misc]
        return result.status, str(one["kind"])  # type: ignore[index]

    assert run(share * 1.001) == (JobStatus.NOTHING_TO_DO, "none")
    assert run(share * 0.999) == (JobStatus.COMMITTED, "major")


@pytest.mark.promise("C8")
@pytest.mark.promise("T23")
def test_readers_writers_and_a_compaction_do_not_wait_for_each_other(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    for i in range(3):
        lab.insert("t", [(i, i)], NAMES)
    name = f"{lab.db}.t"
    events: list[str] = []

    def beside(step: str) -> None:
        if step != "staged":
            return
        # The compactor holds its transaction: a new reader comes and goes meanwhile.
        with read_snapshot(lab.endpoint, [name], job_key=f"{lab.db}/new") as snapshot:
            assert read_table(lab.spark, name, snapshot).count() == 4
        events.append("a new reader has read")

    with read_snapshot(
        lab.endpoint, [name], job_key=f"{lab.db}/old", lock_timeout_s=1.0
    ) as snapshot:
        frame = read_table(lab.spark, name, snapshot)
        # The reader holds transaction and lock to the end of the block. Nobody waits for it.
        assert lab.client.show_locks(lab.info("t").ref)
        lab.insert("t", [(3, 3)], NAMES, lock_timeout_s=1.0)
        events.append("a writer has committed")
        result = lab.compact("t", CompactionChoice.MAJOR, on_step=beside, lock_timeout_s=1.0)
        assert result.status is JobStatus.COMMITTED
        events.append("the compactor has committed")
        lab.update("t", {"v": "-1"}, lock_timeout_s=1.0)
        events.append("another writer has committed")
        assert sorted(tuple(r) for r in frame.collect()) == [(0, 0), (1, 1), (2, 2)]
        events.append("the old reader ends")
    assert events == [
        "a writer has committed",
        "a new reader has read",
        "the compactor has committed",
        "another writer has committed",
        "the old reader ends",
    ]
    assert lab.rows("t") == [(i, -1) for i in range(4)]


@pytest.mark.promise("R2")
def test_files_that_a_snapshot_does_not_need_are_not_opened(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", COLUMNS)
    for i in range(3):
        lab4.insert("t", [(i, i)], NAMES)
    lab4.delete("t", "id = 1")
    lab4.compact("t", CompactionChoice.MAJOR)
    aborted = leave_behind(lab4, [(9, 9)], tmp_path)
    lab4.insert("t", [(7, 7)], NAMES)
    needed = {"base_0000004", "delta_0000006_0000006_0000"}
    spoilt = set(lab4.directories("t")) - needed
    assert aborted in spoilt
    assert len(spoilt) == 5
    for name in spoilt:
        for file in (lab4.root("t") / name).glob("bucket_*"):
            file.write_bytes(b"whoever opens this fails")
    expected = [(0, 0), (2, 2), (7, 7)]
    assert lab4.rows("t") == expected
    assert lab4.frame("t").count() == 3
    assert lab4.update("t", {"v": "v + 1"}, "id = 2").rows.updated == 1
    lab4.compact("t", CompactionChoice.MAJOR)
    assert lab4.rows("t") == [(0, 0), (2, 3), (7, 7)]


@pytest.mark.promise("F12")
@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
@pytest.mark.long_cases("*.MAJOR")
def test_a_compaction_skips_empty_buckets_and_empty_files(
    lab4: Lab, choice: CompactionChoice
) -> None:
    lab4.table("t", COLUMNS, buckets=("id", 4), parameters=MINOR_WITH_DELETES)
    lab4.overwrite("t", [], NAMES)
    for i in range(2):
        lab4.insert("t", [(i, i)], NAMES)
    lab4.delete("t", "id = 1")
    # Hive 3 leaves a file of no bytes where a bucket got no row.
    for directory in lab4.root("t").glob("*delta_*"):
        for bucket in range(4):
            (directory / f"bucket_{bucket:05d}").touch()
    assert lab4.rows("t") == [(0, 0)]
    assert lab4.compact("t", choice).status is JobStatus.COMMITTED
    lab4.clean("t")
    assert len(lab4.directories("t")) == (1 if choice is CompactionChoice.MAJOR else 3)
    assert lab4.rows("t") == [(0, 0)]


@pytest.mark.promise("T21")
def test_a_finished_read_leaves_no_lock_and_no_open_transaction(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, 1)], NAMES)
    name, ref = f"{lab.db}.t", lab.info("t").ref

    def read(end: Callable[[], None]) -> None:
        before = lab.client.valid_txns()
        try:
            with read_snapshot(lab.endpoint, [name], job_key=f"{lab.db}/r") as snapshot:
                (lock,) = lab.client.show_locks(ref)
                assert lock.txn_id in set(lab.client.valid_txns().open) - set(before.open)
                assert read_table(lab.spark, name, snapshot).count() == 1
                end()
        finally:
            assert lab.client.show_locks(ref) == ()
            assert set(lab.client.valid_txns().open) <= set(before.open)

    read(lambda: None)
    with pytest.raises(StopError):
        read(raises(StopError()))


@pytest.mark.promise("F8")
def test_every_file_that_a_job_writes_is_sorted_by_row_id(lab4: Lab) -> None:
    """Inserts copy flat files, minor compactions whole stripes, major ones parts of them."""
    lab4.table("t", COLUMNS)
    looked_at: set[str] = set()

    def look() -> None:
        for path in lab4.root("t").glob("*delta_*/bucket_*"):
            check_order(path)
            looked_at.add(path.parent.name)
        for path in lab4.root("t").glob("base_*/bucket_*"):
            check_order(path)
            looked_at.add(path.parent.name)

    lab4.insert("t", [(i, i * 7919 % 1000) for i in range(4000)], NAMES)
    lab4.insert("t", [(i, i) for i in range(4000, 4050)], NAMES)
    lab4.compact("t", CompactionChoice.MINOR)
    look()
    lab4.update("t", {"v": "v + 1"}, "id % 3 = 0")
    lab4.delete("t", "id % 7 = 0")
    look()
    lab4.compact("t", CompactionChoice.MINOR)
    look()
    lab4.delete("t", "id % 11 = 0")
    lab4.compact("t", CompactionChoice.MAJOR)
    look()
    kinds = {re.split(r"_\d", name)[0] for name in looked_at}
    assert kinds == {"base", "delta", "delete_delta"}
    assert any(re.match(r"delta_0*1_0*2", name) for name in looked_at), looked_at


def check_order(path: Path) -> None:
    rows = orc.read_table(path, columns=["originalTransaction", "bucket", "rowId"])
    identities = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    assert identities == sorted(set(identities)), path
