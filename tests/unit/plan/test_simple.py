"""Which statements one process runs without Spark, and why it leaves the others to Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from decimal import Decimal
from typing import Any

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
from airflow_hiveacid.jobs.maintenance import RebalanceSpec
from airflow_hiveacid.jobs.statements import (
    DeleteSpec,
    InsertMode,
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
    AllOf,
    AnyOf,
    Comparison,
    Membership,
    NullTest,
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


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("i = 1", Comparison("i", "=", 1)),
        ("I == -1", Comparison("i", "=", -1)),
        ("i != 01", Comparison("i", "<>", 1)),
        ("t.`i` <= 5", Comparison("i", "<=", 5)),
        ("`odd name` > 9223372036854775807", Comparison("odd name", ">", 2**63 - 1)),
        ("s = 'it is'", Comparison("s", "=", "it is")),
        ("s IN ('a', NULL)", Membership("s", ("a", None))),
        ("i in (:many, 7)", Membership("i", (1, 2, 7))),
        ("i = :one AND s <> :text", AllOf((Comparison("i", "=", 1), Comparison("s", "<>", "x")))),
        ("d >= DATE '2026-01-31'", Comparison("d", ">=", dt.date(2026, 1, 31))),
        ("d < :day", Comparison("d", "<", dt.date(2026, 1, 31))),
        ("b = true", Comparison(column="b", operator="=", value=True)),
        ("n = 1.5", Comparison("n", "=", Decimal("1.50"))),
        ("n = -0.00", Comparison("n", "=", Decimal("0.00"))),
        ("i = NULL", Comparison("i", "=", None)),
        ("i = :none", Comparison("i", "=", None)),
        ("m IS NOT NULL", NullTest("m", is_null=False)),
        (
            "i BETWEEN 1 AND 2 AND s IS NULL",
            AllOf(
                (
                    AllOf((Comparison("i", ">=", 1), Comparison("i", "<=", 2))),
                    NullTest("s", is_null=True),
                )
            ),
        ),
        (
            "i = 1 OR i = 2 AND p = 3",
            AnyOf(
                (
                    Comparison("i", "=", 1),
                    AllOf((Comparison("i", "=", 2), Comparison("p", "=", 3))),
                )
            ),
        ),
    ],
)
def test_a_simple_condition_becomes_a_tree(text: str, tree: object) -> None:
    assert condition_of(text, TABLE, PARAMETERS) == tree


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("f = 1", "f, of type double"),
        ("r = 1", "r, of type float"),
        ("c = 'a'", "c, of type char"),
        ("v = 'a'", "v, of type varchar"),
        ("m = '2026-01-01'", "m, of type timestamp"),
        ("a = 1", "a, of type array"),
        ("i = '1'", "string '1' may not be exact in i"),
        ("i = 1.0", "decimal '1.0' may not be exact in i"),
        ("i = 2147483648", "may not be exact in i"),
        ("s = 1", "int '1' may not be exact in s"),
        ("d = '2026-01-31'", "may not be exact in d"),
        ("d = DATE '1500-01-01'", "may not be exact in d"),
        ("d = DATE '2026-02-30'", "may not be exact in d"),
        ("n = 1.555", "may not be exact in n"),
        ("n = 10000", "may not be exact in n"),
        ("b > false", "has no order"),
        ("NOT i = 1", "'NOT' stands where"),
        ("i NOT IN (1)", "'NOT' after i"),
        ("i IN (SELECT 1)", "'SELECT' is not a constant"),
        ("i = s", "'s' is not a constant"),
        ("1 = i", "'1' stands where a column belongs"),
        ("abs(i) = 1", "'\\(' after abs"),
        ("i + 1 = 2", "is not a simple comparison"),
        ("i <=> 1", "is not a simple comparison"),
        ("i = 1L", "is not a simple comparison"),
        ("i = 1e0", "is not a simple comparison"),
        ("i = 1 -- c", "is not a simple comparison"),
        ("s = 'a\\'b'", "is not a simple comparison"),
        ("s = 'a''b'", "is not a simple comparison"),
        ("s = 'a' 'b'", "is not understood here"),
        ('s = "a"', "is not a simple comparison"),
        ("s LIKE 'a%'", "'LIKE' after s"),
        ("i = 1 = true", "is not understood here"),
        ("x.i = 1", "not the table's alias"),
        ("gone = 1", "'gone' is not a column"),
        ("i = :many", "is not a single value"),
        ("i = :gone", "is not a single value"),
        ("i =", "the end"),
        ("(i = 1", "the end"),
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


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (RebalanceSpec(target="d.t"), "it is not INSERT"),
        (InsertSpec(target="d.t", source=SourceSpec(table="d.x")), "its rows are not values"),
        (
            InsertSpec(target="d.t", source=source(i=[1], p=[1]), mode=InsertMode.OVERWRITE),
            "OVERWRITE",
        ),
        (InsertSpec(target="d.t", source=source(i=["1.7"], p=[1])), "'1.7' of i needs"),
        (InsertSpec(target="d.t", source=source(c=["a"], p=[1])), "of c needs Spark's cast"),
        (InsertSpec(target="d.t", source=source(m=["2026-01-01 00:00:00"], p=[1])), "of m needs"),
        (DeleteSpec(target="d.t", where="i = 1", tables={"x": "d.x"}), "a query of other tables"),
        (UpdateSpec(target="d.t", set={"i": "i + 1"}), "is not a simple comparison"),
        (UpdateSpec(target="d.t", set={"f": "1.5"}), "for f needs Spark's cast"),
        (merge(UPDATE, condition="t.i > 1"), "more than keys"),
        (merge(UPDATE, source=source(f=[1], p=[1]), keys=("f", "p")), "the key f"),
        (merge(UPDATE, keys=("i",)), "which UPDATE must not change"),
        (
            merge(MergeClause(when=MergeWhen.MATCHED, action=MergeAction.DELETE, condition="true")),
            "has a condition",
        ),
        (
            merge(MergeClause(when=MergeWhen.NOT_MATCHED_BY_SOURCE, action=MergeAction.DELETE)),
            "reads every row",
        ),
    ],
)
def test_any_other_statement_needs_spark(job: Job, why: str) -> None:
    with pytest.raises(SparkNeededError, match=why):
        of(job)


@pytest.mark.parametrize(
    ("job", "column"),
    [
        (DeleteSpec(target="d.t", where="i = 'seven'"), "i' is int"),
        (DeleteSpec(target="d.t", where="i IN (1, ' seven ')"), "i' is int"),
        (DeleteSpec(target="d.t", where="n BETWEEN 'seven' AND 8"), "n' is decimal"),
        (DeleteSpec(target="d.t", where="d = 'seven'"), "d' is date"),
        (UpdateSpec(target="d.t", set={"i": "'seven'"}), "i' is int"),
        (InsertSpec(target="d.t", source=source(i=["seven"], p=[1])), "i' is int"),
        (InsertSpec(target="d.t", source=source(f=["seven"], p=[1])), "f' is double"),
        (InsertSpec(target="d.t", source=source(i=[1]), partition={"p": "seven"}), "p' is int"),
        (merge(UPDATE, source=source(i=["seven"], p=[1])), "i' is int"),
        (merge(INSERT, source=source(i=[1], s=["a"], n=["seven"], p=[1])), "n' is decimal"),
        (TruncateSpec(target="d.t", partition={"p": "seven"}), "p' is int"),
    ],
    ids=str,
)
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


@pytest.mark.parametrize(
    ("job", "kind", "literal"),
    [
        (DeleteSpec(target="d.t", where="i = '7'"), "int", "7"),
        (DeleteSpec(target="d.t", where="i IN (' 7 ')"), "int", "7"),
        (DeleteSpec(target="d.t", where="i IN ('007')"), "int", "7"),
        (DeleteSpec(target="d.t", where="n > '7'"), "decimal", "7"),
        (DeleteSpec(target="d.t", where="d = '2026-01-31'"), "date", "DATE '2026-01-31'"),
        (UpdateSpec(target="d.t", set={"b": "'true'"}), "boolean", "true"),
    ],
    ids=str,
)
def test_a_string_that_only_lacks_its_type_is_told_how_to_give_it(
    job: Job, kind: str, literal: str
) -> None:
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
