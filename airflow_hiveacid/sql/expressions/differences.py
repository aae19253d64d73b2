"""Checks that refuse SQL if Hive and Spark evaluate it differently.

Differences that depend on column types are not found. Each error proposes SQL that has the same
meaning in both engines. `functions` decides which functions are refused.

In Hive's grammar (`IdentifiersParser.g`), operators have this precedence, the highest first: `[]
.`, signs, `IS NULL`, `^`, `* / % DIV`, `+ -`, `||`, `&`, `|`, `LIKE < IN BETWEEN` (at most one of
them), `= <>`, NOT, AND, OR. In Spark, `+ - ||` have equal precedence, `^` has a lower one than `&`,
and all comparisons have equal precedence, higher than that of `IS NULL`, `IN` and similar
predicates. So an expression that mixes such operators without parentheses is refused.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> check_meaning(statements_of("SELECT stddev_pop(x) || 'a'")[0])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from airflow_hiveacid.format.table import NULL_PARTITION
from airflow_hiveacid.jobs.statements import ValueType
from airflow_hiveacid.sql.expressions.arguments import is_never_empty
from airflow_hiveacid.sql.expressions.functions import TRUTH, check_function
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.bare_names import check_bare
from airflow_hiveacid.sql.text.tokens import Kind, Token

_SYMBOLS: Final = frozenset(
    "( ) [ ] , . + - * / % ^ & | || ~ = == <=> <> != < <= > >=".split()  # noqa: SIM905 - easier to read
)
_OF_TYPES: Final = frozenset({"<", ">", ":"})
_VIRTUAL: Final = frozenset(
    {"row__id", "row__is__deleted", "input__file__name", "block__offset__inside__file"}
)
_LONG_ESCAPE: Final = re.compile(r"\\U[0-9A-Fa-f]{8}")
_NANOSECONDS: Final = re.compile(
    r"\s*[+-]?[0-9]+-[0-9]+-[0-9]+[ T][0-9]+:[0-9]+:[0-9]+\.[0-9]{6}[0-9]*[1-9]"
)
_FLOAT: Final = re.compile(r"[0-9.]+([eE][+-]?[0-9]+)?[fF]")
_LONG_DECIMAL: Final = re.compile(r"[0-9.]+[eE][+-]?[0-9]+[bB][dD]")
_UNITS: Final = frozenset(
    f"{unit}{s}" for unit in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND") for s in ("", "S")
)
_VALUES: Final = frozenset({Kind.NUMBER, Kind.STRING, Kind.PARAMETER})
_RESERVED_PREFIX: Final = "__hiveacid"
_PATTERN_WORDS: Final = frozenset({"RLIKE", "REGEXP"})
_OF_TIMES: Final = frozenset({"TIMESTAMP", "FROM_UTC_TIMESTAMP", "TO_UTC_TIMESTAMP", "DATE_FORMAT"})
# Functions that parse a string argument as a regular expression, path or format.
_OF_OTHER_TEXTS: Final = frozenset(
    {"REGEXP_EXTRACT", "REGEXP_REPLACE", "SPLIT", "STR_TO_MAP", "GET_JSON_OBJECT", "PARSE_URL"}
    | {"DATE_FORMAT", "FROM_UNIXTIME", "INSTR", "LOCATE", "FIND_IN_SET", "XPATH_STRING"}
)
_TO_FLOATING: Final = frozenset({("AS", "DOUBLE"), ("AS", "FLOAT")})

_COMPARISONS: Final = frozenset(
    {"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="}
    | {"LIKE", "RLIKE", "REGEXP", "IN", "BETWEEN", "IS"}
)
_ADDING: Final = frozenset({"+", "-"})
_ARITHMETIC: Final = _ADDING | {"*", "/", "%", "DIV", "||", "^", "&", "|"}
# Words that end a sequence of operators.
_BORDERS: Final = frozenset(
    {",", "AND", "OR", "SELECT", "FROM", "WHERE", "ON", "JOIN", "WHEN", "THEN", "ELSE", "VALUES"}
    | {"GROUP BY", "HAVING", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "PARTITION BY"}
    | {"UNION", "EXCEPT", "INTERSECT", "MINUS", "LIMIT", "OFFSET", "LATERAL", "WINDOW"}
)
_OPENING: Final = frozenset({"(", "[", "CASE"})
_CLOSING: Final = frozenset({")", "]", "END"})
# Comparisons of values. The words in `_AROUND_PATTERNS` show that a string is not part of a LIKE
# pattern.
_OF_VALUES: Final = _COMPARISONS - {"LIKE", "RLIKE", "REGEXP", "IS"}
_AROUND_PATTERNS: Final = (_COMPARISONS | _BORDERS | {"["}) - {"LIKE", ",", "SELECT"}
# After these words a plus or minus is a sign, not an operator.
_NO_OPERANDS: Final = _BORDERS | _COMPARISONS | _ARITHMETIC | _OPENING | {"~", "NOT", "INTERVAL"}


def check_meaning(span: Span) -> None:
    """Refuse SQL that Spark evaluates differently, or that Hive does not support."""
    in_types = _in_types(span)
    _check_operators(span, in_types)
    for index, token in enumerate(span.tokens):
        if index in in_types and token.word in _OF_TYPES:
            continue
        if token.kind is Kind.SYMBOL and token.word not in _SYMBOLS:
            span.fail(f"Hive's expressions do not allow {token.raw!r}", "remove it", token)
        if token.kind in {Kind.WORD, Kind.QUOTED}:
            _check_name(span, index)
        if token.kind is Kind.NUMBER:
            _check_number(span, token)
        if token.kind in {Kind.STRING, Kind.PARAMETER}:
            _check_constant(span, index)
        if token.word in _UNITS and index:
            _check_interval(span, index)


def _in_types(span: Span) -> frozenset[int]:
    """Return the indexes of tokens in the angle brackets of types, including the brackets."""
    indexes: set[int] = set()
    nested = 0
    for index, token in enumerate(span.tokens):
        begins = token.word == "<" and span.word(index - 1) in {"STRUCT", "ARRAY", "MAP"}
        nested += begins
        if nested:
            indexes.add(index)
        nested -= nested > 0 and token.word == ">"
    return frozenset(indexes)


def _check_name(span: Span, index: int) -> None:
    token = span.tokens[index]
    name = (token.name or "").lower()
    if name.startswith(_RESERVED_PREFIX):
        span.fail(f"names that begin with {_RESERVED_PREFIX} are reserved", "choose another", token)
    if name in _VIRTUAL:
        span.fail(
            f"{token.raw} is a virtual column that exists only in Hive",
            "use columns of the table",
            token,
        )
    if name == "grouping__id":
        span.fail(
            "the bits of grouping__id differ between Hive and Spark",
            "write grouping(a) for one column, grouping(a) * 2 + grouping(b) for a mask of two",
            token,
        )
    check_bare(span, index)
    if span.word(index + 1) == "(":
        check_function(span, index)
    if token.word == "BOOLEAN" and span.word(index - 1) == "AS":
        span.fail(TRUTH[0], f"write {TRUTH[1]}", token)
    if token.word in _PATTERN_WORDS and not _is_pattern_of_some(span, index):
        span.fail(
            "an empty pattern matches no string in Hive but every string in Spark; a pattern that"
            " is not a string literal may be empty",
            "write a string, or nullif(x, '') for the pattern",
            token,
        )


def _check_number(span: Span, token: Token) -> None:
    if _FLOAT.fullmatch(token.raw):
        span.fail(
            "Hive reads a number followed by F as a number and a name, but Spark reads it as a"
            " float",
            "write cast(1.1 AS float)",
            token,
        )
    if _LONG_DECIMAL.fullmatch(token.raw):
        span.fail(
            "Spark keeps trailing zeros of a decimal with an exponent, but Hive drops them",
            "write its digits, such as 11BD for 1.10e1BD",
            token,
        )


def _check_constant(span: Span, index: int) -> None:
    token = span.tokens[index]
    if token.parameter is not None:
        for value in token.parameter.values:
            if value.type is ValueType.STRING:
                _check_text(span, index, value.text or "", has_idle=_IDLE_BACKSLASH.search)
        return
    text = token.raw[1:-1]
    if _LONG_ESCAPE.search(text.replace("\\\\", "")):
        span.fail(
            "\\U and eight digits is one character in Spark, but the letter U in Hive",
            "write the character itself",
            token,
        )
    _check_text(span, index, text, has_idle=_has_idle_backslash)


def _check_text(span: Span, index: int, text: str, *, has_idle: Callable[[str], object]) -> None:
    """Refuse a literal or a parameter's string that Hive evaluates differently than Spark."""
    token = span.tokens[index]
    if text == NULL_PARTITION:
        span.fail(
            "for the partition of NULL, Hive returns this string, but Spark returns NULL",
            "write x IS NULL",
            token,
        )
    if text.lower() == "nan" and _is_compared(span, index):
        span.fail(
            "NaN equals itself in Spark, but not in Hive's tasks",
            "write cast(x AS string) RLIKE '^NaN$'",
            token,
        )
    whole = _with_neighbours(span, index, text)
    if _NANOSECONDS.match(whole) and _is_time(span, index):
        span.fail(
            "more than six decimal digits of a second are kept in Hive, but truncated in Spark",
            "write six digits; for a string: concat('2020-01-31 10:20:30.123456', '7')",
            token,
        )
    if has_idle(text) and _is_pattern(span, index):
        span.fail(
            "in a LIKE pattern, a backslash that does not precede % or _ is one character in Hive,"
            " but is an error or has a different meaning in Spark",
            "write RLIKE, or instr(x, y) > 0",
            token,
        )


