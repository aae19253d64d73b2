"""Insert-only tables: what is written is read, by Spark's readers where they are right."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.acid_state import resolve
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import (
    Column,
    FileFormat,
    PartitionInfo,
    PartitionName,
    Storage,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.jobs.specs import (
    CompactionChoice,
    InsertSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
)
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.spark.reading.plain_rows import PlainRows
from airflow_hiveacid.spark.reading.tables import read_snapshot, read_table
from airflow_hiveacid.storage.stores.listing import list_table
from judges.golden_plain import PlainCase, plain_cases
from spark_lab import native_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_lab import Lab

INSERT_ONLY: Final = TransactionalKind.INSERT_ONLY
FORMATS: Final = [FileFormat.ORC, FileFormat.PARQUET]
BY_NAME: Final = {"orc": FileFormat.ORC, "parquet": FileFormat.PARQUET}
AB: Final = {"a": "int", "b": "string"}


def files_of(root: Path) -> list[str]:
    return sorted(
        str(file.relative_to(root))
        for file in root.rglob("*")
        if file.is_file() and not str(file.relative_to(root)).startswith("_hiveacid/")
    )


@pytest.mark.parametrize("format_", FORMATS)
def test_rows_are_added_and_replaced(lab: Lab, format_: FileFormat) -> None:
    lab.table("t", AB, kind=INSERT_ONLY, format_=format_)
    done = lab.insert("t", [(1, "a"), (2, None)], ["a", "b"])
    assert (done.rows.inserted, done.rows.deleted) == (2, 0)
    lab.insert("t", [(3, "c")], ["a", "b"])
    assert lab.rows("t") == [(1, "a"), (2, None), (3, "c")]
    lab.overwrite("t", [(7, "g")], ["a", "b"])
    lab.insert("t", [(8, "h")], ["a", "b"])
    assert lab.rows("t") == [(7, "g"), (8, "h")]
    files = files_of(lab.root("t"))
    assert {file.partition("/")[0] for file in files} == {
        "base_0000003",
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0000",
        "delta_0000004_0000004_0000",
    }
    # No bucket files, and no mark of full-ACID ones.
    assert all(re.fullmatch(r"[^/]+/00000\d_0", file) for file in files)
    live = [f for f in files if f.startswith(("base_0000003", "delta_0000004"))]
    assert len(native_files(lab.frame("t"))) == len(live)
    lab.overwrite("t", [], ["a", "b"])
    assert lab.rows("t") == []
    assert "base_0000005/000000_0" in files_of(lab.root("t"))


@pytest.mark.parametrize("format_", FORMATS)
def test_partitions_are_static_and_dynamic(lab4: Lab, format_: FileFormat) -> None:
    lab4.table("t", AB, partition={"p": "string"}, kind=INSERT_ONLY, format_=format_)
    lab4.insert("t", [(1, "a", "x"), (2, "b", "y/ 1"), (3, "c", None)], ["a", "b", "p"])
    lab4.overwrite("t", [(4, "d")], ["a", "b"], partition={"p": "x"})
    lab4.overwrite("t", [(5, "e", "y/ 1"), (6, "f", "z")], ["a", "b", "p"])
    assert lab4.rows("t") == [(3, "c", None), (4, "d", "x"), (5, "e", "y/ 1"), (6, "f", "z")]
    lab4.overwrite("t", [], ["a", "b"], partition={"p": "x"})
    assert [row[0] for row in lab4.rows("t")] == [3, 5, 6]
    with read_snapshot(lab4.endpoint, [f"{lab4.db}.t"], job_key="r") as snapshot:
        found = read_table(lab4.spark, f"{lab4.db}.t", snapshot, columns=["b"], where="p = 'z'")
        assert [tuple(row) for row in found.collect()] == [("f",)]
        (only,) = native_files(found)
        assert "/p=z/" in only


@pytest.mark.parametrize("format_", FORMATS)
def test_a_condition_reaches_the_files(lab4: Lab, format_: FileFormat) -> None:
    lab4.table("t", AB, kind=INSERT_ONLY, format_=format_)
    for at in range(3):
        lab4.insert("t", [(at * 10 + i, f"{at}{i}") for i in range(3)], ["a", "b"])
    with read_snapshot(lab4.endpoint, [f"{lab4.db}.t"], job_key="r") as snapshot:
        found = read_table(lab4.spark, f"{lab4.db}.t", snapshot, where="a >= 11 and b <> '12'")
        assert sorted(row.a for row in found.collect()) == [11, 20, 21, 22]
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert "GreaterThanOrEqual(a,11)" in plan
        count = read_table(lab4.spark, f"{lab4.db}.t", snapshot, where="a < 0").count()
        assert count == 0


@pytest.mark.parametrize("format_", FORMATS)
def test_every_type_comes_back_as_it_was_written(lab4: Lab, format_: FileFormat) -> None:
    columns = {
        "bo": "boolean",
        "ti": "tinyint",
        "bi": "bigint",
        "do": "double",
        "de": "decimal(38,18)",
        "dm": "decimal(7,2)",
        "st": "string",
        "vc": "varchar(10)",
        "ch": "char(6)",
        "bn": "binary",
        "da": "date",
        "ts": "timestamp",
        "ar": "array<int>",
        "ma": "map<string,int>",
        "sr": "struct<x:int,y:date>",
    }
    lab4.table("t", columns, kind=INSERT_ONLY, format_=format_)
    when = dt.datetime(1969, 7, 20, 20, 17, 40, 500_000)  # noqa: DTZ001 - a wall clock's
    row: tuple[Any, ...] = (
        *(True, -128, 1 << 62, -0.5, Decimal("1.000000000000000001"), Decimal("-12345.60")),
        *("Grüße", "vary", "pad", bytearray(b"\x00\xff"), dt.date(9999, 12, 31), when),
        *([1, None], {"k": None}, (1, dt.date(1600, 1, 1))),
    )
    empty = (None,) * len(row)
    source = lab4.spark.createDataFrame([row, empty], lab4.frame("t").schema)
    place = str(lab4.root("t").parent / "source")
    source.write.parquet(place)
    lab4.run(InsertSpec(target=f"{lab4.db}.t", source=SourceSpec(format="parquet", location=place)))
    frame = lab4.frame("t")
    found = sorted((tuple(r) for r in frame.collect()), key=lambda r: r[0] is None)
    assert found[0][:-1] == row[:-1]
    assert tuple(found[0][-1]) == row[-1]
    assert found[1] == empty
    assert len(native_files(frame)) >= 1


def test_rows_cannot_change_and_the_reason_is_said(lab4: Lab) -> None:
    lab4.table("t", AB, kind=INSERT_ONLY, format_=FileFormat.PARQUET)
    lab4.insert("t", [(1, "a")], ["a", "b"])
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so UPDATE"):
        lab4.update("t", {"b": "'x'"})
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so DELETE"):
        lab4.delete("t")
    clause = MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT)
    with pytest.raises(errors.InsertOnlyTableError, match="is insert-only, so MERGE"):
        lab4.merge("t", [(1, "x")], ["a", "b"], ["a"], [clause])
    lab4.table("x", AB, kind=INSERT_ONLY, format_=FileFormat.TEXT)
    with pytest.raises(errors.UnsupportedTableError, match="stored as text"):
        lab4.insert("x", [(1, "x")], ["a", "b"])
    # As a source it is like any other table.
    lab4.table("full", AB)
    lab4.insert("full", [(1, "old")], ["a", "b"])
    matched = MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE)
    lab4.run(
        MergeSpec(
            target=f"{lab4.db}.full",
            source=SourceSpec(table=f"{lab4.db}.t"),
            keys=("a",),
            clauses=(matched,),
        )
    )
    assert lab4.rows("full") == [(1, "a")]


def test_text_is_read(lab4: Lab) -> None:
    table = lab4.table("t", AB, kind=INSERT_ONLY, format_=FileFormat.TEXT)
    txn_id = lab4.client.open_txn()
    write_id = lab4.client.allocate_write_id(txn_id, table.ref)
    delta = lab4.root("t") / f"delta_{write_id:07d}_{write_id:07d}_0000"
    delta.mkdir()
    (delta / "000000_0").write_text("1\x01a\n2\x01\\N\n")
    assert lab4.rows("t") == []
    lab4.client.commit_txn(txn_id)
    assert lab4.rows("t") == [(1, "a"), (2, None)]
    assert lab4.frame("t").where("b = 'a'").count() == 1


def test_a_failed_insert_leaves_nothing(lab4: Lab) -> None:
    lab4.table("t", AB, kind=INSERT_ONLY)
    lab4.insert("t", [(1, "a")], ["a", "b"])

    def fail(step: str) -> None:
        if step == "published":
            raise RuntimeError(step)

    with pytest.raises(RuntimeError):
        lab4.insert("t", [(2, "b")], ["a", "b"], on_step=fail)
    assert lab4.rows("t") == [(1, "a")]
    assert lab4.directories("t") == ["delta_0000001_0000001_0000"]


@pytest.mark.promise("C14")
@pytest.mark.parametrize("format_", FORMATS)
def test_compactions_put_files_together(lab: Lab, format_: FileFormat) -> None:
    lab.table("t", AB, kind=INSERT_ONLY, format_=format_, parameters={ONLY_HIVE_4_READS: "true"})
    for i in range(3):
        lab.insert("t", [(i, str(i))], ["a", "b"])
    rows = lab.rows("t")
    done = lab.compact("t", CompactionChoice.MINOR)
    (one,) = done.details["compactions"]
    is_3 = lab.client.generation.name == "V3"
    (output,) = one["outputs"]
    assert output.startswith("base_0000003" if is_3 else "delta_0000001_0000003_v")
    assert (one["rows"], one["files"]) == (3, 1)
    assert lab.rows("t") == rows
    lab.insert("t", [(9, "9")], ["a", "b"])
    lab.compact("t", CompactionChoice.MAJOR)
    assert lab.rows("t") == [*rows, (9, "9")]
    lab.clean("t")
    assert lab.rows("t") == [*rows, (9, "9")]
    assert "base_0000004" in lab.directories("t")


# ---- what Hive wrote -----------------------------------------------------------------------------

GOLDEN: Final = [c for c in plain_cases() if not c.name.startswith(("stray", "renamed_orc"))]


def rows_of(spark: SparkSession, case: PlainCase) -> PlainRows:
    partition = (Column(name="p", type="string"),) if case.partitions else ()
    table = TableInfo(
        ref=TableRef("g", case.name),
        location=str(case.folder / "table"),
        columns=tuple(Column(name=name, type=kind) for name, kind in case.columns),
        partition_columns=partition,
        kind=INSERT_ONLY,
    )
    names = [PartitionName(tuple(c.name for c in partition), v) for v, _ in case.places()]
    places = [str(place) for _, place in case.places()]
    storage = Storage(format=BY_NAME[case.format])
    return PlainRows(
        spark=spark,
        table=table,
        partitions=[
            PartitionInfo(name=n, location=p, storage=storage)
            for n, p in zip(names, places, strict=True)
        ],
        states=[
            resolve(
                list_table(place),
                ValidWriteIdList.parse(case.write_ids),
                ValidTxnList.parse(case.txns),
                INSERT_ONLY,
            )
            for place in places
        ],
        ranges={},
    )


@pytest.mark.parametrize("format_", BY_NAME)
@pytest.mark.parametrize("version", ["4.0.1", "3.1.3"])
def test_sparks_readers_and_ours_agree_on_what_hive_wrote(
    spark: SparkSession, version: str, format_: str
) -> None:
    native = set()
    for case in GOLDEN:
        if (case.version, case.format) != (version, format_):
            continue
        rows = rows_of(spark, case)
        names = [name for name, _ in case.columns]
        whole = rows.rows(names, "place")
        ours = rows.with_arrow(names, "place")
        assert whole.schema.names == ours.schema.names
        assert told(whole.collect()) == told(ours.collect()), case.name
        assert len(whole.collect()) == len(case.rows), case.name
        if native_files(whole):
            native.add(case.name.partition("_")[0])
    assert {"life", "major", "overwrite", "part", "types", "buckets"} <= native


def told(rows: list[Any]) -> list[str]:
    """Rows as text, in which NaN equals itself."""
    return sorted(json.dumps(repr(row)) for row in rows)
