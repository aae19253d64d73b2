"""Tokens of SQL in Hive's dialect, and spans of statements.

This module has the statements of a script as spans: sequences of tokens that can be split, parsed
and edited. sqlglot parses the spans, but the SQL that we return consists of the user's own tokens,
without comments: SQL generated from sqlglot's tree could differ in meaning.

Example:
    >>> (span,) = statements_of("DELETE FROM db.t WHERE a = 'x'  -- gone;")
    >>> span.text
    "DELETE FROM db.t WHERE a = 'x'"
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from sqlglot import exp
from sqlglot.dialects.hive import Hive
from sqlglot.errors import ParseError

from airflow_hiveacid.format.errors import SqlTextError
from airflow_hiveacid.jobs.statements import Parameter
from airflow_hiveacid.sql.text.tokens import Token, check_gaps, line_and_column, tokens_of


class _Quiet(Hive):
    """Hive's dialect, without warnings about JSON paths that sqlglot cannot parse."""

    STRICT_JSON_PATH_SYNTAX = False


_HIVE: Final = _Quiet()
_OPENING: Final = {"(": ")", "[": "]"}
_DEEPEST: Final = 100
"""The maximum depth of parentheses; sqlglot does not always enforce its own, lower limit."""
_TOO_DEEP: Final = "this is nested too deeply"


@dataclass(frozen=True, slots=True)
class Span:
    """A sequence of tokens of statement `number`; `whole` is the SQL of the whole script.

    `at` is the position for errors about an empty span.
    """

    whole: str
    number: int
    tokens: tuple[Token, ...]
    at: int

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, cut: slice) -> Span:
        tokens = self.tokens[cut]
        start, _, _ = cut.indices(len(self.tokens))
        if start < len(self.tokens):
            position = self.tokens[start].start
        else:
            position = self.tokens[-1].end if self.tokens else self.at
        return Span(self.whole, self.number, tokens, position)

    def word(self, index: int) -> str:
        """Return the word or symbol at an index, in upper case; empty for other tokens."""
        return self.tokens[index].word if 0 <= index < len(self.tokens) else ""

    @property
    def text(self) -> str:
        """The user's own SQL of the span, without comments."""
        return self.written({})

    def written(self, changes: Mapping[int, str]) -> str:
        """Return the SQL with some tokens replaced; `changes` maps start positions to new text."""
        parts: list[str] = []
        previous = None
        for token in self.tokens:
            if previous is not None:
                gap = self.whole[previous.end : token.start]
                is_next = previous.end <= token.start and not gap.strip()
                # Else the gap has a comment, or the tokens come from different places.
                parts.append(gap if is_next else " ")
            parts.append(changes.get(token.start, token.raw))
            previous = token
        return "".join(parts)

    def line_and_column(self, position: int | None = None) -> tuple[int, int]:
        """Return the line and column of a position, from 1; the default is the first token."""
        if position is None:
            position = self.tokens[0].start if self.tokens else self.at
        return line_and_column(self.whole, position)

    def fail(self, problem: str, remedy: str, at: Token | int | None = None) -> NoReturn:
        """Refuse the statement: raise a SqlTextError at a position."""
        line, column = self.line_and_column(at.start if isinstance(at, Token) else at)
        raise SqlTextError(
            statement=self.number, line=line, column=column, problem=problem, remedy=remedy
        )

    def outside(self, until: Collection[str] = ()) -> Iterator[tuple[int, Token]]:
        """Yield index and token outside of parentheses and CASE, up to a word of `until` or `)`."""
        nested, cases = 0, 0
        for index, token in enumerate(self.tokens):
            nested -= token.word in _OPENING.values()
            is_outside = nested == 0 and cases == 0
            if nested < 0 or (is_outside and token.word in until):
                return
            if is_outside:
                yield index, token
            nested += token.word in _OPENING
            cases += (token.word == "CASE") - (token.word == "END" and cases > 0)

    def find(self, *words: str, start: int = 0) -> int | None:
        """Return the index of the first of these words outside of parentheses and CASE, or None."""
        indexes = (i for i, token in self.outside() if token.word in words and i >= start)
        return next(indexes, None)

    def split(self, word: str) -> tuple[Span, ...]:
        """Split at a word outside of parentheses and CASE, but not at the AND of BETWEEN."""
        spans, begin, betweens = [], 0, 0
        for index, token in self.outside():
            betweens += token.word == "BETWEEN"
            if token.word != word:
                continue
            if word == "AND" and betweens:
                betweens -= 1
                continue
            spans.append(self[begin:index])
            begin = index + 1
        return (*spans, self[begin:])

    def closing(self, index: int) -> int:
        """Return the index of the token that closes the parenthesis at an index."""
        nested, end = 1, index
        while nested:
            end += 1
            nested += self.tokens[end].word in _OPENING
            nested -= self.tokens[end].word in _OPENING.values()
        return end

    def opening(self, index: int) -> int | None:
        """Return the index of the innermost parenthesis, bracket or CASE around a token, if any."""
        nested = 0
        for candidate in range(index - 1, -1, -1):
            word = self.word(candidate)
            is_opening = word in _OPENING or word == "CASE"
            if is_opening and nested == 0:
                return candidate
            nested += (word in _OPENING.values() or word == "END") - is_opening
        return None

    def unwrapped(self) -> Span:
        """Return the span without parentheses around the whole span."""
        span = self
        while len(span) > 1 and span.tokens[0].word == "(":
            if span.closing(0) != len(span) - 1:
                break
            span = span[1:-1]
        return span

    def parsed(self, into: type[exp.Expr] | None = None) -> exp.Expr:
        """Return the tree that sqlglot parses from the span in Hive's dialect, or refuse it."""
        tokens = [part for token in self.tokens for part in token.parts]
        if not tokens:
            self.fail("the statement is incomplete here", "complete the statement")
        parser = _HIVE.parser()
        try:
            if into is None:
                trees = parser.parse(tokens, self.whole)
            else:
                trees = parser.parse_into(into, tokens, self.whole)
        except ParseError as error:
            self._not_read(error)
        except Exception as error:  # noqa: BLE001 - sqlglot fails in many ways on arbitrary text
            self._not_read(error)
        if len(trees) != 1 or trees[0] is None:
            self.fail("this is not a single statement", "write `;` between statements")
        return trees[0]

    def _not_read(self, error: Exception) -> NoReturn:
        details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        offset = _position(self, details.get("highlight"), details.get("line"), details.get("col"))
        highlight = details.get("highlight")
        problem = f"cannot be read at {highlight!r}" if highlight else "cannot be read"
        nested = isinstance(error, RecursionError)
        raise_at = self.line_and_column(offset)
        reason = "it is nested too deeply" if nested else details.get("description") or str(error)
        if reason.startswith("Required keyword"):  # contains a field of sqlglot, but no user text
            reason = "something is missing there"
        raise SqlTextError(
            statement=self.number,
            line=raise_at[0],
            column=raise_at[1],
            problem=f"this {problem}: {_one_line(reason)}",
            remedy="write it in Hive's dialect",
        ) from error


