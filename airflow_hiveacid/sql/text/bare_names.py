"""Names that Spark interprets as function calls unless a column has the name.

Examples are `user` and `current_time`. Hive has only two functions without parentheses,
`current_date` and `current_timestamp`; the names of Spark's others are refused. In backticks, such
a name is a column, as in Hive: the table's name is inserted before it, because Spark never
interprets a qualified name as a function.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("SELECT `user` FROM db.s")
    >>> span.written(column_changes(span, span.parsed()))
    'SELECT `s`.`user` FROM db.s'
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.tokens import Kind, Token

_FUNCTIONS: Final = frozenset({"current_user", "user", "session_user", "current_time"})
# Next to these tokens, the name is an alias, or a column qualified with its table's name.
_BEFORE_OTHERS: Final = frozenset({".", "AS"})
_BEHIND_OTHERS: Final = frozenset({".", "("})


def is_bare(token: Token) -> bool:
    """Return True if Spark interprets a token as a function, with or without backticks."""
    return (token.name or "").lower() in _FUNCTIONS


def check_bare(span: Span, index: int) -> None:
    """Refuse an unqualified name without backticks if Spark may interpret it as a function."""
    token = span.tokens[index]
    is_other = span.word(index - 1) in _BEFORE_OTHERS or span.word(index + 1) in _BEHIND_OTHERS
    if token.kind is Kind.WORD and is_bare(token) and not is_other:
        span.fail(
            f"{token.raw} without backticks may be a function in Spark, but not in Hive",
            f"write `{token.raw}` for a column or table, or a template for another value",
            token,
        )


def column_changes(span: Span, query: exp.Expr) -> dict[int, str]:
    """Return replacements, by start position, that qualify columns in backticks."""
    tokens = {token.start: token for token in span.tokens if is_bare(token)}
    changes: dict[int, str] = {}
    if not tokens:
        return changes
    for column in query.find_all(exp.Column):
        token = tokens.get(column.this.meta.get("start", -1))
        if token is None or len(column.parts) > 1:
            continue
        around = column.find_ancestor(exp.Select, exp.SetOperation)
        if isinstance(around, exp.Query) and _is_of_result(column, around):
            continue
        owner = _only_table(around)
        if not owner:
            span.fail(
                f"{token.raw} may be a column of any table here, or a function of Spark's",
                "write the table's alias before it",
                token,
            )
        changes[token.start] = f"{quoted(owner)}.{token.raw}"
    return changes


def _is_of_result(column: exp.Column, query: exp.Query) -> bool:
    """Return True if a name in ORDER BY or HAVING refers to a column of the query's result."""
    behind = column.find_ancestor(exp.Order, exp.Having, exp.Query)
    if not isinstance(behind, exp.Order | exp.Having) or behind.parent is not query:
        return False
    names = {name.lower() for name in query.named_selects}
    return column.name.lower() in names


def _only_table(query: exp.Expr | None) -> str:
    if query is None or query.args.get("joins") or query.args.get("laterals"):
        return ""
    from_ = query.args.get("from_")
    return "" if from_ is None else from_.this.alias_or_name
