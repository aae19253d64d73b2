"""TRUNCATE: partitions get an empty base, and whoever reads goes on."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import FileFormat, TransactionalKind
from airflow_hiveacid.jobs.job import RowCounts
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from tests.support.spark_lab import Lab

KINDS = {
    "full ACID": {},
    "insert-only": {"kind": TransactionalKind.INSERT_ONLY, "format_": FileFormat.PARQUET},
}


@pytest.mark.promise("W9")
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.long_cases("3.1.3-insert-only", "4.0.1-full ACID")
def test_a_truncated_table_is_empty_and_open_readers_keep_their_rows(lab: Lab, kind: str) -> None:
    lab.table("t", {"id": "bigint", "name": "string"}, **KINDS[kind])
    lab.insert("t", [(i, f"n{i}") for i in range(5)], ["id", "name"])
    reading = lab.frame("t")
    result = lab.truncate("t")
    assert (result.rows, result.files) == (RowCounts(), 1)
    assert lab.rows("t") == []
    # Trino passes over a base without files.
    (base,) = [d for d in lab.directories("t") if d.startswith("base_")]
    assert [f.name for f in (lab.root("t") / base).iterdir() if f.name[0] not in "._"]
    assert reading.count() == 5
    lab.insert("t", [(7, "new")], ["id", "name"])
    assert lab.rows("t") == [(7, "new")]
    lab.truncate("t")
    lab.compact("t", CompactionChoice.MAJOR)
    lab.clean("t")
    assert lab.rows("t") == []


@pytest.mark.promise("W9")
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.long_cases("insert-only")
def test_partitions_are_truncated_by_their_values(lab4: Lab, kind: str) -> None:
    lab4.table(
        "t",
        {"id": "bigint"},
        partition={"p": "int", "q": "string"},
        parameters={ONLY_HIVE_4_READS: "true"},
        **KINDS[kind],
    )
    rows = [(i, p, q) for i, (p, q) in enumerate([(1, "a"), (1, "b/ c"), (2, "a"), (None, "a")])]
    lab4.insert("t", rows, ["id", "p", "q"])
    result = lab4.truncate("t", {"P": "01"})
    assert result.partitions == ("p=1/q=a", "p=1/q=b%2F c")
    assert lab4.rows("t") == [(2, 2, "a"), (3, None, "a")]
    lab4.insert("t", rows[:1], ["id", "p", "q"])
    with pytest.raises(errors.ConfigurationError, match="'p' is NULL"):
        lab4.truncate("t", {"q": "a", "p": None})
    assert lab4.rows("t") == [(0, 1, "a"), (2, 2, "a"), (3, None, "a")]
    lab4.truncate("t", {"p": "2", "q": "a"})
    lab4.truncate("t", {"q": "a"})
    assert lab4.rows("t") == []
    lab4.insert("t", rows, ["id", "p", "q"])
    lab4.truncate("t")
    assert lab4.rows("t") == []


def test_a_truncate_of_a_missing_or_invalid_partition_is_refused(lab4: Lab) -> None:
    lab4.table("t", {"id": "bigint"}, partition={"p": "int"})
    lab4.table("whole", {"id": "bigint"})
    lab4.insert("t", [(1, 1)], ["id", "p"])
    with pytest.raises(errors.PartitionNotFoundError, match="p=2"):
        lab4.truncate("t", {"p": "2"})
    with pytest.raises(errors.UnknownColumnError, match="'id'"):
        lab4.truncate("t", {"id": "1"})
    with pytest.raises(errors.UnknownColumnError):
        lab4.truncate("whole", {"p": "1"})
    with pytest.raises(errors.ConfigurationError, match="does not fit"):
        lab4.truncate("t", {"p": "one"})
    assert lab4.rows("t") == [(1, 1)]
