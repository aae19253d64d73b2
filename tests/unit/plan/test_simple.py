"""Which statements one process runs without Spark, and why it leaves the others to Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.format.errors import (
    ColumnUpdateError,
    ConfigurationError,
    SparkNeededError,
    TypeMismatchError,
    UnknownColumnError,
)
from airflow_hiveacid.format.table import (
    NULL_PARTITION,
    Column,
    Constraints,
    TableInfo,
    TableRef,
    TransactionalKind,
)
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.job import Job
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertSpec,
    LoadSpec,
    MergeAction,
    MergeClause,
    MergeSpec,
    MergeWhen,
    SourceSpec,
    TruncateSpec,
    UpdateSpec,
)
from airflow_hiveacid.plan.statements.conditions import (
    Comparison,
    condition_of,
    may_hold,
    reduced,
)
from airflow_hiveacid.plan.statements.constants import UNFIT, constant_of
from airflow_hiveacid.plan.statements.parameters import read_parameters
from airflow_hiveacid.plan.statements.simple import (
    SimpleChange,
    SimpleInsert,
    SimpleMerge,
    simple_statement,
)
from tests.support.cases import changes_of, jobs_of

_CASES: Final = Path(__file__).parent / "cases"
TYPES = {
    "i": "int",
    "s": "string",
    "b": "boolean",
    "d": "date",
    "n": "decimal(6,2)",
    "f": "double",
    "r": "float",
    "c": "char(3)",
    "v": "varchar(3)",
    "m": "timestamp",
    "a": "array<int>",
    "odd name": "bigint",
}
TABLE = TableInfo(
    ref=TableRef("d", "t"),
    location="/d/t",
    columns=tuple(Column(name=name, type=type_) for name, type_ in TYPES.items()),
    partition_columns=(Column(name="p", type="int"),),
)
PARAMETERS = read_parameters(
    {"one": 1, "many": [1, 2], "text": "x", "none": None, "day": dt.date(2026, 1, 31)}
)


@pytest.mark.parametrize(("text", "tree"), changes_of(_CASES / "simple_conditions.txt"))
def test_a_simple_condition_becomes_a_tree(text: str, tree: str) -> None:
    assert repr(condition_of(text, TABLE, PARAMETERS)) == tree


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *changes_of(_CASES / "refused_conditions.txt"),
        ("(" * 200 + "i = 1" + ")" * 200, "too deeply"),
    ],
)
def test_any_other_condition_needs_spark(text: str, why: str) -> None:
    with pytest.raises(SparkNeededError, match=why):
        condition_of(text, TABLE, PARAMETERS)


def test_a_condition_is_reduced_by_the_values_of_a_partition() -> None:
    condition = condition_of("p = 1 AND i > 5 OR p = 2", TABLE, {})
    assert reduced(condition, {"p": 1}) == Comparison("i", ">", 5)
    assert reduced(condition, {"p": 2}) is True
    assert reduced(condition, {"p": 3}) is False
    assert reduced(condition, {"p": None}) is False
    assert reduced(condition_of("p IS NULL", TABLE, {}), {"p": None}) is True


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("i = 5", True), ("i = 11", False), ("i < 5", False), ("i <= 5", True), ("i > 10", False),
        ("i >= 10", True), ("i <> 5", True), ("i IN (1, 7)", True), ("i IN (1, NULL)", False),
        ("i = NULL", False), ("i IS NULL", True), ("s = 'a'", True), ("i = 1 OR i = 6", True),
        ("i = 1 AND s = 'a'", False),
    ],
)  # fmt: skip
def test_statistics_exclude_what_no_row_of_a_stripe_can_meet(text: str, may: bool) -> None:
    assert may_hold(condition_of(text, TABLE, {}), {"i": (5, 10)}) is may


def source(**columns: list[Any]) -> SourceSpec:
    return SourceSpec(columns=tuple(columns), values=tuple(zip(*columns.values(), strict=True)))


def of(job: Job, **changes: Any) -> Any:  # noqa: ANN401
    return simple_statement(job, dataclasses.replace(TABLE, **changes))


def test_values_get_the_types_of_their_columns() -> None:
    rows = source(i=[1, "2", None], s=["x", 5, True], b=[True, "false", None], n=[1, "2.5", None])
    made = of(InsertSpec(target="d.t", source=rows, partition={"p": "7"}))
    assert isinstance(made, SimpleInsert)
    assert made.values["i"] == [1, 2, None]
    assert made.values["s"] == ["x", "5", "true"]
    assert made.values["b"] == [True, False, None]
    assert made.values["n"] == [Decimal("1.00"), Decimal("2.50"), None]
    assert made.values["p"] == [7, 7, 7]
    assert made.values["m"] == [None, None, None]


def test_a_number_with_too_many_digits_for_its_column_needs_spark() -> None:
    digits = "9" * 40
    for type_ in ("decimal(38,38)", "decimal(38,37)", "decimal(38,0)", "bigint"):
        assert constant_of(digits, parse_type(type_)) is UNFIT


UPDATE = MergeClause(when=MergeWhen.MATCHED, action=MergeAction.UPDATE)
INSERT = MergeClause(when=MergeWhen.NOT_MATCHED, action=MergeAction.INSERT)


def merge(*clauses: MergeClause, **others: Any) -> MergeSpec:  # noqa: ANN401
    given = {"source": source(i=[1], s=["x"], p=[1]), "keys": ("i", "p"), **others}
    return MergeSpec(target="d.t", clauses=clauses, **given)


def test_a_merge_of_values_by_keys_is_simple() -> None:
    by_value = MergeClause(
        when=MergeWhen.MATCHED, action=MergeAction.UPDATE, set={"s": ":text", "n": "1.5"}
    )
    made = of(merge(by_value, INSERT, parameters=PARAMETERS))
    assert isinstance(made, SimpleMerge)
    assert made.updates == {"i": [1], "s": ["x"], "n": [Decimal("1.50")]}
    assert made.keys == {"i": [1], "p": [1]}


def test_an_update_of_constants_is_simple() -> None:
    made = of(UpdateSpec(target="d.t", set={"S": "NULL", "i": "-3"}, where="p = 1"))
    assert isinstance(made, SimpleChange)
    assert made.assignments == {"s": None, "i": -3}


@pytest.mark.parametrize(("why", "job"), jobs_of(_CASES / "jobs_for_spark.txt"))
def test_any_other_statement_needs_spark(job: Job, why: str) -> None:
    with pytest.raises(SparkNeededError, match=why):
        of(job)


@pytest.mark.parametrize(("column", "job"), jobs_of(_CASES / "mismatched_strings.txt"))
def test_a_string_that_no_cast_turns_into_the_columns_type_is_a_mismatch(
    job: Job, column: str
) -> None:
    with pytest.raises(
        TypeMismatchError, match=rf"^table d\.t: column '{column}.* '.*seven"
    ) as caught:
        of(job)
    assert isinstance(caught.value.__cause__, SparkNeededError)  # no row may need the cast


@pytest.mark.parametrize("text", ["1.7", " 7 ", "7e1", "-Infinity", "nan", "\u0667"])
def test_a_string_that_some_cast_may_turn_into_a_number_is_left_to_spark(text: str) -> None:
    with pytest.raises(SparkNeededError, match="needs Spark's cast"):
        of(InsertSpec(target="d.t", source=source(i=[text], p=[1])))


@pytest.mark.parametrize(("literal", "job"), jobs_of(_CASES / "untyped_strings.txt"))
def test_a_string_that_only_lacks_its_type_is_told_how_to_give_it(job: Job, literal: str) -> None:
    kind, _, literal = literal.partition(" ")
    value = literal.removeprefix("DATE ").strip("'")
    hint = f'; write {literal}, or the parameter {{"type": "{kind}", "value": "{value}"}}. Use eng'
    with pytest.raises(SparkNeededError, match=re.escape(hint)):
        of(job)


@pytest.mark.parametrize(("column", "text"), [("f", "1.5"), ("i", "7e1"), ("n", "1.555")])
def test_a_string_that_needs_spark_with_its_type_too_gets_no_advice(column: str, text: str) -> None:
    with pytest.raises(SparkNeededError) as caught:
        of(UpdateSpec(target="d.t", set={column: f"'{text}'"}))
    assert "parameter" not in str(caught.value)


@pytest.mark.parametrize("value", ["", NULL_PARTITION])
def test_a_partition_value_that_is_null_in_a_directory_is_told_to_be_null(value: str) -> None:
    with pytest.raises(TypeMismatchError, match=r"; give a value of this type, or NULL \(None\)$"):
        of(TruncateSpec(target="d.t", partition={"p": value}))


def test_some_tables_need_spark() -> None:
    delete = DeleteSpec(target="d.t", where="i = 1")
    with pytest.raises(SparkNeededError, match="insert-only"):
        of(delete, kind=TransactionalKind.INSERT_ONLY)
    with pytest.raises(SparkNeededError, match="constraints"):
        of(UpdateSpec(target="d.t", set={"i": "1"}), constraints=Constraints(checks={"c": "i > 0"}))
    insert = InsertSpec(target="d.t", source=source(p=["a/b"]))
    with pytest.raises(SparkNeededError, match="needs an escape"):
        of(insert, partition_columns=(Column(name="p", type="string"),))
    with pytest.raises(SparkNeededError, match="partition column p is of type"):
        of(
            InsertSpec(target="d.t", source=source(p=[True])),
            partition_columns=(Column(name="p", type="boolean"),),
        )


def test_an_invalid_statement_raises_the_error_of_sparks_side() -> None:
    with pytest.raises(UnknownColumnError):
        of(InsertSpec(target="d.t", source=source(gone=[1])))
    with pytest.raises(ColumnUpdateError):
        of(UpdateSpec(target="d.t", set={"p": "1"}))
    with pytest.raises(ConfigurationError, match="key columns"):
        of(merge(UPDATE, keys=()))
    with pytest.raises(UnknownColumnError):
        of(TruncateSpec(target="d.t", partition={"gone": "1"}))


def recorded(spec: Any, seen: set[str]) -> Any:  # noqa: ANN401
    """Return an equal spec that adds the names of the fields that are read to `seen`."""

    def read(self: object, name: str) -> Any:  # noqa: ANN401
        seen.add(name)
        return object.__getattribute__(self, name)

    cls = type("Recorded", (type(spec),), {"__slots__": (), "__getattribute__": read})
    return cls(**{f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)})


@pytest.mark.parametrize(
    "job",
    [
        InsertSpec(target="d.t", source=source(**{name: [None] for name in (*TYPES, "p")})),
        merge(UPDATE),
        UpdateSpec(target="d.t", set={"i": "1"}, where="i = 1"),
        DeleteSpec(target="d.t", where="i = 1"),
        TruncateSpec(target="d.t"),
        LoadSpec(target="d.t", location="/in", partition={"p": "1"}),
    ],
    ids=lambda job: type(job).__name__,
)
def test_each_field_of_a_statement_is_read_or_refused(job: Any) -> None:  # noqa: ANN401
    # Else, the worker would ignore a new field that Spark obeys.
    parts: dict[str, tuple[type, set[str]]] = {"job": (type(job), set())}
    if hasattr(job, "source"):
        parts["source"] = (SourceSpec, set())
        job = dataclasses.replace(job, source=recorded(job.source, parts["source"][1]))
    if hasattr(job, "clauses"):
        parts["clause"] = (MergeClause, set())
        job = dataclasses.replace(job, clauses=(recorded(job.clauses[0], parts["clause"][1]),))
    job = recorded(job, parts["job"][1])
    for _, seen in parts.values():
        seen.clear()
    of(job)
    elsewhere = {
        "job": {"target", "text_at", "match", "dynamic_partition"},  # all values are texts here
        "source": {"format", "options", "parameters"},  # of files and queries, which are refused
        "clause": set[str](),
    }
    for part, (cls, seen) in parts.items():
        assert {field.name for field in dataclasses.fields(cls)} - seen <= elsewhere[part], part
