"""The rows of INSERT ... VALUES, as a source.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (piece,) = statements_of("INSERT INTO db.t VALUES (1, 'x'), (2, NULL)")
    >>> values_of(piece[6:], piece.parsed(), ())[0].values
    ((1, 'x'), (2, None))
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.jobs.specs import SourceSpec
from airflow_hiveacid.plan.statements import sql_string
from airflow_hiveacid.sql.changes import agreed, expect_end, is_default
from airflow_hiveacid.sql.expressions import Names
from airflow_hiveacid.sql.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.sql.text import Piece

_NO_NAMES: Final = Names(qualifiers={}, sides=frozenset())
_MOST_QUERIES: Final = 500
_TRUTHS: Final = {True: "true", False: "false"}
_IS_DEFAULT: Final = "__hiveacid_default_{}"
_Value = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The places of columns, from 0: DEFAULT in all rows, in some, and those of texts only."""

    default_at: tuple[int, ...] = ()
    default_where: tuple[int, ...] = ()
    text_at: tuple[int, ...] = ()


def values_of(
    piece: Piece, tree: exp.Insert, columns: tuple[str, ...]
) -> tuple[SourceSpec, Places]:
    """The rows of VALUES: constants as they are; if a row holds an expression, all as a query.

    Args:
        piece: what follows VALUES.
        tree: the statement as sqlglot read it.
        columns: those that the statement lists, if it does.

    Returns:
        The rows, without the columns that are DEFAULT in all of them, and the places of columns.
        For each that is DEFAULT in some, there is one behind all others that says in which.

    Raises:
        SqlTextError: they are no rows of one length; or see `expressions.expression`.
    """
    rows, nodes = _rows(piece, tree, columns)
    width = len(rows[0])
    places = _defaults(rows)
    given = [at for at in range(width) if at not in places.default_at]
    plain = [_constants([row[at] for row in rows]) for at in given]
    if all(column is not None for column in plain):
        names = [name for at, name in enumerate(columns) if at in given]
        return _of_constants(rows, [c for c in plain if c is not None], names, places), places
    if len(rows) > _MOST_QUERIES:
        piece.fail(
            f"more than {_MOST_QUERIES} rows of which one holds an expression are too much for"
            " Spark, to which each row is a query then",
            "write constants only, or put the rows into a table",
        )
    constants = dict(zip(given, plain, strict=True))
    selects = []
    for number, node in enumerate(nodes):
        found = _cell_nodes(piece, node, width)
        items = [_item(rows[number][at], found[at], constants[at], number) for at in given]
        items += [_as_text(_TRUTHS[is_default(rows[number][at])]) for at in places.default_where]
        selects.append(f"SELECT {', '.join(items)}")
    for at in given:
        if constants[at] is None:
            _check_alike([row[at] for row in rows])
    text_at = tuple(at for at in given if constants[at] is not None)
    source = SourceSpec(tables={}, query=" UNION ALL ".join(selects))
    return source, replace(places, text_at=text_at)


def _rows(
    piece: Piece, tree: exp.Insert, columns: tuple[str, ...]
) -> tuple[list[tuple[Piece, ...]], list[exp.Expr]]:
    """The rows, each as its cells, and as sqlglot read it."""
    rows = [_cells(row) for row in piece.split(",")]
    width = len(columns or rows[0])
    for row, cells in zip(piece.split(","), rows, strict=True):
        if len(cells) != width:
            row.fail(f"this row has {len(cells)} values, not {width}", "give each row as many")
    nodes = tree.expression.expressions if isinstance(tree.expression, exp.Values) else []
    if len(nodes) != len(rows):
        piece.fail("the rows cannot be told apart", "write VALUES (...), (...)")
    return rows, nodes


