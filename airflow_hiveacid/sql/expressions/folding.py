"""Constants: expressions without columns, which Hive evaluates at compile time.

Some of Hive's functions return other results for a constant than for an equal value in a column.

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> [may_be_negative(span) for span in statements_of("(2); 1 - 2; int('-1'); x - 9")]
    [False, True, True, False]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs.statements import Parameter, ValueType
from airflow_hiveacid.plan.statements.parameters import Later
from airflow_hiveacid.sql.text.text import Span

_OPERATIONS: Final[Mapping[type[exp.Expr], Callable[[int, int], int]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def may_be_negative(span: Span) -> bool:
    """Return True if an argument is a constant that may be negative; NULL is not negative."""
    parameters = {token.raw[1:]: token.parameter for token in span.tokens if token.parameter}
    if any(isinstance(parameter, Later) for parameter in parameters.values()):
        return False
    tree = span.parsed(exp.Condition)
    if tree.find(exp.Column) is not None or isinstance(tree.unnest(), exp.Null):
        return False
    number = _whole(tree, parameters)
    return number is None or number < 0


def _whole(node: exp.Expr, parameters: Mapping[str, Parameter]) -> int | None:
    number: int | None = None
    match node:
        case exp.Literal():
            number = int(node.name) if node.name.isdecimal() and not node.is_string else None
        case exp.Placeholder():
            number = _of_parameter(parameters.get(node.name))
        case exp.Paren():
            number = _whole(node.this, parameters)
        case exp.Neg():
            inner = _whole(node.this, parameters)
            number = None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul():
            first, second = _whole(node.this, parameters), _whole(node.expression, parameters)
            if first is not None and second is not None:
                number = _OPERATIONS[type(node)](first, second)
        case _:
            pass
    return number


def _of_parameter(parameter: Parameter | None) -> int | None:
    if parameter is None or parameter.is_list:
        return None
    (value,) = parameter.values
    if value.type is ValueType.NULL:
        return 0  # not negative: both engines return NULL for NULL
    return int(value.text) if value.type is ValueType.INT else None
