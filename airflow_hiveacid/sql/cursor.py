"""Reads the tokens of a statement from left to right, for those that sqlglot does not read.

Takes a piece; gives names, strings, lists and specifications as they are asked for, and complains
at the place where something else stands. What is left over at the end is refused.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> cursor = Cursor(statements_of("DROP TABLE IF EXISTS db.t")[0], "write DROP TABLE db.t")
    >>> cursor.took("DROP", "TABLE"), cursor.took("IF", "EXISTS"), cursor.table(None)
    (True, True, 'db.t')
    >>> cursor.end()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from airflow_hiveacid.format.errors import InvalidNameError
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.plan.metastore_statements import NewColumn
from airflow_hiveacid.sql.inserts import partition_value
from airflow_hiveacid.sql.literals import text
from airflow_hiveacid.sql.names import table_name
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.plan.metastore_statements import PartitionValues
    from airflow_hiveacid.sql.text import Piece
    from airflow_hiveacid.sql.tokens import Token

_CONSTRAINTS = frozenset(
    {
        "CHECK", "CONSTRAINT", "DEFAULT", "DISABLE", "ENABLE", "FOREIGN", "FOREIGN KEY", "NOT",
        "PRIMARY", "PRIMARY KEY", "REFERENCES", "UNIQUE",
    }
)  # fmt: skip


class Cursor:
    """A place in a statement. Mutable: it goes on with what is read.

    `form` is what a complaint tells to write.
    """

    def __init__(self, piece: Piece, form: str, at: int = 0) -> None:
        self.piece = piece
        self.form = form
        self.at = at

    @property
    def word(self) -> str:
        """The word or symbol here, in upper case; empty at the end, and for what is neither."""
        return self.piece.word(self.at)

    @property
    def token(self) -> Token | int:
        """The token here, or the place after the last one."""
        tokens = self.piece.tokens
        return tokens[self.at] if self.at < len(tokens) else tokens[-1].end

    def took(self, *words: str) -> bool:
        """Whether these words stand here; if they do, they are passed."""
        found = all(self.piece.word(self.at + step) == word for step, word in enumerate(words))
        self.at += len(words) if found else 0
        return found

    def expect(self, *words: str) -> None:
        """Pass these words.

        Raises:
            SqlTextError: others stand here.
        """
        if not self.took(*words):
            self.fail(f"{' '.join(words)} is missing here")

    def fail(self, problem: str, remedy: str | None = None) -> NoReturn:
        """Refuse the statement because of what stands here.

        Raises:
            SqlTextError: always.
        """
        self.piece.fail(problem, remedy or self.form, self.token)

    def end(self) -> None:
        """See that nothing is left.

        Raises:
            SqlTextError: something is.
        """
        if self.at < len(self.piece):
            self.fail(f"{self.piece.tokens[self.at].raw!r} is not understood here")

    def table(self, database: str | None) -> str:
        """The full name of a table.

        Raises:
            SqlTextError: there is none.
        """
        found = table_name(self.piece, database, self.at)
        self.at = found.end
        return found.full

    def name(self, what: str) -> str:
        """A name, in lower case.

        Raises:
            SqlTextError: there is none.
        """
        name = self.piece.tokens[self.at].name if self.at < len(self.piece) else None
        if name is None or not name.strip():
            self.fail(f"the name of a {what} is missing here")
        self.at += 1
        return name.lower()

    def string(self, what: str) -> str:
        """A string between quotes.

        Raises:
            SqlTextError: there is none.
        """
        if self.at >= len(self.piece) or self.piece.tokens[self.at].kind is not Kind.STRING:
            self.fail(f"the {what} is missing here, between quotes")
        self.at += 1
        return text(self.piece, self.at - 1)

    def number(self, what: str) -> int:
        """A whole number of up to 18 digits.

        Raises:
            SqlTextError: there is none.
        """
        raw = self.piece.tokens[self.at].raw if self.at < len(self.piece) else ""
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 18):  # noqa: PLR2004 - fits 64 bits
            self.fail(f"the {what} is missing here, a whole number")
        self.at += 1
        return int(raw)

    def entries(self) -> Iterator[Cursor]:
        """What stands between parentheses here, one cursor for each entry of the list.

        Raises:
            SqlTextError: there are no parentheses, or an entry is empty.
        """
        if self.word != "(":
            self.fail("a list between parentheses is missing here")
        end = self.piece.closing(self.at)
        inner = self.piece[self.at + 1 : end]
        self.at = end + 1
        for entry in _split(inner):
            if not len(entry):
                entry.fail("something is missing here", self.form)
            yield Cursor(entry, self.form)

    def columns(self, before: tuple[NewColumn, ...] = ()) -> tuple[NewColumn, ...]:
        """Definitions of columns between parentheses; `before` are others of the same table.

        Raises:
            SqlTextError: there are none, or with more than name, type and comment, or one is named
                twice.
        """
        names = {column.name for column in before}
        found: list[NewColumn] = []
        for entry in self.entries():
            begin = entry.token
            column = entry.column()
            if column.name in names:
                self.piece.fail(f"column {column.name!r} is named twice", "name it once", begin)
            names.add(column.name)
            found.append(column)
        return tuple(found)

    def column(self) -> NewColumn:
        """A column up to the end: name, type, comment.

        Raises:
            SqlTextError: it is something else.
        """
        found = self.column_so_far(frozenset())
        self.end()
        return found

    def column_so_far(self, stops: frozenset[str]) -> NewColumn:
        """A column, up to what is none of its parts.

        Raises:
            SqlTextError: it is something else, or has a constraint.
        """
        if self.word in _CONSTRAINTS and self.piece.word(self.at + 1) != "":
            self._no_constraint()
        name = self.name("column")
        begin, depth = self.at, 0
        while self.at < len(self.piece):
            word = self.word
            if depth == 0 and (word == "COMMENT" or word in _CONSTRAINTS or word in stops):
                break
            depth += word.count("<") + (word == "(") - word.count(">") - (word == ")")
            self.at += 1
        kind = self.piece[begin : self.at]
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
            "constraints are not supported: nobody would look at them when rows are written",
            "remove it, and check rows in the query that inserts them",
        )

    def properties(self) -> tuple[tuple[str, str], ...]:
        """Keys and values between parentheses.

        Raises:
            SqlTextError: it is something else, or a key is there twice.
        """
        found: dict[str, str] = {}
        for entry in self.entries():
            begin = entry.token
            key = entry.string("name of a property")
            if key in found:
                self.piece.fail(f"property {key!r} is named twice", "name it once", begin)
            if not entry.took("="):
                entry.fail(f"the value of property {key!r} is missing here", "write 'name'='value'")
            found[key] = entry.string(f"value of property {key!r}")
            entry.end()
        return tuple(found.items())

    def partition(self) -> PartitionValues:
        """Values of partition columns between parentheses.

        Raises:
            SqlTextError: it is something else, or a column is named twice.
        """
        found: dict[str, str] = {}
        for entry in self.entries():
            begin = entry.token
            name = entry.name("partition column")
            if name in found:
                self.piece.fail(f"partition column {name!r} is named twice", "name it once", begin)
            found[name] = partition_value(entry.piece[entry.at :])
        return tuple(found.items())


def _split(piece: Piece) -> Iterator[Piece]:
    """The pieces between commas, outside parentheses and the angles of types."""
    begin = depth = 0
    for index, token in enumerate(piece.tokens):
        depth += (token.word in {"(", "["}) - (token.word in {")", "]"})
        depth += token.word.count("<") - token.word.count(">")
        if token.word == "," and depth == 0:
            yield piece[begin:index]
            begin = index + 1
    yield piece[begin:]
