"""Earlier versions of a table, read by number, by time and by name, on both metastores."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.keeping import READABLE_FOR
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.reading.tables import read_table
from airflow_hiveacid.storage.stores.version_notes import VersionNotes
from airflow_hiveacid.versions.keeping import make_tag
from tests.support.spark_lab import Lab

COLUMNS = {"id": "bigint", "v": "int"}
Rows = list[tuple[object, ...]]


def as_of(lab: Lab, name: str, where: str | None = None, **asked: object) -> Rows:
    """The rows of a version, sorted."""
    table = f"{lab.db}.{name}"
    with read_snapshot(lab.endpoint, [table], job_key=f"{lab.db}/past") as snapshot:
        frame = read_table(lab.spark, table, snapshot, where=where, **asked)  # type: ignore[arg-type]
        return sorted(tuple(row) for row in frame.collect())


def server_now(lab: Lab, name: str) -> float:
    """What time it is at the metastore, later than anything that is done."""
    with read_snapshot(lab.endpoint, [f"{lab.db}.{name}"], job_key=f"{lab.db}/time") as snapshot:
        found = snapshot.taken_s()
    assert found is not None
    return found


def after_our_last(lab: Lab, name: str) -> datetime:
    """A moment at which our newest commit is known to be over: on a busy machine its bounds are
    wide."""
    ended_s = VersionNotes.of(lab.info(name)).commits()[-1].committed.by_s
    give_up_s = time.monotonic() + 60.0
    while ended_s is None or (found := server_now(lab, name)) <= ended_s:
        assert time.monotonic() < give_up_s, ended_s
        time.sleep(0.02)
    return datetime.fromtimestamp(found, UTC)


class Copies:
    """What a table was after each of our writes, by version, and a moment at which it was that."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.saved: list[tuple[int, datetime, Rows]] = []

    def save(self) -> None:
        ref = self.lab.info(self.name).ref
        version = self.lab.snapshot(self.name).write_ids(ref).high_watermark
        rows = self.lab.rows(self.name)
        at = after_our_last(self.lab, self.name)
        time.sleep(0.02)  # commits are known to a few milliseconds
        self.saved.append((version, at, rows))

    def check(self, *, oldest: int = 1) -> None:
        for version, at, rows in self.saved:
            if version < oldest:
                for asked in ({"version": version}, {"timestamp": at}):
                    with pytest.raises(
                        errors.VersionGoneError, match=f"oldest readable version is {oldest}"
                    ):
                        as_of(self.lab, self.name, **asked)
                continue
            assert as_of(self.lab, self.name, version=version) == rows
            assert as_of(self.lab, self.name, timestamp=at) == rows