def _of_constants(
    rows: Sequence[Sequence[Piece]],
    given: Sequence[list[_Value]],
    names: Sequence[str],
    places: Places,
) -> SourceSpec:
    """The rows of these columns, and whether each is DEFAULT of those that may be."""
    flags: list[list[_Value]] = [
        [_TRUTHS[is_default(row[at])] for row in rows] for at in places.default_where
    ]
    every = [*given, *flags]
    return SourceSpec(
        values=tuple(zip(*every, strict=True)) if every else ((),) * len(rows),
        columns=(*names, *(_IS_DEFAULT.format(at) for at in places.default_where if names)),
    )


def _item(cell: Piece, node: exp.Expr, column: list[_Value] | None, number: int) -> str:
    """A cell of a row with a number, as Spark's SQL; its column's constants, where all are such."""
    if column is not None:
        return _as_text(column[number])
    return "NULL" if is_default(cell) else agreed(cell, node, _NO_NAMES)


def _as_text(value: _Value) -> str:
    """A constant as Spark's SQL: the text that it is for a column of texts."""
    return "NULL" if value is None else sql_string(str(value))


def _defaults(rows: Sequence[Sequence[Piece]]) -> Places:
    """The columns that are DEFAULT.

    Raises:
        SqlTextError: one is so beside numbers that would be texts in Hive if the default is one.
    """
    default_at, default_where = [], []
    for at, cells in enumerate(zip(*rows, strict=True)):
        others = [cell for cell in cells if not is_default(cell)]
        if not others:
            default_at.append(at)
        elif len(others) < len(cells):
            default_where.append(at)
            if len(set(_fractions(others))) > 1:
                others[0].fail(
                    "how many digits a number beside DEFAULT has as a text depends on the default",
                    "write all of them with as many digits, or two statements",
                )
    return Places(default_at=tuple(default_at), default_where=tuple(default_where))


def _check_alike(cells: Sequence[Piece]) -> None:
    """Refuse constants in rows with expressions, which are a UNION, if only some are texts.

    Raises:
        SqlTextError: they are so.
    """
    constants = [cell for cell in cells if constant(cell) not in (ABSENT, None)]
    texts = [cell for cell in constants if cell.tokens[0].kind is Kind.STRING]
    if texts and len(texts) < len(constants):
        texts[0].fail(
            "texts and numbers in one column become texts in Hive, and numbers in Spark where"
            " VALUES hold an expression, too",
            "write all of them as texts, or two statements",
        )


def _constants(cells: Sequence[Piece]) -> list[_Value] | None:
    """The constants of one column, as Hive writes them into one of texts; None if not all are.

    Truth is in upper case, and all numbers have as many digits behind the point as the longest.
    """
    values: list[_Value] = []
    for cell in cells:
        value = None if is_default(cell) else constant(cell)
        if isinstance(value, Absent):
            return None
        values.append(str(value).upper() if isinstance(value, bool) else value)
    fractions = _fractions(cells)
    are_numbers = len(fractions) == len(values) - values.count(None)
    if not are_numbers or len(set(fractions)) <= 1:
        return values
    return [None if value is None else _padded(str(value), max(fractions)) for value in values]


def _fractions(cells: Sequence[Piece]) -> list[int]:
    """How many digits each number has behind the point."""
    return [
        len(str(constant(cell)).partition(".")[2])
        for cell in cells
        if constant(cell) is not ABSENT and any(t.kind is Kind.NUMBER for t in cell.tokens)
    ]


def _padded(number: str, digits: int) -> str:
    whole, _, fraction = number.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"


def _cell_nodes(piece: Piece, node: exp.Expr, width: int) -> list[exp.Expr]:
    found = node.expressions if isinstance(node, exp.Tuple) else []
    if len(found) != width:
        piece.fail("the values cannot be told apart", "put parentheses around each")
    return found


def _cells(row: Piece) -> tuple[Piece, ...]:
    if len(row) < 2 or row.tokens[0].word != "(":  # noqa: PLR2004 - two parentheses
        row.fail("this is no row", "write VALUES (...), (...)")
    expect_end(row, row.closing(0) + 1)
    return row[1:-1].split(",")
