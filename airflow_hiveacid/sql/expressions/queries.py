"""Conversion of a query to a source of rows, with views in place of tables.

The user's name for a table remains as an alias. SQL is refused if Hive and Spark would return
different results (see also `differences`).

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("SELECT a.x FROM db.a JOIN db.b c ON a.x = c.x")
    >>> spec = source_of(span, Views(None))
    >>> spec.query
    'SELECT a.x FROM `__hiveacid_1` AS `a` JOIN `__hiveacid_2` c ON a.x = c.x'
    >>> dict(spec.tables)
    {'__hiveacid_1': 'db.a', '__hiveacid_2': 'db.b'}
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs.statements import SOURCE_VIEW, SourceSpec
from airflow_hiveacid.sql.expressions.differences import check_meaning
from airflow_hiveacid.sql.expressions.functions import check_calls, function_changes
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.bare_names import column_changes
from airflow_hiveacid.sql.text.nodes import check_query, position_of
from airflow_hiveacid.sql.text.tokens import Kind
from airflow_hiveacid.sql.text.views import Views, table_changes

_JOINS: Final = frozenset({"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"})
_AFTER_ORDER: Final = frozenset({")", "ROWS", "RANGE", "LIMIT", "OFFSET", "UNION", "EXCEPT"})
_GROUPINGS: Final = (exp.Group, exp.Paren, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
_AFTER_FROM: Final = frozenset(
    {"WHERE", "GROUP BY", "HAVING", "WINDOW", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY"}
    | {"LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "MINUS", "LATERAL"}
)
QUERY_BEGINS: Final = frozenset({"SELECT", "WITH", "("})
"""The words with which a query may begin."""


def parsed_query(span: Span) -> exp.Expr:
    """Parse a query with sqlglot; check that it has the same meaning in Hive and Spark."""
    check_meaning(span)
    tree = span.parsed()
    if not isinstance(tree, exp.Query):
        span.fail("this is not a query", "write SELECT ...")
    check_query(span, tree)
    check_queries(span, tree)
    check_calls(span)
    return tree


def check_queries(span: Span, tree: exp.Expr) -> None:
    """Refuse a tree if any query in it has a different meaning in Spark."""
    for select in tree.find_all(exp.Select):
        _check_joins(span, select)
        _check_ordered(span, select)
    _check_commas(span)
    _check_orders(span)
    for group in tree.find_all(exp.Group):
        _check_group(span, group)
    for operation in tree.find_all(exp.SetOperation):
        _check_set_operation(span, operation)
    for node in tree.find_all(exp.In):
        if isinstance(node.this, exp.Tuple) and not node.args.get("query"):
            span.fail(
                "if a is NULL, (a, b) IN (...) is NULL in Hive, but false in Spark",
                "write (a = 1 AND b = 2) OR ...",
                position_of(span, node),
            )


def source_of(span: Span, views: Views) -> SourceSpec:
    """Return the source that a query describes; its views are added to those of the statement."""
    return source_of_tree(span, parsed_query(span), views)


def source_of_tree(span: Span, tree: exp.Expr, views: Views) -> SourceSpec:
    """Return the source that a parsed query describes."""
    changes = table_changes(span, tree, views) | column_changes(span, tree)
    tables = views.tables
    if len(tables) == 1 and not views.of_many and _is_whole_table(tree):
        versions = dict(zip([SOURCE_VIEW], views.versions.values(), strict=False))
        return SourceSpec(table=next(iter(tables.values())), versions=versions)
    query = views.written(span, translations(span) | changes)
    return SourceSpec(tables=tables, query=query, versions=views.versions)


def _is_whole_table(tree: exp.Expr) -> bool:
    clauses = {key for key, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or clauses != {"expressions", "from_"}:
        return False
    (table,) = tree.args["from_"].args.values()
    is_plain = isinstance(table, exp.Table) and not table.args.get("laterals")
    return is_plain and len(tree.expressions) == 1 and type(tree.expressions[0]) is exp.Star


def _check_group(span: Span, group: exp.Group) -> None:
    for key in group.find_all(exp.Literal, exp.Placeholder):
        is_value = isinstance(key, exp.Placeholder) or not key.is_string
        if is_value and isinstance(key.parent, _GROUPINGS):
            token = next(t for t in span.tokens if t.word == "GROUP BY")
            span.fail(
                "a number in GROUP BY is a constant in Hive, but a column's position in Spark",
                "repeat the expression",
                token,
            )


def _check_ordered(span: Span, select: exp.Select) -> None:
    """Refuse ORDER BY x LIMIT n if x is a GROUP BY column (Hive's order) and an alias (Spark's)."""
    order, group = select.args.get("order"), select.args.get("group")
    if (
        order is None
        or group is None
        or not (select.args.get("limit") or select.args.get("offset"))
    ):
        return
    grouped = {column.name.lower() for column in group.find_all(exp.Column)}
    aliases = {
        alias.alias.lower()
        for alias in select.expressions
        if isinstance(alias, exp.Alias) and alias.this.name.lower() != alias.alias.lower()
    }
    for column in order.find_all(exp.Column):
        if not column.table and column.name.lower() in grouped & aliases:
            span.fail(
                f"{column.name} in ORDER BY is the GROUP BY column in Hive, but the alias in Spark",
                "use a different alias",
                position_of(span, column),
            )


def _check_set_operation(span: Span, node: exp.SetOperation) -> None:
    for side in (node.this, node.expression):
        if isinstance(side, exp.SetOperation) and type(side) is not type(node):
            span.fail(
                f"without parentheses, Hive and Spark evaluate {node.key.upper()} and"
                f" {side.key.upper()} in different orders",
                "put parentheses around one of them",
                position_of(span, side),
            )


def _check_joins(span: Span, select: exp.Select) -> None:
    for join in select.args.get("joins") or []:
        if join.kind not in _JOINS:
            span.fail(f"{join.kind} JOIN is not supported", "write JOIN ... ON")
        if join.args.get("using") and join.side in {"FULL", "RIGHT"}:
            span.fail(
                f"in Hive, the USING column of a {join.side} JOIN is the left table's: it is NULL"
                " if that table has no row",
                "write ON, and coalesce(a.x, b.x) for the column",
                position_of(span, join.this),
            )


def _check_commas(span: Span) -> None:
    """Refuse a FROM clause with commas and JOIN: only in Spark does JOIN bind more strongly."""
    for index, token in enumerate(span.tokens):
        if token.word != "FROM" or span.word(index - 1) == "DISTINCT":
            continue
        words = [t.word for _, t in span[index + 1 :].outside(until=_AFTER_FROM)]
        if "," in words and "JOIN" in words:
            span.fail(
                "a comma has a lower precedence than JOIN in Spark, but the same in Hive",
                "write CROSS JOIN for the comma",
                token,
            )


def _check_orders(span: Span) -> None:
    """Refuse ORDER BY without NULLS FIRST or LAST if it decides on rows: versions differ."""
    for index, token in enumerate(span.tokens):
        if token.word == "LIMIT" and span.word(index + 2) == ",":
            span.fail("Spark does not support LIMIT with two numbers", "use OFFSET", token)
        if token.word not in {"ORDER BY", "SORT BY"}:
            continue
        end = _end_of_order(span, index)
        in_window = end < len(span) and span.tokens[end].word in {")", "ROWS", "RANGE"}
        is_cut = end < len(span) and span.tokens[end].word in {"LIMIT", "OFFSET"}
        if not (is_cut or (in_window and _is_in_window(span, index))):
            continue
        for part in span[index + 1 : end].split(","):
            if not any(part.word(i) == "NULLS" for i in range(len(part) - 1)):
                part.fail(
                    "Hive 3, Hive 4 and Spark sort NULL differently",
                    "write NULLS FIRST or NULLS LAST",
                )


def _end_of_order(span: Span, index: int) -> int:
    nested = 0
    for end in range(index + 1, len(span)):
        word = span.tokens[end].word
        if nested == 0 and word in _AFTER_ORDER:
            return end
        nested += (word in {"(", "["}) - (word in {")", "]"})
    return len(span)


def _is_in_window(span: Span, index: int) -> bool:
    # `Span.opening` also counts CASE and END, which may be names of columns here.
    nested = 0
    for candidate in range(index - 1, -1, -1):
        word = span.tokens[candidate].word
        if word == "(" and nested == 0:
            return span.tokens[candidate + 1].word not in {"SELECT", "WITH"}
        nested += (word == ")") - (word == "(")
    return False


_PADDED: Final = re.compile(r"(?P<whole>[0-9]*)\.(?P<digits>[0-9]*?)0+(?P<suffix>[bB][dD])?")
_OF_NAMES: Final = frozenset({Kind.WORD, Kind.QUOTED})


def translations(span: Span) -> dict[int, str]:
    """Return a dict from start position to replacement, for tokens of checked SQL."""
    return function_changes(span) | _constants(span)


def _constants(span: Span) -> dict[int, str]:
    """Drop the zeros at the end of decimals, as Hive does: 1.50 is 1.5."""
    changes = {}
    for index, token in enumerate(span.tokens):
        if token.kind is not Kind.NUMBER:
            continue
        if _is_fraction(span, index):  # .50 is two tokens
            changes[token.start] = token.raw.rstrip("0") or "0"
        elif (number := _PADDED.fullmatch(token.raw)) is not None:
            changes[token.start] = f"{number['whole']}.{number['digits']}{number['suffix'] or ''}"
    return changes


def _is_fraction(span: Span, index: int) -> bool:
    """Return True if a token is the fraction of a number, such as `50` in `.50`."""
    previous, token = span.tokens[max(0, index - 1)], span.tokens[index]
    is_behind_point = previous.word == "." and previous.end == token.start and token.raw.isdigit()
    is_of_name = index > 1 and (
        span.tokens[index - 2].kind in _OF_NAMES or span.word(index - 2) in {")", "]"}
    )
    return is_behind_point and not is_of_name