@pytest.mark.promise("V6")
@pytest.mark.long_cases("3.1.3")
def test_each_version_equals_its_saved_copy_until_it_is_compacted_away(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    copies = Copies(lab, "t")
    lab.insert("t", [(i, i) for i in range(6)], ["id", "v"])
    copies.save()
    lab.delete("t", "id = 1")
    copies.save()
    lab.update("t", {"v": "v + 100"}, "id > 3")
    copies.save()
    lab.insert("t", [(9, 9)], ["id", "v"])
    copies.save()
    copies.check()
    lab.compact("t", CompactionChoice.MAJOR)
    lab.insert("t", [(10, 10)], ["id", "v"])
    copies.save()
    copies.check(oldest=4)  # though all files are still there
    lab.overwrite("t", [(11, 11)], ["id", "v"])
    lab.clean("t")
    assert as_of(lab, "t", version=6) == [(11, 11)]
    with pytest.raises(errors.VersionGoneError, match="oldest readable version is 6"):
        as_of(lab, "t", version=5)
    with pytest.raises(errors.VersionUnknownError, match="has no version 7 yet"):
        as_of(lab, "t", version=7)


@pytest.mark.promise("V6")
def test_sql_statements_can_read_an_earlier_version_of_a_table(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", COLUMNS, partition={"p": "int"})
    lab.table("copy", {"id": "bigint", "v": "int", "p": "int"})
    lab.insert("t", [(1, 1, 1), (2, 2, 2)], ["id", "v", "p"])
    lab.insert("t", [(3, 3, 1)], ["id", "v", "p"])
    lab.delete("t", "id = 1")
    lab.script("INSERT INTO copy SELECT * FROM t FOR VERSION AS OF 1")
    assert lab.rows("copy") == [(1, 1, 1), (2, 2, 2)]
    lab.script("INSERT OVERWRITE TABLE copy SELECT o.* FROM t FOR SYSTEM_VERSION AS OF 2 o")
    assert lab.rows("copy") == [(1, 1, 1), (2, 2, 2), (3, 3, 1)]
    # what was deleted, by what was there before and is not there now
    lab.script(
        "INSERT OVERWRITE TABLE copy SELECT o.* FROM t VERSION AS OF 2 o"
        " LEFT ANTI JOIN t n ON o.id = n.id"
    )
    assert lab.rows("copy") == [(1, 1, 1)]
    lab.script(
        "MERGE INTO copy c USING t FOR VERSION AS OF 3 s ON c.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, s.p)"
    )
    assert lab.rows("copy") == [(1, 1, 1), (2, 2, 2), (3, 3, 1)]
    # a table back to what it was
    lab.script("INSERT OVERWRITE TABLE t SELECT * FROM t FOR VERSION AS OF 2")
    assert lab.rows("t") == [(1, 1, 1), (2, 2, 2), (3, 3, 1)]
    with pytest.raises(errors.VersionGoneError, match="oldest readable version is 4"):
        as_of(lab, "t", version=2)


def test_partitions_of_a_version_are_pruned_and_a_dropped_one_raises_an_error(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", COLUMNS, partition={"p": "int"})
    lab.insert("t", [(i, i, i % 3) for i in range(9)], ["id", "v", "p"])
    lab.insert("t", [(20, 20, 0)], ["id", "v", "p"])
    assert as_of(lab, "t", version=1, where="p = 0") == [(0, 0, 0), (3, 3, 0), (6, 6, 0)]
    lab.script("ALTER TABLE t DROP PARTITION (p=2)")
    assert as_of(lab, "t", version=1, where="p = 0") == [(0, 0, 0), (3, 3, 0), (6, 6, 0)]
    for where in (None, "p = 2", "p > 0"):
        with pytest.raises(errors.VersionGoneError, match="partition p=2 was dropped"):
            as_of(lab, "t", version=1, where=where)


def test_a_version_above_an_open_write_id_is_refused_as_not_settled(lab3: Lab) -> None:
    lab = lab3
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, 1)], ["id", "v"])
    info = lab.info("t")
    txn = lab.client.open_txn()
    assert lab.client.allocate_write_id(txn, info.ref) == 2
    lab.insert("t", [(3, 3)], ["id", "v"])
    assert as_of(lab, "t", version=1) == [(1, 1)]
    with pytest.raises(errors.VersionNotSettledError, match="write ID 2 is still open"):
        as_of(lab, "t", version=3)
    lab.client.abort_txn(txn)
    assert as_of(lab, "t", version=3) == [(1, 1), (3, 3)]


