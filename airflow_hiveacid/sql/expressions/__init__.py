"""Expressions, queries and functions, and the differences between Hive and Spark.

This module translates an expression to Spark SQL. The user's names for target and source become `t`
and `s`; all other tokens are unchanged.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("c.a + 1 > c.s.c AND x = 'c.a'")
    >>> expression(span, NameScope(qualifiers={"c": "t"}, sides=frozenset("t")))
    "t.a + 1 > t.s.c AND x = 'c.a'"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.sql.expressions.differences import check_meaning
from airflow_hiveacid.sql.expressions.functions import check_calls
from airflow_hiveacid.sql.expressions.queries import check_queries, translations
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.bare_names import is_bare
from airflow_hiveacid.sql.text.nodes import check_expression, position_of
from airflow_hiveacid.sql.text.tokens import Token
from airflow_hiveacid.sql.text.views import Views, table_changes

TARGET: Final = "t"
SOURCE: Final = "s"
_CONSTANTS: Final = frozenset({"TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIMESTAMP"})
_NO_DEFAULT: Final = (
    "DEFAULT replaces a column's whole value; conditions and queries do not allow it",
    "write the value",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameScope:
    """The names that a statement's expressions can use.

    `qualifiers` maps the user's name for a table (`alias` or `db.table`, in lower case) to `t`, the
    target, or `s`, the source; `sides` has those that the statement has. `renamed` maps columns of
    the source to new names. `views` has the tables that subqueries read; None forbids subqueries.
    """

    qualifiers: Mapping[str, str]
    sides: frozenset[str]
    renamed: Mapping[str, str] | None = None
    views: Views | None = None


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column in an expression: the tokens of its name, and the side that its qualifier selects.

    For a column in a query, `inner` contains the table names of all enclosing queries, which hide
    the statement's tables of the same names. `owner` is the name of the column's table.
    """

    parts: tuple[Token, ...]
    side: str | None
    qualifier_parts: int
    inner: frozenset[str] = frozenset()
    owner: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The parts of the name in lower case."""
        return tuple((part.name or "").lower() for part in self.parts)

    @property
    def column(self) -> Token:
        """The token of the column's own name, without qualifiers and struct fields."""
        return self.parts[self.qualifier_parts]

    @property
    def is_plain(self) -> bool:
        """True if the name refers to a column, not to a field of a struct column."""
        return len(self.parts) == self.qualifier_parts + 1


def expression(span: Span, names: NameScope) -> str:
    """Return an expression as Spark SQL over `t` and `s`."""
    return written(span, parsed(span, names), names)


def parsed(span: Span, names: NameScope) -> exp.Expr:
    """Parse an expression with sqlglot; check that it has the same meaning in Hive and Spark."""
    if [token.word for token in span.tokens] == ["DEFAULT"]:
        span.fail(*_NO_DEFAULT)
    check_meaning(span)
    tree = span.parsed(exp.Condition)
    check_expression(span, tree, with_queries=names.views is not None)
    check_queries(span, tree)
    _check_arguments(span, tree)
    check_calls(span)
    return tree


def _check_arguments(span: Span, tree: exp.Expr) -> None:
    """Refuse a function argument that is a name but that sqlglot drops, or takes for a unit."""
    names = {name.meta.get("start") for name in tree.find_all(exp.Identifier)}
    for index, token in enumerate(span.tokens):
        is_alone = span.word(index - 1) in {"(", ","} and span.word(index + 1) in {")", ","}
        if not is_alone or token.name is None or token.word in _CONSTANTS:
            continue
        if token.start not in names:
            span.fail(
                f"{token.raw} is not recognized as a column here",
                "write a unit as a string, and a column with its table before it",
                token,
            )


def written(span: Span, tree: exp.Expr, names: NameScope) -> str:
    """Return a parsed expression as Spark SQL, with the table names `t` and `s`."""
    if not names.sides and (column := tree.find(exp.Column)) is not None:
        span.fail(
            "no table here contains this column",
            "write a constant, or SELECT ... FROM db.s",
            position_of(span, column),
        )
    changes = translations(span)
    if names.views is not None:
        changes |= table_changes(span, tree, names.views)
    # A column has a qualifier, belongs to a subquery's only table, or is a bare name.
    for use in column_uses(span, tree, names):
        if use.side is not None:
            _check_visible(span, use)
            changes |= _requalified(span, use, use.side)
        elif use.owner is not None:
            changes[use.parts[0].start] = f"{quoted(use.owner)}.{use.parts[0].raw}"
        elif not use.inner and _needs_table(use, names):
            changes[use.parts[0].start] = _qualified(span, use, names)
        if use.side == SOURCE and names.renamed is not None:
            changes[use.column.start] = names.renamed[(use.column.name or "").lower()]
    return span.written(changes)


def _requalified(span: Span, use: ColumnUse, side: str) -> dict[int, str]:
    first, last = use.parts[0].start, use.parts[use.qualifier_parts - 1].start
    removals = {t.start: "" for t in span.tokens if first < t.start <= last}
    return {first: side, **removals}