def _is_pattern_of_some(span: Span, index: int) -> bool:
    """Return True if the pattern of RLIKE is a nonempty string or nullif(x, '')."""
    rest = span[index + 1 :]
    if rest.tokens and rest.tokens[0].kind is Kind.STRING:
        return len(rest.tokens[0].raw) > 2  # noqa: PLR2004 - its quotes
    is_call = rest.word(0) == "NULLIF" and rest.word(1) == "("
    return is_call and is_never_empty(rest[: rest.closing(1) + 1])


def _is_compared(span: Span, index: int) -> bool:
    """Return True if a string, or its cast to a number, is compared, also with a sign."""
    begin, end = index, index + 1
    if (span.word(end), span.word(end + 1)) in _TO_FLOATING:  # cast('NaN' AS double)
        begin, end = index - 2, end + 3
    elif span.word(index - 1) == "(" and span.word(index - 2) in {"DOUBLE", "FLOAT"}:
        begin, end = index - 2, end + 1
    while True:
        is_enclosed = span.word(begin - 1) == "(" and span.word(end) == ")"
        if is_enclosed and not _calls(span, begin - 1) and span.word(begin - 2) != "IN":
            begin, end = begin - 1, end + 1
        elif span.word(begin - 1) in _ADDING and (
            begin == 1 or span.word(begin - 2) in _NO_OPERANDS
        ):
            begin -= 1
        else:
            break
    around = {span.word(begin - 1), span.word(end)}
    return bool(around & _COMPARISONS) or _is_in_list(span, begin)


