"""What was changed between two versions, read with Spark: by each kind of write."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore import ttypes

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.ids import WriteId
from airflow_hiveacid.format.records import Keeping
from airflow_hiveacid.format.table import PartitionName, TransactionalKind
from airflow_hiveacid.format.versions import Guarantee
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.plan.keeping import READABLE_FOR, kept_parameters
from airflow_hiveacid.reading.arrow_scan import ChangePiece
from airflow_hiveacid.reading.snapshots import ReadSnapshot, held_snapshot
from airflow_hiveacid.spark.reading import changed_files
from airflow_hiveacid.spark.reading.read_changes import CHANGE_COLUMNS, read_changes
from airflow_hiveacid.storage.acid.read import AcidFile
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from tests.support.merge_clauses import INSERT_ALL, UPDATE_V, matched_delete
from tests.support.spark_lab import Lab, Row
from tests.support.steps import act_before
from tests.support.terms import job_terms

# Else a minor compaction with deletes is a major one: two directories do not appear at once.
ONLY_HIVE_4 = {ONLY_HIVE_4_READS: "true"}
UPSERT = (matched_delete("s.v < 0"), UPDATE_V, INSERT_ALL)


@contextmanager
def snapshot_of(lab: Lab, name: str) -> Iterator[ReadSnapshot]:
    key = f"test/{uuid.uuid4().hex}"
    with held_snapshot(
        lab.client, [f"{lab.db}.{name}"], job_terms(key, lock_timeout_s=60.0)
    ) as snapshot:
        yield snapshot


def changes(lab: Lab, name: str = "t", **asked: Any) -> list[Row]:  # noqa: ANN401 - passed on
    """Type, version and the table's columns, in order."""
    with snapshot_of(lab, name) as snapshot:
        rows = read_changes(lab.spark, f"{lab.db}.{name}", snapshot, **asked)
        own = [c for c in rows.columns if c not in CHANGE_COLUMNS]
        return [tuple(r) for r in rows.select("_change_type", "_version", *own).collect()]


def kept_changes(lab: Lab, floor: int, since: int, *, net: bool = False) -> list[Row]:
    """The same of a table, nothing of which was cleaned yet, that is said to be kept so far."""
    name = f"{lab.db}.t"
    table = lab.info("t")
    lab.client.set_table_parameters(table.ref, kept_parameters(lab.client.generation))
    keeping = Keeping(
        roots={PartitionName(): Guarantee(floor=WriteId(floor))},
        last_entry_id=1 << 40,
        since_s=0.0,
    )
    notes = VersionNotes.of(table)
    notes.note_keeping(keeping)
    try:
        with snapshot_of(lab, "t") as snapshot:
            rows = read_changes(lab.spark, name, snapshot, since=since, net=net)
            return [tuple(r) for r in rows.select("_change_type", "_version", "id", "v").collect()]
    finally:
        notes.forget_keeping()


@pytest.mark.promise("V9")
def test_a_change_has_its_commit_time(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "bigint"})
    began = lab4.client.get_table(lab4.info("t").ref).born_s
    lab4.insert("t", [(1, 1)], ["id", "v"])
    with snapshot_of(lab4, "t") as snapshot:
        rows = read_changes(lab4.spark, f"{lab4.db}.t", snapshot, since=0)
        ((at, name),) = rows.selectExpr("unix_seconds(_commit_time)", "id").collect()
    assert name == 1
    assert began is not None
    assert began - 2 <= at <= time.time() + 2


def replayed(before: list[Row], found: list[Row]) -> list[Row]:
    """Rows after changes, in the order in which they were given; without keys they are plain."""
    after = list(before)
    for kind, _, *row in found:
        if kind in ("delete", "update_preimage"):
            after.remove(tuple(row))
        else:
            after.append(tuple(row))
    return sorted(after, key=str)


