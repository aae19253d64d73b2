"""The text of a script as tokens that know their place, and what lies between them.

Takes a script; gives its tokens, each with the user's own characters. What two of Hive, sqlglot and
Spark would read differently is refused here: hints, nested comments, variables (`${x}`), doubled
quotes.

Example:
    >>> [token.raw for token in tokens_of("DELETE FROM t -- all of it")]
    ['DELETE', 'FROM', 't']
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from sqlglot.dialects.hive import Hive
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from airflow_hiveacid.format.errors import SqlTextError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMMENT: Final = re.compile(r"--[^\n]*|/\*(?P<block>.*?)\*/", re.DOTALL)
_LEXEME: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*` | --[^\n]* | /\*.*?\*/
    | (?P<plain>[^'"`/-]+ | /(?!\*) | -(?!-))""",
    re.DOTALL | re.VERBOSE,
)
_NO_TEXT: Final = re.compile("\x00|[\ud800-\udfff]")
_MOST_CHARACTERS: Final = 1_000_000


class _Words(Hive):
    """Hive's, in which no word swallows the rest of its statement, as SHOW does elsewhere."""

    class Tokenizer(Hive.Tokenizer):
        """See there."""

        COMMANDS: ClassVar[set[TokenType]] = set()


class Kind(enum.Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(slots=True)
class AsOf:
    """An AS OF clause behind a name: the version (`VersionSpec.text`), and whether it was minded.

    Mutable: who reads the table says so.
    """

    version: str
    is_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token. `word` is its text in upper case if it is a word or symbol, else empty.

    `parts` is what sqlglot made of it: a number with a suffix is several. `as_of` is of the last
    token of a table's name behind which the user has put such a clause (`as_of`).
    """

    kind: Kind
    word: str
    raw: str
    start: int
    parts: tuple[SqlglotToken, ...]
    as_of: AsOf | None = None

    @property
    def end(self) -> int:
        """The position after its last character."""
        return self.start + len(self.raw)

    @property
    def name(self) -> str | None:
        """The name that it is, unquoted; None if it cannot be one."""
        if self.kind is Kind.QUOTED:
            return self.raw[1:-1].replace("``", "`")
        return self.raw if self.kind is Kind.WORD else None


def place_of(script: str, position: int) -> tuple[int, int]:
    """Line and column of a position, from 1."""
    return script.count("\n", 0, position) + 1, position - (script.rfind("\n", 0, position) + 1) + 1


def tokens_of(script: str) -> tuple[Token, ...]:
    """The tokens of a script.

    Raises:
        SqlTextError: it cannot be read as tokens, or is too long, or holds variables.
    """
    if len(script) > _MOST_CHARACTERS:
        _refuse(
            script,
            0,
            f"the text has {len(script)} characters, more than {_MOST_CHARACTERS}",
            "put rows into a table or file, and select from there",
        )
    if (found := _NO_TEXT.search(script)) is not None:
        _refuse(script, found.start(), "this character is no text", "remove it")
    if (at := script.find("${")) >= 0:
        _refuse(
            script,
            at,
            "${...} is replaced by variables in Hive and in Spark",
            "use a template of Airflow; in a string, write '$' '{'",
        )
    try:
        raw = _Words().tokenize(script)
    except (SqlglotError, RecursionError, ValueError, IndexError) as error:
        problem = "a quote or comment that begins here does not end"
        raise _error(script, _unclosed(script), problem, "close it") from error
    return tuple(_joined(script, raw))


def _joined(script: str, raw: list[SqlglotToken]) -> Iterator[Token]:
    """One token for each place in the text: sqlglot makes several of a number with a suffix."""
    index = 0
    while index < len(raw):
        first = raw[index]
        parts = [first]
        while index + len(parts) < len(raw) and raw[index + len(parts)].start == first.start:
            parts.append(raw[index + len(parts)])
        index += len(parts)
        text = script[first.start : first.end + 1]
        kind = _kind(first, text)
        word = " ".join(text.upper().split()) if kind in {Kind.WORD, Kind.SYMBOL} else ""
        yield Token(kind=kind, word=word, raw=text, start=first.start, parts=tuple(parts))


def _kind(token: SqlglotToken, text: str) -> Kind:
    if token.token_type is TokenType.STRING:
        return Kind.STRING
    if token.token_type is TokenType.NUMBER:
        return Kind.NUMBER
    if text.startswith("`"):
        return Kind.QUOTED
    return Kind.WORD if text[0].isalnum() or text[0] == "_" else Kind.SYMBOL


def check_gaps(script: str, tokens: Sequence[Token]) -> None:
    """Refuse what lies around tokens and is more than blanks and plain comments.

    Raises:
        SqlTextError: there is such, or two strings without a blank.
    """
    for token in tokens:
        if token.word.startswith("/*"):
            _no_hint(script, token.start)
    edges = [0, *(edge for token in tokens for edge in (token.start, token.end)), len(script)]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        gap = script[begin:end]
        if gap.strip():
            _check_comments(script, begin, gap)
    for before, token in pairwise(tokens):
        is_doubled = before.end == token.start and before.kind is token.kind is Kind.STRING
        if is_doubled and before.raw[0] == token.raw[0]:
            _refuse(
                script,
                token.start,
                "two quotes in a row join two strings in Hive, elsewhere they stand for one quote",
                "write \\' for a quote, or a blank between two strings",
            )


def _check_comments(script: str, begin: int, gap: str) -> None:
    for comment in _COMMENT.finditer(gap):
        at = begin + comment.start()
        block = comment["block"] or ""
        if block.startswith("+"):
            _no_hint(script, at)
        if "/*" in block:
            _refuse(
                script,
                at,
                "a comment within a comment ends in different places for different readers",
                "remove one of them",
            )
    if _COMMENT.sub("", gap).strip():
        _refuse(script, begin, "this comment cannot be read", "close it, or remove it")


def _no_hint(script: str, at: int) -> NoReturn:
    _refuse(
        script,
        at,
        "hints are not understood, and would be dropped",
        "remove it; Spark chooses how to join, and its own settings are arguments of the operator",
    )


def _refuse(script: str, at: int, problem: str, remedy: str) -> NoReturn:
    raise _error(script, at, problem, remedy)


def _error(script: str, at: int, problem: str, remedy: str) -> SqlTextError:
    line, column = place_of(script, at)
    number = _number(script, at)
    return SqlTextError(statement=number, line=line, column=column, problem=problem, remedy=remedy)


def _unclosed(script: str) -> int:
    """Where a quote or comment begins that is not closed."""
    at = 0
    while (found := _LEXEME.match(script, at)) is not None:
        at = found.end()
    return at


def _number(script: str, position: int) -> int:
    """The number of the statement that a position is in; those that hold nothing do not count."""
    at, number, is_empty = 0, 1, True
    while at < position and (found := _LEXEME.match(script, at, position)) is not None:
        at = found.end()
        if found["plain"] is None:
            is_empty &= found[0].startswith(("--", "/*"))
            continue
        *ended, last = found["plain"].split(";")
        for text in ended:
            number += not (is_empty and not text.strip())
            is_empty = True
        is_empty &= not last.strip()
    return number