@pytest.mark.promise("V2")
@pytest.mark.long_cases("3.1.3")
def test_a_time_between_the_commit_bounds_of_a_foreign_write_is_refused(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    with pytest.raises(errors.VersionUnknownError, match="created at"):
        as_of(lab, "t", timestamp="2001-01-01T00:00:00Z")
    lab.insert("t", [(1, 1)], ["id", "v"])
    before = after_our_last(lab, "t")
    info = lab.info("t")
    txn = lab.client.open_txn()  # somebody who leaves no notes
    lab.client.allocate_write_id(txn, info.ref)
    lab.client.commit_txn(txn)
    between = datetime.fromtimestamp(server_now(lab, "t"), UTC)
    time.sleep(0.02)
    lab.insert("t", [(3, 3)], ["id", "v"])
    after = after_our_last(lab, "t")
    lab.compact("t", CompactionChoice.MINOR)  # which makes no version
    with pytest.raises(
        errors.VersionDoubtfulError, match=r"write ID 2 was committed after .* and by "
    ) as error:
        as_of(lab, "t", timestamp=before)
    assert (error.value.before, error.value.after) == (1, 2)
    with pytest.raises(errors.VersionDoubtfulError):
        as_of(lab, "t", timestamp=between)
    assert as_of(lab, "t", timestamp=after) == [(1, 1), (3, 3)]
    with pytest.raises(errors.VersionUnknownError, match="no state at"):
        as_of(lab, "t", timestamp="2999-01-01T00:00:00Z")


def test_versions_of_an_insert_only_table_are_readable_until_they_are_compacted(lab3: Lab) -> None:
    lab = lab3
    lab.table("t", COLUMNS, kind=TransactionalKind.INSERT_ONLY)
    copies = Copies(lab, "t")
    for i in range(3):
        lab.insert("t", [(i, i)], ["id", "v"])
        copies.save()
    copies.check()
    lab.compact("t", CompactionChoice.MINOR)
    copies.check(oldest=3)


def test_versions_after_the_drop_of_a_partition_are_readable(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", COLUMNS, partition={"p": "int"})
    lab.insert("t", [(1, 1, 1), (2, 2, 2)], ["id", "v", "p"])
    lab.script("ALTER TABLE t DROP PARTITION (p=2)")
    lab.clean("t")  # which notes that later versions never had it
    lab.insert("t", [(30, 30, 1)], ["id", "v", "p"])
    assert as_of(lab, "t", version=2) == [(1, 1, 1), (30, 30, 1)]
    with pytest.raises(errors.VersionGoneError, match="partition p=2 was dropped"):
        as_of(lab, "t", version=1)


@pytest.mark.promise("V7")
def test_versions_of_a_kept_table_survive_compaction_overwrite_and_cleaning(lab3: Lab) -> None:
    lab = lab3
    lab.table("t", COLUMNS, parameters={READABLE_FOR: "1 hour"})
    lab.insert("t", [(i, i) for i in range(6)], ["id", "v"])
    lab.clean("t")  # the first run finds the parameter and keeps
    copies = Copies(lab, "t")
    lab.delete("t", "id = 1")
    copies.save()
    lab.compact("t", CompactionChoice.MAJOR)
    lab.overwrite("t", [(7, 7)], ["id", "v"])
    copies.save()
    lab.insert("t", [(8, 8)], ["id", "v"])
    lab.clean("t")
    copies.check()
    assert as_of(lab, "t", version=1) == [(i, i) for i in range(6)]
    lab.client.set_table_parameters(lab.info("t").ref, {READABLE_FOR: "0 seconds"})
    lab.clean("t")
    copies.check(oldest=3)


def test_a_tag_keeps_its_files_until_it_is_removed(lab4: Lab) -> None:
    lab = lab4
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, 1)], ["id", "v"])
    lab.insert("t", [(2, 2)], ["id", "v"])
    make_tag(lab.client, lab.info("t"), "closing", VersionSpec.of(version=1))
    with pytest.raises(errors.TagTakenError, match="for version 1"):
        make_tag(lab.client, lab.info("t"), "closing", VersionSpec.of(version=2))
    lab.overwrite("t", [(3, 3)], ["id", "v"])
    for _ in range(2):
        lab.clean("t")
    assert as_of(lab, "t", tag="closing") == [(1, 1)]
    with pytest.raises(errors.VersionGoneError, match="oldest readable version is 3"):
        as_of(lab, "t", version=2)
    lab.table("copy", COLUMNS)
    lab.script("INSERT INTO copy SELECT * FROM t FOR VERSION AS OF 'closing'")
    assert lab.rows("copy") == [(1, 1)]
    VersionNotes.of(lab.info("t")).forget_tag("closing")
    lab.clean("t")
    assert lab.directories("t") == ["base_0000003"]
    with pytest.raises(errors.VersionUnknownError, match="no tag 'closing'"):
        as_of(lab, "t", tag="closing")
