"""A table goes back to a version: every partition has exactly the rows that it had."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import Constraints, FileFormat, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.job import JobResult, JobStatus, RowCounts
from airflow_hiveacid.jobs.maintenance import CompactionChoice, RestoreSpec
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.plan import restoring
from airflow_hiveacid.versions.keeping import keep, make_tag
from tests.support.spark_lab import Lab
from tests.support.spark_submit import submit
from tests.unit.storage.orc_tables import write_plain

COLUMNS = {"id": "bigint", "v": "int"}
NAMES = ["id", "v", "p"]
INSERT_ONLY = TransactionalKind.INSERT_ONLY


@pytest.fixture
def bases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change counts as many, so that partitions get a base."""
    monkeypatch.setattr(restoring, "_FEW_ROWS", 0)
    monkeypatch.setattr(restoring, "_FEW_SHARE", 0.0)


def told(result: JobResult) -> dict[str, tuple[str, int, int, int]]:
    """What the result says of each partition: how, and rows that come, go and stay."""
    return {
        one["partition"]: (one["how"], one["come"], one["go"], one["stay"])
        for one in result.details["restore"]  # type: ignore[union-attr,index]
    }


def newest(lab: Lab, name: str = "t") -> int:
    return lab.snapshot(name).write_ids(lab.info(name).ref).high_watermark


