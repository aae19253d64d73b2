"""Which calls of the current time become literals, and which strings are refused.

Stand-ins replace the trees of Spark and the clock of Java.
"""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.spark.engine import catalyst, parsed_sql
from airflow_hiveacid.spark.engine.current_time import UnfixedTimeError, check, check_calls, fixed

AT = dt.datetime(2026, 1, 31, 23, 4, 5, 678901, tzinfo=dt.UTC)
CURRENT, QUERIES, LITERAL = "CURRENT_LIKE", "PLAN_EXPRESSION", "LITERAL"


def sequence(*items: object) -> Any:  # noqa: ANN401 - a Scala sequence
    return SimpleNamespace(size=lambda: len(items), apply=items.__getitem__)


class Tree:
    """An expression, or a plan with expressions; in a map it equals only itself."""

    def __init__(
        self, *children: Tree, patterns: tuple[str, ...] = (), expressions: tuple[Tree, ...] = ()
    ) -> None:
        self.parts = (*children, *expressions)
        self.getClass = lambda: SimpleNamespace(getSimpleName=lambda: "Tree")
        self.patterns = patterns
        self.children = lambda: sequence(*children)
        self.expressions = lambda: sequence(*expressions)
        self.subqueriesAll = sequence

    def containsPattern(self, pattern: str) -> bool:  # noqa: N802 - Spark's name
        return pattern in self.patterns or any(p.containsPattern(pattern) for p in self.parts)

    def transformAllExpressionsWithSubqueries(self, changes: object) -> object:  # noqa: N802
        return changes


class Call(Tree):
    """A call that Spark marks as current, of a type and in a time zone."""

    def __init__(self, type_: str, hours: int = 0, precision: int = 6) -> None:
        super().__init__(Tree(), patterns=(CURRENT,))
        self.dataType = lambda: SimpleNamespace(typeName=lambda: type_, precision=lambda: precision)
        self.zoneId = lambda: dt.timezone(dt.timedelta(hours=hours))
        self.sql = lambda: f"current_{type_}"


class Literal(Tree):
    """A literal whose SQL the parser remembers."""

    def __init__(self, text: str, type_: str) -> None:
        super().__init__(patterns=(LITERAL,))
        context = SimpleNamespace(fragment=lambda: text)
        self.getClass = lambda: SimpleNamespace(getSimpleName=lambda: "Literal")
        self.dataType = lambda: SimpleNamespace(typeName=lambda: type_)
        self.origin = lambda: SimpleNamespace(context=lambda: context)


class Changes(dict[Tree, object]):
    put = dict.__setitem__


def local(instant: dt.datetime, zone: dt.timezone) -> Any:  # noqa: ANN401
    moment = instant.astimezone(zone).replace(tzinfo=None)
    since = moment - moment.replace(hour=0, minute=0, second=0, microsecond=0)
    nanos = since // dt.timedelta(microseconds=1) * 1000
    clock = SimpleNamespace(toNanoOfDay=lambda: nanos)
    return SimpleNamespace(wall=moment, toLocalDate=moment.date, toLocalTime=lambda: clock)


def java(*, replaces: bool = False) -> Any:  # noqa: ANN401
    """A JVM; `replaces`: whether Spark finds a string that stands for the current time."""
    literal = SimpleNamespace(
        apply=lambda value: getattr(value, "wall", value),
        create=lambda value, type_: (value, type_.typeName()),
    )
    module = SimpleNamespace(**{"MODULE$": literal})
    rules = SimpleNamespace(
        ReplaceExpressions=SimpleNamespace(apply=lambda plan: plan),
        SpecialDatetimeValues=SimpleNamespace(
            apply=lambda _: SimpleNamespace(fastEquals=lambda _: not replaces)
        ),
    )
    catalyst = SimpleNamespace(
        trees=SimpleNamespace(
            TreePattern=SimpleNamespace(
                CURRENT_LIKE=lambda: CURRENT,
                PLAN_EXPRESSION=lambda: QUERIES,
                LITERAL=lambda: LITERAL,
            )
        ),
        expressions=SimpleNamespace(**{"Literal$": module}),
        optimizer=rules,
    )
    sql = SimpleNamespace(catalyst=catalyst)
    return SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=sql))),
        java=SimpleNamespace(
            util=SimpleNamespace(HashMap=Changes),
            time=SimpleNamespace(
                LocalDateTime=SimpleNamespace(ofInstant=local),
                LocalTime=SimpleNamespace(ofNanoOfDay=lambda nanos: nanos),
            ),
        ),
        PythonUtils=SimpleNamespace(toScalaMap=lambda changes: changes),
    )


