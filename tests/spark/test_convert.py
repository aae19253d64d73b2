"""Conversion between flat and transactional tables: the same rows, or the same table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format.errors import ConversionRefusedError, LockNotAcquiredError
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.job import JobResult, JobStatus
from airflow_hiveacid.jobs.maintenance import CompactionChoice, ConversionTarget, ConvertSpec
from airflow_hiveacid.maintenance.conversion_survey import WayBack
from airflow_hiveacid.reading.snapshots import read_snapshot
from airflow_hiveacid.spark.maintenance import convert as convert_module
from airflow_hiveacid.spark.writing.spreading import row_digest
from tests.support.spark_lab import Lab, Row
from tests.support.steps import StopError, stop_at
from tests.unit.storage.orc_tables import write_last_second_before_1970, write_plain

COLUMNS = {"id": "int", "name": "string"}
FULL, ONLY, FLAT = ConversionTarget
NONE, ACID, INSERT_ONLY = TransactionalKind


def rows(*ids: int) -> list[Row]:
    return [(i, f"n{i}") for i in ids]


def flat_table(lab: Lab, name: str = "t", **options: object) -> Path:
    """A table without transactions, and its location."""
    lab.table(name, COLUMNS, kind=NONE, **options)  # type: ignore[arg-type]
    root = lab.root(name)
    root.mkdir(parents=True, exist_ok=True)
    return root


def filled(root: Path, **ids_of: tuple[int, ...]) -> None:
    for name, ids in ids_of.items():
        path = root / name.removeprefix("f").replace("__", "/")
        write_plain(path, [{"id": i, "name": f"n{i}"} for i in ids])


def convert(lab: Lab, to: ConversionTarget, name: str = "t", **options: object) -> JobResult:
    plan_only = bool(options.pop("plan_only", False))
    spec = ConvertSpec(target=f"{lab.db}.{name}", to=to, plan_only=plan_only)
    return lab.run(spec, **options)  # type: ignore[arg-type]


def visible(root: Path) -> list[str]:
    return sorted(
        str(p.relative_to(root))
        for p in root.rglob("*")
        if p.is_file() and not any(part[0] in "._" for part in p.relative_to(root).parts)
    )


@pytest.mark.promise("D7")
@pytest.mark.promise("D8")
@pytest.mark.long_cases("3.1.3")
def test_a_flat_table_becomes_full_acid_without_moving_its_files(lab: Lab) -> None:
    root = flat_table(lab)
    filled(root, f000000_0=(1, 2), f000000_0_copy_1=(3,), f000001_0=(4, 5))
    assert convert(lab, FULL, plan_only=True).status is JobStatus.PLANNED
    assert lab.info("t").kind is NONE
    result = convert(lab, FULL)
    assert (result.status, result.details["conversion"]["rows"]) == (JobStatus.COMMITTED, 5)
    assert convert(lab, FULL).status is JobStatus.NOTHING_TO_DO
    assert lab.info("t").kind is ACID
    assert visible(root) == ["000000_0", "000000_0_copy_1", "000001_0"]
    assert lab.rows("t") == rows(1, 2, 3, 4, 5)
    lab.delete("t", "id IN (3, 4)")
    lab.insert("t", rows(6), list(COLUMNS))
    lab.update("t", {"name": "'new'"}, "id = 5")
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    assert lab.rows("t") == [(1, "n1"), (2, "n2"), (5, "new"), (6, "n6")]
    assert all(name.startswith("base_") for name in visible(root))


@pytest.mark.long_cases("3.1.3")
def test_a_flat_table_can_be_converted_to_insert_only_and_back(lab: Lab) -> None:
    root = flat_table(lab)
    filled(root, part_0=(1, 2), part_1=(3,))
    (root / "_SUCCESS").touch()
    result = convert(lab, ONLY)
    assert (result.status, result.files) == (JobStatus.COMMITTED, 2)
    assert lab.info("t").kind is INSERT_ONLY
    assert lab.rows("t") == rows(1, 2, 3)
    assert {name.rpartition("/")[2] for name in visible(root)} == {"part_0", "part_1"}
    lab.insert("t", rows(4), list(COLUMNS))
    lab.insert("t", rows(5), list(COLUMNS))
    lab.compact("t", CompactionChoice.MAJOR)
    with pytest.raises(ConversionRefusedError, match="compact and clean the table first"):
        convert(lab, FLAT)
    lab.clean("t")
    lab.insert("t", rows(6), list(COLUMNS))
    result = convert(lab, FLAT)
    assert (result.status, result.details["conversion"]["rows"]) == (JobStatus.COMMITTED, 6)
    assert lab.info("t").kind is NONE
    assert visible(root) == ["000000_0", "000001_0"]
    read = lab.spark.read.orc(f"file:{root}")
    assert sorted(map(tuple, read.collect())) == rows(1, 2, 3, 4, 5, 6)
    convert(lab, ONLY)
    assert lab.rows("t") == rows(1, 2, 3, 4, 5, 6)


def test_partitions_are_converted_with_their_table(lab4: Lab) -> None:
    for name, to in (("t", FULL), ("u", ONLY)):
        flat_table(lab4, name, partition={"p": "int"})
        table = lab4.info(name)
        for value in ("1", "2"):
            lab4.client.add_partitions(table, [table.partition_name([value])])
            filled(lab4.root(name) / f"p={value}", f000000_0=(int(value), 9))
        convert(lab4, to, name)
        expected = [(1, "n1", 1), (2, "n2", 2), (9, "n9", 1), (9, "n9", 2)]
        assert lab4.rows(name) == expected
        lab4.insert(name, [(3, "n3", 2), (4, "n4", 3)], ["id", "name", "p"])
        assert lab4.rows(name) == sorted([*expected, (3, "n3", 2), (4, "n4", 3)])
    convert(lab4, FLAT, "u")
    assert visible(lab4.root("u")) == [
        "p=1/000000_0", "p=2/000000_0", "p=2/000001_0", "p=3/000000_0"
    ]  # fmt: skip


def test_a_refused_conversion_leaves_the_table_and_its_files_unchanged(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = flat_table(lab4)
    filled(root, part_0=(1, 2))
    with pytest.raises(ConversionRefusedError, match="not have a name in Hive's form"):
        convert(lab4, FULL, plan_only=True)
    with pytest.raises(ConversionRefusedError, match="not have a name in Hive's form"):
        convert(lab4, FULL)
    flat_table(lab4, "text", format_=FileFormat.PARQUET)
    with pytest.raises(ConversionRefusedError, match="ORC only"):
        convert(lab4, FULL, "text")
    # Rows that would be others: nothing of it stays.
    digests = iter(range(9))
    monkeypatch.setattr(
        convert_module,
        "row_digest",
        lambda _rows: convert_module.RowDigest(rows=2, hashes=next(digests)),
    )
    (root / "part_0").rename(root / "000000_0")
    for to in (FULL, ONLY):
        with pytest.raises(ConversionRefusedError, match="values would differ"):
            convert(lab4, to)
    assert lab4.info("t").kind is NONE
    assert visible(root) == ["000000_0"]
    assert [p.name for p in root.iterdir() if p.name.startswith("delta")] == []


@pytest.mark.parametrize("to", [FULL, ONLY])
def test_a_table_with_a_value_that_no_compaction_could_write_is_not_converted(
    lab4: Lab, to: ConversionTarget
) -> None:
    lab4.table("t", {"t": "timestamp"}, kind=NONE)
    write_last_second_before_1970(lab4.root("t") / "000000_0")
    with pytest.raises(ConversionRefusedError, match=r"compacted afterwards.*1969-12-31 23:59:59"):
        convert(lab4, to)
    assert lab4.info("t").kind is NONE
    assert visible(lab4.root("t")) == ["000000_0"]


def test_a_conversion_waits_for_readers(lab4: Lab) -> None:
    lab4.table("t", COLUMNS, kind=INSERT_ONLY)
    lab4.insert("t", rows(1), list(COLUMNS))
    with (
        read_snapshot(lab4.endpoint, [f"{lab4.db}.t"], job_key="reader"),
        pytest.raises(LockNotAcquiredError),
    ):
        convert(lab4, FLAT, lock_timeout_s=1.0)
    assert lab4.rows("t") == rows(1)


@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified"])
def test_a_failed_conversion_leaves_the_table_unchanged(lab4: Lab, step: str) -> None:
    root = flat_table(lab4)
    filled(root, part_0=(1, 2))
    with pytest.raises(StopError):
        convert(lab4, ONLY, on_step=stop_at(step))
    assert (lab4.info("t").kind, visible(root)) == (NONE, ["part_0"])
    convert(lab4, ONLY)
    before = visible(root)
    with pytest.raises(StopError):
        convert(lab4, FLAT, on_step=stop_at(step))
    assert (lab4.info("t").kind, visible(root)) == (INSERT_ONLY, before)
    assert lab4.rows("t") == rows(1, 2)


@pytest.mark.parametrize("step", ["noted", "moved", "switched", "verified"])
def test_the_next_conversion_undoes_or_completes_a_killed_one(
    lab4: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    root = flat_table(lab4)
    filled(root, part_0=(1, 2))
    with monkeypatch.context() as dead:
        dead.setattr(WayBack, "undo", lambda *_: None)
        with pytest.raises(StopError):
            convert(lab4, ONLY, on_step=stop_at(step))
    assert (root / "_hiveacid/_conversion.json").exists()
    convert(lab4, ONLY)
    assert lab4.rows("t") == rows(1, 2)
    assert not (root / "_hiveacid/_conversion.json").exists()
    with monkeypatch.context() as dead:
        dead.setattr(WayBack, "undo", lambda *_: None)
        with pytest.raises(StopError):
            convert(lab4, FLAT, on_step=stop_at(step))
    convert(lab4, FLAT)
    assert lab4.info("t").kind is NONE
    assert visible(root) == ["000000_0"]


@pytest.mark.long_cases("3.1.3")
def test_a_full_acid_table_can_be_converted_to_flat_and_back_unchanged(lab: Lab) -> None:
    lab.table("t", COLUMNS, partition={"p": "int"}, buckets=("id", 2))
    lab.insert("t", [(1, "n1", 1), (2, "n2", 1), (3, "n3", 2)], [*COLUMNS, "p"])
    lab.delete("t", "id = 2")
    lab.update("t", {"name": "'new'"}, "id = 3")
    expected = [(1, "n1", 1), (3, "new", 2)]
    before, acid = lab.info("t"), visible(lab.root("t"))
    result = convert(lab, FLAT)
    assert (result.status, result.details["conversion"]["rows"]) == (JobStatus.COMMITTED, 2)
    flat = lab.info("t")
    assert (flat.kind, lab.info("t__acid").table_id) == (NONE, before.table_id)
    assert lab.rows("t") == lab.rows("t__acid") == expected
    assert convert(lab, FLAT).status is JobStatus.NOTHING_TO_DO
    assert convert(lab, FULL).status is JobStatus.COMMITTED
    after = lab.info("t")
    assert (after.kind, after.table_id, after.location) == (ACID, before.table_id, before.location)
    assert (visible(lab.root("t")), lab.rows("t")) == (acid, expected)
    assert set(lab.client.list_tables(lab.db)) == {"t"}
    lab.insert("t", [(4, "n4", 2)], [*COLUMNS, "p"])
    convert(lab, FLAT)
    assert lab.rows("t") == [*expected, (4, "n4", 2)]


def test_rows_with_null_in_different_columns_have_different_digests(spark: SparkSession) -> None:
    one = spark.createDataFrame([(1, None)], "a int, b int")
    other = spark.createDataFrame([(None, 1)], "a int, b int")
    assert row_digest(one) != row_digest(other)