def statements_of(
    script: str, parameters: Mapping[str, Parameter] | None = None
) -> tuple[Span, ...]:
    """Return the statements of a script, split at semicolons, without empty statements."""
    tokens = tokens_of(script, parameters)
    statements: list[Span] = []
    begin = 0
    for end in [*(i for i, t in enumerate(tokens) if t.word == ";"), len(tokens)]:
        if end > begin:
            part = tokens[begin:end]
            statements.append(Span(script, len(statements) + 1, part, part[0].start))
        begin = end + 1
    check_gaps(script, tokens)
    for span in statements:
        _check_balance(span)
    if not statements:
        nowhere = Span(script, 1, (), 0)
        nowhere.fail("there is no statement", "write one, such as DELETE FROM db.t WHERE id = 1")
    return tuple(statements)


def _check_balance(span: Span) -> None:
    expected: list[tuple[str, Token]] = []
    for token in span.tokens:
        if token.word in _OPENING:
            expected.append((_OPENING[token.word], token))
            if len(expected) > _DEEPEST:
                span.fail(_TOO_DEEP, "split it into smaller parts", token)
        elif token.word in _OPENING.values() and (not expected or expected.pop()[0] != token.word):
            span.fail(
                f"{token.raw} closes a parenthesis or bracket that is not open", "remove it", token
            )
    if expected:
        span.fail(f"{expected[-1][1].raw} is not closed", "close it", expected[-1][1])


def _position(span: Span, text: object, line: object, column: object) -> int | None:
    if not isinstance(line, int) or not isinstance(column, int):
        return None
    for token in span.tokens:
        part = token.parts[0]
        if (part.line, part.col) == (line, column) and (text is None or token.raw == text):
            return token.start
    return None


def _one_line(text: str) -> str:
    plain = re.sub(r" for <class '.*?'>", "", text)
    return " ".join(plain.split())[:200].rstrip(".")