def _is_in_list(span: Span, index: int) -> bool:
    opening = span.opening(index)
    return opening is not None and span.word(opening - 1) == "IN"


def _with_neighbours(span: Span, index: int, text: str) -> str:
    """Join a string with the literals that directly follow the string."""
    for token in span.tokens[index + 1 :]:
        if token.kind is not Kind.STRING:
            break
        text += token.raw[1:-1]
    return text


def _is_time(span: Span, index: int) -> bool:
    """Return True if a string is converted to a time, or compared with a possible time."""
    begin, end = index, index + 1
    while end < len(span) and span.tokens[end].kind is Kind.STRING:
        end += 1
    while span.word(begin - 1) == "(" and span.word(end) == ")" and not _calls(span, begin - 1):
        begin, end = begin - 1, end + 1
    previous, following = span.word(begin - 1), span.word(end)
    opening = span.opening(begin)
    is_argument = opening is not None and span.word(opening - 1) in _OF_TIMES
    is_cast = (following, span.word(end + 1)) == ("AS", "TIMESTAMP")
    if is_cast or is_argument or previous in {"TIMESTAMP", "AND", "WHEN"}:
        return True
    return bool({previous, following} & _OF_VALUES) or _is_in_list(span, begin)


def _calls(span: Span, index: int) -> bool:
    previous = span.tokens[index - 1] if index else None
    return previous is not None and previous.name is not None and previous.word not in _NO_OPERANDS


