"""Every row of a bucketed table lies in the bucket that its hash says, whatever has written it."""

from __future__ import annotations

import pytest
from pyarrow import orc

from airflow_hiveacid.format.names import BucketFileName, parse_file_name
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.storage.hashing import MURMUR, OLD, bucket_ids
from tests.support.merge_clauses import UPSERT_V
from tests.support.spark_lab import Lab

TYPES = {"name": "string", "id": "bigint", "v": "int"}
BY = ("id", "name")
NAMES = ["id", "name", "v", "p"]


def astray(lab: Lab, buckets: int, version: int) -> list[str]:
    """Files of live directories that hold a row of another bucket."""
    found, seen = [], 0
    for file in sorted(lab.root("t").glob("p=*/*/bucket_*")):
        row = orc.read_table(file)["row"].combine_chunks()
        if file.parent.name.startswith("delete_") or not len(row):
            continue
        name = parse_file_name(file.name)
        assert isinstance(name, BucketFileName)
        hashed = bucket_ids(
            [row.field(n) for n in BY], [parse_type(TYPES[n]) for n in BY], buckets, version
        )
        seen += len(hashed)
        found += [str(file)] if set(hashed.to_pylist()) != {name.bucket_id} else []
    assert seen > 20
    return found


@pytest.mark.promise("D9")
@pytest.mark.parametrize(("version", "buckets"), [(OLD, 5), (MURMUR, 5), (MURMUR, 32)])
@pytest.mark.long_cases("2-32", "1-5")
def test_every_file_contains_only_rows_of_its_own_bucket(
    lab4: Lab, version: int, buckets: int
) -> None:
    lab4.table(
        "t",
        TYPES,
        partition={"p": "int"},
        buckets=(",".join(BY), buckets),
        bucketing_version=version,
    )
    lab4.insert("t", [(i, f"n{i}", 0, i % 2) for i in range(40)], NAMES)
    lab4.update("t", {"v": "v + 1"}, "id % 3 = 0")
    lab4.merge("t", [(i, f"n{i}", 7, i % 2) for i in range(30, 50)], NAMES, list(BY), UPSERT_V)
    assert astray(lab4, buckets, version) == []
    lab4.compact("t", CompactionChoice.MAJOR)
    lab4.clean("t")
    lab4.overwrite("t", [(i, "x", 0, 1) for i in range(20)], NAMES)
    assert astray(lab4, buckets, version) == []
