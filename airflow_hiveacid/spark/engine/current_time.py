"""The current time of a plan: fixed to one moment, or refused.

Spark computes it for each query, and a statement has several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from py4j.java_gateway import JavaObject

from airflow_hiveacid.spark.engine import JavaNames, each, holding, kind_of, module

_WORD: Final = r"\s*(?:now|today|tomorrow|yesterday)\b"
_ANY_WORD: Final = re.compile(rf"(?:^|['\"]){_WORD}", re.IGNORECASE)
_TYPED_WORD: Final = re.compile(rf"\w+\s*['\"]{_WORD}", re.IGNORECASE)
_TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_DIGITS_OF_NANOSECONDS: Final = 9
_KINDS: Final = ("date", "timestamp", "timestamp_ntz", "time")


class UnfixedTimeError(Exception):
    """The error for a current time that would differ between the queries of a statement.

    That is a string, such as `TIMESTAMP 'now'`, which Spark replaces whenever it parses the SQL or
    plans a query; or a call whose type is unknown here.
    """

    def __init__(self, what: str = "'now', 'today', 'tomorrow' or 'yesterday'") -> None:
        """Say it in one sentence."""
        super().__init__(
            f"each query of the statement would compute {what} again;"
            " write current_timestamp() or current_date()"
        )


def fixed(jvm: JavaNames, plan: JavaObject, instant: JavaObject) -> JavaObject:
    """Return an analysed plan whose calls of the current time are literals of an instant.

    Spark marks these calls, and those of the current user, database and time zone, which stay.
    """
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    current = patterns.CURRENT_LIKE()
    if not plan.containsPattern(current):
        return plan
    literals = jvm.java.util.HashMap()
    for call in _calls(jvm, plan):
        literals.put(call, _literal(jvm, call, instant))
    # Spark transforms its trees with a partial function, and a Scala map is a partial function.
    function = jvm.PythonUtils.toScalaMap(literals)
    return plan.transformAllExpressionsWithSubqueries(function)


def _calls(jvm: JavaNames, plan: JavaObject) -> Iterator[JavaObject]:
    """Yield the calls of a plan that return the current time.

    Raises:
        UnfixedTimeError: for a call of a type that `_literal` cannot make.
    """
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    current, queries = patterns.CURRENT_LIKE(), patterns.PLAN_EXPRESSION()
    for call in holding(plan, current):
        # `holding` also yields each expression around a call, and each subquery with one.
        is_outer = any(child.containsPattern(current) for child in each(call.children()))
        if is_outer or call.containsPattern(queries):
            continue
        kind = _kind(call)
        if kind in _KINDS:
            yield call
        elif kind.startswith(_KINDS):  # Spark 4.3 has timestamps with nanoseconds
            raise UnfixedTimeError(str(call.sql()))


def _kind(call: JavaObject) -> str:
    return str(call.dataType().typeName()).partition("(")[0]


def _literal(jvm: JavaNames, call: JavaObject, instant: JavaObject) -> JavaObject:
    """Return what a call of `_calls` returns at an instant."""
    literals = module(jvm.org.apache.spark.sql.catalyst.expressions, "Literal")
    kind = _kind(call)
    if kind == "timestamp":
        return literals.apply(instant)
    local = jvm.java.time.LocalDateTime.ofInstant(instant, call.zoneId())
    match kind:
        case "date":
            return literals.apply(local.toLocalDate())
        case "timestamp_ntz":
            return literals.apply(local)
        case _:  # Spark 4.1 and later
            type_ = call.dataType()
            nanos = local.toLocalTime().toNanoOfDay()
            unit = 10 ** (_DIGITS_OF_NANOSECONDS - type_.precision())
            time = jvm.java.time.LocalTime.ofNanoOfDay(nanos - nanos % unit)
            return literals.create(time, type_)


def check_calls(jvm: JavaNames, plan: JavaObject) -> None:
    """Raise UnfixedTimeError for a call that `fixed` would refuse, in a plan to be fixed later."""
    for _ in _calls(jvm, plan):
        pass


def check(jvm: JavaNames, plan: JavaObject, texts: Iterable[str], values: Iterable[str]) -> None:
    """Raise UnfixedTimeError if a plan's SQL, or a parameter's value, has a string such as 'now'.

    Strings that are not used as a date or timestamp are accepted.
    """
    if not any(_ANY_WORD.search(text) for text in (*texts, *values)):
        return
    catalyst = jvm.org.apache.spark.sql.catalyst
    found = holding(plan, catalyst.trees.TreePattern.LITERAL())
    if any(_is_typed_word(node) for node in found if kind_of(node) == "Literal"):
        raise UnfixedTimeError
    rules = catalyst.optimizer
    for query in (plan, *each(plan.subqueriesAll())):
        replaced = rules.ReplaceExpressions.apply(query)  # to_date(x) becomes a cast
        if not rules.SpecialDatetimeValues.apply(replaced).fastEquals(replaced):
            raise UnfixedTimeError


def _is_typed_word(literal: JavaObject) -> bool:
    """Return whether a literal was a string such as DATE 'now', which the parser has replaced."""
    is_time = str(literal.dataType().typeName()) in _TIMES
    return is_time and bool(_TYPED_WORD.match(str(literal.origin().context().fragment())))
