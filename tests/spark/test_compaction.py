"""Compaction and cleaning: rows stay, files go, readers and writers go on."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import CompactionNotDoneError, CorruptFileError
from airflow_hiveacid.jobs.job import JobStatus
from airflow_hiveacid.jobs.maintenance import CleanSpec, CompactionChoice, CompactSpec
from airflow_hiveacid.jobs.statements import InsertSpec, SourceSpec
from airflow_hiveacid.metastore.compaction_queue import (
    CompactionState,
    CompactionType,
    our_pool,
    our_worker_id,
)
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.maintenance import bucket_tasks
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.spark.reading.target import resolve_target
from airflow_hiveacid.storage.orc.tail import read_tail
from tests.support.spark_lab import Lab
from tests.support.steps import StopError, act_before, at, stop_at

COLUMNS = {"id": "bigint", "name": "string"}


def history(lab: Lab, name: str = "t") -> list[tuple[object, ...]]:
    """Three inserts, an update and a delete; the rows that are left."""
    for start in (0, 10, 20):
        lab.insert(name, [(i, f"n{i}") for i in range(start, start + 10)], ["id", "name"])
    lab.update(name, {"name": "upper(name)"}, "id % 7 = 0")
    lab.delete(name, "id % 4 = 1")
    return sorted((i, f"N{i}" if i % 7 == 0 else f"n{i}") for i in range(30) if i % 4 != 1)


def two_inserts(lab: Lab) -> list[tuple[object, ...]]:
    """What a compaction replaces, where its rows do not matter; the rows."""
    rows: list[tuple[object, ...]] = [(1, "n1"), (2, "n2")]
    for row in rows:
        lab.insert("t", [row], ["id", "name"])
    return rows


def identities(lab: Lab, name: str = "t") -> list[tuple[object, ...]]:

    target = resolve_target(lab.spark, lab.client, lab.info(name), lab.snapshot(name))
    place = target.scan(["id"]).select(
        "id", "__position.originalTransaction", "__position.bucket", "__position.rowId"
    )
    return sorted(tuple(row) for row in place.collect())


@pytest.mark.promise("C3")
@pytest.mark.promise("F5")
@pytest.mark.long_cases("3.1.3")
def test_a_major_compaction_keeps_rows_and_row_ids_in_one_base(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    rows, before = history(lab), None
    before = identities(lab)
    result = lab.compact("t", CompactionChoice.MAJOR)
    assert result.status is JobStatus.COMMITTED
    assert "base_0000005" in lab.directories("t")
    assert lab.rows("t") == rows
    assert identities(lab) == before
    cleaned = lab.clean("t")
    assert cleaned.status is JobStatus.COMMITTED
    assert lab.directories("t") == ["base_0000005"]
    assert lab.rows("t") == rows
    assert identities(lab) == before


@pytest.mark.promise("C1")
@pytest.mark.promise("F6")
def test_a_minor_compaction_writes_one_delta_and_one_delete_delta(lab4: Lab) -> None:
    lab4.table("t", COLUMNS, parameters={ONLY_HIVE_4_READS: "true"})
    rows = history(lab4)
    before = identities(lab4)
    result = lab4.compact("t", CompactionChoice.MINOR)
    assert result.status is JobStatus.COMMITTED
    lab4.clean("t")
    names = [d.partition("_v")[0] for d in lab4.directories("t")]
    assert names == ["delete_delta_0000001_0000005", "delta_0000001_0000005"]
    assert lab4.rows("t") == rows
    assert identities(lab4) == before


@pytest.mark.promise("C1")
def test_a_minor_compaction_of_inserts_writes_a_delta_without_a_suffix(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    for i in range(3):
        lab.insert("t", [(i, "x")], ["id", "name"])
    lab.compact("t", CompactionChoice.MINOR)
    lab.clean("t")
    assert lab.directories("t") == ["delta_0000001_0000003"]
    assert lab.rows("t") == [(i, "x") for i in range(3)]


def test_a_minor_compaction_with_deletes_becomes_a_major_compaction(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    rows = history(lab)
    result = lab.compact("t", CompactionChoice.MINOR)
    (one,) = result.details["compactions"]
    assert one["kind"] == "major"
    assert "visible at once" in one["why"]
    assert lab.rows("t") == rows


def test_a_large_stripe_without_changes_is_copied_byte_for_byte(lab4: Lab, tmp_path: Path) -> None:
    noise = np.random.default_rng(7)
    texts = [noise.bytes(1000).hex() for _ in range(10_000)]
    source = str(tmp_path / "source.parquet")
    pq.write_table(pa.table({"id": range(10_000), "name": texts}), source)
    lab4.table("t", COLUMNS)
    lab4.run(
        InsertSpec(target=f"{lab4.db}.t", source=SourceSpec(format="parquet", location=source))
    )
    lab4.insert("t", [(-1, "small"), (-2, "gone")], ["id", "name"])
    lab4.delete("t", "id = -2")
    before, rows = identities(lab4), lab4.rows("t")
    lab4.compact("t", CompactionChoice.MAJOR)
    (old,) = lab4.root("t").glob("delta_0000001_0000001_0000/bucket_00000")
    (new,) = lab4.root("t").glob("base_*/bucket_00000")
    (stripe,) = read_tail(LocalFileSystem(), str(old)).stripes
    end = stripe.offset + stripe.index_length + stripe.data_length
    assert new.read_bytes()[3:end] == old.read_bytes()[3:end]
    lab4.clean("t")
    assert lab4.rows("t") == rows
    assert identities(lab4) == before


@pytest.mark.parametrize("choice", [CompactionChoice.MINOR, CompactionChoice.MAJOR])
@pytest.mark.long_cases("*.MAJOR")
def test_several_tasks_compact_a_large_bucket_into_one_file(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch, choice: CompactionChoice
) -> None:
    pieces: list[int] = []
    act_before(
        monkeypatch, bucket_tasks, "task_results", lambda *given: pieces.append(len(given[2]))
    )
    monkeypatch.setattr(bucket_tasks, "LEAST_PART_BYTES", 1)
    lab4.table("t", COLUMNS, parameters={ONLY_HIVE_4_READS: "true"})
    rows = history(lab4)
    before = identities(lab4)
    assert lab4.compact("t", choice).status is JobStatus.COMMITTED
    parts, rest = pieces
    assert parts > 1
    # One task joins the parts, and one merges the delete events of a minor compaction.
    assert rest == (1 if choice is CompactionChoice.MAJOR else 2)
    lab4.clean("t")
    directories = lab4.directories("t")
    assert len(directories) == rest
    assert all(len([*lab4.root("t").glob(f"{name}/bucket_*")]) == 1 for name in directories)
    assert lab4.rows("t") == rows
    assert identities(lab4) == before


def test_our_compaction_gives_way_to_a_request_that_is_queued_during_it_on_3x(lab3: Lab) -> None:
    lab3.table("t", COLUMNS)
    rows = two_inserts(lab3)
    before = lab3.directories("t")
    ref = lab3.info("t").ref
    meanwhile = at(
        "staged", lambda: lab3.client.request_compaction(ref, None, CompactionType.MINOR)
    )
    with pytest.raises(
        CompactionNotDoneError, match=r"an entry for it already: .* waits for a worker"
    ):
        lab3.compact("t", CompactionChoice.MAJOR, on_step=meanwhile)
    assert lab3.directories("t") == before
    assert lab3.rows("t") == rows


@pytest.mark.long_cases("3.1.3")
def test_a_base_is_not_published_if_a_delta_extends_beyond_its_write_id(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    history(lab)

    def meanwhile(step: str) -> None:
        if step == "staged":  # as Hive 3.1's worker, which has seen one more commit
            lab.insert("t", [(99, "late")], ["id", "name"])
            first = lab.root("t") / "delta_0000001_0000001_0000"
            shutil.copytree(first, lab.root("t") / "delta_0000001_0000006")

    with pytest.raises(CompactionNotDoneError, match="delta_0000001_0000006 contains later writes"):
        lab.compact("t", CompactionChoice.MAJOR, on_step=meanwhile)
    assert not any(name.startswith("base") for name in lab.directories("t"))
    shutil.rmtree(lab.root("t") / "delta_0000001_0000006")
    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED


@pytest.mark.long_cases("3.1.3")
def test_a_compaction_is_staged_inside_its_partition(lab: Lab) -> None:
    lab.table("t", COLUMNS, partition={"p": "string"})
    for i in range(2):
        lab.insert("t", [(i, "x", "a"), (i, "x", "b")], ["id", "name", "p"])
    staged: dict[str, set[str]] = {}

    def look(step: str) -> None:
        if step == "staged":
            for place in ("", "p=a"):
                names = {path.name for path in (lab.root("t") / place).iterdir()}
                staged[place] = {name for name in names if name.startswith("_tmp_")}

    lab.compact("t", CompactionChoice.MAJOR, partition="p=a", on_step=look)
    assert len(staged["p=a"]) == 1
    assert not staged[""]
    assert lab.directories("t", "p=a")[0] == "base_0000002"


@pytest.mark.promise("C10")
@pytest.mark.long_cases("3.1.3")
def test_a_minor_compaction_a_write_and_a_major_compaction_leave_the_expected_rows(
    lab: Lab,
) -> None:
    lab.table("t", COLUMNS, buckets=("id", 2))
    history(lab)
    lab.compact("t", CompactionChoice.MINOR)
    lab.delete("t", "id % 4 = 2")
    lab.update("t", {"name": "'last'"}, "id = 0")
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    expected = {i: f"N{i}" if i % 7 == 0 else f"n{i}" for i in range(30) if i % 4 not in (1, 2)}
    expected[0] = "last"
    assert lab.rows("t") == sorted(expected.items())
    assert len(lab.directories("t")) == 1


@pytest.mark.long_cases("3.1.3")
def test_a_base_without_rows_is_read_as_an_empty_table(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, "a")], ["id", "name"])
    lab.delete("t")
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    assert lab.rows("t") == []
    assert lab.directories("t") == ["base_0000002"]
    files = {p.name for p in (lab.root("t") / "base_0000002").iterdir()}
    assert files == {"bucket_00000", "_orc_acid_version", "_metadata_acid"}


@pytest.mark.promise("C4")
@pytest.mark.long_cases("3.1.3")
def test_automatic_compaction_starts_at_ten_deltas_and_not_at_nine(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    for i in range(9):
        lab.insert("t", [(i, "x")], ["id", "name"])
    assert lab.compact("t").status is JobStatus.NOTHING_TO_DO
    lab.insert("t", [(9, "x")], ["id", "name"])
    assert lab.compact("t").status is JobStatus.COMMITTED
    lab.clean("t")
    assert lab.directories("t") == ["base_0000010"]


@pytest.mark.promise("A12")
@pytest.mark.long_cases("3.1.3")
def test_plan_only_returns_the_planned_compaction_and_changes_nothing(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    history(lab)
    before = lab.directories("t")
    result = lab.run(
        CompactSpec.of_table(f"{lab.db}.t", choice=CompactionChoice.MAJOR, plan_only=True)
    )
    assert result.status is JobStatus.PLANNED
    (one,) = result.details["compactions"]
    assert one["kind"] == "major"
    assert one["inputs"] == [d for d in before if not d.startswith("delete")] + [
        d for d in before if d.startswith("delete")
    ]
    assert lab.directories("t") == before
    assert lab.client.show_compactions(lab.info("t").ref) == ()


@pytest.mark.promise("C16")
def test_show_compactions_lists_our_compaction_with_its_current_state(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    two_inserts(lab4)
    lab4.compact("t", CompactionChoice.MAJOR)
    (entry,) = lab4.client.show_compactions(lab4.info("t").ref)
    assert entry.state is CompactionState.READY_FOR_CLEANING
    # The server forgets who did the work as soon as it is done; the transaction stays known.
    assert entry.txn_id is not None
    assert entry.next_txn_id is not None
    lab4.clean("t")
    (entry,) = lab4.client.show_compactions(lab4.info("t").ref)
    assert entry.state is CompactionState.SUCCEEDED


@pytest.mark.promise("T20")
@pytest.mark.promise("K1")
@pytest.mark.promise("C9")
@pytest.mark.promise("T7")
def test_cleaning_waits_for_a_reader_which_still_reads_its_old_rows(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    rows = history(lab)
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key=f"{lab.db}/reader") as snapshot:
        frame = read_table(lab.spark, f"{lab.db}.t", snapshot)
        lab.delete("t", "id < 10")
        done = lab.compact("t", CompactionChoice.MAJOR)
        held = lab.clean("t")
        assert held.status is JobStatus.NOTHING_TO_DO
        (one,) = held.details["cleanings"]
        waits = r"transaction \d+ has been open.* and may read it"
        assert all(re.search(waits, k["why"]) for k in one["kept"]), one["kept"]
        assert sorted(tuple(r) for r in frame.collect()) == rows
    lab.clean("t")
    is_3 = lab.client.generation is MetastoreGeneration.V3
    # Hive 4 would read a plain base whose last write it took for open
    # (docs/decisions/compaction.md).
    suffix = "" if is_3 else f"_v{done.txn_id:07d}"
    assert lab.directories("t") == [f"base_0000006{suffix}"]
    assert lab.rows("t") == [r for r in rows if int(str(r[0])) >= 10]


@pytest.mark.promise("A12")
@pytest.mark.promise("K8")
@pytest.mark.long_cases("3.1.3")
def test_a_dry_run_lists_exactly_the_directories_that_cleaning_removes(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    two_inserts(lab)
    lab.compact("t", CompactionChoice.MAJOR)
    before = set(lab.directories("t"))
    dry = lab.clean("t", plan_only=True)
    assert dry.status is JobStatus.PLANNED
    (one,) = dry.details["cleanings"]
    assert set(lab.directories("t")) == before
    lab.clean("t")
    assert before - set(lab.directories("t")) == {r["path"] for r in one["removed"]}


@pytest.mark.promise("K5")
@pytest.mark.long_cases("3.1.3")
def test_cleaning_keeps_obsolete_directories_for_the_retention_time(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    two_inserts(lab)
    lab.compact("t", CompactionChoice.MAJOR)
    assert lab.clean("t", retention_s=3600.0).status is JobStatus.NOTHING_TO_DO
    assert len(lab.directories("t")) > 1
    lab.clean("t", retention_s=0.0)
    assert lab.directories("t") == ["base_0000002"]


@pytest.mark.promise("K7")
@pytest.mark.long_cases("3.1.3")
def test_an_interrupted_cleaning_is_completed_by_the_next_one(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    rows = two_inserts(lab)
    lab.compact("t", CompactionChoice.MAJOR)
    with pytest.raises(StopError):
        lab.run(CleanSpec.of_table(f"{lab.db}.t"), on_step=stop_at("removed"))
    lab.clean("t")
    assert lab.directories("t") == ["base_0000002"]
    assert lab.rows("t") == rows


@pytest.mark.parametrize("run", ["compact", "clean"])
def test_a_job_with_nothing_to_do_ends_the_queue_entry_of_a_dead_worker(
    lab4: Lab, run: str
) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, "a")], ["id", "name"])
    ref, pool = lab4.info("t").ref, our_pool(uuid4())
    lab4.client.request_compaction(ref, None, CompactionType.MAJOR, pool=pool)
    claim = lab4.client.find_next_compaction(our_worker_id("dead"), worker_version="1", pool=pool)
    assert claim is not None
    assert not lab4.client.request_compaction(ref, None, CompactionType.MAJOR).accepted
    done = lab4.compact("t") if run == "compact" else lab4.clean("t")
    assert done.status is JobStatus.NOTHING_TO_DO
    (entry,) = lab4.client.show_compactions(ref)
    assert (entry.state, entry.error_message) == (CompactionState.REFUSED, "its worker died")
    assert lab4.client.request_compaction(ref, None, CompactionType.MAJOR).accepted


@pytest.mark.promise("C17")
def test_automatic_compaction_pauses_after_two_failed_jobs_until_a_requested_one_succeeds(
    lab: Lab,
) -> None:
    table = lab.table("t", COLUMNS)
    lab.insert("t", [(1, "a")], ["id", "name"])
    lab.compact("t", CompactionChoice.MAJOR)
    lab.insert("t", [(2, "b")], ["id", "name"])
    (file,) = Path(table.location.removeprefix("file:")).glob("delta_*2_*/bucket_*")
    content = file.read_bytes()
    file.write_bytes(bytes(len(content)))
    for _ in range(2):
        with pytest.raises(CorruptFileError):
            lab.compact("t")
    result = lab.compact("t")
    assert result.status is JobStatus.NOTHING_TO_DO
    (one,) = result.details["compactions"]  # type: ignore[misc]
    assert "paused since" in one["why"]  # type: ignore[index, call-overload, operator]
    assert file.parent.name in one["why"]  # type: ignore[index, call-overload, operator]
    file.write_bytes(content)
    assert lab.compact("t").status is JobStatus.NOTHING_TO_DO
    assert lab.compact("t", CompactionChoice.MAJOR).status is JobStatus.COMMITTED
    lab.insert("t", [(3, "c")], ["id", "name"])
    assert lab.compact("t").status is JobStatus.COMMITTED
    assert lab.rows("t") == [(1, "a"), (2, "b"), (3, "c")]
