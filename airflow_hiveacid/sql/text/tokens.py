"""The tokens of a script with their positions, and checks of the characters in between.

SQL that Hive, sqlglot and Spark parse differently is refused: hints, nested comments, variables
(`${x}`), doubled quotes.

Example:
    >>> [token.raw for token in tokens_of("DELETE FROM t -- all of it")]
    ['DELETE', 'FROM', 't']
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Final, NoReturn

from sqlglot.dialects.hive import Hive
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token as SqlglotToken, TokenType

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.statements import Parameter

_COMMENT: Final = re.compile(r"--[^\n]*|/\*(?P<block>.*?)\*/", re.DOTALL)
_LEXEME: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `(?:[^`]|``)*` | --[^\n]* | /\*.*?\*/
    | (?P<plain>[^'"`/-]+ | /(?!\*) | -(?!-))""",
    re.DOTALL | re.VERBOSE,
)
_NO_TEXT: Final = re.compile("\x00|[\ud800-\udfff]")
_MOST_CHARACTERS: Final = 1_000_000
_MARK: Final = ":"
# Hive takes these words for names, too; as clauses, they stand behind a value, before a number.
_CLAUSES_OF_NUMBERS: Final = frozenset({"LIMIT", "OFFSET"})
_BEFORE_VALUES: Final = frozenset(
    {"SELECT", "DISTINCT", "WHERE", "HAVING", "ON", "SET", "AND", "OR", "NOT", "IN", "IS", "AS"}
    | {"CASE", "WHEN", "THEN", "ELSE", "LIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "INTERVAL"}
    | {"GROUP BY", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "PARTITION BY"}
)
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_BEFORE_PATH: Final = frozenset(")]'\"`:")
_OF_FIELDS: Final = frozenset({"STRUCT", "ARRAY", "MAP"})


class _Words(Hive):
    """Hive's dialect without sqlglot's commands, such as SHOW: their arguments are one token."""

    class Tokenizer(Hive.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


class Kind(enum.Enum):
    """The kinds of token."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    PARAMETER = "parameter"
    SYMBOL = "symbol"


@dataclass(slots=True)
class AsOf:
    """The version (`VersionSpec.text`) of an AS OF clause; `is_read` once code has read it."""

    version: str
    is_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token; `word` is the upper-case text of a word or symbol, empty for any other token.

    It is also empty for a word that is certainly a name.

    `parts` are sqlglot's tokens for it: a number with a suffix has two. `as_of` is the AS OF clause
    after a table's name, in the last token of the name. `parameter` is that of a marker (`:day`).
    """

    kind: Kind
    word: str
    raw: str
    start: int
    parts: tuple[SqlglotToken, ...]
    as_of: AsOf | None = None
    parameter: Parameter | None = None

    @property
    def end(self) -> int:
        """The position after the token's last character."""
        return self.start + len(self.raw)

    @property
    def name(self) -> str | None:
        """The token as a name without quotes; None if the token cannot be a name."""
        if self.kind is Kind.QUOTED:
            return self.raw[1:-1].replace("``", "`")
        return self.raw if self.kind is Kind.WORD else None


def line_and_column(script: str, position: int) -> tuple[int, int]:
    """Return the line and column, each from 1, of a position in the script."""
    return script.count("\n", 0, position) + 1, position - (script.rfind("\n", 0, position) + 1) + 1


def tokens_of(script: str, parameters: Mapping[str, Parameter] | None = None) -> tuple[Token, ...]:
    """Return the tokens of a script, with the values of its markers."""
    if len(script) > _MOST_CHARACTERS:
        _refuse(
            script,
            0,
            f"the text has {len(script)} characters, more than {_MOST_CHARACTERS}",
            "put rows into a table or file, and select from there",
        )
    if (match := _NO_TEXT.search(script)) is not None:
        _refuse(script, match.start(), "this character is not allowed", "remove it")
    if (offset := script.find("${")) >= 0:
        _refuse(
            script,
            offset,
            "${...} is replaced by variables in Hive and in Spark",
            "use a template of Airflow; in a string, write '$' '{'",
        )
    try:
        raw = _Words().tokenize(script)
    except (SqlglotError, RecursionError, ValueError, IndexError) as error:
        problem = "a quote or comment that begins here does not end"
        raise _error(script, _unclosed(script), problem, "close it") from error
    tokens = list(_joined(script, raw))
    names = [replace(t, word="") if _is_name(tokens, i) else t for i, t in enumerate(tokens)]
    return tuple(_with_parameters(script, names, parameters or {}))


def _with_parameters(
    script: str, tokens: Sequence[Token], parameters: Mapping[str, Parameter]
) -> Iterator[Token]:
    """Yield the tokens, and join the colon and name of each marker into one token.

    A colon in a type, or directly after a name, value or bracket, does not begin a marker.
    """
    index, depth = 0, 0
    while index < len(tokens):
        token = tokens[index]
        previous = tokens[index - 1] if index else None
        depth += token.raw == "<" and previous is not None and previous.word in _OF_FIELDS
        depth -= min(depth, token.raw.count(">"))
        name = tokens[index + 1] if index + 1 < len(tokens) else None
        if depth or name is None or not _is_marker(script, token, name):
            yield token
            index += 1
            continue
        if name.raw not in parameters:
            alternatives = f"; given are {', '.join(parameters)}" if parameters else ""
            _refuse(
                script,
                token.start,
                f"there is no value for :{name.raw}",
                f"add it to the argument parameters{alternatives}",
            )
        word = name.parts[0]
        yield Token(
            kind=Kind.PARAMETER,
            word="",
            raw=_MARK + name.raw,
            start=token.start,
            # After a colon, a SQL keyword such as date is a name.
            parts=(
                *token.parts,
                SqlglotToken(TokenType.VAR, name.raw, word.line, word.col, word.start, word.end),
            ),
            parameter=parameters[name.raw],
        )
        index += 2


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a word is certainly a name: after a dot, or `offset` in place of a value."""
    token = tokens[index]
    if token.kind is not Kind.WORD or not index:
        return False
    previous = tokens[index - 1]
    if previous.word == ".":
        return True
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    begins_number = following is not None and (
        following.kind is Kind.NUMBER or following.word == _MARK
    )
    is_symbol = previous.kind is Kind.SYMBOL and previous.word not in {")", "]"}
    is_value = is_symbol or previous.word in _BEFORE_VALUES
    return token.word in _CLAUSES_OF_NUMBERS and is_value and not begins_number


def _is_marker(script: str, token: Token, name: Token) -> bool:
    if token.raw != _MARK or name.start != token.end or not _PARAMETER.match(name.raw):
        return False
    previous = script[token.start - 1 : token.start]
    return not (previous in _BEFORE_PATH or previous.isalnum() or previous == "_")


def _joined(script: str, raw: list[SqlglotToken]) -> Iterator[Token]:
    """Yield one token per position; sqlglot returns several tokens for a number with a suffix."""
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
    """Refuse hints, nested and unclosed comments between tokens, and strings without a gap."""
    for token in tokens:
        if token.word.startswith("/*"):
            _no_hint(script, token.start)
    edges = [0, *(edge for token in tokens for edge in (token.start, token.end)), len(script)]
    # The gap before each token, from the end of the previous one, and the gap after the last.
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        gap = script[begin:end]
        if gap.strip():
            _check_comments(script, begin, gap)
    for previous, token in pairwise(tokens):
        is_doubled = previous.end == token.start and previous.kind is token.kind is Kind.STRING
        if is_doubled and previous.raw[0] == token.raw[0]:
            _refuse(
                script,
                token.start,
                "two quotes in a row join two strings in Hive; elsewhere they represent one quote",
                "write \\' for a quote, or a blank between two strings",
            )


def _check_comments(script: str, begin: int, gap: str) -> None:
    for comment in _COMMENT.finditer(gap):
        offset = begin + comment.start()
        block = comment["block"] or ""
        if block.startswith("+"):
            _no_hint(script, offset)
        if "/*" in block:
            _refuse(
                script,
                offset,
                "parsers disagree on where a nested comment ends",
                "remove one of them",
            )
    if _COMMENT.sub("", gap).strip():
        _refuse(script, begin, "this comment cannot be read", "close it, or remove it")


def _no_hint(script: str, offset: int) -> NoReturn:
    _refuse(
        script,
        offset,
        "hints are not supported and would be dropped",
        "remove it; Spark chooses how to join, and the operator has arguments for its settings",
    )


def _refuse(script: str, offset: int, problem: str, remedy: str) -> NoReturn:
    raise _error(script, offset, problem, remedy)


def _error(script: str, offset: int, problem: str, remedy: str) -> SqlTextError:
    line, column = line_and_column(script, offset)
    number = _number(script, offset)
    return SqlTextError(statement=number, line=line, column=column, problem=problem, remedy=remedy)


def _unclosed(script: str) -> int:
    offset = 0
    while (lexeme := _LEXEME.match(script, offset)) is not None:
        offset = lexeme.end()
    return offset


def _number(script: str, position: int) -> int:
    """Return the number of the statement at a position, without counting empty statements."""
    offset, number, is_empty = 0, 1, True
    while offset < position and (lexeme := _LEXEME.match(script, offset, position)) is not None:
        offset = lexeme.end()
        if lexeme["plain"] is None:
            is_empty &= lexeme[0].startswith(("--", "/*"))
            continue
        *ended, last = lexeme["plain"].split(";")
        for text in ended:
            number += not (is_empty and not text.strip())
            is_empty = True
        is_empty &= not last.strip()
    return number
