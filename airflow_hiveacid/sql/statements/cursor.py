"""A left-to-right reader of tokens, for statements that sqlglot does not parse.

If the next tokens do not match, the error has their position. `end` refuses extra tokens.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> cursor = Cursor(statements_of("DROP TABLE IF EXISTS db.t")[0], "write DROP TABLE db.t")
    >>> cursor.took("DROP", "TABLE"), cursor.took("IF", "EXISTS"), cursor.table(None)
    (True, True, 'db.t')
    >>> cursor.end()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.jobs.metastore_statements import NewColumn, PartitionValues
from airflow_hiveacid.sql.statements.inserts import partition_value
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.literals import text
from airflow_hiveacid.sql.text.names import table_name
from airflow_hiveacid.sql.text.tokens import Kind, Token

_CONSTRAINTS = frozenset(
    {
        "CHECK", "CONSTRAINT", "DEFAULT", "DISABLE", "ENABLE", "FOREIGN", "FOREIGN KEY", "NOT",
        "PRIMARY", "PRIMARY KEY", "REFERENCES", "UNIQUE",
    }
)  # fmt: skip


class Cursor:
    """A mutable position in a statement; each read advances it; `form` is the default remedy."""

    def __init__(self, span: Span, form: str, at: int = 0) -> None:
        self.span = span
        self.form = form
        self.at = at

    @property
    def word(self) -> str:
        """The current word or symbol in upper case; empty for other tokens and at the end."""
        return self.span.word(self.at)

    @property
    def token(self) -> Token | int:
        """The current token, or the position after the last token."""
        tokens = self.span.tokens
        return tokens[self.at] if self.at < len(tokens) else tokens[-1].end

    def took(self, *words: str) -> bool:
        """Advance and return True if the next tokens are these words; otherwise, return False."""
        is_match = all(self.span.word(self.at + step) == word for step, word in enumerate(words))
        self.at += len(words) if is_match else 0
        return is_match

    def expect(self, *words: str) -> None:
        """Advance over these words."""
        if not self.took(*words):
            self.fail(f"{' '.join(words)} is missing here")

    def fail(self, problem: str, remedy: str | None = None) -> NoReturn:
        """Refuse the statement at the current token."""
        self.span.fail(problem, remedy or self.form, self.token)

    def end(self) -> None:
        """Refuse the statement if there are more tokens."""
        if self.at < len(self.span):
            self.fail(f"{self.span.tokens[self.at].raw!r} is not understood here")

    def table(self, database: str | None) -> str:
        """Read a table's name; return it with its database."""
        table = table_name(self.span, database, self.at)
        self.at = table.end
        return table.full

    def name(self, what: str) -> str:
        """Read a name, and return it in lower case."""
        name = self.span.tokens[self.at].name if self.at < len(self.span) else None
        if name is None or not name.strip():
            self.fail(f"the name of a {what} is missing here")
        self.at += 1
        return name.lower()

    def string(self, what: str) -> str:
        """Read a quoted string."""
        if self.at >= len(self.span) or self.span.tokens[self.at].kind is not Kind.STRING:
            self.fail(f"the {what}, in quotes, is missing here")
        self.at += 1
        return text(self.span, self.at - 1)

    def number(self, what: str) -> int:
        """Read an integer of up to 18 digits."""
        raw = self.span.tokens[self.at].raw if self.at < len(self.span) else ""
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 18):  # noqa: PLR2004 - fits 64 bits
            self.fail(f"the {what}, a whole number, is missing here")
        self.at += 1
        return int(raw)

    def entries(self) -> Iterator[Cursor]:
        """Yield a cursor for each entry of a list in parentheses."""
        if self.word != "(":
            self.fail("a list in parentheses is missing here")
        end = self.span.closing(self.at)
        inner = self.span[self.at + 1 : end]
        self.at = end + 1
        for entry in _split(inner):
            if not len(entry):
                entry.fail("an entry is missing here", self.form)
            yield Cursor(entry, self.form)

    def columns(self, before: tuple[NewColumn, ...] = ()) -> tuple[NewColumn, ...]:
        """Read column definitions in parentheses; `before` are the columns that the table has."""
        names = {column.name for column in before}
        columns: list[NewColumn] = []
        for entry in self.entries():
            begin = entry.token
            column = entry.column()
            if column.name in names:
                self.span.fail(f"column {column.name!r} is named twice", "name it once", begin)
            names.add(column.name)
            columns.append(column)
        return tuple(columns)

    def column(self) -> NewColumn:
        """Read a column definition (name, type, comment) up to the end of the span."""
        column = self.column_so_far(frozenset())
        self.end()
        return column

    def column_so_far(self, stops: frozenset[str]) -> NewColumn:
        """Read a name, a type up to a word of `stops`, and a comment; more tokens may follow."""
        if self.word in _CONSTRAINTS and self.span.word(self.at + 1) != "":
            self._no_constraint()
        name = self.name("column")
        begin, depth = self.at, 0
        while self.at < len(self.span):
            word = self.word
            if depth == 0 and (word == "COMMENT" or word in _CONSTRAINTS or word in stops):
                break
            depth += word.count("<") + (word == "(") - word.count(">") - (word == ")")
            self.at += 1
        kind = self.span[begin : self.at]
        if not len(kind):
            self.fail(f"the type of column {name!r} is missing here")
        try:
            type_text = str(parse_type(kind.text))
        except InvalidNameError as error:
            kind.fail(str(error), "write one of Hive's types, such as bigint or decimal(10,2)")
        comment = self.string("comment") if self.took("COMMENT") else None
        if self.word in _CONSTRAINTS:
            self._no_constraint()
        return NewColumn(name=name, type=type_text, comment=comment)

    def _no_constraint(self) -> NoReturn:
        self.fail(
            "constraints are not supported: rows would be written without checking them",
            "remove it, and check rows in the query that inserts them",
        )

    def properties(self) -> tuple[tuple[str, str], ...]:
        """Read a list of properties, `('key'='value', ...)`."""
        properties: dict[str, str] = {}
        for entry in self.entries():
            begin = entry.token
            key = entry.string("name of a property")
            if key in properties:
                self.span.fail(f"property {key!r} is named twice", "name it once", begin)
            if not entry.took("="):
                entry.fail(f"the value of property {key!r} is missing here", "write 'name'='value'")
            properties[key] = entry.string(f"value of property {key!r}")
            entry.end()
        return tuple(properties.items())

    def partition(self, *, lower_truths: bool = False) -> PartitionValues:
        """Read the values of partition columns; names of partitions have booleans in lower case."""
        values: dict[str, str] = {}
        for entry in self.entries():
            begin = entry.token
            name = entry.name("partition column")
            if name in values:
                self.span.fail(f"partition column {name!r} is named twice", "name it once", begin)
            rest = entry.span[entry.at :]
            value = partition_value(rest)
            is_lower = lower_truths and rest.word(1) in {"TRUE", "FALSE"}
            values[name] = value.lower() if is_lower else value
        return tuple(values.items())


def _split(span: Span) -> Iterator[Span]:
    begin = depth = 0
    for index, token in enumerate(span.tokens):
        depth += (token.word in {"(", "["}) - (token.word in {")", "]"})
        depth += token.word.count("<") - token.word.count(">")
        if token.word == "," and depth == 0:
            yield span[begin:index]
            begin = index + 1
    yield span[begin:]
