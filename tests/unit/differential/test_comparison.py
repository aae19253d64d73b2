from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import types as T

from airflow_hiveacid.sql.expressions.functions import COMPARED
from tests.proofs.differential import known, report, rows, statements
from tests.proofs.differential.cases import Case, Outcome, Pair, Seen, blamed
from tests.proofs.differential.catalogue import AGGREGATES, EXPRESSIONS, NOT_ASKED, windows
from tests.proofs.differential.course import made
from tests.proofs.differential.engines import GROUPS, ROWS, Refusal, Values, collectable, refusal
from tests.proofs.differential.expressions import Dice, Node, lines
from tests.proofs.differential.twins import difference
from tests.proofs.differential.values import BROKEN, Single, Value, of_hive, of_spark, same, trimmed

_PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sql.md"
_SUM: Final = "hive-sum-beyond-38-digits"
_COLUMN: Final = Node("atom", "n", "I")


def of(name: str, *arguments: Node) -> Node:
    places = ", ".join("{I}" for _ in arguments)
    return Node(name, f"{name}({places})", "I", arguments)


def both(ours: object, theirs: object) -> Pair:
    return Pair(Values("int", {1: ours}), Values("int", {1: theirs}))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (0.1 + 0.2, 0.3),
        (math.nan, math.nan),
        (-0.0, 0.0),
        (Single(0.1), 0.10000000149011612),
        (Decimal("1.50"), Decimal("1.5")),
        (3, Decimal(3)),
        ([1, None], [1, None]),
        (None, None),
        (12, "12"),
        (of_spark(bytearray(b"ab"), T.BinaryType()), "ab"),
    ],
)
def test_two_representations_of_one_value_are_equal(ours: object, theirs: object) -> None:
    assert same(ours, theirs)
    assert same(theirs, ours)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (0.1, 0.1000001),
        (Single(0.1), 0.1001),
        (math.nan, 1.0),
        (math.inf, -math.inf),
        (Decimal("0.00238095238095238095238"), Decimal("0.0023809523809523809524")),
        ("1.50", "1.5"),
        ("a", "a "),
        (None, ""),
        (None, 0),
        (True, 1),
        ([None], None),
        ("true", "TRUE"),
        (BROKEN, None),
        ("61", of_spark(bytearray(b"a"), T.BinaryType())),
    ],
)
def test_two_different_values_are_not_equal(ours: object, theirs: object) -> None:
    assert not same(ours, theirs)
    assert not same(theirs, ours)


def test_the_output_of_hive_is_parsed_by_its_type() -> None:
    assert of_hive("ab    ", "char(6)") == "ab"
    assert of_hive("ab ", "varchar(6)") == "ab "
    assert of_hive("1.50", "decimal(10,2)") == Decimal("1.5")
    assert math.isnan(of_hive("NaN", "double"))
    assert of_hive("2020-01-01 00:00:00.0", "timestamp") == "2020-01-01 00:00:00"
    assert of_hive([None, "a  "], "array<char(3)>") == [None, "a"]
    assert of_hive({"a": 1, "b": "x "}, "struct<a:decimal(3,1),b:char(2)>") == [Decimal(1), "x"]
    assert of_hive([["b", 1], ["a", 2]], "map<string,int>") == [("a", 2), ("b", 1)]
    assert trimmed("2020-01-01 00:00:00.120") == "2020-01-01 00:00:00.12"
    assert trimmed("2020-01-10") == "2020-01-10"


def test_an_error_or_a_refusal_is_a_separate_outcome() -> None:
    pair = Pair(Values("int", {1: 5, 2: BROKEN}), Values("int", {1: 5, 2: None}))
    assert pair.outcome("+") is Outcome.ERROR
    assert replace(pair, ours=Values("int", {1: 6, 2: BROKEN})).outcome("+") is Outcome.DIFFERENT
    assert replace(pair, ours=Refusal("us", "")).outcome("+") is Outcome.REFUSED_HERE
    assert replace(pair, ours=Refusal("Spark", "")).outcome("+") is Outcome.REFUSED_BY_SPARK
    assert replace(pair, theirs=Refusal("Hive", "")).outcome("+") is Outcome.REFUSED_BY_HIVE


def test_a_row_that_is_missing_in_one_engine_is_a_difference() -> None:
    pair = Pair(Values("int", {1: None}), Values("int", {1: None, 2: None}))
    assert pair.outcome("sum") is Outcome.DIFFERENT


