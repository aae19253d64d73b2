"""UPDATE and DELETE as job descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hiveacid.jobs.specs import DeleteSpec, UpdateSpec
from airflow_hiveacid.plan.constraints import DEFAULT
from airflow_hiveacid.sql.expressions import TARGET, Names, parsed, written
from airflow_hiveacid.sql.names import NamedTable, table_name, with_alias
from airflow_hiveacid.sql.nodes import check_keys, check_table
from airflow_hiveacid.sql.views import Views

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece
    from airflow_hiveacid.sql.tokens import Token


def update_of(piece: Piece, database: str | None) -> UpdateSpec:
    """`UPDATE t [[AS] x] SET column = expression, ... [WHERE condition]`.

    Raises:
        SqlTextError: it is something else, or see `expressions.expression`.
    """
    table = with_alias(piece, table_name(piece, database, 1), stops=frozenset({"SET"}))
    names = _names(table, database)
    if piece.word(table.end) != "SET":
        piece[table.end :].fail("SET is missing", "write UPDATE db.t SET column = value WHERE ...")
    where = piece.find("WHERE", start=table.end)
    tree = piece.parsed()
    if not isinstance(tree, exp.Update):
        piece.fail("this is no UPDATE", "write UPDATE db.t SET column = value WHERE ...")
    check_keys(piece, tree, ("this", "expressions", "where"))
    check_table(piece, tree.this, table)
    assignments = assignments_of(piece[table.end + 1 : where], names, tree.expressions)
    condition = _condition(piece, where, tree, names)
    return UpdateSpec(target=table.full, set=assignments, where=condition, tables=_tables(names))


def delete_of(piece: Piece, database: str | None) -> DeleteSpec:
    """`DELETE FROM t [[AS] x] [WHERE condition]`.

    Raises:
        SqlTextError: it is something else, or see `expressions.expression`.
    """
    if piece.word(1) != "FROM":
        piece.fail("FROM is missing", "write DELETE FROM db.t WHERE ...")
    table = with_alias(piece, table_name(piece, database, 2), stops=frozenset({"WHERE"}))
    where = piece.find("WHERE", start=table.end)
    tree = piece.parsed()
    if not isinstance(tree, exp.Delete):
        piece.fail("this is no DELETE", "write DELETE FROM db.t WHERE ...")
    check_keys(piece, tree, ("this", "where"))
    check_table(piece, tree.this, table)
    if table.end < len(piece) and where != table.end:
        piece.fail(
            f"{piece.tokens[table.end].raw!r} is not understood here",
            "write DELETE FROM db.t WHERE ...",
            piece.tokens[table.end],
        )
    names = _names(table, database)
    condition = _condition(piece, where, tree, names)
    return DeleteSpec(target=table.full, where=condition, tables=_tables(names))


def _names(table: NamedTable, database: str | None) -> Names:
    """What the expressions of a statement on one table can name."""
    return Names(
        qualifiers=dict.fromkeys(table.qualifiers, TARGET),
        sides=frozenset({TARGET}),
        views=Views(database, reads_past=False),
    )


def _tables(names: Names) -> dict[str, str]:
    """The tables of queries within expressions that have been written, by their views."""
    return {} if names.views is None else names.views.tables


def _condition(piece: Piece, where: int | None, tree: exp.Expr, names: Names) -> str | None:
    node = tree.args.get("where")
    if where is None or node is None:
        if where is not None or node is not None:
            piece.fail("the condition cannot be told from the rest", "write it plainly")
        return None
    return agreed(piece[where + 1 :], node.this, names)


def assignments_of(piece: Piece, names: Names, found: list[exp.Expr]) -> dict[str, str]:
    """`column = expression, ...`: what follows SET, as columns in lower case and their values.

    Args:
        piece: it.
        names: what the expressions can name.
        found: the same as sqlglot read it in the whole statement.

    Raises:
        SqlTextError: a column is given twice, or is no column of the target; or see
            `expressions.expression`.
    """
    parts = piece.split(",")
    assignments: dict[str, str] = {}
    for index, part in enumerate(parts):
        equal = part.find("=", "==")
        if equal is None:
            part.fail("this is no assignment", "write column = expression")
        column = _assigned(part[:equal], names)
        if column in assignments:
            part.fail(f"column {column!r} is assigned twice", "assign it once")
        node = found[index] if index < len(found) else None
        value = node.expression if isinstance(node, exp.EQ) else None
        assignments[column] = agreed_value(part[equal + 1 :], value, names)
    if len(found) != len(parts):
        piece.fail("the assignments cannot be told apart", "put parentheses around the values")
    return assignments


def _assigned(piece: Piece, names: Names) -> str:
    """The column on the left of an assignment."""
    parts = [token.name for token in piece.tokens if token.word != "."]
    if not parts or None in parts or len(piece) != 2 * len(parts) - 1:
        piece.fail("this is no column", "write column = expression")
    lower = [part.lower() for part in parts if part is not None]
    if len(lower) > 1 and names.qualifiers.get(".".join(lower[:-1])) != TARGET:
        piece.fail("what stands left of = is a column of the target", "write its name alone")
    return lower[-1]


def agreed(piece: Piece, node: exp.Expr | None, names: Names) -> str:
    """The text of an expression, once sqlglot reads it alone as it does within its statement.

    Raises:
        SqlTextError: it does not, so that it is not sure where it ends; or see
            `expressions.expression`.
    """
    tree = parsed(piece, names)
    if tree != node:
        piece.fail("it is not clear where this ends", "put parentheses around it")
    return written(piece, tree, names)


def agreed_value(piece: Piece, node: exp.Expr | None, names: Names) -> str:
    """The same for the value of a column, which may be its default.

    Raises:
        SqlTextError: see `agreed`.
    """
    return DEFAULT if is_default(piece) else agreed(piece, node, names)


def is_default(piece: Piece) -> bool:
    """Whether it is the word DEFAULT."""
    return [token.word for token in piece.tokens] == [DEFAULT]


def expect_end(piece: Piece, index: int) -> None:
    """Refuse tokens from an index on.

    Raises:
        SqlTextError: there are some.
    """
    if index < len(piece):
        token: Token = piece.tokens[index]
        piece.fail(f"{token.raw!r} is not understood here", "remove it", token)
