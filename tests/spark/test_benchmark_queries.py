"""A sample of what `make tpcds` asks: queries over ACID tables answer as over flat files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from tests.proofs.tpcds.__main__ import generate
from tests.proofs.tpcds.course import Course
from tests.support.spark_lab import Lab

QUERIES = (98,), (36, 53, 98)
TABLES = ("date_dim", "item", "store", "store_sales")


@pytest.mark.promise("R12")
@pytest.mark.parametrize("queries", QUERIES, ids=["one", "three"])
@pytest.mark.long_cases("three")
def test_tpcds_queries_return_the_same_rows_from_acid_tables_as_from_flat_files(
    lab4: Lab, tmp_path: Path, queries: tuple[int, ...]
) -> None:
    generate(tmp_path, 0.01, Path("build/tpcds-generator").absolute())
    course = Course(lab=lab4, folder=tmp_path, names=TABLES)
    course.load()
    assert course.compare("loaded", queries) == []
    before = course.rows(queries)
    course.delete()
    assert course.compare("deleted", queries) == []
    # Both answers are of something, and the rows that were deleted have counted.
    assert 0 < course.rows(queries) < before
    course.compact(CompactionChoice.MAJOR)
    assert course.compare("compacted", queries) == []
