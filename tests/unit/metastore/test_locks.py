from __future__ import annotations

import itertools

import pytest

from airflow_hiveacid.format.conflicts import DataOperation, LockType, MetastoreGeneration
from airflow_hiveacid.format.table import Column, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.metastore.locks import LockComponent, components_for, named_behind_table_lock
from tests.contract.bench import access, month

SELECT, INSERT, UPDATE, DELETE, OVERWRITE = DataOperation
V3, V4 = MetastoreGeneration
PLAIN = TableInfo(ref=TableRef("db", "t"), location="file:/t", columns=())
PARTITIONED = TableInfo(
    ref=TableRef("db", "p"),
    location="file:/p",
    columns=(),
    partition_columns=(Column(name="month", type="string"),),
)
both = pytest.mark.parametrize("generation", MetastoreGeneration)


def flags(components: tuple[LockComponent, ...]) -> list[tuple[str, bool]]:
    return [(str(c.partition), c.is_dynamic_partition_write) for c in components]


def test_a_mixed_case_partition_locks_the_whole_table_on_hive_3() -> None:
    writing = access(PARTITIONED, UPDATE, partitions=(month("Jan"),))
    on_v3 = components_for([], [writing], V3)
    on_v4 = components_for([], [writing], V4)
    assert flags(on_v3) == [("None", True)]
    assert flags(on_v4) == [("month=Jan", False)]
    assert named_behind_table_lock([writing], on_v3) == (writing,)
    assert named_behind_table_lock([writing], on_v4) == ()


@both
def test_each_operation_of_a_merge_has_its_own_lock_component(
    generation: MetastoreGeneration,
) -> None:
    merging = access(PLAIN, INSERT, UPDATE, DELETE)
    found = {c.operation: c.lock_type for c in components_for([], [merging], generation)}
    assert found == {
        INSERT: LockType.SHARED_READ,
        UPDATE: LockType.SHARED_WRITE,
        DELETE: LockType.SHARED_WRITE,
    }


@both
def test_a_read_of_a_flat_table_takes_a_lock_that_is_marked_as_non_transactional(
    generation: MetastoreGeneration,
) -> None:
    table = TableInfo(
        ref=TableRef("db", "n"), location="file:/n", columns=(), kind=TransactionalKind.NONE
    )
    (component,) = components_for([access(table, SELECT)], [], generation)
    assert not component.is_transactional
    assert component.lock_type is LockType.SHARED_READ


@both
def test_lock_components_do_not_depend_on_the_order_of_the_accesses(
    generation: MetastoreGeneration,
) -> None:
    accesses = [
        access(PLAIN, INSERT),
        access(PARTITIONED, UPDATE, partitions=(month("1"),)),
        access(PLAIN, INSERT),
    ]
    answers = {components_for([], order, generation) for order in itertools.permutations(accesses)}
    assert len(answers) == 1
    assert len(answers.pop()) == 2
