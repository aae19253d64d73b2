"""The supported kinds of node in sqlglot's trees, and their keys; all others are refused.

So a clause that sqlglot parses is never dropped silently. A tree is never converted to SQL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sqlglot import exp

from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.names import NamedTable

_OPERATIONS: Final[tuple[type[exp.Expr], ...]] = (
    exp.Add, exp.And, exp.Between, exp.BitwiseAnd, exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseXor,
    exp.Div, exp.DPipe, exp.EQ, exp.GT, exp.GTE, exp.In, exp.IntDiv, exp.Is, exp.Like, exp.LT,
    exp.LTE, exp.Mod, exp.Mul, exp.Neg, exp.NEQ, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or,
    exp.PropertyEQ, exp.Sub,
)  # fmt: skip
_PARTS: Final[tuple[type[exp.Expr], ...]] = (
    exp.All, exp.Any, exp.Boolean, exp.Bracket, exp.Column, exp.ColumnDef, exp.DataType,
    exp.DataTypeParam, exp.Distinct, exp.Dot, exp.Identifier, exp.Interval, exp.IntervalSpan,
    exp.JSONPath, exp.JSONPathPart, exp.Literal, exp.Null, exp.Paren, exp.Placeholder, exp.Star,
    exp.Tuple, exp.Var,
)  # fmt: skip
# Nodes that sqlglot parses as functions, although Hive has no such functions.
_NO_FUNCTIONS: Final[tuple[type[exp.Expr], ...]] = (
    exp.Collate, exp.JSONBContains, exp.ParameterizedAgg,
)  # fmt: skip

QUERY_KEYS: Final[Mapping[type[exp.Expr], Collection[str]]] = {
    exp.Select: (
        "with_", "distinct", "expressions", "from_", "joins", "laterals", "where", "group",
        "having", "windows", "order", "sort", "cluster", "distribute", "limit", "offset",
    ),
    exp.Union: ("with_", "this", "expression", "distinct", "order", "limit", "offset"),
    exp.Except: ("with_", "this", "expression", "distinct", "order", "limit", "offset"),
    exp.Intersect: ("with_", "this", "expression", "distinct", "order", "limit", "offset"),
    exp.Subquery: ("this", "alias"),
    exp.With: ("expressions",),  # not `recursive`
    exp.CTE: ("this", "alias"),
    exp.TableAlias: ("this", "columns"),
    exp.From: ("this",),
    exp.Table: ("this", "db", "catalog", "alias", "laterals"),
    exp.Join: ("this", "side", "kind", "on", "using"),
    exp.Lateral: ("this", "view", "outer", "alias"),
    exp.Where: ("this",),
    exp.Having: ("this",),
    exp.Group: ("expressions", "rollup", "cube", "grouping_sets"),
    exp.Rollup: ("expressions",),
    exp.Cube: ("expressions",),
    exp.GroupingSets: ("expressions",),
    exp.Order: ("expressions",),
    exp.Sort: ("expressions",),
    exp.Cluster: ("expressions",),
    exp.Distribute: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    exp.Alias: ("this", "alias"),
    exp.Aliases: ("this", "expressions"),
    exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
    exp.Exists: ("this",),
    exp.IgnoreNulls: ("this",),
    exp.RespectNulls: ("this",),
    exp.Distinct: ("expressions",),
    exp.Star: (),
}  # fmt: skip
"""Kinds of node that only queries have, with their supported keys."""

_NAMES: Final[Mapping[type[exp.Expr], str]] = {
    exp.TableSample: "TABLESAMPLE",
    exp.Values: "VALUES as a table",
    exp.Collate: "COLLATE",
    exp.Returning: "RETURNING",
    exp.Hint: "a hint",
}


def check_expression(span: Span, tree: exp.Expr, *, with_queries: bool) -> None:
    """Refuse an expression with unsupported parts, or with queries that are not allowed."""
    for node in tree.walk(prune=lambda inner: isinstance(inner, exp.Query)):
        if not isinstance(node, exp.Query):
            if not is_understood(node):
                _refuse(span, node)
            continue
        token = next((t for t in span.tokens if t.word in {"SELECT", "WITH", "VALUES"}), None)
        if not with_queries:
            span.fail(
                "a query within this expression is not supported",
                "put it into a WHEN clause or the source of a MERGE, or write INSERT ... SELECT",
                token,
            )
        if any(True for _ in node.find_all(exp.With)) or isinstance(node.parent, exp.Any | exp.All):
            span.fail(
                "WITH, ANY and ALL are not supported in a query within an expression",
                "write IN (SELECT ...) or EXISTS (SELECT ...)",
                token,
            )
        check_query(span, node)


def check_query(span: Span, tree: exp.Expr) -> None:
    """Refuse a query with unsupported parts."""
    for node in tree.walk():
        keys = QUERY_KEYS.get(type(node))
        if keys is None and not is_understood(node):
            _refuse(span, node)
        if keys is not None:
            check_keys(span, node, keys)


def check_keys(span: Span, node: exp.Expr, known: Collection[str]) -> None:
    """Refuse a node that has a value for a key not in `known`."""
    for key, value in node.args.items():
        if value and key not in known:
            inner = value[0] if isinstance(value, list) else value
            name = _name(inner) if isinstance(inner, exp.Expr) else key.strip("_").upper()
            span.fail(
                f"{name} in {_name(node)} is not supported",
                "write the statement without it",
                position_of(span, inner if isinstance(inner, exp.Expr) else node),
            )


def check_table(span: Span, node: exp.Expr, table: NamedTable, *more: str) -> None:
    """Refuse a table that sqlglot and this package parse differently, or that has unknown keys."""
    check_keys(span, node, ("this", "db", "alias", *more))
    name, db = node.name.lower(), node.text("db").lower() or table.ref.db
    if (db, name, node.alias.lower()) != (table.ref.db, table.ref.name, table.alias or ""):
        span.fail(
            "it is not clear which table or alias this is",
            "write db.table AS alias",
            position_of(span, node),
        )


def position_of(span: Span, node: exp.Expr) -> int | None:
    """Return the position of the first name in a node; None if the node has no name."""
    starts = [
        start
        for inner in node.walk()
        if isinstance(start := inner.meta.get("start"), int) and inner is not None
    ]
    ours = {token.start for token in span.tokens}
    return min((start for start in starts if start in ours), default=None)


def is_understood(node: exp.Expr) -> bool:
    """Return True if expressions may contain a node of this kind."""
    if isinstance(node, _NO_FUNCTIONS):
        return False
    return isinstance(node, (*_OPERATIONS, *_PARTS, exp.Func))


def _refuse(span: Span, node: exp.Expr) -> None:
    span.fail(
        f"{_name(node)} is not supported here",
        "write it another way, or use the operator for this kind of statement",
        position_of(span, node),
    )


def _name(node: exp.Expr) -> str:
    return _NAMES.get(type(node), node.key.upper())
