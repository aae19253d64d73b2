"""Names of tables and lists of columns, as a statement's tokens say them.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> table_name(statements_of("Sales.`Orders`")[0], None).full
    'sales.orders'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.table import TableRef

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A table in a statement: its name, and what else may stand for it in the statement.

    `end` is the index of the token after it.
    """

    ref: TableRef
    alias: str | None = None
    end: int = 0

    @property
    def full(self) -> str:
        """`db.table`."""
        return str(self.ref)

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """What may stand before its columns, in lower case: with an alias, nothing else."""
        return (self.alias,) if self.alias is not None else (self.ref.name, self.full)


def table_name(piece: Piece, database: str | None, begin: int = 0) -> NamedTable:
    """The table that is named from a token on.

    Args:
        piece: the statement.
        database: where a table is whose name has no database; None if that is an error.
        begin: the first token of the name.

    Raises:
        SqlTextError: there is no name, or it is not one of a table.
    """
    tokens = piece.tokens
    parts: list[str] = []
    index = begin
    while True:
        name = tokens[index].name if index < len(tokens) else None
        if name is None:
            at = tokens[index] if index < len(tokens) else tokens[-1].end
            piece.fail("the name of a table is missing", "write db.table", at)
        parts.append(name)
        index += 1
        if index >= len(tokens) or tokens[index].word != ".":
            break
        index += 1
    if len(parts) == 1 and database is not None:
        parts.insert(0, database)
    if len(parts) != 2:  # noqa: PLR2004 - database and table
        remedy = "write db.table" if len(parts) == 1 else "a table is db.table, nothing more"
        piece.fail(f"{'.'.join(parts)!r} does not name a table", remedy, tokens[begin])
    try:
        ref = TableRef(parts[0].lower(), parts[1].lower())
    except InvalidNameError as error:
        piece.fail(str(error), "write db.table, of letters, digits and _", tokens[begin])
    return NamedTable(ref=ref, end=index)


def with_alias(piece: Piece, table: NamedTable, *, stops: frozenset[str]) -> NamedTable:
    """The same table with the alias that follows it, if there is one before a word of `stops`.

    Raises:
        SqlTextError: AS is followed by no name.
    """
    alias, end = alias_at(piece, table.end, stops=stops)
    return NamedTable(ref=table.ref, alias=alias, end=end)


def alias_at(piece: Piece, index: int, *, stops: frozenset[str]) -> tuple[str | None, int]:
    """An alias in lower case, with or without AS, and the index of the token after it.

    Raises:
        SqlTextError: AS is followed by no name.
    """
    tokens = piece.tokens
    has_as = index < len(tokens) and tokens[index].word == "AS"
    index += has_as
    if index < len(tokens) and tokens[index].word not in stops:
        name = tokens[index].name
        if name is not None:
            return name.lower(), index + 1
    if has_as:
        piece.fail("AS is followed by no name", "write the alias", tokens[index - 1])
    return None, index


def column_list(piece: Piece) -> tuple[str, ...]:
    """The names between parentheses, which the piece is with them, in lower case.

    Raises:
        SqlTextError: one is no name, or is there twice.
    """
    found: list[str] = []
    for part in piece[1:-1].split(","):
        name = part.tokens[0].name if len(part) == 1 else None
        if name is None:
            part.fail("this is no column of the table", "write names between commas")
        if name.lower() in found:
            part.fail(f"column {name!r} is named twice", "name it once")
        found.append(name.lower())
    return tuple(found)