def _needs_table(use: ColumnUse, names: NameScope) -> bool:
    """Return True if Spark would misinterpret the column without its table's name."""
    if len(use.parts) > 1:
        return use.names[0] in names.sides
    return is_bare(use.parts[0])


def _qualified(span: Span, use: ColumnUse, names: NameScope) -> str:
    """Return a column with its table's name, for columns that Spark would misinterpret."""
    if len(names.sides) > 1:
        span.fail(
            f"{use.parts[0].raw} may be a column of either table",
            "write the table's alias before it",
            use.parts[0],
        )
    return f"{TARGET}.{use.parts[0].raw}"


def _check_visible(span: Span, use: ColumnUse) -> None:
    """Refuse a column of the statement's table if an enclosing query has a table of that name."""
    if use.side in use.inner:
        span.fail(
            f"a table of this query is called {use.side!r}, which we use for the statement's table",
            "choose another alias",
            use.parts[0],
        )
    if use.qualifier_parts > 1 and use.names[1] in use.inner:
        span.fail(
            f"{'.'.join(use.names[:2])} is a table of both the statement and the query",
            "give each table a different alias",
            use.parts[0],
        )


def column_uses(span: Span, tree: exp.Expr, names: NameScope) -> Iterator[ColumnUse]:
    """Yield the columns of an expression, each with the parts of its name."""
    by_start = {token.start: token for token in span.tokens}
    has_queries = tree.find(exp.Select) is not None
    for dot in tree.find_all(exp.Dot):
        if isinstance(dot.expression, exp.Func):
            span.fail(
                "Spark cannot call functions of a database",
                "write an expression instead of the call",
                position_of(span, dot),
            )
    for column in tree.find_all(exp.Column):
        identifiers = [part for part in column.parts if isinstance(part, exp.Identifier)]
        tokens = tuple(_token_of(span, part, by_start) for part in identifiers)
        if len(tokens) == 1 and tokens[0].word == "DEFAULT":
            span.fail(*_NO_DEFAULT, tokens[0])
        queries = _queries_around(column) if has_queries else []
        if len(tokens) != len(column.parts):
            if not queries:
                span.fail("a star is not a single value", "list the columns", tokens[0])
            continue
        fields = [_token_of(span, field, by_start) for field in _fields(column)]
        use = _use(span, (*tokens, *fields), names)
        yield _within(span, use, queries) if queries else use


def _within(span: Span, use: ColumnUse, queries: Sequence[Mapping[str, exp.Expr]]) -> ColumnUse:
    """Assign a column in a query to a table of the query or of the statement; return the column.

    SQL looks in the query's tables first. So `DELETE ... WHERE id IN (SELECT id FROM other)` can
    delete every row if `other` lacks the column `id`.
    """
    inner = frozenset(name for query in queries for name in query)
    if len(use.parts) > 1 and use.names[0] in inner:
        return replace(use, side=None, qualifier_parts=1, inner=inner)
    if use.side is not None:
        return replace(use, inner=inner)
    owner = next(iter(queries[0]), "")
    if len(queries[0]) != 1 or not owner:
        span.fail(
            f"{use.parts[0].raw} may be a column of any table here",
            "write the table's alias before it",
            use.parts[0],
        )
    return replace(use, inner=inner, owner=owner)


def _queries_around(column: exp.Expr) -> list[Mapping[str, exp.Expr]]:
    """Return the tables of all enclosing queries by lower-case name, the innermost query first."""
    scopes: list[Mapping[str, exp.Expr]] = []
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            joins = [join.this for join in node.args.get("joins") or []]
            tables = [node.args["from_"].this] if node.args.get("from_") else []
            every = [*tables, *joins, *(node.args.get("laterals") or [])]
            scopes.append({table.alias_or_name.lower(): table for table in every})
        node = node.parent
    return scopes


def _token_of(span: Span, name: exp.Identifier, by_start: Mapping[int, Token]) -> Token:
    token = by_start.get(name.meta.get("start", -1))
    if token is None:
        span.fail(f"{name.name} is not a name", "if it is one, put it in backticks")
    return token


def _fields(node: exp.Expr) -> Iterator[exp.Identifier]:
    """Yield the struct fields after a name's fourth part; sqlglot has a separate node for each."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node:
        if isinstance(parent.expression, exp.Identifier):
            yield parent.expression
        node, parent = parent, parent.parent


def _use(span: Span, parts: tuple[Token, ...], names: NameScope) -> ColumnUse:
    lower = [(part.name or "").lower() for part in parts]
    table_side = names.qualifiers.get(lower[0]) if len(parts) > 1 else None
    db_table_side = names.qualifiers.get(".".join(lower[:2])) if len(parts) > 2 else None  # noqa: PLR2004 - db, table, column
    if table_side is not None and db_table_side is not None:
        span.fail(f"{parts[0].raw} is both a table and a database", "use an alias", parts[0])
    if db_table_side is not None:
        return ColumnUse(parts, db_table_side, 2)
    return ColumnUse(parts, table_side, int(table_side is not None))
