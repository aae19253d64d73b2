"""A table's DEFAULT and CHECK constraints as Spark SQL.

The metastore stores constraints in Hive's dialect. This module accepts only expressions that mean
the same in Spark: a default may be a constant or the current time; a check may compare columns and
constants. For any other, it raises an error that contains the constraint.

Example:
    >>> from airflow_hiveacid.format.table import Column, Constraints, TableInfo, TableRef
    >>> t = TableInfo(
    ...     ref=TableRef("d", "t"),
    ...     location="/d/t",
    ...     columns=(Column(name="a", type="int"), Column(name="b", type="date")),
    ...     constraints=Constraints(defaults={"b": "'2020-01-01'"}, checks={"c": "a>0 and a<9"}),
    ... )
    >>> value_or_default(t, "b", None), value_or_default(t, "a", "DEFAULT")
    ("CAST('2020-01-01' AS date)", 'NULL')
    >>> [(check.text, check.columns) for check in checks_of(t)]
    [('`a` > 0 AND `a` < 9', frozenset({'a'}))]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from airflow_hiveacid.format.errors import UnsupportedTableError
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.plan.statements.conditions import Token, tokens_of

DEFAULT: Final = "DEFAULT"
"""The keyword in a statement that stands for a column's default."""

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<string>'(?:[^'\\]|\\['"\\nrt])*'|"(?:[^"\\]|\\['"\\nrt])*") (?!['"])
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYD])?)(?![\w.])
    | (?P<word>[A-Za-z_]\w*) | (?P<quoted>`[^`]+`)
    | (?P<symbol><=>|<=|>=|<>|!=|==|[=<>+\-*(),]) )""",
    re.VERBOSE,
)
# Spark truncates these digits.
_NANOSECONDS: Final = re.compile(r":[0-9]{1,2}\.[0-9]{6}[0-9]*[1-9]")
_LITERALS: Final = frozenset({"NULL", "TRUE", "FALSE"})
_NOW: Final = (["CURRENT_DATE"], ["CURRENT_TIMESTAMP"])
_TIMES: Final = (["DATE"], ["TIMESTAMP"])
_TEXTS: Final = ("string", "char", "varchar")
_TRUTHS: Final = ("true", "false")
_SIZED: Final = 4  # tokens of a type with a length, such as char(2)
_COMPARISONS: Final = frozenset({"=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="})
_WORDS: Final = frozenset({"IS", "IN", "LIKE", "BETWEEN"})
_BETWEEN: Final = "BETWEEN"
_BORDERS: Final = frozenset({"AND", "OR", "NOT"})
_AS_DOUBLE: Final = "float"
_ADDING: Final = frozenset({"+", "-", "*"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A CHECK constraint: a condition on the table's columns, and the columns that it uses."""

    name: str
    text: str
    columns: frozenset[str]


def value_or_default(table: TableInfo, column: str, given: str | None) -> str:
    """Return the expression for a column: that of the statement, the column's default, or NULL.

    `given` is None if the statement omits the column. Raises UnsupportedTableError if only Hive can
    evaluate the default.
    """
    if given is not None and given != DEFAULT:
        return given
    text = table.constraints.defaults.get(column)
    if text is None:
        return "NULL"
    tokens = _tokens(text)
    if tokens is None or not _is_constant(tokens) or _NANOSECONDS.search(text):
        raise UnsupportedTableError(
            table=table.ref,
            detail=f"has the default {text} for column {column}, which only Hive can evaluate; give"
            " the column a value",
        )
    return _cast(table, column, _rendered(tokens), tokens)


def default_where(table: TableInfo, column: str, flag: str, given: str, *, is_text: bool) -> str:
    """Return an expression: the column's default if `flag` is the string `true`, else `given`.

    `is_text` is True if the value of `given` is a string, even if the column has a different type.
    """
    default = value_or_default(table, column, DEFAULT)
    if is_text:
        default = f"CAST({default} AS string)"
    return f"CASE WHEN {flag} = 'true' THEN {default} ELSE {given} END"


def _cast(table: TableInfo, column: str, text: str, tokens: Sequence[Token]) -> str:
    """Return a default; if it is a string but the column is not, cast it, as Hive does."""
    columns = (*table.columns, *table.partition_columns)
    (column_type,) = [c.type for c in columns if c.name == column]
    is_text = len(tokens) == 1 and tokens[0].kind == "string"
    return (
        f"CAST({text} AS {column_type})" if is_text and not column_type.startswith(_TEXTS) else text
    )


def _is_constant(tokens: Sequence[Token]) -> bool:
    words = [token.word for token in tokens]
    kinds = [token.kind for token in tokens]
    if (cast := _cast_of(tokens)) is not None:
        return _is_constant(cast.value) and _casts_alike(cast)
    if words[:1] == ["("] and words[-1:] == [")"]:
        return _is_constant(tokens[1:-1])
    is_signed = words[:1] in (["-"], ["+"]) and kinds[1:] == ["number"]
    is_time = words[:1] in _TIMES and kinds[1:] == ["string"]
    is_now = words[:1] in _NOW and words[1:] in ([], ["(", ")"])
    is_alone = len(tokens) == 1 and (kinds[0] in {"string", "number"} or words[0] in _LITERALS)
    return is_signed or is_time or is_now or is_alone


class _Cast(NamedTuple):
    value: Sequence[Token]
    type: Sequence[Token]


def _cast_of(tokens: Sequence[Token]) -> _Cast | None:
    """Return the value and type if the tokens are a single CAST(... AS ...), otherwise None."""
    words = [token.word for token in tokens]
    if words[:2] != ["CAST", "("] or words[-1:] != [")"] or "AS" not in words:
        return None
    index = len(words) - 1 - words[::-1].index("AS")  # the last one: the value may be a cast
    cast = _Cast(tokens[2:index], tokens[index + 1 : -1])
    return cast if cast.type and cast.type[0].kind == "word" else None


def _casts_alike(cast: _Cast) -> bool:
    """Return whether Hive and Spark cast a constant equally, unlike a cast of true to string."""
    (first, *rest), name = cast.value, cast.type[0].text.lower()
    if name == "boolean":
        return not rest and (first.kind != "string" or first.text[1:-1].lower() in _TRUTHS)
    is_truth = first.word in {"TRUE", "FALSE"} and not rest
    # Hive drops the last zeros of 1.50, Spark keeps them.
    numbers = [t.text.upper().removesuffix("BD") for t in cast.value if t.kind == "number"]
    has_zero = any("." in number and number[-1] in "0." for number in numbers)
    return not (name.startswith(_TEXTS) and (is_truth or has_zero))


def _rendered(tokens: Sequence[Token]) -> str:
    """Return a constant as Spark SQL, with `substr` instead of casts to char and varchar."""
    cast = _cast_of(tokens)
    if cast is None:
        return " ".join(token.text for token in tokens)
    value, words = _rendered(cast.value), [token.text for token in cast.type]
    if words[0].lower() in {"char", "varchar"} and len(words) == _SIZED:
        return f"substr(CAST({value} AS string), 1, {words[2]})"
    return f"CAST({value} AS {' '.join(words)})"


def checks_of(table: TableInfo) -> tuple[Check, ...]:
    """Return the CHECK constraints of a table."""
    return tuple(_check(table, name, text) for name, text in table.constraints.checks.items())


def _check(table: TableInfo, name: str, text: str) -> Check:
    # A backslash in a pattern has a different meaning in each dialect.
    tokens = None if "\\" in text else _tokens(text)
    parts = None if tokens is None else _over_columns(table, tokens)
    if tokens is None or parts is None or not _is_plain(tokens):
        raise UnsupportedTableError(
            table=table.ref,
            detail=f"has the constraint {name} CHECK ({text}), which only Hive can evaluate; write"
            " with Hive, or drop the constraint",
        )
    columns = frozenset(part[1:-1] for part in parts if part.startswith("`"))
    for column in (*table.columns, *table.partition_columns):
        if column.name in columns and column.type == _AS_DOUBLE:
            raise UnsupportedTableError(
                table=table.ref,
                detail=f"has the constraint {name} CHECK ({text}), and {column.name} is a float,"
                " which Spark compares as a double; write with Hive, or drop the constraint",
            )
    return Check(name=name, text=" ".join(_without_between(parts)), columns=columns)