def nanoseconds(text: str) -> int:
    clock = dt.datetime.combine(dt.date.min, dt.time.fromisoformat(text))
    return (clock - dt.datetime.min) // dt.timedelta(microseconds=1) * 1000  # noqa: DTZ901


@pytest.mark.parametrize(
    ("call", "literal"),
    [
        (Call("timestamp"), AT),
        (Call("date"), dt.date(2026, 1, 31)),
        (Call("date", hours=9), dt.date(2026, 2, 1)),
        (Call("timestamp_ntz", hours=-1), AT.replace(hour=22, tzinfo=None)),
        (Call("time(6)"), (nanoseconds("23:04:05.678901"), "time(6)")),
        (Call("time(0)", hours=1, precision=0), (nanoseconds("00:04:05"), "time(0)")),
        (Call("time(3)", precision=3), (nanoseconds("23:04:05.678"), "time(3)")),
    ],
)
def test_a_call_becomes_a_literal_of_the_instant_in_its_time_zone(
    call: Call, literal: object
) -> None:
    plan = Tree(Tree(expressions=(Tree(call),)), expressions=(Tree(),))
    assert fixed(java(), plan, AT) == {call: literal}


def test_calls_that_return_no_time_and_queries_in_expressions_stay() -> None:
    call, query = Call("date"), Tree(patterns=(CURRENT, QUERIES))
    plan = Tree(expressions=(Call("string"), query, Tree(query, call)))
    assert fixed(java(), plan, AT) == {call: dt.date(2026, 1, 31)}


def test_a_call_of_a_newer_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Tree(expressions=(Call("date"), Tree(Call("timestamp_ltz(9)", precision=9))))
    for name in ("jvm_of", "dataset_of", "DataFrame"):
        monkeypatch.setattr(catalyst, name, lambda *_: java())
    monkeypatch.setattr(parsed_sql, "parsed_query", lambda *_: plan)
    monkeypatch.setattr(catalyst, "_analysed", lambda _: plan)
    session: Any = None
    for run in (
        lambda: fixed(java(), plan, AT),
        lambda: check_calls(java(), plan),
        lambda: catalyst.query(session, "", parsed_sql.DEFAULT_TERMS),
    ):
        with pytest.raises(UnfixedTimeError, match=r"compute current_timestamp_ltz\(9\) again"):
            run()
    check(java(), plan, [], [])  # not a second walk: of a plan that is fixed, there is none to find


def test_a_plan_without_the_current_time_stays_as_it_is() -> None:
    plan = Tree(Tree(), expressions=(Tree(),))
    assert fixed(java(), plan, AT) is plan


@pytest.mark.parametrize(
    "text", ["TIMESTAMP'now'", 'Date " Today"', "timestamp_ntz 'yesterday Europe/Paris'"]
)
def test_a_typed_literal_that_stands_for_the_current_time_is_refused(text: str) -> None:
    found = Literal(text, "date")
    plan = Tree(expressions=(Literal("1", "int"), Tree(Literal("", "timestamp"), found)))
    with pytest.raises(UnfixedTimeError, match=r"write current_timestamp\(\)"):
        check(java(), plan, [f"d = {text}"], [])


def test_other_literals_with_such_a_word_are_accepted() -> None:
    literals = (
        *(Literal("DATE'2026-01-31'", "date"), Literal("DATE 'nowhere'", "date")),
        *(
            Literal("'today'", "string"),
            Literal("\"DATE 'now'\"", "string"),
            Literal("r'now'", "string"),
        ),
    )
    check(java(), Tree(expressions=literals), ["v = 'today'"], ["now"])


@pytest.mark.parametrize(("text", "value"), [("d = 'today'", ""), ("d = :day", " Yesterday")])
def test_a_string_that_spark_replaces_by_the_current_time_is_refused(text: str, value: str) -> None:
    with pytest.raises(UnfixedTimeError):
        check(java(replaces=True), Tree(), [text], [value])


def test_spark_is_asked_only_if_such_a_word_is_given() -> None:
    check(java(replaces=True), Tree(), ["d = current_date()", "v = 'known today'"], ["known", ""])