@pytest.mark.promise("V9")
@pytest.mark.long_cases("3.1.3")
def test_inserts_updates_and_deletes_are_read_with_old_and_new_values(lab: Lab) -> None:
    lab.table("t", {"id": "bigint", "v": "string"}, partition={"p": "int"})
    lab.insert("t", [(i, f"a{i}", i % 2) for i in range(6)], ["id", "v", "p"])
    lab.update("t", {"v": "concat(v, '!')"}, "id < 2")
    lab.delete("t", "id = 2")
    lab.merge("t", [(3, "b3", 1), (9, "b9", 1)], ["id", "v", "p"], ["id"], UPSERT[1:])
    assert changes(lab, since=1, keys=["ID"]) == [
        ("update_preimage", 2, 0, "a0", 0),
        ("update_preimage", 2, 1, "a1", 1),
        ("update_postimage", 2, 0, "a0!", 0),
        ("update_postimage", 2, 1, "a1!", 1),
        ("delete", 3, 2, "a2", 0),
        ("update_preimage", 4, 3, "a3", 1),
        ("update_postimage", 4, 3, "b3", 1),
        ("insert", 4, 9, "b9", 1),
    ]
    # Without old values rows that go have their keys, and their partition.
    assert changes(lab, since=1, keys=["id"], pre_images=False) == [
        ("update_preimage", 2, 0, None, 0),
        ("update_preimage", 2, 1, None, 1),
        ("update_postimage", 2, 0, "a0!", 0),
        ("update_postimage", 2, 1, "a1!", 1),
        ("delete", 3, 2, None, 0),
        ("update_preimage", 4, 3, None, 1),
        ("update_postimage", 4, 3, "b3", 1),
        ("insert", 4, 9, "b9", 1),
    ]
    assert changes(lab, since=2, until=3, pre_images=False, where="v = 'a2'", columns=["v"]) == [
        ("delete", 3, None)
    ]
    without_keys = changes(lab, since=1)
    kinds = [("delete", 2), ("insert", 2), ("delete", 1), ("delete", 1), ("insert", 2)]
    assert [c[0] for c in without_keys] == [kind for kind, n in kinds for _ in range(n)]
    assert changes(lab, since=2, until=3) == [("delete", 3, 2, "a2", 0)]
    assert changes(lab, since=4) == []
    # A condition: what an update moves out of it is gone.
    assert changes(lab, since=1, keys=["id"], where="v LIKE 'a%' AND p = 1", columns=["v"]) == [
        ("update_preimage", 2, "a1"),
        ("update_postimage", 2, "a1!"),
        ("delete", 4, "a3"),
    ]


@pytest.mark.long
@pytest.mark.promise("V4")
def test_a_minor_compaction_does_not_alter_the_changes_that_are_read(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, parameters=ONLY_HIVE_4, buckets=("id", 2))
    lab4.insert("t", [(i, 0) for i in range(6)], ["id", "v"])
    lab4.update("t", {"v": "1"}, "id < 4")
    lab4.delete("t", "id IN (1, 5)")
    told = {since: changes(lab4, since=since, keys=["id"]) for since in range(3)}
    lab4.compact("t", CompactionChoice.MINOR)
    lab4.clean("t")
    assert all("_0000003" in d for d in lab4.directories("t")), "one delta and one delete delta"
    assert {since: changes(lab4, since=since, keys=["id"]) for since in range(3)} == told