def _without_between(parts: Sequence[str]) -> list[str]:
    """Replace each BETWEEN with two comparisons, in which columns can be substituted."""
    # From `begin` to `end`: value, perhaps NOT, BETWEEN, low, AND at `middle`, high.
    tokens = list(parts)
    while _BETWEEN in tokens:
        index = tokens.index(_BETWEEN)
        is_not = tokens[index - 1 : index] == ["NOT"]
        begin = index - is_not - _length(tokens[: index - is_not][::-1], closing="(")
        middle = index + 1 + _length(tokens[index + 1 :], closing=")")
        end = middle + 1 + _length(tokens[middle + 1 :], closing=")")
        value = tokens[begin : index - is_not]
        low, high = tokens[index + 1 : middle], tokens[middle + 1 : end]
        both = ["(", *value, ">=", *low, "AND", *value, "<=", *high, ")"]
        tokens[begin:end] = ["NOT", *both] if is_not else both
    return tokens


def _length(parts: Sequence[str], closing: str) -> int:
    """Return the number of tokens before AND, OR, NOT or an unmatched closing parenthesis."""
    nested = 0
    for index, part in enumerate(parts):
        is_closing = part == closing
        if nested == 0 and (is_closing or part in _BORDERS):
            return index
        nested += (part in {"(", ")"}) - 2 * is_closing  # +1 at an opening one, -1 at a closing one
    return len(parts)


