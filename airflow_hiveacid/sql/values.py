"""The rows of INSERT ... VALUES, as a source.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (piece,) = statements_of("INSERT INTO db.t VALUES (1, 'x'), (2, NULL)")
    >>> values_of(piece[6:], piece.parsed(), ())[0].values
    ((1, 'x'), (2, None))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.jobs.specs import SourceSpec
from airflow_hiveacid.sql.changes import agreed, expect_end, is_default
from airflow_hiveacid.sql.expressions import Names
from airflow_hiveacid.sql.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.sql.text import Piece

_NO_NAMES: Final = Names(qualifiers={}, sides=frozenset())
_MOST_QUERIES: Final = 500
_Value = str | int | float | None


def values_of(
    piece: Piece, tree: exp.Insert, columns: tuple[str, ...]
) -> tuple[SourceSpec, tuple[int, ...]]:
    """The rows of VALUES: constants as they are; if a row holds an expression, all as a query.

    Args:
        piece: what follows VALUES.
        tree: the statement as sqlglot read it.
        columns: those that the statement lists, if it does.

    Returns:
        The rows, without the columns that are DEFAULT in all of them, and the places of these.

    Raises:
        SqlTextError: they are no rows of one length; or see `expressions.expression`.
    """
    rows = [_cells(row) for row in piece.split(",")]
    width = len(columns or rows[0])
    for row, cells in zip(piece.split(","), rows, strict=True):
        if len(cells) != width:
            row.fail(f"this row has {len(cells)} values, not {width}", "give each row as many")
    nodes = tree.expression.expressions if isinstance(tree.expression, exp.Values) else []
    if len(nodes) != len(rows):
        piece.fail("the rows cannot be told apart", "write VALUES (...), (...)")
    default_at = _defaults(rows)
    given = [at for at in range(width) if at not in default_at]
    plain = [_constants([row[at] for row in rows]) for at in given]
    known = [column for column in plain if column is not None]
    if len(known) == len(given):
        names = tuple(name for at, name in enumerate(columns) if at in given)
        values = tuple(zip(*known, strict=True)) if known else ((),) * len(rows)
        return SourceSpec(values=values, columns=names), default_at
    if len(rows) > _MOST_QUERIES:
        piece.fail(
            f"more than {_MOST_QUERIES} rows of which one holds an expression are too much for"
            " Spark, to which each row is a query then",
            "write constants only, or put the rows into a table",
        )
    for at in given:
        _check_alike([row[at] for row in rows])
    texts = [
        ", ".join(agreed(cells[at], values[at], _NO_NAMES) for at in given)
        for cells, values in (
            (row, _cell_nodes(piece, node, width)) for row, node in zip(rows, nodes, strict=True)
        )
    ]
    query = " UNION ALL ".join(f"SELECT {text}" for text in texts)
    return SourceSpec(tables={}, query=query), default_at


def _defaults(rows: Sequence[Sequence[Piece]]) -> tuple[int, ...]:
    """The places of columns that are DEFAULT.

    Raises:
        SqlTextError: one is in some rows only.
    """
    found = []
    for at, cells in enumerate(zip(*rows, strict=True)):
        are = [is_default(cell) for cell in cells]
        if any(are) and not all(are):
            cells[are.index(True)].fail(
                "DEFAULT is in some rows of a column and not in all of them",
                "write two statements, or the value",
            )
        if all(are):
            found.append(at)
    return tuple(found)


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
        value = constant(cell)
        if isinstance(value, Absent):
            return None
        values.append(str(value).upper() if isinstance(value, bool) else value)
    fractions = [
        len(str(value).partition(".")[2])
        for cell, value in zip(cells, values, strict=True)
        if value is not None and any(token.kind is Kind.NUMBER for token in cell.tokens)
    ]
    are_numbers = len(fractions) == len(values) - values.count(None)
    if not are_numbers or len(set(fractions)) <= 1:
        return values
    return [None if value is None else _padded(str(value), max(fractions)) for value in values]


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