@pytest.mark.promise("V9")
def test_net_changes_contain_the_first_and_the_last_image_of_each_key(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"})
    lab4.insert("t", [(1, 0), (2, 0), (3, 0)], ["id", "v"])
    for value in (1, 2):
        lab4.update("t", {"v": f"{value}"}, "id <= 2")
    lab4.delete("t", "id = 2")
    lab4.insert("t", [(4, 0), (5, 0)], ["id", "v"])
    lab4.delete("t", "id = 4")
    assert changes(lab4, since=1, keys=["id"], net=True) == [
        ("delete", 2, 2, 0),
        ("update_preimage", 2, 1, 0),
        ("update_postimage", 3, 1, 2),
        ("insert", 5, 5, 0),
    ]
    # A table's primary key are its keys, unless others are given, or none.
    column = ttypes.SQLPrimaryKey(lab4.db, "t", "id", 1, "pk", False, False, True)  # noqa: FBT003
    lab4.client.hms().add_primary_key(ttypes.AddPrimaryKeyRequest([column]))
    assert changes(lab4, since=1, net=True) == changes(lab4, since=1, keys=["id"], net=True)
    assert {c[0] for c in changes(lab4, since=1, keys=[])} == {"delete", "insert"}
    # Keys that are none make no update.
    assert {c[0] for c in changes(lab4, since=1, until=2, keys=["v"])} == {"delete", "insert"}


@pytest.mark.promise("V8")
def test_changes_removed_by_a_major_compaction_are_refused_unless_they_are_kept(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, buckets=("id", 2))
    lab4.insert("t", [(i, 0) for i in range(8)], ["id", "v"])
    lab4.update("t", {"v": "1"}, "id % 2 = 0")
    before = changes(lab4, since=1)
    lab4.compact("t", CompactionChoice.MAJOR)
    with pytest.raises(errors.ChangesGoneError, match="is 2") as refused:
        changes(lab4, since=1)
    assert refused.value.oldest == 2
    assert kept_changes(lab4, 0, 1) == before
    lab4.overwrite("t", [(7, 7)], ["id", "v"])
    dead = [("delete", 3, i, 1 - i % 2) for i in range(8)]
    assert sorted(kept_changes(lab4, 2, 2)) == sorted([*dead, ("insert", 3, 7, 7)])
    assert kept_changes(lab4, 0, 0, net=True) == [("insert", 3, 7, 7)]
    with pytest.raises(errors.ChangesGoneError):
        changes(lab4, since=2)


@pytest.mark.promise("V4")
@pytest.mark.promise("V8")
def test_all_changes_of_a_kept_table_can_be_read_by_version_and_by_time(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, parameters={READABLE_FOR: "7 days"})
    lab4.insert("t", [(1, 0), (2, 0)], ["id", "v"])
    lab4.clean("t")  # finds the parameter, and keeps
    time.sleep(1.1)  # the metastore's clock shows whole seconds
    between = datetime.now(UTC)
    time.sleep(1.1)
    lab4.update("t", {"v": "1"}, "id = 1")
    lab4.delete("t", "id = 2")
    told = changes(lab4, since=1, keys=["id"])
    assert [c[:3] for c in told] == [
        ("update_preimage", 2, 1),
        ("update_postimage", 2, 1),
        ("delete", 3, 2),
    ]
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert changes(lab4, since=1, keys=["id"]) == told
    assert changes(lab4, since=between, keys=["id"]) == told
    assert changes(lab4, since=between.isoformat(), until=2, keys=["id"]) == told[:2]
    with pytest.raises(errors.VersionRangeError):
        changes(lab4, since=3, until=between)
    with snapshot_of(lab4, "t") as snapshot:
        rows = read_changes(lab4.spark, f"{lab4.db}.t", snapshot, since=1)
        times = {r._commit_time for r in rows.collect()}
    known = times - {None}
    assert known
    assert min(known) > between.replace(tzinfo=None)


@pytest.mark.promise("V8")
def test_changes_of_an_insert_only_table_are_read_by_directory_or_refused(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, kind=TransactionalKind.INSERT_ONLY)
    for i in range(3):
        lab4.insert("t", [(i, i)], ["id", "v"])
    assert changes(lab4, since=1) == [("insert", 2, 1, 1), ("insert", 3, 2, 2)]
    lab4.compact("t", CompactionChoice.MINOR)
    with pytest.raises(errors.ChangesGoneError) as refused:
        changes(lab4, since=1)
    assert refused.value.oldest == 3
    assert kept_changes(lab4, 0, 1) == [("insert", 2, 1, 1), ("insert", 3, 2, 2)]
    lab4.overwrite("t", [(9, 9)], ["id", "v"])
    assert sorted(kept_changes(lab4, 0, 2)) == [
        ("delete", 4, 0, 0),
        ("delete", 4, 1, 1),
        ("delete", 4, 2, 2),
        ("insert", 3, 2, 2),
        ("insert", 4, 9, 9),
    ]
    assert sorted(kept_changes(lab4, 0, 2, net=True)) == [
        ("delete", 4, 0, 0),
        ("delete", 4, 1, 1),
        ("insert", 4, 9, 9),
    ]


def test_an_invalid_version_range_or_column_is_refused(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"})
    lab4.table("u", {"id": "bigint", "_version": "int"})
    lab4.insert("t", [(1, 1)], ["id", "v"])
    with pytest.raises(errors.VersionRangeError):
        changes(lab4, since=1, until=0)
    with pytest.raises(errors.VersionUnknownError):
        changes(lab4, since=1, until=9)
    with pytest.raises(errors.VersionUnknownError):
        changes(lab4, since=9)
    with pytest.raises(errors.UnknownColumnError):
        changes(lab4, since=0, keys=["nope"])
    with pytest.raises(errors.UnsupportedTableError):
        changes(lab4, "u", since=0)


@pytest.mark.long
def test_old_values_are_read_in_the_current_columns_of_the_table(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "string"})
    lab4.insert("t", [(1, 1, "a b"), (2, 2, None)], ["id", "v", "p"])
    lab4.script("ALTER TABLE t ADD COLUMNS (w timestamp)")
    lab4.insert("t", [(3, 3, "2026-01-01 00:00:00", "new")], ["id", "v", "w", "p"])
    lab4.delete("t", "id < 3")
    told = changes(lab4, since=1, columns=["p", "w", "id"])
    found = [(c[0], c[1], c[2], c[3] is None, c[4]) for c in told]
    assert found[0] == ("insert", 2, "new", False, 3)
    assert sorted(found[1:], key=str) == [
        ("delete", 3, "a b", True, 1),
        ("delete", 3, None, True, 2),
    ]


def test_old_values_that_are_not_requested_are_not_read(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab4.table("t", {"id": "bigint", "v": "timestamp", "w": "char(5)"})
    lab4.insert("t", [(i, "2026-01-01 00:00:00.5", "w") for i in range(3)], ["id", "v", "w"])
    lab4.delete("t", "id = 2")
    read: list[tuple[str, ...]] = []

    def spy(_: object, __: object, pieces: list[ChangePiece], *___: object) -> None:
        read.extend(piece.wanted for piece in pieces)

    act_before(monkeypatch, changed_files, "run_tasks", spy)
    assert changes(lab4, since=1, keys=["id"], pre_images=False) == [("delete", 2, 2, None, None)]
    assert read == [("id",)]
    lab4.insert("t", [(9, None, "new")], ["id", "v", "w"])
    assert changes(lab4, since=1, pre_images=False, columns=["w"]) == [
        ("delete", 2, None),
        ("insert", 3, "new"),
    ]
    assert read == [("id",), ()]


def test_only_files_that_may_contain_an_old_row_are_opened(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab4.table("t", {"id": "bigint", "v": "int"})
    for i in range(4):
        lab4.insert("t", [(i, i)], ["id", "v"])
    lab4.delete("t", "id = 2")
    opened: list[str] = []
    tail = AcidFile.tail
    monkeypatch.setattr(AcidFile, "tail", lambda self: (opened.append(self.key), tail(self))[1])
    assert changes(lab4, since=4) == [("delete", 5, 2, 2)]
    data = {key.partition("/")[0] for key in opened if not key.startswith("delete_")}
    assert data == {"delta_0000003_0000003_0000"}


@pytest.mark.long
@pytest.mark.promise("V5")
def test_replayed_changes_give_the_rows_of_the_later_version(lab4: Lab) -> None:
    seed = random.SystemRandom().randint(0, 1 << 30)
    dice = random.Random(seed)
    lab4.table("t", {"id": "bigint", "v": "int"}, partition={"p": "int"}, parameters=ONLY_HIVE_4)
    copies: list[list[Row]] = [[]]
    ids = iter(range(1000))

    def insert() -> None:
        lab4.insert("t", [(next(ids), 0, dice.randrange(2)) for _ in range(4)], ["id", "v", "p"])

    def merge() -> None:
        known = dice.sample([int(str(r[0])) for r in copies[-1]], min(3, len(copies[-1])))
        part = {int(str(r[0])): r[2] for r in copies[-1]}
        source = [(i, dice.randint(-1, 3), part[i]) for i in known] + [(next(ids), 1, 2)]
        lab4.merge("t", source, ["id", "v", "p"], ["id"], UPSERT)

    steps = [insert, merge, lambda: lab4.update("t", {"v": "v + 1"}, "id % 3 = 0")]
    for number in range(6):
        if number == 3:
            lab4.compact("t", CompactionChoice.MINOR)
        (insert if number == 0 else dice.choice(steps))()
        copies.append(lab4.rows("t"))
    for since in (0, 2, 4):
        for net in (False, True):
            found = changes(lab4, since=since, keys=["id"], net=net)
            assert replayed(copies[since], found) == sorted(copies[6], key=str), (seed, since)
