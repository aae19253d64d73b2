from __future__ import annotations

import pytest

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    SharedTargetError,
    StatementOrderError,
)
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
    InsertSpec,
    LoadSpec,
    MultiInsertSpec,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.transactions import (
    MOST_STATEMENTS,
    Step,
    check_order,
    numbered,
    steps_of,
)

OVER = Step(table="d.t", replaces=True, partition=None)
CHANGE = Step(table="d.t", replaces=False, partition=None)
OTHER = Step(table="d.u", replaces=False, partition=None)


def insert(table: str, mode: InsertMode = InsertMode.APPEND, **partition: str) -> InsertSpec:
    return InsertSpec(target=table, source=SourceSpec(), mode=mode, partition=partition)


@pytest.mark.parametrize(
    "steps",
    [
        [CHANGE],
        [CHANGE, CHANGE, OTHER],
        [CHANGE, OVER],
        [OVER, OVER],
        [CHANGE, OVER, OTHER, OVER],
        [
            Step(table="d.t", replaces=True, partition="p=1"),
            Step(table="d.t", replaces=False, partition="p=2"),
        ],
    ],
)
def test_one_transaction_may_overwrite_after_changes_and_change_other_partitions(
    steps: list[Step],
) -> None:
    check_order(steps)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([OVER, CHANGE], "statement 2 changes table d.t, which statement 1"),
        ([CHANGE, OVER, OTHER, OVER, CHANGE], "statement 5 changes table d.t, which statement 2"),
        ([Step(table="d.t", replaces=True, partition="p=1"), CHANGE], "statement 2"),
        ([OVER, Step(table="d.t", replaces=False, partition="p=2")], "statement 2"),
        (
            [
                Step(table="d.t", replaces=True, partition="p=2"),
                Step(table="d.t", replaces=False, partition="p=2"),
            ],
            "statement 2",
        ),
    ],
)
def test_a_change_after_an_overwrite_of_the_same_table_or_partition_is_refused(
    steps: list[Step], message: str
) -> None:
    with pytest.raises(StatementOrderError, match=message):
        check_order(steps)


def test_an_empty_transaction_and_one_with_too_many_statements_are_refused() -> None:
    check_order([CHANGE] * MOST_STATEMENTS)
    for count in (0, MOST_STATEMENTS + 1):
        with pytest.raises(ConfigurationError, match=f"found {count}"):
            check_order([CHANGE] * count)


def test_without_table_definitions_only_certain_order_errors_are_refused() -> None:
    overwrite = InsertMode.OVERWRITE
    check_order(steps_of([insert("d.t", overwrite, p="1"), insert("d.t", p="01")]))
    check_order(steps_of([insert("d.t"), insert("d.t", overwrite), insert("d.u")]))
    whole, part = TruncateSpec(target="d.t"), TruncateSpec(target="d.t", partition={"p": "1"})
    check_order(steps_of([insert("d.t", overwrite), whole, part, insert("d.t", overwrite)]))
    check_order(steps_of([part, insert("d.t", p="2")]))
    for truncation in (whole, part):
        with pytest.raises(StatementOrderError):
            check_order(steps_of([truncation, insert("d.t")]))
    load = LoadSpec(target="d.t", location="/in", overwrite=True)
    with pytest.raises(StatementOrderError):
        check_order(steps_of([load, insert("d.t")]))
    check_order(steps_of([insert("d.t"), load, load]))
    later = (
        LoadSpec(target="d.t", location="/in"),
        insert("D.T"),
        UpdateSpec(target="d.t", set={"a": "1"}),
        DeleteSpec(target="d.t", where="p = 2"),
    )
    for statement in later:
        with pytest.raises(StatementOrderError):
            check_order(steps_of([insert("d.t", overwrite, p="1"), statement]))


def test_an_overwrite_cannot_share_its_target_with_an_insert_of_the_same_from_clause() -> None:
    """So an overwrite replaces neither the rows of earlier INSERTs nor those of later ones."""
    over, append = insert("d.t", InsertMode.OVERWRITE), insert("D.T")
    for pair in ((over, append), (append, over), (over, over)):
        with pytest.raises(SharedTargetError, match="INSERTs 1 and 3 of one FROM clause"):
            check_order(
                steps_of([append, MultiInsertSpec(inserts=(pair[0], insert("d.u"), pair[1]))])
            )
    check_order(steps_of([MultiInsertSpec(inserts=(append, append, insert("d.u")))]))
    # Those of another FROM clause come after these.
    check_order(steps_of([MultiInsertSpec(inserts=(one,)) for one in (append, over)]))
    check_order(steps_of([MultiInsertSpec(inserts=(append, append)), over]))


def test_inserts_of_one_from_clause_may_overwrite_different_static_partitions() -> None:
    over = insert("d.t", InsertMode.OVERWRITE, p="1")
    check_order(steps_of([MultiInsertSpec(inserts=(over, insert("d.t", p="2")))]))
    steps = [
        Step(table="d.t", replaces=replaces, partition="p=1", together=0)
        for replaces in (False, True)
    ]
    with pytest.raises(SharedTargetError):
        check_order(steps)


@pytest.mark.parametrize("error", [ConfigurationError("ours"), RuntimeError("of Spark")])
def test_any_error_of_one_of_several_statements_gets_its_number(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, numbered(1, 1):
        raise error
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(type(error)) as caught, numbered(2, 3):
        raise error
    assert caught.value.__notes__ == ["in statement 2 of the transaction"]
