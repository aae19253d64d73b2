"""An expression of a statement as the Spark SQL text that a job description holds.

Takes the user's tokens and the names by which the user calls target and source; gives the user's
own text, in which those names have become `t` and `s`. Strings, fields of structs and everything
else stay as they were written.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (piece,) = statements_of("c.a + 1 > c.s.c AND x = 'c.a'")
    >>> expression(piece, Names(qualifiers={"c": "t"}, sides=frozenset("t")))
    "t.a + 1 > t.s.c AND x = 'c.a'"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.sql.differences import check_meaning
from airflow_hiveacid.sql.nodes import check_expression, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_hiveacid.sql.text import Piece, Token

TARGET: Final = "t"
SOURCE: Final = "s"
_NO_DEFAULT: Final = ("DEFAULT is not supported yet", "write the value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a statement's expressions can name.

    `qualifiers` maps the user's names in lower case, `alias` or `db.table`, to `t` or `s`; `sides`
    are those of the two that there are. `renamed` gives columns of the source another name.
    """

    qualifiers: Mapping[str, str]
    sides: frozenset[str]
    renamed: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column that an expression names: its parts as tokens, and which side they say it is of."""

    parts: tuple[Token, ...]
    side: str | None
    qualifier_parts: int

    @property
    def column(self) -> Token:
        """The token of the column itself; fields of a struct come after it."""
        return self.parts[self.qualifier_parts]

    @property
    def is_plain(self) -> bool:
        """Whether it is a column, and no field of one."""
        return len(self.parts) == self.qualifier_parts + 1


def expression(piece: Piece, names: Names) -> str:
    """The text of an expression, over `t` and `s`.

    Raises:
        SqlTextError: it cannot be read, or is not supported, or would mean something else.
    """
    return written(piece, parsed(piece), names)


def parsed(piece: Piece) -> exp.Expr:
    """An expression as a tree, once it is known to mean the same in Hive and in Spark.

    Raises:
        SqlTextError: see `expression`.
    """
    if [token.word for token in piece.tokens] == ["DEFAULT"]:
        piece.fail(*_NO_DEFAULT)
    check_meaning(piece)
    tree = piece.parsed(exp.Condition)
    check_expression(piece, tree)
    return tree


def written(piece: Piece, tree: exp.Expr, names: Names) -> str:
    """The text of a parsed expression, over `t` and `s`.

    Raises:
        SqlTextError: a name in it is ambiguous.
    """
    changes: dict[int, str] = {}
    for use in column_uses(piece, tree, names):
        if use.side is not None:
            changes[use.parts[0].start] = use.side
            for extra in use.parts[1 : use.qualifier_parts]:
                changes[extra.start] = ""
            if use.qualifier_parts > 1:
                _drop_dots(piece, use, changes)
        elif (use.parts[0].name or "").lower() in names.sides and len(use.parts) > 1:
            # A struct that is called as we call a table.
            if len(names.sides) > 1:
                piece.fail(
                    f"{use.parts[0].raw} may be a column of either table",
                    "write the table's alias before it",
                    use.parts[0],
                )
            changes[use.parts[0].start] = f"{TARGET}.{use.parts[0].raw}"
        if use.side == SOURCE and names.renamed is not None:
            name = (use.column.name or "").lower()
            changes[use.column.start] = names.renamed[name]
    return piece.written(changes)


def column_uses(piece: Piece, tree: exp.Expr, names: Names) -> Iterator[ColumnUse]:
    """The columns that an expression names, each with its parts.

    Raises:
        SqlTextError: DEFAULT, a star, or a name that can be read in two ways.
    """
    by_start = {token.start: token for token in piece.tokens}
    for dot in tree.find_all(exp.Dot):
        if isinstance(dot.expression, exp.Func):
            piece.fail(
                "functions of a database are not known to Spark",
                "write the expression out",
                position_of(piece, dot),
            )
    for column in tree.find_all(exp.Column):
        if not names.sides:
            piece.fail(
                "there is no row here whose column this is",
                "write a constant, or SELECT ... FROM db.s",
                position_of(piece, column),
            )
        identifiers = [part for part in column.parts if isinstance(part, exp.Identifier)]
        tokens = tuple(by_start[part.meta["start"]] for part in identifiers)
        if len(tokens) != len(column.parts):
            piece.fail("a star stands for no single value", "name the columns", tokens[0])
        if len(tokens) == 1 and tokens[0].word == "DEFAULT":
            piece.fail(*_NO_DEFAULT, tokens[0])
        yield _use(piece, (*tokens, *_fields(column, by_start)), names)


def _fields(node: exp.Expr, by_start: Mapping[int, Token]) -> Iterator[Token]:
    """The fields of a struct after the fourth part of a name, where sqlglot begins anew."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node:
        if isinstance(parent.expression, exp.Identifier):
            yield by_start[parent.expression.meta["start"]]
        node, parent = parent, parent.parent


def _use(piece: Piece, parts: tuple[Token, ...], names: Names) -> ColumnUse:
    lower = [(part.name or "").lower() for part in parts]
    one = names.qualifiers.get(lower[0]) if len(parts) > 1 else None
    two = names.qualifiers.get(".".join(lower[:2])) if len(parts) > 2 else None  # noqa: PLR2004 - db, table, column
    if one is not None and two is not None:
        piece.fail(f"{parts[0].raw} is a table and the database of one", "use an alias", parts[0])
    if two is not None:
        return ColumnUse(parts, two, 2)
    return ColumnUse(parts, one, int(one is not None))


def _drop_dots(piece: Piece, use: ColumnUse, changes: dict[int, str]) -> None:
    """Leave out the dots between the parts of a qualifier of several parts."""
    last = use.parts[use.qualifier_parts - 1]
    for token in piece.tokens:
        if token.word == "." and use.parts[0].start < token.start < last.start:
            changes[token.start] = ""
