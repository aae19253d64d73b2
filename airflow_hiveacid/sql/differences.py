"""What Hive and Spark read in the same text and understand differently: refused, never guessed.

Expressions go on as text and are Spark's to plan. This module knows where that would give another
answer than Hive's, as far as the text alone can tell; what depends on the types of columns it
cannot see. Each refusal says what to write instead, with one meaning in both.

Operators bind, from tight to loose, in Hive's grammar (`IdentifiersParser.g`):
`[] .`, signs, `IS NULL`, `^`, `* / % DIV`, `+ -`, `||`, `&`, `|`, `LIKE < IN BETWEEN` (one of
them), `= <>`, NOT, AND, OR. Spark has `+ - ||` on one level, `^` below `&`, and all comparisons on
one level with `IS NULL`, `IN` and their like applied after them. So an expression that mixes these
without parentheses is refused.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> check_meaning(statements_of("SELECT stddev_pop(x) || 'a'")[0])
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.sql.functions import TRUTH, check_function
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_hiveacid.sql.text import Piece
    from airflow_hiveacid.sql.tokens import Token

_SYMBOLS: Final = frozenset(
    "( ) [ ] , . + - * / % ^ & | || ~ = == <=> <> != < <= > >=".split()  # noqa: SIM905 - easier to read
)
_OF_TYPES: Final = frozenset({"<", ">", ":"})
_VIRTUAL: Final = frozenset(
    {"row__id", "row__is__deleted", "input__file__name", "block__offset__inside__file"}
)
_LONG_ESCAPE: Final = re.compile(r"\\U[0-9A-Fa-f]{8}")
_NANOSECONDS: Final = re.compile(r":[0-9]{1,2}\.[0-9]{6}[0-9]*[1-9]")
_UNITS: Final = frozenset(
    f"{unit}{s}" for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND") for s in ("", "S")
)
_RESERVED_PREFIX: Final = "__hiveacid"

_COMPARISONS: Final = frozenset(
    {"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="}
    | {"LIKE", "RLIKE", "REGEXP", "IN", "BETWEEN", "IS"}
)
_ADDING: Final = frozenset({"+", "-"})
_ARITHMETIC: Final = _ADDING | {"*", "/", "%", "DIV", "||", "^", "&", "|"}
# What ends one run of operators and begins another.
_BORDERS: Final = frozenset(
    {",", "AND", "OR", "SELECT", "FROM", "WHERE", "ON", "JOIN", "WHEN", "THEN", "ELSE", "VALUES"}
    | {"GROUP BY", "HAVING", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "PARTITION BY"}
    | {"UNION", "EXCEPT", "INTERSECT", "MINUS", "LIMIT", "OFFSET", "LATERAL", "WINDOW"}
)
_OPENING: Final = frozenset({"(", "[", "CASE"})
_CLOSING: Final = frozenset({")", "]", "END"})
# Words after which a sign is a sign, and no operation.
_NO_OPERANDS: Final = _BORDERS | _COMPARISONS | _ARITHMETIC | _OPENING | {"~", "NOT", "INTERVAL"}


def check_meaning(piece: Piece) -> None:
    """Refuse what means something else in Spark than in Hive, or nothing in Hive.

    Raises:
        SqlTextError: it does.
    """
    in_types = _in_types(piece)
    _check_operators(piece, in_types)
    for index, token in enumerate(piece.tokens):
        if index in in_types and token.word in _OF_TYPES:
            continue
        if token.kind is Kind.SYMBOL and token.word not in _SYMBOLS:
            piece.fail(f"{token.raw!r} is no part of Hive's expressions", "write it without", token)
        if token.kind in {Kind.WORD, Kind.QUOTED}:
            _check_name(piece, index)
        if token.kind is Kind.STRING:
            _check_string(piece, index)
        if token.word in _UNITS and index:
            _check_interval(piece, index)


def _in_types(piece: Piece) -> frozenset[int]:
    """The indexes of tokens between the angle brackets of a type, these included."""
    found: set[int] = set()
    nested = 0
    for index, token in enumerate(piece.tokens):
        begins = token.word == "<" and piece.word(index - 1) in {"STRUCT", "ARRAY", "MAP"}
        nested += begins
        if nested:
            found.add(index)
        nested -= nested > 0 and token.word == ">"
    return frozenset(found)


def _check_name(piece: Piece, index: int) -> None:
    token = piece.tokens[index]
    name = (token.name or "").lower()
    if name.startswith(_RESERVED_PREFIX):
        piece.fail(f"names that begin with {_RESERVED_PREFIX} are ours", "choose another", token)
    if name in _VIRTUAL:
        piece.fail(
            f"{token.raw} is a column that only Hive has", "name columns of the table", token
        )
    if name == "grouping__id":
        piece.fail("the bits of grouping__id differ", "write grouping(column)", token)
    if piece.word(index + 1) == "(":
        check_function(piece, index)
    if token.word == "BOOLEAN" and piece.word(index - 1) == "AS":
        piece.fail(TRUTH[0], f"write {TRUTH[1]}", token)


def _check_string(piece: Piece, index: int) -> None:
    token = piece.tokens[index]
    text = token.raw[1:-1]
    if _LONG_ESCAPE.search(text.replace("\\\\", "")):
        piece.fail(
            "\\U and eight digits is a character in Spark, and U in Hive",
            "write the character itself",
            token,
        )
    is_cast = (piece.word(index + 1), piece.word(index + 2)) == ("AS", "TIMESTAMP")
    if (is_cast or piece.word(index - 1) == "TIMESTAMP") and _NANOSECONDS.search(text):
        piece.fail(
            "more than six digits of a second are kept in Hive, and cut in Spark",
            "write six digits, or the statement in Hive",
            token,
        )
    if not text and piece.word(index - 1) in {"RLIKE", "REGEXP"}:
        piece.fail(
            "an empty pattern is found in no text in Hive, and in each in Spark",
            "write a pattern",
            token,
        )
    if _is_pattern(piece, index) and _has_idle_backslash(text):
        piece.fail(
            "a backslash in a LIKE pattern that is before neither % nor _ is one character in Hive,"
            " and an error or another in Spark",
            "write RLIKE, or instr(x, y) > 0",
            token,
        )


def _is_pattern(piece: Piece, index: int) -> bool:
    """Whether a string stands right after LIKE, or in the list after LIKE ANY or LIKE ALL."""
    at = index - 1
    while piece.word(at) in {",", "("} or (at >= 0 and piece.tokens[at].kind is Kind.STRING):
        at -= 1
    return piece.word(at - (piece.word(at) in {"ANY", "ALL", "SOME"})) == "LIKE"


def _has_idle_backslash(pattern: str) -> bool:
    """Whether the pattern, once the string is read, holds a backslash before another character."""
    rest = pattern
    while (at := rest.find("\\")) >= 0:
        if rest[at + 1 : at + 2] == "\\":
            return not rest[at + 2 : at + 3] or rest[at + 2] not in "%_"
        rest = rest[at + 2 :]
    return False


def _check_interval(piece: Piece, index: int) -> None:
    """Refuse `1 DAY`, which is an interval in Hive and elsewhere a number that is called so."""
    token = piece.tokens[index]
    before = piece.tokens[index - 1]
    is_value = before.kind in {Kind.NUMBER, Kind.STRING} and piece.word(index - 2) != "INTERVAL"
    in_parentheses = (
        before.word == ")"
        and piece.word(index - 3) == "("
        and piece.tokens[index - 2].kind in {Kind.NUMBER, Kind.STRING}
    )
    if is_value or in_parentheses:
        piece.fail(
            f"a number before {token.raw} is an interval in Hive and a name elsewhere",
            "write INTERVAL '1' DAY for an interval, and AS before a name",
            token,
        )


@dataclass(slots=True)
class _Run:
    """The operators since the last border, on one level of parentheses. Mutable: it is a count."""

    comparison: Token | None = None
    arithmetic: dict[str, Token] = field(default_factory=dict)
    betweens: int = 0

    def border(self) -> None:
        self.comparison, self.betweens = None, 0
        self.arithmetic.clear()


def _check_operators(piece: Piece, in_types: Collection[int]) -> None:
    """Refuse mixtures of operators that bind differently without parentheses."""
    runs = [_Run()]
    for index, token in [(i, t) for i, t in enumerate(piece.tokens) if i not in in_types]:
        run = runs[-1]
        if token.word in _OPENING:
            runs.append(_Run())
        elif token.word in _CLOSING and len(runs) > 1:
            runs.pop()
        elif token.word == "AND" and run.betweens:
            run.betweens -= 1
            run.arithmetic.clear()
        elif token.word in _BORDERS and not _is_distinct_from(piece, index):
            run.border()
        elif token.word in _COMPARISONS:
            _compare(piece, run, token)
        elif token.word in _ARITHMETIC and not _is_sign(piece, index):
            _calculate(piece, run, token)


def _is_distinct_from(piece: Piece, index: int) -> bool:
    """Whether this FROM belongs to IS [NOT] DISTINCT FROM."""
    return piece.word(index - 1) == "DISTINCT" and piece.word(index - 2) in {"IS", "NOT"}


def _compare(piece: Piece, run: _Run, token: Token) -> None:
    if run.comparison is not None:
        piece.fail(
            f"{run.comparison.raw} and {token.raw} without parentheses mean one thing in Hive and"
            " another in Spark",
            "put parentheses around one of the comparisons",
            token,
        )
    if token.word == "IS" and run.arithmetic:
        piece.fail(
            "IS binds tighter than arithmetic in Hive and less in Spark",
            "put parentheses around what IS asks about",
            token,
        )
    run.comparison = token
    run.betweens += token.word == "BETWEEN"
    run.arithmetic.clear()


def _calculate(piece: Piece, run: _Run, token: Token) -> None:
    run.arithmetic.setdefault(token.word, token)
    words = run.arithmetic.keys()
    mixes = ("||" in words and words & _ADDING) or ("^" in words and len(words) > 1)
    if mixes:
        piece.fail(
            f"{' and '.join(sorted(words))} bind in another order in Hive than in Spark",
            "put parentheses around what belongs together",
            token,
        )


def _is_sign(piece: Piece, index: int) -> bool:
    """Whether a plus or minus is a sign; a star is no operation where it stands for columns."""
    return index == 0 or piece.tokens[index - 1].word in _NO_OPERANDS
