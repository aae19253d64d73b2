"""LOAD DATA: files that are there are rows of a table, and can be changed and compacted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, PartitionName, TransactionalKind
from airflow_hiveacid.jobs.job import JobStatus, RowCounts
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.jobs.statements import DeleteSpec, LoadSpec, TransactionSpec, UpdateSpec
from airflow_hiveacid.spark.reading.target import POSITION, resolve_target
from airflow_hiveacid.writing import loading as load_module
from tests.support.merge_clauses import INSERT_ALL, matched_update
from tests.support.spark_lab import Lab, Row
from tests.support.steps import StopError, stop_at
from tests.unit.storage.orc_tables import insert, write_acid, write_plain

COLUMNS = {"id": "int", "name": "string"}
B0, B1, B2 = 536870912, 536936448, 537001984


def files(folder: Path, *rows_of: tuple[int, ...]) -> str:
    for number, ids in enumerate(rows_of):
        write_plain(folder / f"part-{number}.orc", [{"id": i, "name": f"n{i}"} for i in ids])
    return f"file:{folder}"


def identities(lab: Lab, name: str = "t") -> dict[int, tuple[int, int, int]]:
    target = resolve_target(lab.spark, lab.client, lab.info(name), lab.snapshot(name))
    position = [f"{POSITION}.{part}" for part in ("originalTransaction", "bucket", "rowId")]
    return {row[3]: tuple(row[:3]) for row in target.scan(["id"]).select(*position, "id").collect()}


def rows(*ids: int) -> list[Row]:
    return [(i, f"n{i}") for i in ids]


@pytest.mark.promise("W10")
@pytest.mark.long_cases("3.1.3")
def test_loaded_rows_can_be_read_changed_and_compacted(lab: Lab, tmp_path: Path) -> None:
    lab.table("t", COLUMNS)
    lab.insert("t", rows(0), list(COLUMNS))
    place = files(tmp_path / "in", (1, 2, 3), (4, 5))
    result = lab.load("t", place)
    assert (result.rows, result.files) == (RowCounts(inserted=5), 2)
    assert lab.rows("t") == rows(0, 1, 2, 3, 4, 5)
    loaded = lab.root("t") / "delta_0000002_0000002_0000"
    assert [f.name for f in sorted(loaded.iterdir())] == ["000000_0", "000001_0"]
    assert (loaded / "000001_0").read_bytes() == (tmp_path / "in/part-1.orc").read_bytes()
    assert identities(lab) == {
        0: (1, B0, 0), 1: (2, B0, 0), 2: (2, B0, 1), 3: (2, B0, 2), 4: (2, B1, 0), 5: (2, B1, 1)
    }  # fmt: skip
    lab.delete("t", "id IN (2, 4)")
    lab.update("t", {"name": "'new'"}, "id = 3")
    upsert = (matched_update({"name": "s.name"}), INSERT_ALL)
    lab.merge("t", [(5, "merged"), (6, "n6")], list(COLUMNS), ["id"], upsert)
    expected = [(0, "n0"), (1, "n1"), (3, "new"), (5, "merged"), (6, "n6")]
    assert lab.rows("t") == expected
    # Raw files have no identity of their own, so a minor compaction is a major one.
    lab.compact("t", CompactionChoice.MINOR)
    lab.clean("t")
    assert [d for d in lab.directories("t") if not d.startswith(".")] == ["base_0000005"]
    assert lab.rows("t") == expected
    assert identities(lab)[1] == (2, B0, 0)


def test_a_load_with_overwrite_replaces_the_rows_of_the_table(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", COLUMNS)
    lab4.insert("t", rows(0), list(COLUMNS))
    place = files(tmp_path / "in", (1,), (2, 3), (4,), (5,), (6,))  # more than the driver copies
    lab4.load("t", place, overwrite=True)
    assert lab4.rows("t") == rows(1, 2, 3, 4, 5, 6)
    assert identities(lab4)[3] == (2, B1, 1)
    lab4.delete("t", "id = 3")
    lab4.load("t", f"{place}/part-4.orc")
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    assert lab4.rows("t") == rows(1, 2, 4, 5, 6, 6)


def test_files_can_be_loaded_into_one_partition(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", COLUMNS, partition={"p": "int", "q": "string"})
    place = files(tmp_path / "in", (1, 2))
    result = lab4.load("t", place, partition={"P": "01", "q": "b/ c"})
    assert result.partitions == ("p=1/q=b%2F c",)
    lab4.load("t", place, partition={"p": "2", "q": None}, overwrite=True)
    lab4.load("t", f"{place}/part-0.orc", partition={"p": "1", "q": "b/ c"}, overwrite=True)
    lab4.delete("t", "id = 1 AND p = 1")
    assert lab4.rows("t") == [(1, "n1", 2, None), (2, "n2", 1, "b/ c"), (2, "n2", 2, None)]
    with pytest.raises(errors.ConfigurationError, match="give a value for every partition column"):
        lab4.load("t", place, partition={"p": "1"})
    with pytest.raises(errors.UnknownColumnError):
        lab4.load("t", place, partition={"p": "1", "q": "a", "r": "b"})
    elsewhere, partition = (
        files(tmp_path / "elsewhere", (3,)),
        PartitionName(("p", "q"), ("3", "c")),
    )
    lab4.client.add_partitions(lab4.info("t"), [partition], locations={partition: elsewhere})
    with pytest.raises(errors.SourceUnreadableError, match="its rows are already in that table"):
        lab4.load("t", elsewhere, partition={"p": "3", "q": "c"})


def test_a_directory_of_files_can_be_loaded_into_an_insert_only_table(
    lab4: Lab, tmp_path: Path
) -> None:
    for name, format_ in (("o", FileFormat.ORC), ("t", FileFormat.PARQUET)):
        lab4.table(name, COLUMNS, kind=TransactionalKind.INSERT_ONLY, format_=format_)
    frame = lab4.spark.createDataFrame(rows(1, 2, 3), "id int, name string").coalesce(1)
    frame.write.parquet(f"{tmp_path}/parquet")
    lab4.load("t", f"file:{tmp_path}/parquet")
    lab4.load("o", files(tmp_path / "orc", (1, 2), (3,)))
    for name in ("o", "t"):
        assert lab4.rows(name) == rows(1, 2, 3)
        lab4.insert(name, rows(4), list(COLUMNS))
        lab4.compact(name, CompactionChoice.MAJOR)
        assert lab4.rows(name) == rows(1, 2, 3, 4)


def test_a_later_statement_of_a_transaction_can_change_loaded_rows(
    lab4: Lab, tmp_path: Path
) -> None:
    lab4.table("t", COLUMNS)
    place, name = files(tmp_path / "in", (1, 2), (3,)), f"{lab4.db}.t"
    lab4.run(
        TransactionSpec(
            statements=(
                LoadSpec(target=name, location=place),
                DeleteSpec(target=name, where="id = 1"),
                UpdateSpec(target=name, set={"name": "'new'"}, where="id = 3"),
            )
        )
    )
    assert lab4.rows("t") == [(2, "n2"), (3, "new")]
    assert identities(lab4)[2] == (1, B0, 1)


def test_a_load_is_applied_once_and_leaves_no_files_if_it_fails(lab4: Lab, tmp_path: Path) -> None:
    lab4.table("t", COLUMNS)
    place = files(tmp_path / "in", (1, 2))
    spec = LoadSpec(target=f"{lab4.db}.t", location=place)
    with pytest.raises(StopError):
        lab4.run(spec, job_key="load", on_step=stop_at("published"))
    assert lab4.rows("t") == []
    assert lab4.directories("t") == []
    assert lab4.run(spec, job_key="load").status is JobStatus.COMMITTED
    assert lab4.run(spec, job_key="load").status is JobStatus.ALREADY_DONE
    assert lab4.rows("t") == rows(1, 2)
    assert (tmp_path / "in/part-0.orc").exists()


def test_an_unsupported_load_is_refused_before_a_write_id_is_allocated(
    lab4: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab4.table("t", COLUMNS)
    lab4.table("buckets", COLUMNS, buckets=("id", 2))
    place = files(tmp_path / "in", (1,), (2,))
    with pytest.raises(errors.ConfigurationError, match="CLUSTERED BY"):
        lab4.load("buckets", place)
    with pytest.raises(errors.SourceNotFoundError):
        lab4.load("t", f"{place}/nothing")
    write_acid(tmp_path / "acid/bucket_00000", [insert(1, 0, 1)])
    with pytest.raises(errors.SourceUnreadableError, match="full-ACID table's file"):
        lab4.load("t", f"file:{tmp_path}/acid")
    row = pa.struct([("id", pa.int64()), ("name", pa.string())])
    write_plain(tmp_path / "wide/f", [{"id": 1, "name": "a"}], row=row)
    with pytest.raises(errors.SourceUnreadableError, match="id is not stored as int"):
        lab4.load("t", f"file:{tmp_path}/wide")
    monkeypatch.setattr(load_module, "MAX_BUCKET_ID", 0)
    with pytest.raises(errors.SourceUnreadableError, match="2 files, but a table's directory may"):
        lab4.load("t", place)
    assert list(lab4.root("t").iterdir()) == []
    assert lab4.snapshot("t").write_ids(lab4.info("t").ref).high_watermark == 0
