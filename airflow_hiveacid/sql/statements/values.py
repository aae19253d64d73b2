"""The parser of the rows of INSERT ... VALUES.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> (span,) = statements_of("INSERT INTO db.t VALUES (1, 'x'), (2, NULL)")
    >>> values_of(span[6:], span.parsed(), ())[0].values
    ((1, 'x'), (2, None))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs.statements import Parameter, SourceSpec, Value, ValueType
from airflow_hiveacid.plan.statements.dml import sql_string
from airflow_hiveacid.plan.statements.parameters import Later
from airflow_hiveacid.sql.expressions import NameScope
from airflow_hiveacid.sql.statements.update_delete import agreed, expect_end, is_default
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.literals import ABSENT, Absent, constant
from airflow_hiveacid.sql.text.tokens import Kind

_NO_NAMES: Final = NameScope(qualifiers={}, sides=frozenset())
_MOST_QUERIES: Final = 500
_TRUTHS: Final = {True: "true", False: "false"}
_IS_DEFAULT: Final = "__hiveacid_default_{}"
_MADE: Final = "__hiveacid_{}_{}"
_NUMBERS: Final = frozenset({ValueType.INT, ValueType.DECIMAL})
_Value = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultPositions:
    """Column positions, from 0; see `InsertSpec` for the fields."""

    default_at: tuple[int, ...] = ()
    default_where: tuple[int, ...] = ()
    text_at: tuple[int, ...] = ()


def values_of(
    span: Span, tree: exp.Insert, columns: tuple[str, ...]
) -> tuple[SourceSpec, DefaultPositions]:
    """Return the rows of VALUES as a source: values if all are constants, otherwise a query.

    `span` has the tokens after VALUES, `tree` is of the whole statement. Also return the positions
    of columns with DEFAULT. One with DEFAULT in all rows is omitted; one with DEFAULT in only some
    rows gets a flag column at the end that marks these rows.
    """
    rows, nodes = _rows(span, tree, columns)
    width = len(rows[0])
    positions = _defaults(rows)
    column_indexes = [index for index in range(width) if index not in positions.default_at]
    constants = {index: _constants([row[index] for row in rows]) for index in column_indexes}
    plain = [column for column in constants.values() if column is not None]
    if len(plain) == len(column_indexes):
        names = [name for index, name in enumerate(columns) if index in column_indexes]
        return _of_constants(rows, plain, names, positions), positions
    if len(rows) > _MOST_QUERIES:
        span.fail(
            f"more than {_MOST_QUERIES} rows are too many for Spark if a row contains an"
            " expression, because each row becomes a query",
            "write constants only, or put the rows into a table",
        )
    selects = []
    parameters: dict[str, Parameter] = {}
    for number, node in enumerate(nodes):
        row, cell_nodes = rows[number], _cell_nodes(span, node, width)
        for index in column_indexes:
            column = constants[index]
            if column is not None and _parameter(row[index]) is not None:
                parameters[_MADE.format(number, index)] = _made(column[number])
        items = [
            _item(row[index], cell_nodes[index], constants[index], (number, index))
            for index in column_indexes
        ]
        items += [_as_text(_TRUTHS[is_default(row[index])]) for index in positions.default_where]
        selects.append(f"SELECT {', '.join(items)}")
    for index in column_indexes:
        if constants[index] is None:
            _check_alike([row[index] for row in rows])
    text_at = tuple(index for index in column_indexes if constants[index] is not None)
    source = SourceSpec(tables={}, query=" UNION ALL ".join(selects), parameters=parameters)
    return source, replace(positions, text_at=text_at)


def _rows(
    span: Span, tree: exp.Insert, columns: tuple[str, ...]
) -> tuple[list[tuple[Span, ...]], list[exp.Expr]]:
    rows = [_cells(row) for row in span.split(",")]
    width = len(columns or rows[0])
    for row, cells in zip(span.split(","), rows, strict=True):
        if len(cells) != width:
            row.fail(f"this row has {len(cells)} values, not {width}", "give all rows equally many")
    nodes = tree.expression.expressions if isinstance(tree.expression, exp.Values) else []
    if len(nodes) != len(rows):
        span.fail("it is not clear where a row ends", "write VALUES (...), (...)")
    return rows, nodes


def _of_constants(
    rows: Sequence[Sequence[Span]],
    columns: Sequence[list[_Value]],
    names: Sequence[str],
    positions: DefaultPositions,
) -> SourceSpec:
    """Return a source of constants, with a flag column for each column in `default_where`."""
    flags: list[list[_Value]] = [
        [_TRUTHS[is_default(row[index])] for row in rows] for index in positions.default_where
    ]
    every = [*columns, *flags]
    return SourceSpec(
        values=tuple(zip(*every, strict=True)) if every else ((),) * len(rows),
        columns=(
            *names,
            *(_IS_DEFAULT.format(index) for index in positions.default_where if names),
        ),
    )


def _item(
    cell: Span, node: exp.Expr, column: list[_Value] | None, position: tuple[int, int]
) -> str:
    """Return a cell as Spark SQL.

    `column` has the constants of its column, or None if not all cells are constants. `position` is
    the indexes of its row and column.
    """
    if column is not None and _parameter(cell) is not None:
        return f":{_MADE.format(*position)}"  # the SQL text contains no values
    if column is not None:
        return _as_text(column[position[0]])
    return "NULL" if is_default(cell) else agreed(cell, node, _NO_NAMES)


def _made(value: _Value) -> Parameter:
    if value is None:
        return Parameter(values=(Value(type=ValueType.NULL),))
    return Parameter(values=(Value(type=ValueType.STRING, text=str(value)),))


def _parameter(cell: Span) -> Parameter | None:
    return cell.tokens[0].parameter if len(cell) == 1 else None


def _as_text(value: _Value) -> str:
    return "NULL" if value is None else sql_string(str(value))


def _defaults(rows: Sequence[Sequence[Span]]) -> DefaultPositions:
    """Return which columns have DEFAULT in all rows or in some rows.

    Numbers with different counts of digits after the point beside a DEFAULT are refused: in a
    string column, Hive would store digits that depend on the default.
    """
    default_at, default_where = [], []
    for index, cells in enumerate(zip(*rows, strict=True)):
        value_cells = [cell for cell in cells if not is_default(cell)]
        if not value_cells:
            default_at.append(index)
        elif len(value_cells) < len(cells):
            default_where.append(index)
            if len(set(_fractions(value_cells))) > 1:
                value_cells[0].fail(
                    "if some rows have DEFAULT in a string column, the column's default decides"
                    " how many digits the numbers of other rows have",
                    "write all of them with the same number of digits, or use two statements",
                )
    return DefaultPositions(default_at=tuple(default_at), default_where=tuple(default_where))


def _check_alike(cells: Sequence[Span]) -> None:
    """Refuse strings and numbers in one column: in a UNION, Spark makes numbers, Hive strings."""
    bare = [_without_signs(cell) for cell in cells]
    texts = [cell for cell in bare if _is_text(cell)]
    if texts and any(_is_no_text(cell) for cell in bare):
        texts[0].fail(
            "strings and numbers in one column become strings in Hive, but numbers in Spark if"
            " VALUES also contains an expression",
            "write all of them as strings, or use two statements",
        )


def _without_signs(cell: Span) -> Span:
    cell = cell.unwrapped()
    while len(cell) > 1 and cell.tokens[0].word in {"-", "+"}:
        cell = cell[1:].unwrapped()
    return cell


def _is_text(cell: Span) -> bool:
    """Return True if a cell is certainly a string; a parameter without a value is not."""
    parameter = _parameter(cell)
    if parameter is not None:
        is_known = not isinstance(parameter, Later)
        return is_known and parameter.values[0].type is ValueType.STRING
    return len(cell) > 0 and all(token.kind is Kind.STRING for token in cell.tokens)


def _is_no_text(cell: Span) -> bool:
    """Return True if a cell is certainly not a string; False for NULL, DEFAULT and expressions."""
    parameter = _parameter(cell)
    if parameter is not None:
        is_known = not isinstance(parameter, Later)
        return is_known and parameter.values[0].type not in {ValueType.STRING, ValueType.NULL}
    is_number = any(token.kind is Kind.NUMBER for token in cell.tokens)
    if is_number and all(t.kind is Kind.NUMBER or t.word == "." for t in cell.tokens):
        return True
    return not _is_text(cell) and constant(cell) not in (ABSENT, None)


def _is_number(constant: Span) -> bool:
    parameter = _parameter(constant)
    if parameter is not None:
        return parameter.values[0].type in _NUMBERS
    return any(token.kind is Kind.NUMBER for token in constant.tokens)


def _constants(cells: Sequence[Span]) -> list[_Value] | None:
    """Return a column's constants as Hive stores them; None if a cell is not a constant."""
    values: list[_Value] = []
    for cell in cells:
        value = None if is_default(cell) else constant(cell)
        if isinstance(value, Absent):
            return None
        values.append(str(value).upper() if isinstance(value, bool) else value)
    # If all are numbers, Hive gives each as many digits after the point as the longest has.
    fractions = _fractions(cells)
    are_numbers = len(fractions) == len(values) - values.count(None)
    if not are_numbers or len(set(fractions)) <= 1:
        return values
    return [None if value is None else _padded(str(value), max(fractions)) for value in values]


def _fractions(cells: Sequence[Span]) -> list[int]:
    return [
        len(str(constant(cell)).partition(".")[2])
        for cell in cells
        if constant(cell) is not ABSENT and _is_number(cell)
    ]


def _padded(number: str, digits: int) -> str:
    whole, _, fraction = number.partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')}"


def _cell_nodes(span: Span, node: exp.Expr, width: int) -> list[exp.Expr]:
    nodes = node.expressions if isinstance(node, exp.Tuple) else []
    if len(nodes) != width:
        span.fail("it is not clear where a value ends", "put parentheses around each")
    return nodes


def _cells(row: Span) -> tuple[Span, ...]:
    if len(row) < 2 or row.tokens[0].word != "(":  # noqa: PLR2004 - two parentheses
        row.fail("this is not a row", "write VALUES (...), (...)")
    expect_end(row, row.closing(0) + 1)
    return row[1:-1].split(",")
