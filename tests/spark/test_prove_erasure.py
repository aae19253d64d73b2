"""The proof that rows were erased: it holds only if no file stores them, and it names what keeps
them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from airflow_hiveacid.format.errors import ErasureNotProvedError, UnknownColumnError
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs.maintenance import ChangeFeedSpec, CompactionChoice, ProveErasureSpec
from airflow_hiveacid.jobs.statements import DeleteSpec, Parameter, Value, ValueType
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.maintenance import prove_erasure, stored_search
from airflow_hiveacid.versions.keeping import make_tag
from tests.support.spark_lab import Lab
from tests.support.steps import at

pytestmark = pytest.mark.promise("K10")

ZOE = "Zoe-7f3a9c41"
COLUMNS = {"id": "bigint", "name": "string"}
BY_NAME: dict[str, Any] = {
    "where": "name = :name",
    "parameters": {"name": Parameter(values=(Value(type=ValueType.STRING, text=ZOE),))},
}


@pytest.fixture
def lab(lab4: Lab) -> Lab:
    """The metastore of Hive 4 alone."""
    return lab4


def uncompressed(lab: Lab, **more: Any) -> None:  # noqa: ANN401 - passed on
    """A table of two writes with Zoe in the first, whose values a search of bytes finds."""
    lab.table("t", COLUMNS, parameters={"orc.compress": "NONE"}, **more)
    lab.insert("t", [(1, ZOE), (2, "Ann"), (5, "Zzz")], ["id", "name"])
    lab.insert("t", [(3, "Bob"), (4, "Eve")], ["id", "name"])


def erase(lab: Lab) -> None:
    lab.run(DeleteSpec(target=f"{lab.db}.t", **BY_NAME))
    lab.compact("t", CompactionChoice.MAJOR)


def proof(lab: Lab, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - passed on
    """The document of a proof; it never contains the erased value."""
    result = lab.run(ProveErasureSpec(target=f"{lab.db}.t", **{**BY_NAME, **spec}))
    found: Any = result.details["erasure"]
    assert ZOE not in json.dumps(found)
    assert found["proved"] == (not found["left"])
    return found  # type: ignore[no-any-return]


def whys(found: Mapping[str, Any]) -> str:
    return "; ".join(f"{Path(one['path']).parent.name}: {one['why']}" for one in found["left"])


def files_with_zoe(lab: Lab) -> list[str]:
    """The files in which a search of bytes finds the value."""
    files = [path for path in lab.root("t").rglob("*") if path.is_file()]
    return [str(path) for path in files if ZOE.encode() in path.read_bytes()]


def test_the_proof_fails_until_rows_are_deleted_compacted_and_cleaned(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    uncompressed(lab)
    found = proof(lab)
    assert (found["rows"], len(found["left"])) == (1, 1)
    assert "readers see 1 such rows" in whys(found)
    lab.run(DeleteSpec(target=f"{lab.db}.t", **BY_NAME))
    found = proof(lab)
    assert found["left"][0]["path"] == f"file:{files_with_zoe(lab)[0]}"
    assert "run a major compaction" in whys(found)
    lab.compact("t", CompactionChoice.MAJOR)
    found = proof(lab)
    assert "clean the table to remove it: replaced by base_0000003" in whys(found)
    assert files_with_zoe(lab)
    lab.clean("t")
    found = proof(lab)
    assert (found["proved"], found["rows"], found["left"]) == (True, 0, [])
    assert found["files_by_scan"] == 1  # the base: its statistics do not exclude the name
    assert files_with_zoe(lab) == []
    on_disk = [path for path in lab.root("t").rglob("*") if path.is_file()]
    assert {one["path"] for one in found["looked_at"]} == {f"file:{path}" for path in on_disk}
    assert found["files"] == len(on_disk)
    assert (found["columns"], found["parameters"]) == (["name"], ["name"])
    assert lab.rows("t") == [(2, "Ann"), (3, "Bob"), (4, "Eve"), (5, "Zzz")]
    assert ZOE not in caplog.text


def test_the_proof_names_the_reader_that_keeps_the_file(lab: Lab) -> None:
    uncompressed(lab)
    with read_snapshot(lab.endpoint, [f"{lab.db}.t"], job_key="a-long-report"):
        erase(lab)
        lab.clean("t")
        found = proof(lab)
        assert "cleaning keeps it" in whys(found)
        assert "a-long-report" in whys(found)
    lab.clean("t")
    assert proof(lab)["proved"]


def test_the_proof_names_the_tag_and_the_retention_that_keep_the_file(lab: Lab) -> None:
    uncompressed(lab)
    make_tag(lab.client, lab.info("t"), "closing", VersionSpec.of(version=2))
    erase(lab)
    lab.clean("t")
    assert "tag 'closing' needs it" in whys(proof(lab))
    assert files_with_zoe(lab)
    lab.table("kept", COLUMNS, parameters={"hiveacid.readable.for": "7 days"})
    lab.insert("kept", [(1, ZOE)], ["id", "name"])
    lab.delete("kept", "true")
    lab.compact("kept", CompactionChoice.MAJOR)
    lab.clean("kept")
    kept: Any = lab.run(ProveErasureSpec(target=f"{lab.db}.kept", **BY_NAME)).details["erasure"]
    assert "the retention of 7 d" in whys(kept)


def test_the_proof_finds_rows_of_aborted_writes_and_of_open_writes(lab: Lab) -> None:
    uncompressed(lab)
    delta = lab.root("t") / "delta_0000001_0000001_0000"
    kept = lab.root("t").parent / "kept"
    shutil.copytree(delta, kept)
    erase(lab)
    lab.clean("t")
    assert proof(lab)["proved"]
    txn_id = lab.client.open_txn()
    write_id = lab.client.allocate_write_id(txn_id, lab.info("t").ref)
    name = f"delta_{write_id:07d}_{write_id:07d}_0000"
    shutil.copytree(kept, lab.root("t") / name)
    shutil.rmtree(kept)
    assert f"{name}: it is invisible: " in whys(proof(lab))
    lab.client.abort_txn(txn_id)
    assert f"{name}: clean the table to remove it: aborted" in whys(proof(lab))
    lab.clean("t")
    assert proof(lab)["proved"]


def test_the_proof_finds_rows_in_staged_hidden_and_unknown_files(lab: Lab) -> None:
    whys_of = {
        "_tmp_hiveacid_99999-x/delta_0000001_0000001_0000": "cleaning keeps it: changed less than",
        ".hive-staging_hive_1/-ext-10000": "it is staged or hidden",
        "somewhere": "cleaning keeps it: somewhere/bucket_00000 may be data that no compaction",
        "_hiveacid": "it is staged or hidden",
    }
    uncompressed(lab)
    copy = lab.root("t").parent / f"{lab.db}_copy"
    shutil.copytree(lab.root("t") / "delta_0000001_0000001_0000", copy)
    erase(lab)
    lab.clean("t")
    for place in whys_of:
        directory = lab.root("t") / place
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(copy / "bucket_00000", directory / "bucket_00000")
    shutil.rmtree(copy)
    left = {one["path"].removesuffix("/bucket_00000"): one for one in proof(lab)["left"]}
    assert {path: one["rows"] for path, one in left.items()} == {
        f"file:{lab.root('t')}/{place}": 1 for place in whys_of
    }
    for place, why in whys_of.items():
        assert why in left[f"file:{lab.root('t')}/{place}"]["why"]


def test_a_file_that_cannot_be_read_disproves_the_erasure(lab: Lab) -> None:
    uncompressed(lab)
    erase(lab)
    lab.clean("t")
    # A writer's file without its end: its bytes may hold anything.
    staged = lab.root("t") / "_tmp_hiveacid_99999-y" / "bucket_00000"
    staged.parent.mkdir()
    staged.write_bytes(b"ORC" + ZOE.encode())
    (lab.root("t") / "notes.bin").write_bytes(ZOE.encode())
    found = proof(lab)
    assert [one["rows"] for one in found["left"]] == [None, None]
    assert "its format is unknown" in whys(found)
    assert "is damaged" in whys(found) or "cannot be read" in whys(found)
    assert found["files_by_not_read"] == 2


def test_partitions_and_statistics_prove_only_what_they_can(lab: Lab) -> None:
    lab.table("t", COLUMNS, partition={"day": "int"})
    lab.insert("t", [(1, ZOE, 1), (2, "Ann", 1), (3, None, 2)], ["id", "name", "day"])
    found = proof(lab, where="id = 1 AND day = 1", parameters={})
    assert (found["rows"], found["files_by_partition"], len(found["left"])) == (1, 2, 1)
    assert found["left"][0]["partition"] == "day=1"
    # No statistics show which rows are NULL, and NULL is not equal to a name.
    assert proof(lab, where="id > 2 AND name IS NULL", parameters={})["rows"] == 1
    assert proof(lab, where="id > 99", parameters={})["files_by_statistics"] >= 2
    assert proof(lab, where="name = 'nobody'", parameters={})["rows"] == 0
    # A dropped partition leaves no file; a directory without a partition is found by its name.
    shutil.copytree(lab.root("t") / "day=1", lab.root("t") / "day=7")
    found = proof(lab, where="name = :name AND day = 7")
    assert [one["partition"] for one in found["left"]] == ["day=7"]
    assert "it belongs to no state of the table" in whys(found)
    shutil.move(lab.root("t") / "day=7", lab.root("t") / "lost")
    assert "its path does not show day" in whys(proof(lab, where="name = :name AND day = 7"))


def test_delete_events_hold_no_row(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", [(1, "Ann"), (2, "Bob")], ["id", "name"])
    lab.delete("t", "id = 1")
    found = proof(lab, where="name IS NULL", parameters={})
    assert (found["proved"], found["files_by_not_read"]) == (True, 0)


def test_a_column_that_was_added_later_is_null_in_older_files(lab: Lab) -> None:
    lab.table("t", {"id": "bigint"})
    lab.insert("t", [(1,)], ["id"])
    lab.script("ALTER TABLE t ADD COLUMNS (name string)")
    lab.insert("t", [(2, ZOE)], ["id", "name"])
    assert proof(lab)["rows"] == 1
    assert proof(lab, where="name IS NULL", parameters={})["rows"] == 1


def test_a_file_whose_column_may_have_been_renamed_disproves_the_erasure(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    old = pa.table({"id": pa.array([1], pa.int64()), "alias": [ZOE]})
    staged = lab.root("t") / "_tmp_copy"
    staged.mkdir(parents=True)
    orc.write_table(old, staged / "old.orc")
    pq.write_table(old, staged / "old.parquet")
    found = proof(lab)
    assert [one["rows"] for one in found["left"]] == [None, None]
    assert "Hive 3.1 and Hive 4 read different values" in whys(found)
    assert "it has no column name, which may have been renamed" in whys(found)


@pytest.mark.parametrize("format_", list(FileFormat)[:4])
@pytest.mark.long_cases("*.ORC", "*.PARQUET", "*.TEXT")
def test_insert_only_tables_are_searched_in_every_format(lab: Lab, format_: FileFormat) -> None:
    lab.table("t", COLUMNS, kind=TransactionalKind.INSERT_ONLY, format_=format_)
    lab.insert("t", [(1, ZOE), (2, "Ann")], ["id", "name"])
    assert proof(lab)["rows"] == 1
    lab.overwrite("t", [(2, "Ann")], ["id", "name"])
    assert "clean the table to remove it" in whys(proof(lab))
    lab.clean("t")
    assert proof(lab)["proved"]


def test_feeds_and_other_copies_are_searched_if_they_are_named(lab: Lab, tmp_path: Path) -> None:
    uncompressed(lab)
    location = f"file:{tmp_path}/feed"
    lab.run(ChangeFeedSpec(target=f"{lab.db}.t", location=location))
    erase(lab)
    lab.clean("t")
    assert proof(lab)["proved"]
    found = proof(lab, locations=(location,))
    assert "it is outside the table" in whys(found)
    assert found["locations"][1]["location"] == location
    shutil.rmtree(tmp_path / "feed")
    # Without the column, a file does not show whose rows it has.
    (tmp_path / "feed").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "feed" / "some.parquet")
    assert "it has no column name" in whys(proof(lab, locations=(location,)))


def test_files_that_appear_during_the_search_are_searched_too(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncompressed(lab)
    copy = lab.root("t").parent / f"{lab.db}_copy"
    shutil.copytree(lab.root("t") / "delta_0000001_0000001_0000", copy)
    erase(lab)
    lab.clean("t")
    number = iter(range(100))

    def late(step: str) -> None:
        if step == "listing" and next(number) == 1:
            shutil.copytree(copy, lab.root("t") / "late")

    spec = ProveErasureSpec(target=f"{lab.db}.t", **BY_NAME)
    found: Any = lab.run(spec, on_step=late).details["erasure"]
    assert [one["path"].rsplit("/", 2)[1] for one in found["left"]] == ["late"]

    def add() -> None:
        shutil.copytree(copy, lab.root("t") / f"late_{next(number)}")

    monkeypatch.setattr(prove_erasure, "_MOST_LISTINGS", 2)
    with pytest.raises(ErasureNotProvedError, match="new files kept appearing"):
        lab.run(spec, on_step=at("listing", add))


def test_a_task_that_does_not_report_the_end_of_a_file_proves_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncompressed(lab)
    monkeypatch.setattr(
        stored_search,
        "run_tasks",
        lambda spark, _, __, schema: spark.createDataFrame([], schema),
    )
    found = proof(lab)
    assert not found["proved"]
    assert "no task has reported its end" in whys(found)


def test_a_wrong_condition_is_an_error_before_anything_is_listed(lab: Lab) -> None:
    lab.table("t", COLUMNS)
    with pytest.raises(UnknownColumnError):
        proof(lab, where="surname = :name")


@pytest.mark.parametrize(
    ("kind", "format_", "stored_as", "now"),
    [
        (TransactionalKind.FULL_ACID, FileFormat.ORC, "varchar(30)", "varchar(4)"),
        (TransactionalKind.INSERT_ONLY, FileFormat.PARQUET, "varchar(30)", "varchar(4)"),
        (TransactionalKind.INSERT_ONLY, FileFormat.TEXT, "string", "varchar(4)"),
    ],
)
@pytest.mark.long_cases("*PARQUET*")
def test_a_value_that_is_longer_than_the_type_of_its_column_disproves_the_erasure(
    lab: Lab, kind: TransactionalKind, format_: FileFormat, stored_as: str, now: str
) -> None:
    lab.table("t", {"id": "bigint", "name": stored_as}, kind=kind, format_=format_)
    lab.insert("t", [(1, ZOE)], ["id", "name"])
    assert proof(lab)["rows"] == 1
    change(lab, lambda table: setattr(table.sd.cols[1], "type", now))
    found = proof(lab)
    assert (found["proved"], found["files_by_not_read"]) == (False, 1)


def test_a_text_file_of_other_delimiters_disproves_the_erasure(lab: Lab) -> None:
    lab.table("t", COLUMNS, kind=TransactionalKind.INSERT_ONLY, format_=FileFormat.TEXT)
    lab.insert("t", [(1, ZOE)], ["id", "name"])
    change(lab, lambda table: table.sd.serdeInfo.parameters.update({"field.delim": ","}))
    assert "it may have other columns or delimiters" in whys(proof(lab))


def test_the_proof_names_dropped_partitions_that_notes_contain(lab: Lab) -> None:
    lab.table("t", {"id": "bigint"}, partition={"name": "string"})
    lab.insert("t", [(1, "Ann"), (2, "Bob")], ["id", "name"])
    lab.script("ALTER TABLE t DROP PARTITION (name = 'Ann')")
    assert proof(lab)["dropped_partitions_in_notes"] == ["name=Ann"]
    (lab.root("t") / "_hiveacid" / "_next_1.json").write_text('{"name=Eve": 1}')
    (lab.root("t") / "_hiveacid" / "_next_2.json").write_text("name=Zoe")
    found = proof(lab)
    assert found["dropped_partitions_in_notes"] == ["name=Ann", "name=Eve"]
    assert [Path(note["path"]).name for note in found["notes_not_searched"]] == ["_next_2.json"]


def change(lab: Lab, how: Callable[[Any], object]) -> None:
    """Change a table's definition as another engine does, without a look at its files."""
    ref = lab.info("t").ref
    raw = lab.client._raw_table(ref)  # type: ignore[attr-defined]
    how(raw)
    lab.client._send_table(ref, raw)  # type: ignore[attr-defined]