def _over_columns(table: TableInfo, tokens: Sequence[Token]) -> list[str] | None:
    """Return the Spark SQL of each token, or None if a token is neither known nor a column."""
    words = {"AND", "OR", "NOT", *_LITERALS, *_WORDS}
    texts = []
    for token in tokens:
        if token.word in words:
            texts.append(token.word)
        elif token.name:
            if token.name not in table.column_names:
                return None
            texts.append(f"`{token.name}`")
        else:
            texts.append(token.text)
    return texts


def _is_plain(tokens: Sequence[Token]) -> bool:
    """Return whether Hive and Spark group the operators equally; their precedences differ."""
    levels = [_Level()]
    for index, token in enumerate(tokens):
        previous = tokens[index - 1] if index else None
        match token.word:
            case "(" if previous is not None and previous.kind != "symbol" and not _opens(previous):
                return False  # a function call, not a group
            case "(":
                levels.append(_Level(is_list=previous is not None and previous.word == "IN"))
            case ")" if len(levels) == 1:
                return False
            case ")":
                levels.pop()
            case word if not levels[-1].takes(word):
                return False
            case _:
                pass
    return len(levels) == 1


@dataclass(slots=True)
class _Level:
    """The state of one level of parentheses after the last AND or OR. Mutable."""

    is_list: bool = False
    comparison: str = ""
    has_arithmetic: bool = False
    in_between: bool = False

    def takes(self, word: str) -> bool:
        """Return whether both dialects parse `word` equally; pass "" for a name or constant."""
        if word == "AND" and self.in_between:
            self.in_between = False
        elif word in {"AND", "OR"}:
            self.comparison, self.has_arithmetic = "", False
        elif word in _COMPARISONS | _WORDS:
            # In Hive, IS applies to the last operand of an arithmetic expression.
            if self.comparison or (word == "IS" and self.has_arithmetic):
                return False
            self.comparison, self.in_between = word, word == "BETWEEN"
        elif word in _ADDING:
            self.has_arithmetic = True
        return word != "," or self.is_list


def _opens(token: Token) -> bool:
    """Return whether a parenthesis after this word opens a group instead of a function call."""
    return token.word in {"AND", "OR", "NOT", "IN", "BETWEEN"}


def _tokens(text: str) -> list[Token] | None:
    """Return the tokens of an expression, or None if a token is not accepted in constraints."""
    tokens, rest = tokens_of(_TOKEN, text.rstrip())
    return tokens if tokens and not rest else None
