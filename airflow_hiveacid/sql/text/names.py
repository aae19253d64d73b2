"""The parsers of table names, aliases and column lists in a statement's tokens.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> table_name(statements_of("Sales.`Orders`")[0], None).full
    'sales.orders'
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.sql.text import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable:
    """A table in a statement, the names that can qualify its columns, and the index after them."""

    ref: TableRef
    alias: str | None = None
    end: int = 0

    @property
    def full(self) -> str:
        """The full name, `db.table`."""
        return str(self.ref)

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The lower-case qualifiers that columns may have: the alias, or else both table names."""
        return (self.alias,) if self.alias is not None else (self.ref.name, self.full)


def table_name(span: Span, database: str | None, begin: int = 0) -> NamedTable:
    """Return the table whose name begins at a token; without `database`, names must include one."""
    tokens = span.tokens
    parts: list[str] = []
    index = begin
    while True:
        name = tokens[index].name if index < len(tokens) else None
        if name is None:
            position = tokens[index] if index < len(tokens) else tokens[-1].end
            span.fail("the name of a table is missing", "write db.table", position)
        parts.append(name)
        index += 1
        if index >= len(tokens) or tokens[index].word != ".":
            break
        index += 1
    if len(parts) == 1 and database is not None:
        parts.insert(0, database)
    if len(parts) != 2:  # noqa: PLR2004 - database and table
        remedy = "write db.table" if len(parts) == 1 else "write only db.table"
        span.fail(f"{'.'.join(parts)!r} is not the name of a table", remedy, tokens[begin])
    try:
        ref = TableRef(parts[0].lower(), parts[1].lower())
    except InvalidNameError as error:
        span.fail(str(error), "write db.table, with letters, digits and _", tokens[begin])
    return NamedTable(ref=ref, end=index)


def with_alias(span: Span, table: NamedTable, *, stops: frozenset[str]) -> NamedTable:
    """Return the table with its alias, if any; a word of `stops` is not an alias."""
    alias, end = alias_at(span, table.end, stops=stops)
    return NamedTable(ref=table.ref, alias=alias, end=end)


def alias_at(span: Span, index: int, *, stops: frozenset[str]) -> tuple[str | None, int]:
    """Return an alias (with or without AS) in lower case, and the index of the next token."""
    tokens = span.tokens
    has_as = index < len(tokens) and tokens[index].word == "AS"
    index += has_as
    if index < len(tokens) and tokens[index].word not in stops:
        name = tokens[index].name
        if name is not None:
            return name.lower(), index + 1
    if has_as:
        span.fail("no name follows AS", "write the alias", tokens[index - 1])
    return None, index


def column_list(span: Span) -> tuple[str, ...]:
    """Return the names in a column list, in lower case; the span includes the parentheses."""
    names: list[str] = []
    for part in span[1:-1].split(","):
        name = part.tokens[0].name if len(part) == 1 else None
        if name is None:
            part.fail("this is not a column of the table", "write names separated by commas")
        if name.lower() in names:
            part.fail(f"column {name!r} is named twice", "name it once")
        names.append(name.lower())
    return tuple(names)
