"""What this engine leaves to Spark, or refuses as Spark's engine does, instead of guessing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_hiveacid.arrow import Limits
from airflow_hiveacid.format.errors import (
    MergeCardinalityError,
    SparkNeededError,
    TwinRowIdsError,
    UnsupportedFileError,
)
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    MergeSpec,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from tests.unit.arrow.lake import INSERT_ALL, ROW, UPDATE_ALL, Lake, Make, values
from tests.unit.storage.orc_tables import B0, B1, event, tombstone, with_tail, write_acid


def row(number: int) -> dict[str, object]:
    return {"id": number, "name": "a", "price": None}


def written(lake: Lake, directory: str, *events: object) -> Path:
    path = lake.root / directory / "bucket_00000"
    path.parent.mkdir()
    return write_acid(path, list(events), row=ROW)  # type: ignore[arg-type]


def test_a_row_in_a_file_of_another_bucket_is_not_changed_but_the_rows_beside_it_are(
    lake: Lake,
) -> None:
    lake.insert((9, "own", None))
    written(lake, "base_0000001", event(1, 0, row(1), bucket=B0), event(1, 0, row(2), bucket=B1))
    for change in (
        lambda: lake.delete("id = 2"),
        lambda: lake.run(UpdateSpec(target="default.s", set={"name": "'b'"}, where="id >= 1")),
        lambda: lake.merge((2, "b", None), clauses=[UPDATE_ALL]),
    ):
        with pytest.raises(UnsupportedFileError, match="rows of bucket 1, but is named as a file"):
            change()
    assert lake.merge((2, "b", None), clauses=[INSERT_ALL]).rows.inserted == 0
    assert lake.delete("id = 1").rows.deleted == 1
    assert lake.rows == [(2, "a", None)]


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ((B0, B1), "rows of bucket 1, but is named as a file of"),
        ((0, 1, B0), "rows of bucket 1, but is named as a file of"),
        ((-5, B0), r"bucket_00000 .* '-5' is not a valid bucket property\. Give the rows new"),
    ],
)
@pytest.mark.parametrize("are_counted", [True, False])
def test_a_row_of_another_bucket_is_found_also_if_statistics_do_not_show_it(
    lake: Lake, properties: tuple[int, ...], why: str, are_counted: bool
) -> None:
    lake.insert((9, "own", None))
    rows = [event(1, n, row(n), bucket=bucket) for n, bucket in enumerate(properties)]
    path = written(lake, "base_0000001", *rows)
    if not are_counted:
        with_tail(path, lambda footer, _: setattr(footer, "row_index_stride", 0))
    with pytest.raises(UnsupportedFileError, match=why):
        lake.delete("id >= 0")


@pytest.mark.parametrize("statement", ["update", "merge", "delete"])
def test_a_row_change_of_hive_2_is_refused_also_if_statistics_exclude_its_file(
    lake: Lake, statement: str
) -> None:
    lake.insert((9, "own", None))
    lake.insert((8, "own", None))
    shutil.rmtree(lake.root / "delta_0000002_0000002_0000")
    written(lake, "base_0000001", event(1, 0, row(5)))
    # It deletes row 5, and inserts row 100, so its statistics know only 100.
    written(lake, "delta_0000002_0000002", tombstone(1, 0, 2), event(2, 0, row(100)))
    merge = MergeSpec(
        target="default.s",
        source=values(lake.table, (5, "m", None)),
        keys=("id",),
        clauses=(UPDATE_ALL,),
    )
    specs: dict[str, Job] = {
        "update": UpdateSpec(target="default.s", set={"name": "'u'"}, where="id = 5"),
        "delete": DeleteSpec(target="default.s", where="id = 5"),
        "merge": merge,
    }
    with pytest.raises(UnsupportedFileError, match="before Hive 3"):
        lake.run(specs[statement])


def test_a_merge_whose_update_assigns_no_column_needs_spark(make: Make) -> None:
    lake = make(partition_columns=(Column(name="part", type="int"),))
    lake.insert((1, "a", None, 7))
    source = SourceSpec(columns=("part", "nmae"), values=((7, "x"),))
    clauses = (UPDATE_ALL, INSERT_ALL)
    spec = MergeSpec(target="default.s", source=source, keys=("part",), clauses=clauses)
    with pytest.raises(SparkNeededError, match="assigns no column"):
        lake.run(spec)
    assert lake.rows == [(1, "a", None, "7")]


def test_the_new_values_of_an_update_count_before_they_are_made(lake: Lake) -> None:
    lake.insert(*((number, "a", None) for number in range(100)))
    update = UpdateSpec(target="default.s", set={"name": f"'{'x' * 10_000}'"}, where="id >= 0")
    with pytest.raises(SparkNeededError, match="need more than 900000 bytes of memory"):
        lake.run(update, limits=Limits(memory_bytes=900_000))


def test_rows_of_one_row_id_in_two_partitions_are_no_twins(make: Make) -> None:
    partition_columns = (Column(name="part", type="int"),)
    lake = make(partition_columns=partition_columns)
    lake.insert((1, "a", None, 1), (1, "b", None, 2))
    with pytest.raises(MergeCardinalityError):
        lake.merge((1, "x", None, 1), (1, "y", None, 1), keys=("id", "part"), clauses=[UPDATE_ALL])


def test_rows_of_one_row_id_in_one_partition_are_not_changed(lake: Lake) -> None:
    lake.insert((9, "own", None))
    written(lake, "base_0000001", event(1, 0, row(1)), event(1, 0, row(1)))
    with pytest.raises(TwinRowIdsError):
        lake.delete("id = 1")


def test_many_source_rows_of_many_rows_are_counted_before_they_are_made(lake: Lake) -> None:
    lake.insert(*[(1, None, None)] * 50)
    source = [(1, str(number), None) for number in range(50)]
    with pytest.raises(SparkNeededError, match="changes more than 100 rows"):
        lake.merge(*source, clauses=[UPDATE_ALL], limits=Limits(changed_rows=100))


def test_a_truncation_does_not_compare_floating_point_partitions(make: Make) -> None:
    lake = make(partition_columns=(Column(name="part", type="double"),))
    with pytest.raises(SparkNeededError, match="partition column part, of type double"):
        lake.run(TruncateSpec(target="default.s", partition={"part": "0.0"}))


@pytest.mark.parametrize("where", ["price = 1.500", "id\u00a0= 1", "price IN (1.00, 2.000)"])
def test_a_literal_that_spark_may_read_otherwise_needs_spark(lake: Lake, where: str) -> None:
    with pytest.raises(SparkNeededError):
        lake.delete(where)