def test_a_difference_is_attributed_to_the_innermost_expression() -> None:
    inner = of("inner", _COLUMN)
    outer = of("outer", inner, _COLUMN)
    pairs = {
        ("n", ROWS): both(7, 7),
        (inner.text, ROWS): both(1, 2),
        (outer.text, ROWS): both(10, 20),
    }
    (seen,) = blamed(Case(outer), pairs)
    assert (seen.name, seen.ours, seen.theirs, seen.arguments) == ("inner", 1, 2, ((7,),))
    pairs[inner.text, ROWS] = both(1, 1)
    (seen,) = blamed(Case(outer), pairs)
    assert (seen.name, seen.arguments) == ("outer", ((1,), (7,)))


def test_a_difference_of_an_aggregate_lists_all_values_of_its_argument() -> None:
    node = of("max", _COLUMN)
    pairs = {
        ("n", ROWS): Pair(Values("int", {1: 3, 2: 4}), Values("int", {1: 3, 2: 4})),
        (node.text, GROUPS): both(3, 4),
    }
    (seen,) = blamed(Case(node, GROUPS), pairs)
    assert seen.arguments == ((3, 4),)


def test_a_difference_is_matched_to_a_known_entry_by_its_values() -> None:
    seen = Seen(
        name="sign",
        text="sign(d)",
        row=1,
        ours=math.nan,
        theirs=-1.0,
        kinds=("double",),
        arguments=((math.nan,),),
    )
    assert known.names_of(seen) == ["nan-in-functions"]
    assert known.names_of(replace(seen, arguments=((3.0,),))) == []


@pytest.mark.parametrize(
    ("name", "text", "ours", "theirs", "entry"),
    [
        ("NOT", "(NOT (n >= id))", True, False, None),
        ("concat", "concat(bround(2.5BD, 2), s)", "2.5x", "2.05x", None),
        ("power", "power(2, cast(d AS float))", 1.0, 2.0, None),
        ("*", "(d * cast(d AS float))", 1.0, 2.0, None),
        ("acos", "acos(cast('NaN' AS double))", None, math.nan, "nan-in-functions"),
        ("asin", "asin(d)", None, 1.0, None),
        ("count", "count(asin(f))", 1, 2, "nan-in-functions"),
        ("count", "count(asin(f))", 2, 1, None),
        ("corr", "corr(asin(d), f)", 1.0, math.nan, "nan-in-functions"),
        ("corr", "corr(d, f)", 1.0, math.nan, None),
        ("avg", "avg(round(dx, 0))", Decimal("1.3333"), Decimal(1), "average-of-a-wide-decimal"),
        ("avg", "avg(round(dx, 0))", Decimal("1.3333"), Decimal(3), None),
        ("avg", "avg(de)", Decimal("1.3333"), Decimal(1), None),
        ("NOT", "(NOT (1e10D >= f))", True, False, "nan-in-comparisons"),
        ("NOT", "(NOT bo)", True, False, None),
        ("concat", "concat(bround(2.5BD, 2), s)", "2.5x", "2.50x", "decimal-as-text"),
        ("concat", "concat(bround(2.5BD, 2), s)", "2.5x", "2.60x", None),
        ("log10", "log10(cast(d AS float))", -0.999999993, -1.0, "float"),
        ("log10", "log10(f)", -0.999999993, -1.0, None),
        ("sum", "sum(dx)", Decimal("1.0000000001"), Decimal("1.0000000002"), _SUM),
        ("sum", "sum(dx)", Decimal("1.0000000001"), Decimal("1.0000000101"), None),
        ("sum", "sum(de)", Decimal("1.0000000001"), Decimal("1.0000000002"), None),
    ],
)
def test_a_difference_is_named_only_by_an_entry_that_explains_it(
    name: str, text: str, ours: Value, theirs: Value, entry: str | None
) -> None:
    kind = "double" if isinstance(theirs, float) else ""
    values = (Decimal("9" * 38 if entry == _SUM else "2.5"),)
    arguments = tuple((value,) for value in values)
    seen = Seen(
        name=name,
        text=text,
        row=1,
        ours=ours,
        theirs=theirs,
        our_kind=kind,
        arguments=arguments,
    )
    assert known.names_of(seen) == ([entry] if entry else [])


