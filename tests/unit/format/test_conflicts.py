from __future__ import annotations

import pytest

from airflow_hiveacid.format.conflicts import (
    DataOperation,
    LockLevel,
    LockType,
    MetastoreGeneration,
    conflict,
    lock_type_for,
    may_share,
    recorded_as,
)
from airflow_hiveacid.format.errors import MetastoreVersionError

V3, V4 = MetastoreGeneration.V3, MetastoreGeneration.V4
SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
READ, WRITE, EXCL_WRITE, EXCLUSIVE = LockType


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (SELECT, READ),
        (INSERT, READ),
        (UPDATE, WRITE),
        (DELETE, WRITE),
        (OVERWRITE, EXCLUSIVE),
    ],
)
def test_each_operation_requests_one_type_of_lock(
    operation: DataOperation, expected: LockType
) -> None:
    assert lock_type_for(operation) is expected


@pytest.mark.parametrize(
    ("generation", "requested", "granted_beside"),
    [
        (V3, READ, {READ, WRITE}),
        (V3, WRITE, {READ}),
        (V3, EXCLUSIVE, set()),
        (V4, READ, {READ, WRITE, EXCL_WRITE}),
        (V4, WRITE, {READ, WRITE}),
        (V4, EXCL_WRITE, {READ}),
        (V4, EXCLUSIVE, set()),
    ],
)
def test_locks_wait_for_each_other_as_in_hive(
    generation: MetastoreGeneration, requested: LockType, granted_beside: set[LockType]
) -> None:
    held = [t for t in LockType if generation is V4 or t is not EXCL_WRITE]
    assert {h for h in held if may_share(requested, h, generation)} == granted_beside


def test_hive_3_cannot_request_an_exclusive_write_lock_but_a_distribution_may_list_one() -> None:
    with pytest.raises(MetastoreVersionError, match="Hive 3 has no EXCL_WRITE"):
        may_share(EXCL_WRITE, READ, V3)
    assert not may_share(READ, EXCL_WRITE, V3)


def test_a_read_lock_on_a_database_and_an_exclusive_lock_on_its_table_can_coexist() -> None:
    database = LockLevel.DB
    assert may_share(EXCLUSIVE, READ, V4, held_level=database)
    assert may_share(READ, EXCLUSIVE, V4, requested_level=database)
    assert not may_share(EXCLUSIVE, WRITE, V4, held_level=database)
    assert not may_share(EXCLUSIVE, READ, V4, requested_level=LockLevel.PARTITION)


@pytest.mark.parametrize("generation", [V3, V4])
@pytest.mark.parametrize("other", list(DataOperation))
def test_inserts_and_reads_never_conflict(
    other: DataOperation, generation: MetastoreGeneration
) -> None:
    for harmless in (INSERT, SELECT):
        assert not conflict(harmless, other, generation)
        assert not conflict(other, harmless, generation)


@pytest.mark.parametrize("generation", [V3, V4])
@pytest.mark.parametrize(
    "pair", [(UPDATE, UPDATE), (UPDATE, DELETE), (DELETE, UPDATE), (OVERWRITE, DELETE)]
)
def test_updates_conflict_with_updates_and_deletes_and_overwrites_with_deletes(
    pair: tuple[DataOperation, DataOperation], generation: MetastoreGeneration
) -> None:
    assert conflict(*pair, generation)


def test_two_deletes_conflict_only_on_hive_4() -> None:
    assert conflict(DELETE, DELETE, V4)
    assert not conflict(DELETE, DELETE, V3)


def test_an_overwrite_is_recorded_as_an_update() -> None:
    assert recorded_as(OVERWRITE) is UPDATE
    assert {o: recorded_as(o) for o in (SELECT, INSERT, DELETE)} == {
        o: o for o in (SELECT, INSERT, DELETE)
    }
