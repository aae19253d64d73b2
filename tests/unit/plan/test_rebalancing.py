"""Which partitions a rebalance rewrites, and over how many files it spreads their rows."""

from __future__ import annotations

import pytest

from airflow_hiveacid.format.acid_state import AcidState
from airflow_hiveacid.format.errors import ConfigurationError, UnsupportedTableError
from airflow_hiveacid.format.table import Column, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.plan.rebalancing import DataFile, RebalancedPartition, check_rebalanceable
from tests.unit.plan.states import state_of

MIB = 1 << 20
EVEN = "its rows are spread evenly"


BASE = state_of(["base_0000003"])


def decided(
    *rows: int, at: AcidState = BASE, size_bytes: int = 1, buckets: int | None = None
) -> tuple[bool, int, str]:
    files = [DataFile(size_bytes=size_bytes, rows=count) for count in rows]
    found = RebalancedPartition.of(at, files, buckets=buckets)
    return found.is_due, found.new_files, found.why


@pytest.mark.parametrize(
    ("size_bytes", "files"),
    [(1, 1), (256 * MIB, 1), (256 * MIB + 1, 2), (1000 * MIB, 4), (1 << 50, 4096)],
)
def test_there_is_one_file_for_each_256_mib_unless_a_number_is_given(
    size_bytes: int, files: int
) -> None:
    assert decided(10**6, size_bytes=size_bytes)[1] == files
    assert decided(10**6, size_bytes=size_bytes, buckets=7)[1] == 7


def test_no_file_is_empty() -> None:
    assert decided(3, buckets=7) == (True, 3, "the number of files is 1 instead of 3")
    assert decided(buckets=7) == (False, 0, "it has no rows")
    assert decided(0, 0) == (False, 0, "it has no rows")
    assert decided(5, 0, 5, buckets=2) == (False, 2, EVEN)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ((100, 100, 100), EVEN),
        ((90, 110, 100), EVEN),
        ((89, 111, 100), "its files have from 89 to 111 rows"),
        ((3, 2, 2), EVEN),  # a new write could not be more even
        ((4, 2, 2), "its files have from 2 to 4 rows"),
        ((150, 150), "the number of files is 2 instead of 3"),
        ((75, 75, 75, 75), "the number of files is 4 instead of 3"),
    ],
)
def test_a_partition_with_evenly_spread_rows_stays_as_it_is(
    rows: tuple[int, ...], why: str
) -> None:
    assert decided(*rows, buckets=3) == (why != EVEN, 3, why)


def test_a_partition_without_a_base_or_with_deltas_is_rewritten() -> None:
    assert decided(9, at=state_of(["delta_0000003_0000003_0000"])) == (True, 1, "it has no base")
    both = state_of(["base_0000003", "delta_4_4_0", "delete_delta_5_5_0"])
    assert decided(9, at=both) == (True, 1, "the number of deltas is 2")


def test_a_requested_order_rewrites_every_partition_with_rows() -> None:
    def due(*rows: int) -> bool:
        files = [DataFile(size_bytes=1, rows=count) for count in rows]
        return RebalancedPartition.of(BASE, files, buckets=None, order_by=("a", "b")).is_due

    assert due(9)
    assert not due(0)


def test_a_table_with_bucket_columns_is_refused() -> None:
    bucketed = TableInfo(
        ref=TableRef("db", "t"),
        location="/t",
        columns=(Column(name="id", type="bigint"),),
        kind=TransactionalKind.FULL_ACID,
        num_buckets=4,
        bucket_columns=("id",),
    )
    with pytest.raises(UnsupportedTableError, match="CLUSTERED BY id, so a hash"):
        check_rebalanceable(bucketed, ())


def test_columns_without_an_order_are_refused() -> None:
    nested = TableInfo(
        ref=TableRef("db", "t"),
        location="/t",
        columns=(Column(name="id", type="bigint"), Column(name="m", type="map<string,int>")),
        kind=TransactionalKind.FULL_ACID,
    )
    check_rebalanceable(nested, ("id",))
    with pytest.raises(ConfigurationError, match=r"type map<string,int> have no order"):
        check_rebalanceable(nested, ("id", "m"))
