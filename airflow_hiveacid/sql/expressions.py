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

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.sql.differences import check_meaning
from airflow_hiveacid.sql.nodes import check_expression, position_of
from airflow_hiveacid.sql.queries import check_queries
from airflow_hiveacid.sql.views import table_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.sql.text import Piece
    from airflow_hiveacid.sql.tokens import Token
    from airflow_hiveacid.sql.views import Views

TARGET: Final = "t"
SOURCE: Final = "s"
_CONSTANTS: Final = frozenset({"TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIMESTAMP"})
_NO_DEFAULT: Final = (
    "DEFAULT stands for a column's whole value, and for nothing in a condition or a query",
    "write the value",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a statement's expressions can name.

    `qualifiers` maps the user's names in lower case, `alias` or `db.table`, to `t` or `s`; `sides`
    are those of the two that there are. `renamed` gives columns of the source another name.
    `views` are for the tables of queries within expressions; None if there may be none.
    """

    qualifiers: Mapping[str, str]
    sides: frozenset[str]
    renamed: Mapping[str, str] | None = None
    views: Views | None = None


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column that an expression names: its parts as tokens, and which side they say it is of.

    Of one in a query, `inner` are the names of the tables of all queries around it, which hide
    ours, and `owner` is the name of the table whose it is.
    """

    parts: tuple[Token, ...]
    side: str | None
    qualifier_parts: int
    inner: frozenset[str] = frozenset()
    owner: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The parts as names in lower case."""
        return tuple((part.name or "").lower() for part in self.parts)

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
    return written(piece, parsed(piece, names), names)


def parsed(piece: Piece, names: Names) -> exp.Expr:
    """An expression as a tree, once it is known to mean the same in Hive and in Spark.

    Raises:
        SqlTextError: see `expression`.
    """
    if [token.word for token in piece.tokens] == ["DEFAULT"]:
        piece.fail(*_NO_DEFAULT)
    check_meaning(piece)
    tree = piece.parsed(exp.Condition)
    check_expression(piece, tree, with_queries=names.views is not None)
    check_queries(piece, tree)
    _check_arguments(piece, tree)
    return tree


def _check_arguments(piece: Piece, tree: exp.Expr) -> None:
    """Refuse an argument that is a bare name and that sqlglot takes for no column.

    It takes some for units of time, and drops some that it does not expect. Whose columns these are
    could not be said.

    Raises:
        SqlTextError: there is one.
    """
    names = {name.meta.get("start") for name in tree.find_all(exp.Identifier)}
    for index, token in enumerate(piece.tokens):
        is_alone = piece.word(index - 1) in {"(", ","} and piece.word(index + 1) in {")", ","}
        if not is_alone or token.name is None or token.word in _CONSTANTS:
            continue
        if token.start not in names:
            piece.fail(
                f"{token.raw} is not known to be a column here",
                "write a unit as a string, and a column with its table before it",
                token,
            )


def written(piece: Piece, tree: exp.Expr, names: Names) -> str:
    """The text of a parsed expression, over `t` and `s`.

    Raises:
        SqlTextError: a name in it is ambiguous.
    """
    if not names.sides and (column := tree.find(exp.Column)) is not None:
        piece.fail(
            "there is no row here whose column this is",
            "write a constant, or SELECT ... FROM db.s",
            position_of(piece, column),
        )
    changes = {} if names.views is None else table_changes(piece, tree, names.views)
    for use in column_uses(piece, tree, names):
        if use.side is not None:
            _check_visible(piece, use)
            changes |= _requalified(piece, use, use.side)
        elif use.owner is not None:
            changes[use.parts[0].start] = f"{quoted(use.owner)}.{use.parts[0].raw}"
        elif not use.inner and use.names[0] in names.sides and len(use.parts) > 1:
            changes[use.parts[0].start] = _qualified(piece, use, names)
        if use.side == SOURCE and names.renamed is not None:
            changes[use.column.start] = names.renamed[(use.column.name or "").lower()]
    return piece.written(changes)


def _requalified(piece: Piece, use: ColumnUse, side: str) -> dict[int, str]:
    """Our name for a table in place of the user's, which may have several parts."""
    first, last = use.parts[0].start, use.parts[use.qualifier_parts - 1].start
    between = {t.start: "" for t in piece.tokens if first < t.start <= last}
    return {first: side, **between}


def _qualified(piece: Piece, use: ColumnUse, names: Names) -> str:
    """A struct that is called as we call a table, with its table.

    Raises:
        SqlTextError: it is not sure which table that is.
    """
    if len(names.sides) > 1:
        piece.fail(
            f"{use.parts[0].raw} may be a column of either table",
            "write the table's alias before it",
            use.parts[0],
        )
    return f"{TARGET}.{use.parts[0].raw}"


def _check_visible(piece: Piece, use: ColumnUse) -> None:
    """Refuse a column of the statement's table that a query within would take for one of its own.

    Raises:
        SqlTextError: it would.
    """
    if use.side in use.inner:
        piece.fail(
            f"a table of this query is called {use.side!r}, as we call the statement's own",
            "give it another alias",
            use.parts[0],
        )
    if use.qualifier_parts > 1 and use.names[1] in use.inner:
        piece.fail(
            f"{'.'.join(use.names[:2])} is in the statement and in the query",
            "give each an alias of its own",
            use.parts[0],
        )


def column_uses(piece: Piece, tree: exp.Expr, names: Names) -> Iterator[ColumnUse]:
    """The columns that an expression names, each with its parts.

    Raises:
        SqlTextError: DEFAULT, a star, or a name that can be read in two ways.
    """
    by_start = {token.start: token for token in piece.tokens}
    has_queries = tree.find(exp.Select) is not None
    for dot in tree.find_all(exp.Dot):
        if isinstance(dot.expression, exp.Func):
            piece.fail(
                "functions of a database are not known to Spark",
                "write the expression out",
                position_of(piece, dot),
            )
    for column in tree.find_all(exp.Column):
        identifiers = [part for part in column.parts if isinstance(part, exp.Identifier)]
        tokens = tuple(_token_of(piece, part, by_start) for part in identifiers)
        if len(tokens) == 1 and tokens[0].word == "DEFAULT":
            piece.fail(*_NO_DEFAULT, tokens[0])
        queries = _queries_around(column) if has_queries else []
        if len(tokens) != len(column.parts):
            if not queries:
                piece.fail("a star stands for no single value", "name the columns", tokens[0])
            continue
        fields = [_token_of(piece, field, by_start) for field in _fields(column)]
        found = _use(piece, (*tokens, *fields), names)
        yield _within(piece, found, queries) if queries else found


def _within(piece: Piece, use: ColumnUse, queries: Sequence[Mapping[str, exp.Expr]]) -> ColumnUse:
    """A column in a query: the query's own tables come first, and whose it is has to be clear.

    Without its table's name, a column that the query's tables lack would be one of the statement's
    own table, and `DELETE ... WHERE id IN (SELECT id FROM other)` might delete every row.

    Raises:
        SqlTextError: it is not.
    """
    inner = frozenset(name for query in queries for name in query)
    if len(use.parts) > 1 and use.names[0] in inner:
        return replace(use, side=None, qualifier_parts=1, inner=inner)
    if use.side is not None:
        return replace(use, inner=inner)
    owner = next(iter(queries[0]), "")
    if len(queries[0]) != 1 or not owner:
        piece.fail(
            f"{use.parts[0].raw} may be a column of any table here",
            "write the table's alias before it",
            use.parts[0],
        )
    return replace(use, inner=inner, owner=owner)


def _queries_around(column: exp.Expr) -> list[Mapping[str, exp.Expr]]:
    """The tables of all queries around a column, innermost first, by their names in lower case."""
    found: list[Mapping[str, exp.Expr]] = []
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            joins = [join.this for join in node.args.get("joins") or []]
            tables = [node.args["from_"].this] if node.args.get("from_") else []
            every = [*tables, *joins, *(node.args.get("laterals") or [])]
            found.append({table.alias_or_name.lower(): table for table in every})
        node = node.parent
    return found


def _token_of(piece: Piece, name: exp.Identifier, by_start: Mapping[int, Token]) -> Token:
    """The token that a name is.

    Raises:
        SqlTextError: it has no place: sqlglot took a word for a name that is none, such as NULL.
    """
    found = by_start.get(name.meta.get("start", -1))
    if found is None:
        piece.fail(f"{name.name} is no name", "write `...` around it, if it is one")
    return found


def _fields(node: exp.Expr) -> Iterator[exp.Identifier]:
    """The fields of a struct after the fourth part of a name, where sqlglot begins anew."""
    parent = node.parent
    while isinstance(parent, exp.Dot) and parent.this is node:
        if isinstance(parent.expression, exp.Identifier):
            yield parent.expression
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
