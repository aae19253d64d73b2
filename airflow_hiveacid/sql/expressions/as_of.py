"""The parser that removes clauses such as `FOR VERSION AS OF 12` after a table's name.

sqlglot parses only some forms of it. `Token.as_of` of the last token of a table's name has the
version; `check_all_read` refuses a clause that no module has read.

| clause | engines |
| --- | --- |
| `FOR VERSION AS OF 12`, `FOR SYSTEM_VERSION AS OF 12`, `VERSION AS OF 12` | Trino, Hive, Spark |
| `FOR TIMESTAMP AS OF '...'`, `FOR SYSTEM_TIME AS OF '...'` | the same; also `TIMESTAMP '...'` |
| `FOR VERSION AS OF 'closing'` | Trino, Spark; the string is the name of a tag |

Example:
    >>> from airflow_hiveacid.sql.text.text import statements_of
    >>> (span,) = statements_of("INSERT INTO db.a SELECT * FROM db.b FOR VERSION AS OF 12 x")
    >>> found = without_clauses(span)
    >>> found.text, found.tokens[-2].as_of.version
    ('INSERT INTO db.a SELECT * FROM db.b x', 'version 12')
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.state.versions import VersionSpec
from airflow_hiveacid.sql.text.text import Span
from airflow_hiveacid.sql.text.tokens import AsOf, Kind, Token

_NUMBERED: Final = frozenset({"VERSION", "SYSTEM_VERSION"})
_TIMED: Final = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
_LONGEST: Final = 6
"""The maximum number of tokens in a clause: FOR, a word, AS, OF, TIMESTAMP and the literal."""


def without_clauses(span: Span) -> Span:
    """Return the statement without its AS OF clauses; see `Token.as_of`."""
    tokens: list[Token] = []
    index = 0
    while index < len(span):
        length = _length(span.tokens[index : index + _LONGEST])
        if length and tokens and tokens[-1].name is not None:
            as_of = _clause(span[index : index + length])
            tokens[-1] = dataclasses.replace(tokens[-1], as_of=as_of)
            index += length
            continue
        tokens.append(span.tokens[index])
        index += 1
    return Span(span.whole, span.number, tuple(tokens), span.at)


def check_all_read(span: Span) -> None:
    """Refuse AS OF clauses after names that cannot refer to earlier versions."""
    for token in span.tokens:
        if token.as_of is not None and not token.as_of.is_read:
            span.fail(
                f"an earlier version of {token.raw} cannot be read here",
                "write AS OF after a table in a FROM clause, or after the source of a MERGE",
                token,
            )


def _length(tokens: Sequence[Token]) -> int:
    words: list[str] = []
    for count, token in enumerate(tokens, start=1):
        if token.kind in {Kind.STRING, Kind.NUMBER}:
            body = words[1:] if words[:1] == ["FOR"] else words
            if body[3:] == ["TIMESTAMP"]:
                body = body[:3]
            is_clause = len(body) == 3 and body[0] in _NUMBERED | _TIMED  # noqa: PLR2004 - X AS OF
            return count if is_clause and body[1:] == ["AS", "OF"] else 0
        if not token.word:
            return 0
        words.extend(token.word.split())
    return 0


def _clause(span: Span) -> AsOf:
    words = [word for token in span.tokens for word in token.word.split()]
    literal = span.tokens[-1]
    text = literal.raw[1:-1] if literal.kind is Kind.STRING else literal.raw
    is_timed = not _NUMBERED.intersection(words)
    try:
        if is_timed:
            spec = VersionSpec.of(timestamp=text)
        elif literal.kind is Kind.STRING:
            spec = VersionSpec.of(tag=text)
        else:
            spec = VersionSpec.of(version=text)
    except ConfigurationError as error:
        span.fail(
            str(error), "write AS OF 12, AS OF '2026-11-19T02:00:00Z' or the name of a tag", literal
        )
    return AsOf(spec.text())