def _is_pattern(span: Span, index: int) -> bool:
    """Return True if a string is the pattern of a LIKE, or a part of its expression."""
    place: int | None = index - 1
    while place is not None and place >= 0:
        word = span.word(place)
        if word == "LIKE":
            return True
        if word in {",", "THEN", "ELSE"}:  # the tokens before this word belong to a different value
            place = span.opening(place)
        elif word in _CLOSING:
            place = span.opening(place)
            place = None if place is None else place - 1
        elif word in _AROUND_PATTERNS or (word == "(" and span.word(place - 1) in _OF_OTHER_TEXTS):
            return False
        else:
            place -= 1
    return False


# In a parameter's value, each backslash is one character; in a literal, it begins an escape.
_IDLE_BACKSLASH: Final = re.compile(r"\\(?![%_])")


def _has_idle_backslash(pattern: str) -> bool:
    """Return True if the decoded pattern has a backslash that is not followed by % or _."""
    rest = pattern
    while (backslash := rest.find("\\")) >= 0:
        if rest[backslash + 1 : backslash + 2] == "\\":
            return not rest[backslash + 2 : backslash + 3] or rest[backslash + 2] not in "%_"
        rest = rest[backslash + 2 :]
    return False


def _check_interval(span: Span, index: int) -> None:
    """Refuse `1 DAY`: an interval in Hive, but a number with an alias in Spark."""
    token = span.tokens[index]
    previous = span.tokens[index - 1]
    is_value = previous.kind in _VALUES and span.word(index - 2) != "INTERVAL"
    in_parentheses = (
        previous.word == ")"
        and span.word(index - 3) == "("
        and span.tokens[index - 2].kind in _VALUES
    )
    if is_value or in_parentheses:
        span.fail(
            f"a number before {token.raw} is an interval in Hive, but a number with an alias"
            " in Spark",
            "write INTERVAL '1' DAY for an interval, and AS before an alias",
            token,
        )


@dataclass(slots=True)
class _Run:
    """The operators since the last word in `_BORDERS`, within one level of parentheses. Mutable."""

    comparison: Token | None = None
    arithmetic: dict[str, Token] = field(default_factory=dict)
    betweens: int = 0

    def border(self) -> None:
        self.comparison, self.betweens = None, 0
        self.arithmetic.clear()


def _check_operators(span: Span, in_types: Collection[int]) -> None:
    """Refuse combinations of operators that Hive and Spark group differently."""
    runs = [_Run()]
    for index, token in [(i, t) for i, t in enumerate(span.tokens) if i not in in_types]:
        run = runs[-1]
        if token.word in _OPENING:
            runs.append(_Run())
        elif token.word in _CLOSING and len(runs) > 1:
            runs.pop()
        elif token.word == "AND" and run.betweens:
            run.betweens -= 1
            run.arithmetic.clear()
        elif token.word in _BORDERS and not _is_distinct_from(span, index):
            run.border()
        elif token.word in _COMPARISONS:
            _compare(span, run, token)
        elif token.word in _ARITHMETIC and not _is_sign(span, index):
            _calculate(span, run, token)


def _is_distinct_from(span: Span, index: int) -> bool:
    return span.word(index - 1) == "DISTINCT" and span.word(index - 2) in {"IS", "NOT"}


def _compare(span: Span, run: _Run, token: Token) -> None:
    if run.comparison is not None:
        span.fail(
            f"without parentheses, {run.comparison.raw} and {token.raw} have different meanings in"
            " Hive and Spark",
            "put parentheses around one of the comparisons",
            token,
        )
    if token.word == "IS" and run.arithmetic:
        span.fail(
            "IS has a higher precedence than arithmetic in Hive, but a lower one in Spark",
            "put parentheses around the operand of IS",
            token,
        )
    run.comparison = token
    run.betweens += token.word == "BETWEEN"
    run.arithmetic.clear()


def _calculate(span: Span, run: _Run, token: Token) -> None:
    run.arithmetic.setdefault(token.word, token)
    words = run.arithmetic.keys()
    mixes = ("||" in words and words & _ADDING) or ("^" in words and len(words) > 1)
    if mixes:
        span.fail(
            f"{' and '.join(sorted(words))} have a different precedence in Hive than in Spark",
            "use parentheses to group the operands",
            token,
        )


def _is_sign(span: Span, index: int) -> bool:
    """Return True if a plus or minus is a sign, or if a star means all columns."""
    return index == 0 or span.tokens[index - 1].word in _NO_OPERANDS
