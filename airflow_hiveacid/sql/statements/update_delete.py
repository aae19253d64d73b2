"""The parsers of UPDATE and DELETE."""

from __future__ import annotations

from sqlglot import exp

from airflow_hiveacid.jobs.statements import DeleteSpec, UpdateSpec
from airflow_hiveacid.plan.statements.constraints import DEFAULT
from airflow_hiveacid.sql.expressions import TARGET, NameScope, parsed, written
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.names import NamedTable, table_name, with_alias
from airflow_hiveacid.sql.text.nodes import check_keys, check_table
from airflow_hiveacid.sql.text.tokens import Token
from airflow_hiveacid.sql.text.views import Views


def update_of(span: Span, database: str | None) -> UpdateSpec:
    """Parse `UPDATE t [[AS] x] SET column = expression, ... [WHERE condition]`."""
    table = with_alias(span, table_name(span, database, 1), stops=frozenset({"SET"}))
    names = _names(table, database)
    if span.word(table.end) != "SET":
        span[table.end :].fail("SET is missing", "write UPDATE db.t SET column = value WHERE ...")
    where = span.find("WHERE", start=table.end)
    tree = span.parsed()
    if not isinstance(tree, exp.Update):
        span.fail("this is not an UPDATE", "write UPDATE db.t SET column = value WHERE ...")
    check_keys(span, tree, ("this", "expressions", "where"))
    check_table(span, tree.this, table)
    assignments = assignments_of(span[table.end + 1 : where], names, tree.expressions)
    condition = _condition(span, where, tree, names)
    return UpdateSpec(target=table.full, set=assignments, where=condition, tables=_tables(names))


def delete_of(span: Span, database: str | None) -> DeleteSpec:
    """Parse `DELETE FROM t [[AS] x] [WHERE condition]`."""
    if span.word(1) != "FROM":
        span.fail("FROM is missing", "write DELETE FROM db.t WHERE ...")
    table = with_alias(span, table_name(span, database, 2), stops=frozenset({"WHERE"}))
    where = span.find("WHERE", start=table.end)
    tree = span.parsed()
    if not isinstance(tree, exp.Delete):
        span.fail("this is not a DELETE", "write DELETE FROM db.t WHERE ...")
    check_keys(span, tree, ("this", "where"))
    check_table(span, tree.this, table)
    if table.end < len(span) and where != table.end:
        span.fail(
            f"{span.tokens[table.end].raw!r} is not understood here",
            "write DELETE FROM db.t WHERE ...",
            span.tokens[table.end],
        )
    names = _names(table, database)
    condition = _condition(span, where, tree, names)
    return DeleteSpec(target=table.full, where=condition, tables=_tables(names))


def _names(table: NamedTable, database: str | None) -> NameScope:
    return NameScope(
        qualifiers=dict.fromkeys(table.qualifiers, TARGET),
        sides=frozenset({TARGET}),
        views=Views(database, reads_past=False),
    )


def _tables(names: NameScope) -> dict[str, str]:
    return {} if names.views is None else names.views.tables


def _condition(span: Span, where: int | None, tree: exp.Expr, names: NameScope) -> str | None:
    node = tree.args.get("where")
    if where is None or node is None:
        if where is not None or node is not None:
            span.fail(
                "the end of the condition is ambiguous", "put parentheses around the condition"
            )
        return None
    return agreed(span[where + 1 :], node.this, names)


def assignments_of(span: Span, names: NameScope, found: list[exp.Expr]) -> dict[str, str]:
    """Return the expressions after SET, by column name in lower case; `found` are their trees."""
    parts = span.split(",")
    assignments: dict[str, str] = {}
    for index, part in enumerate(parts):
        equal = part.find("=", "==")
        if equal is None:
            part.fail("this is not an assignment", "write column = expression")
        column = _assigned(part[:equal], names)
        if column in assignments:
            part.fail(f"column {column!r} is assigned twice", "assign it once")
        node = found[index] if index < len(found) else None
        value = node.expression if isinstance(node, exp.EQ) else None
        assignments[column] = agreed_value(part[equal + 1 :], value, names)
    if len(found) != len(parts):
        span.fail("it is not clear where an assignment ends", "put parentheses around the values")
    return assignments


def _assigned(span: Span, names: NameScope) -> str:
    parts = [token.name for token in span.tokens if token.word != "."]
    if not parts or None in parts or len(span) != 2 * len(parts) - 1:
        span.fail("this is not a column", "write column = expression")
    lower = [part.lower() for part in parts if part is not None]
    if len(lower) > 1 and names.qualifiers.get(".".join(lower[:-1])) != TARGET:
        span.fail("the left side of = must be a column of the target", "write only its name")
    return lower[-1]


def agreed(span: Span, node: exp.Expr | None, names: NameScope) -> str:
    """Translate an expression; check that it has the same tree as in the whole statement."""
    tree = parsed(span, names)
    if tree != node:
        span.fail("it is not clear where this ends", "put parentheses around it")
    return written(span, tree, names)


def agreed_value(span: Span, node: exp.Expr | None, names: NameScope) -> str:
    """Translate the value of a column; the value may be DEFAULT."""
    return DEFAULT if is_default(span) else agreed(span, node, names)


def is_default(span: Span) -> bool:
    """Return True if the span is the word DEFAULT."""
    return [token.word for token in span.tokens] == [DEFAULT]


def expect_end(span: Span, index: int) -> None:
    """Refuse a span that has tokens at or after this index."""
    if index < len(span):
        token: Token = span.tokens[index]
        span.fail(f"{token.raw!r} is not understood here", "remove it", token)
