"""Some pairs of real jobs that meet on real metastores; `make conflicts` lets all of them meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from airflow_hiveacid.format.conflicts import ConflictOutcome, ConflictPolicy, Meeting, WriteKind
from airflow_hiveacid.local.server import LocalMetastore
from tests.proofs.conflicts.cells import Order, expected, meet
from tests.support.spark_lab import Lab, make_lab

STRICT, HIVE = ConflictPolicy.STRICT, ConflictPolicy.HIVE


@pytest.fixture
def lab_pg(spark: SparkSession, hive_metastore_on_postgres: LocalMetastore) -> Iterator[Lab]:
    """On Derby a commit and somebody's question after a lock can lock each other out."""
    yield from make_lab(spark, hive_metastore_on_postgres)


PAIRS = [
    (STRICT, Order.AT_WORK, WriteKind.INSERT, WriteKind.INSERT),
    (STRICT, Order.AT_WORK, WriteKind.CHANGE, WriteKind.MAJOR),
    pytest.param(STRICT, Order.LATE, WriteKind.CHANGE, WriteKind.OVERWRITE, marks=pytest.mark.long),
    pytest.param(HIVE, Order.AT_WORK, WriteKind.INSERT, WriteKind.CHANGE, marks=pytest.mark.long),
]


@pytest.mark.promise("M1")
@pytest.mark.promise("O2")
@pytest.mark.parametrize(("policy", "order", "earlier", "later"), PAIRS)
def test_two_concurrent_jobs_end_as_the_conflict_table_says(
    lab_pg: Lab, policy: ConflictPolicy, order: Order, earlier: WriteKind, later: WriteKind
) -> None:
    lab = lab_pg
    meeting = Meeting(earlier=earlier, later=later)
    seen = meet(lab, "t", policy, order, meeting)
    wanted, _ = expected((lab.client.generation, policy, order, meeting))
    assert (seen.outcome, seen.trouble) == (wanted, ""), seen.told


@pytest.mark.promise("O3")
@pytest.mark.promise("M1")
def test_the_later_of_two_changes_fails_under_the_strict_policy_on_3x(lab3: Lab) -> None:
    meeting = Meeting(earlier=WriteKind.CHANGE, later=WriteKind.CHANGE)
    seen = meet(lab3, "t", STRICT, Order.LATE, meeting)
    assert (seen.outcome, seen.trouble) == (ConflictOutcome.FAILS, ""), seen.told


def test_inserts_and_a_minor_compaction_do_not_conflict_under_the_strict_policy(
    lab_pg: Lab,
) -> None:
    for earlier, later in (
        (WriteKind.INSERT, WriteKind.MINOR),
        (WriteKind.MINOR, WriteKind.INSERT),
    ):
        meeting = Meeting(earlier=earlier, later=later)
        seen = meet(lab_pg, earlier.value, STRICT, Order.AT_WORK, meeting)
        wanted, _ = expected((lab_pg.client.generation, STRICT, Order.AT_WORK, meeting))
        assert (seen.outcome, seen.trouble) == (wanted, ""), seen.told