def files(lab: Lab, name: str = "t") -> list[str]:
    """Everything that lies in the table, but notes."""
    root = lab.root(name)
    found = (str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    return sorted(path for path in found if not path.startswith("_hiveacid"))


def changed_everywhere(lab: Lab, **made: object) -> list[tuple[object, ...]]:
    """Make a table whose partitions changed in different ways; return the rows of version 1."""
    lab.table("t", COLUMNS, partition={"p": "int"}, **made)  # type: ignore[arg-type]
    lab.client.add_partitions(lab.info("t"), [lab.info("t").partition_name(["3"])])
    lab.insert("t", [(1, 1, 1), (2, 2, 2), (4, 4, 4), (10, 10, 1)], NAMES)
    before = lab.rows("t")
    lab.insert("t", [(3, 3, 3), (5, 5, 5)], NAMES)  # one was there without rows, one was not
    return before


@pytest.mark.long_cases("3.1.3")
def test_a_restore_undoes_all_changes_of_partitions_since_the_version(lab: Lab) -> None:
    before = changed_everywhere(lab)
    lab.delete("t", "p = 4")
    lab.update("t", {"v": "v + 100"}, "id = 1")
    untouched = lab.directories("t", "p=2")
    planned = lab.restore("t", 1, plan_only=True)
    assert (planned.status, newest(lab)) == (JobStatus.PLANNED, 4)
    result = lab.restore("t", 1)
    assert lab.rows("t") == before
    assert lab.directories("t", "p=2") == untouched
    assert result.status is JobStatus.COMMITTED
    assert (
        told(result)
        == told(planned)
        == {
            "p=1": ("delta", 1, 1, 1),
            "p=3": ("delta", 0, 1, 0),
            "p=4": ("delta", 1, 0, 0),
            "p=5": ("delta", 0, 1, 0),
        }
    )
    assert result.rows == RowCounts(inserted=2, deleted=3)
    assert result.partitions == ("p=1", "p=3", "p=4", "p=5")
    assert list(result.write_ids.values()) == [5]
    assert lab.client.show_locks(lab.info("t").ref) == ()


def test_an_insert_overwrite_from_a_version_keeps_partitions_that_were_filled_later(
    lab4: Lab,
) -> None:
    before = changed_everywhere(lab4)
    lab4.script("INSERT OVERWRITE TABLE t SELECT * FROM t FOR VERSION AS OF 1")
    assert lab4.rows("t") == sorted([*before, (3, 3, 3), (5, 5, 5)])  # what the README warns of


@pytest.mark.usefixtures("bases")
@pytest.mark.long_cases("3.1.3")
def test_a_restore_writes_a_base_for_each_partition_with_many_changes(lab: Lab) -> None:
    before = changed_everywhere(lab)
    lab.update("t", {"v": "v + 100"}, "id = 1")
    lab.delete("t", "p = 4")
    keep(lab.client, lab.info("t"))
    after = lab.rows("t")
    result = lab.restore("t", 1)
    assert lab.rows("t") == before
    assert told(result)["p=1"] == ("base", 1, 1, 1)
    for partition in ("p=1", "p=3", "p=4", "p=5"):
        assert "base_0000005" in lab.directories("t", partition)
    assert lab.directories("t", "p=2") == ["delta_0000001_0000001_0000"]
    # and forward again, and back
    lab.restore("t", 4)
    assert lab.rows("t") == after
    lab.restore("t", 5)
    assert lab.rows("t") == before


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.long_cases("False")
def test_an_unpartitioned_table_can_be_restored_to_any_version_repeatedly(
    lab4: Lab, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(restoring, "_FEW_ROWS", 0)
        monkeypatch.setattr(restoring, "_FEW_SHARE", 0.0)
    lab4.table("t", COLUMNS, buckets=("id", 2))
    keep(lab4.client, lab4.info("t"))
    lab4.insert("t", [(i, i) for i in range(6)], ["id", "v"])
    lab4.overwrite("t", [(7, 7)], ["id", "v"])
    lab4.truncate("t")
    lab4.insert("t", [(8, 8)], ["id", "v"])
    copies = {1: [(i, i) for i in range(6)], 2: [(7, 7)], 3: [], 4: [(8, 8)]}
    for version in (3, 2, 4, 1):
        lab4.restore("t", version)
        assert lab4.rows("t") == copies[version]
    lab4.compact("t", CompactionChoice.MAJOR)
    assert lab4.rows("t") == copies[1]


@pytest.mark.parametrize("format_", [FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT])
@pytest.mark.long_cases("3.1.3-*", "4.0.1-*ORC", "4.0.1-*TEXT")
def test_a_restore_copies_the_files_of_an_insert_only_table(lab: Lab, format_: FileFormat) -> None:
    before = changed_everywhere(lab, kind=INSERT_ONLY, format_=format_)
    lab.insert("t", [(6, 6, 1)], NAMES)
    keep(lab.client, lab.info("t"))
    after = lab.rows("t")
    source = [f for f in files(lab) if f.startswith("p=1/delta_0000001_")]
    result = lab.restore("t", 1)
    assert lab.rows("t") == before
    assert told(result) == {
        "p=1": ("base", 2, 3, 0),
        "p=3": ("base", 0, 1, 0),
        "p=5": ("base", 0, 1, 0),
    }
    assert lab.directories("t", "p=2") == ["delta_0000001_0000001_0000"]
    copies = [f for f in files(lab) if f.startswith("p=1/base_0000004/") and "/." not in f]
    old, new = ([(lab.root("t") / f).read_bytes() for f in found] for found in (source, copies))
    assert sorted(b for f, b in zip(source, old, strict=True) if "/." not in f) == sorted(new)
    lab.restore("t", 3)
    assert lab.rows("t") == after


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.long_cases("False")
def test_a_restore_brings_back_rows_of_original_files(
    lab4: Lab, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(restoring, "_FEW_ROWS", 0)
        monkeypatch.setattr(restoring, "_FEW_SHARE", 0.0)
    lab4.table("t", COLUMNS)
    row = pa.struct({"id": pa.int64(), "v": pa.int32()})
    for name, ids in (("000000_0", (1, 2, 3)), ("000000_0_copy_1", (4, 5))):
        write_plain(lab4.root("t") / name, [{"id": i, "v": i} for i in ids], row=row)
    lab4.insert("t", [(6, 6)], NAMES[:2])
    before = lab4.rows("t")
    assert len(before) == 6
    lab4.delete("t", "id IN (2, 4)")
    lab4.update("t", {"v": "v + 100"}, "id IN (1, 6)")
    result = lab4.restore("t", 1)
    assert lab4.rows("t") == before
    assert told(result) == {"": ("delta" if few else "base", 4, 2, 2)}
    lab4.compact("t", CompactionChoice.MAJOR)
    assert lab4.rows("t") == before


def test_a_restore_of_compressed_text_is_refused_but_insert_overwrite_works(lab4: Lab) -> None:
    lab4.table("t", COLUMNS, kind=INSERT_ONLY, format_=FileFormat.TEXT)
    lab4.insert("t", [(1, 1), (2, 2)], NAMES[:2])
    for plain in lab4.root("t").glob("delta_0000001_0000001_0000/[0-9]*"):
        plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    before = lab4.rows("t")
    lab4.insert("t", [(3, 3)], NAMES[:2])
    there = files(lab4)
    with pytest.raises(errors.UnsupportedTableError, match=r"compressed text file .*\.gz"):
        lab4.restore("t", 1)
    assert files(lab4) == there
    assert len(lab4.rows("t")) == 3
    lab4.script("INSERT OVERWRITE TABLE t SELECT * FROM t FOR VERSION AS OF 1")
    assert lab4.rows("t") == before == [(1, 1), (2, 2)]


@pytest.mark.parametrize("step", ["allocated", "staged"])
@pytest.mark.long_cases("3.1.3-*", "4.0.1-allocated")
def test_a_concurrent_compaction_and_cleaning_remove_nothing_that_a_restore_reads(
    lab: Lab, step: str
) -> None:
    before = changed_everywhere(lab)
    keep(lab.client, lab.info("t"))
    outcomes = []

    def beside(now: str) -> None:
        if now == step and not outcomes:
            outcomes.append(lab.compact("t", CompactionChoice.MAJOR, "p=1", lock_timeout_s=1.0))
            lab.clean("t")

    lab.restore("t", 1, on_step=beside)
    assert outcomes
    assert lab.rows("t") == before


def test_a_restore_to_the_current_version_writes_nothing(lab4: Lab) -> None:
    before = changed_everywhere(lab4)
    there, rows = files(lab4), lab4.rows("t")
    result = lab4.restore("t", 2, job_key="dag/run/task/-1")
    assert (result.status, result.details["restore"]) == (JobStatus.NOTHING_TO_DO, [])
    assert files(lab4) == there
    assert lab4.rows("t") == rows
    # a retry of it, or a copy that comes late, takes nothing of others back
    lab4.insert("t", [(40, 40, 4)], NAMES)
    again = lab4.restore("t", 2, job_key="dag/run/task/-1")
    assert again.status is JobStatus.ALREADY_DONE
    assert lab4.rows("t") == sorted([*rows, (40, 40, 4)])
    lab4.delete("t", "id = 40")
    # nor where nothing but a compaction has come since
    lab4.compact("t", CompactionChoice.MINOR)
    there = files(lab4)
    assert lab4.restore("t", newest(lab4)).status is JobStatus.NOTHING_TO_DO
    assert (lab4.rows("t"), files(lab4)) == (rows, there)
    assert before != rows


def test_a_restore_does_not_write_to_a_partition_that_has_the_same_rows(lab4: Lab) -> None:
    before = changed_everywhere(lab4)
    keep(lab4.client, lab4.info("t"))
    lab4.insert("t", [(20, 20, 2)], NAMES)
    lab4.delete("t", "id = 20")
    lab4.compact("t", CompactionChoice.MAJOR)
    there = lab4.directories("t", "p=2")
    result = lab4.restore("t", 1)
    assert told(result)["p=2"] == ("nothing", 0, 0, 1)
    assert lab4.directories("t", "p=2") == there
    assert lab4.rows("t") == before


def test_a_restore_of_a_dropped_partition_is_refused_before_anything_is_written(lab4: Lab) -> None:
    changed_everywhere(lab4)
    lab4.script("ALTER TABLE t DROP PARTITION (p=2)")
    there = files(lab4)
    for plan_only in (True, False):
        with pytest.raises(errors.VersionGoneError, match="partition p=2 was dropped"):
            lab4.restore("t", 1, plan_only=plan_only)
    assert (newest(lab4), files(lab4)) == (2, there)


@pytest.mark.long_cases("3.1.3")
def test_the_error_about_a_lost_version_names_the_setting_that_keeps_versions(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    for number in (1, 2):
        lab.insert("t", [(number, number)], ["id", "v"])
    lab.compact("t", CompactionChoice.MAJOR)
    for plan_only in (True, False):
        with pytest.raises(errors.VersionGoneError) as error:
            lab.restore("t", 1, plan_only=plan_only)
        assert f"keep {lab.db}.t --readable-for '7 days'" in str(error.value)
        assert "hiveacid.readable.for" in str(error.value)
    with pytest.raises(errors.VersionUnknownError, match="has no version 9"):
        lab.restore("t", 9)
    assert newest(lab) == 2


@pytest.mark.usefixtures("bases")
def test_a_retried_restore_is_applied_once_even_if_it_made_its_version_unreadable(
    lab4: Lab,
) -> None:
    lab = lab4
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, 1)], ["id", "v"])
    lab.insert("t", [(2, 2)], ["id", "v"])
    first = lab.restore("t", 1, job_key="dag/run/task/-1")
    lab.insert("t", [(3, 3)], ["id", "v"])
    with pytest.raises(errors.VersionGoneError):
        lab.restore("t", 1)
    again = lab.restore("t", 1, job_key="dag/run/task/-1")
    assert again.status is JobStatus.ALREADY_DONE
    assert (again.rows, again.details["restore"]) == (first.rows, first.details["restore"])
    assert lab.rows("t") == [(1, 1), (3, 3)]
    with pytest.raises(errors.VersionGoneError):  # a clear is a new order, and is told so
        lab.restore("t", 1, job_key="dag/run/task/-1", generation=1)
    assert lab.rows("t") == [(1, 1), (3, 3)]


def test_a_table_can_be_restored_to_a_tag_repeatedly(lab4: Lab) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", [(1, 1), (2, 2)], NAMES[:2])
    before = lab4.rows("t")
    lab4.insert("t", [(3, 3)], NAMES[:2])
    make_tag(lab4.client, lab4.info("t"), "good", VersionSpec.of(version=1))
    after = lab4.rows("t")
    for _ in range(2):
        lab4.restore("t", "tag good")
        assert lab4.rows("t") == before
        lab4.restore("t", 2)
        assert lab4.rows("t") == after


def test_a_restore_sets_added_columns_to_null_and_checks_constraints(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab4
    lab.table("t", COLUMNS, partition={"p": "int"})
    lab.insert("t", [(1, 1, 1), (2, 2, 2)], NAMES)
    lab.delete("t", "id = 1")
    lab.script("ALTER TABLE t ADD COLUMNS (w string)")
    lab.insert("t", [(3, 3, "new", 1)], ["id", "v", "w", "p"])
    lab.restore("t", 1)
    assert sorted(lab.rows("t")) == [(1, 1, None, 1), (2, 2, None, 2)]
    lab.delete("t", "id = 1")
    demands = Constraints(not_null={"id": "nn"}, checks={"full": "w IS NOT NULL"})
    monkeypatch.setattr(MetastoreClient, "constraints", lambda *_: demands)
    there = files(lab)
    with pytest.raises(errors.ConstraintViolationError, match="full"):
        lab.restore("t", 1)
    assert lab.rows("t") == [(2, 2, None, 2)]
    assert files(lab) == there


@pytest.mark.long_cases("4.0.1")
def test_writers_wait_only_for_the_partitions_that_a_restore_changes(lab: Lab) -> None:
    before = changed_everywhere(lab)

    def beside(step: str) -> None:
        if step == "staged":
            lab.script("INSERT INTO t PARTITION (p=2) VALUES (22, 22)")
            with pytest.raises(errors.LockNotAcquiredError):
                lab.script("INSERT INTO t PARTITION (p=3) VALUES (33, 33)", lock_timeout_s=0.0)

    result = lab.restore("t", 1, on_step=beside)
    assert "retried" not in result.details
    assert lab.rows("t") == sorted([*before, (22, 22, 2)])


def test_a_restore_also_undoes_writes_that_commit_before_its_locks_are_granted(lab4: Lab) -> None:
    before = changed_everywhere(lab4)
    done = []

    def beside(step: str) -> None:
        if step == "allocated" and not done:
            done.append(step)
            lab4.insert(
                "t", [(33, 33, 3)], NAMES
            )  # a higher write ID, in a partition to be changed
            lab4.insert("t", [(44, 44, 6)], NAMES)  # and a partition that was not there

    result = lab4.restore("t", 1, on_step=beside)
    assert done
    assert result.details["retried"]["how"] == "in full"  # type: ignore[index,call-overload]
    assert lab4.rows("t") == before


@pytest.mark.long
@pytest.mark.parametrize("step", ["staged", "published", "committed"])
def test_a_killed_restore_leaves_all_or_nothing_and_its_retry_applies_it_once(
    lab4: Lab, tmp_path: Path, step: str
) -> None:
    before = changed_everywhere(lab4)
    after = lab4.rows("t")
    key, spec = f"{lab4.db}/restore", RestoreSpec(target=f"{lab4.db}.t", version="version 1")
    killed = submit(tmp_path, lab4.endpoint, spec, job_key=key, stop_at=step)
    assert (killed.code != 0, killed.result) == (True, None), killed.log
    assert lab4.rows("t") == (before if step == "committed" else after)
    again = lab4.run(spec, job_key=key)
    assert again.status is (JobStatus.ALREADY_DONE if step == "committed" else JobStatus.COMMITTED)
    assert again.rows == RowCounts(deleted=2)
    assert lab4.rows("t") == before
    assert lab4.client.show_locks(lab4.info("t").ref) == ()