def test_a_sum_whose_part_has_39_digits_may_lack_values_in_hive() -> None:
    wide, less = (Decimal(sign + "9999999999999999999999999999.9999999999") for sign in "+-")
    seen = Seen(
        name="sum", text="sum(dx)", row=1, ours=Decimal("1.1"), theirs=less, our_kind="decimal"
    )
    for values, names in (((wide, wide, less, less, None), [_SUM]), ((wide, less), [])):
        assert known.names_of(replace(seen, arguments=(values,))) == names


def test_a_long_constant_is_null_for_hives_null_safe_comparison() -> None:
    seen = Seen(
        name="<=>",
        text="(99999999999999999999999999999999999999 <=> de)",
        row=1,
        ours=False,
        theirs=True,
        our_kind="boolean",
        arguments=((Decimal("9" * 38),), (None,)),
    )
    assert known.names_of(seen) == ["hive-long-constants"]
    assert known.names_of(replace(seen, arguments=((Decimal(9),), (None,)))) == []


def test_a_long_constant_is_null_for_hives_printf() -> None:
    seen = Seen(
        name="printf",
        text=f"printf('%.2f', cast({'9' * 38} AS double))",
        row=1,
        ours="100000000000000000000000000000000000000.00",
        theirs="nu",
        our_kind="string",
        arguments=(("%.2f",), (1e38,)),
    )
    assert known.names_of(seen) == ["hive-long-constants"]
    assert known.names_of(replace(seen, theirs="n")) == []
    assert known.names_of(replace(seen, arguments=(("%.2f",), (1.0,)))) == []


def test_a_calculated_decimal_is_zero_for_hives_pmod() -> None:
    seen = Seen(
        name="pmod",
        text="pmod(de, ((2.5BD * 1.10) + cast(x AS decimal(10,2))))",
        row=1,
        ours=Decimal("1.1"),
        theirs=Decimal(0),
        our_kind="decimal(12,3)",
        arguments=((Decimal("1.1"),), (Decimal("5.75"),)),
        kinds=("decimal(38,0)", "decimal(13,3)"),
    )
    assert known.names_of(seen) == ["hive-calculated-decimals"]
    assert known.names_of(replace(seen, theirs=Decimal(1))) == []


def test_a_boolean_and_a_rounded_decimal_in_one_string_are_both_explained() -> None:
    seen = Seen(
        name="concat",
        text="concat(true, round(0.0, 2), '|')",
        row=1,
        ours="true0|",
        theirs="TRUE0.00|",
        arguments=((True,), (Decimal(0),)),
        kinds=("boolean", "decimal(3,2)"),
    )
    assert known.names_of(seen) == ["decimal-as-text"]
    assert known.names_of(replace(seen, theirs="TRUE0.01|")) == []


def test_hive_rounds_to_the_common_type_of_decimals() -> None:
    seen = Seen(
        name="coalesce",
        text="coalesce(dx, 99999999999999999999999999999999999999)",
        row=1,
        ours=Decimal("1.1000000000"),
        theirs=Decimal(1),
        our_kind="decimal(38,10)",
        their_kind="decimal(38,0)",
        arguments=((Decimal("1.1"),), (Decimal(9),)),
        kinds=("decimal(38,10)", "decimal(38,0)"),
    )
    assert known.names_of(seen) == ["common-type-of-decimals"]
    assert known.names_of(replace(seen, theirs=Decimal(3))) == []
    assert known.names_of(replace(seen, kinds=("decimal(38,10)", "decimal(38,10)"))) == []
    assert known.names_of(replace(seen, their_kind="decimal(38,10)")) == []
    inside = replace(
        seen, name="IN", text="dx IN (de)", ours=False, theirs=True, our_kind="boolean"
    )
    inside = replace(inside, their_kind="boolean")
    assert known.names_of(inside) == []
    near = replace(inside, arguments=((Decimal("1.1"),), (Decimal(1),)))
    assert known.names_of(near) == ["common-type-of-decimals"]


def test_the_rows_of_two_queries_are_compared_in_any_order() -> None:
    assert difference([[1, 0.1], [2, None]], [[2, None], [1, 0.1 + 1e-17]]) == ""
    large = [[2**53], [2**53 + 1]]  # one double
    assert difference(large, large[::-1]) == ""
    assert "only here [[1, 'b']]" in difference([[1, "b"]], [[1, "c"]])
    assert "2 rows here, 1 in Hive" in difference([[1], [1]], [[1]])


def test_each_line_of_the_catalogue_becomes_a_complete_expression() -> None:
    dice = Dice(random.Random(1), lines(EXPRESSIONS))
    for line in [*lines(EXPRESSIONS), *lines(AGGREGATES), *lines(windows())]:
        text = dice.expression(line, 2).text
        assert text
        assert not re.search(r"\{[A-Za-z]\}", text)


def test_the_same_seed_generates_the_same_expressions_and_statements() -> None:
    texts = [c.text for c in made(120, 3)]
    assert texts == [c.text for c in made(120, 3)]
    assert texts != [c.text for c in made(120, 4)]
    one, two = (statements.Writer(random.Random(5)) for _ in range(2))
    assert [one.statement() for _ in range(50)] == [two.statement() for _ in range(50)]


def test_a_refusal_by_this_provider_is_recorded_as_ours() -> None:
    found = refusal("hash(n)")
    assert found is not None
    assert found.by == "us"
    assert refusal("upper(s)") is None


def test_every_kind_of_statement_is_generated() -> None:
    writer = statements.Writer(random.Random(2))
    assert {writer.statement().kind for _ in range(300)} == {
        *("join", "subquery", "window", "set operation", "groups", "lateral", "with"),
        *("update", "delete", "merge", "insert", "overwrite"),
    }


def test_the_query_for_the_source_table_selects_each_of_its_rows() -> None:
    first, *others = rows.select_rows().split(" UNION ALL ")
    assert first.startswith("SELECT 1, cast(1 AS int)")
    assert len(others) + 1 == rows.COUNT


def test_the_table_of_differences_in_the_documentation_matches_the_known_entries() -> None:
    table = _PAGE.read_text().partition("| where | here | in Hive 4 |\n|---|---|---|\n")[2]
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for line in table.partition("\n\n")[0].splitlines()
    ]
    rows = dict.fromkeys((entry.where, entry.ours, entry.hive) for entry in known.entries())
    assert [list(row) for row in rows] == cells


def test_each_predicate_belongs_to_a_known_entry() -> None:
    ids = [entry.id for entry in known.entries()]
    assert len(ids) == len(set(ids))
    asked = {*known.PREDICATES, *known.MARKS, known.TOGETHER}
    assert asked - {*ids} == set()
    unasked = {*ids} - asked
    # Errors, values of VALUES and CHECK, and faults of Hive's that no statement here meets.
    assert unasked == {
        "errors",
        "values-that-do-not-fit",
        "constraints",
        "merge-in",
        "timestamp-in-a-class-of-hives",
        "width-bucket-of-decimals",
        "mask-of-no-text",
    }


def test_each_entry_has_examples_in_which_the_engines_differ() -> None:
    entries = {entry.id: entry for entry in known.entries()}
    assert all(one.hive != one.ours for entry in entries.values() for one in entry.examples)
    without = {name for name, entry in entries.items() if not entry.examples}
    assert without == {known.TOGETHER}, "only a course has enough expressions beside each other"


def test_the_page_matches_the_last_run_and_every_difference_is_known() -> None:
    record = report.read()
    assert report.PAGE.read_text() == "\n".join(report.lines(record)) + "\n"
    assert record["not named"] == []


def test_each_function_allowed_in_sql_text_is_compared_or_listed_as_not_compared() -> None:
    generated = "\n".join([EXPRESSIONS, AGGREGATES, *windows()]).lower()
    calls = {*re.findall(r"\b([a-z_0-9]+)\(", generated)}
    words = {*re.findall(r"[a-z]+", re.sub(r"'[^']*'", "", generated))}
    let_through = {name.lower() for name in COMPARED}
    assert let_through - calls - words == {*NOT_ASKED} - calls - words
    assert {*NOT_ASKED} <= let_through


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (T.TimestampType(), "string"),
        (T.ArrayType(T.TimestampType()), "array<string>"),
        (T.MapType(T.StringType(), T.DateType()), "map<string,string>"),
        (T.StructType([T.StructField("date", T.DateType())]), "struct<date:string>"),
        (T.ArrayType(T.StringType()), None),
    ],
)
def test_timestamps_and_dates_are_collected_as_strings_at_any_depth(
    kind: T.DataType, text: str | None
) -> None:
    """Python's datetime has no year 0, which Hive and Spark have."""
    assert collectable(kind) == text
