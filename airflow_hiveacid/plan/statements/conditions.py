"""Conditions of columns and constants that every engine evaluates alike, parsed from Spark SQL.

Input is the text of a WHERE clause, its parameters, and a table. Output is a tree of comparisons,
or the reason why only Spark can evaluate the text. The grammar is small on purpose: AND, OR and
parentheses over `column = constant`, `<>`, `<`, `<=`, `>`, `>=`, `IN`, `BETWEEN`, `IS [NOT] NULL`.
There is no NOT, so a comparison with NULL can count as false: the rows that a condition selects are
the same.

The text is that of the job's spec, so the rule is the same for an operator's `where` and for Hive's
SQL, which `sql` has translated. sqlglot parses neither: it is not where jobs run.

Example:
    >>> from airflow_hiveacid.format.table import Column, TableInfo, TableRef
    >>> a, b = Column(name="a", type="int"), Column(name="b", type="string")
    >>> t = TableInfo(ref=TableRef("d", "t"), location="/d/t", columns=(a, b))
    >>> condition_of("a > 1 AND b IS NULL", t, {})
    AllOf(parts=(Comparison(column='a', operator='>', value=1), NullTest(column='b', is_null=True)))
    >>> reduced(condition_of("a > 1 AND b IS NULL", t, {}), {"a": 2})
    NullTest(column='b', is_null=True)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from airflow_hiveacid.format.errors import (
    ConfigurationError,
    HiveAcidError,
    SparkNeededError,
    TypeMismatchError,
)
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.types import HiveType, parse_type
from airflow_hiveacid.jobs.statements import Parameter, Value, ValueType
from airflow_hiveacid.plan.statements.constants import (
    COMPARABLE,
    UNFIT,
    VALUE_REMEDY,
    Constant,
    can_be_cast,
    is_comparable,
    literal_of,
    type_name,
)
from airflow_hiveacid.plan.statements.parameter_values import parameter_of

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?: (?P<string>'[^'\\]*')(?!['"]) | (?P<number>[0-9]+(?:\.[0-9]+)?)(?![\w.])
    | :(?P<marker>[A-Za-z_][A-Za-z0-9_]*) | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<symbol><=(?!>)|>=|<>|!=|==|<(?!=)|[=>(),.]|-(?!-)) )""",
    re.VERBOSE,
)
_BLANKS: Final = " \t\r\n"
_OPERATORS: Final = {
    "==": "=",
    "!=": "<>",
    **{text: text for text in ("=", "<>", "<", "<=", ">", ">=")},
}
_COMPARES: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERED: Final = frozenset({"<", "<=", ">", ">="})
_WORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "LIKE", "CASE", "EXISTS"}
    | {"SELECT", "INTERVAL", "CAST"}
)
_TARGET: Final = "t"
_DEEPEST: Final = 100
_MOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a constant; with NULL, no row meets it."""

    column: str
    operator: str
    value: Constant


@dataclass(frozen=True, slots=True)
class Membership:
    """`column IN (...)`; a NULL among the values matches no row."""

    column: str
    values: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class NullTest:
    """`column IS NULL`, or `IS NOT NULL`."""

    column: str
    is_null: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conditions that must all be true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one must be true."""

    parts: tuple[Condition, ...]


Condition = Comparison | Membership | NullTest | AllOf | AnyOf


def columns_of(condition: Condition | None) -> frozenset[str]:
    """Return the columns that a condition uses."""
    match condition:
        case None:
            return frozenset()
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset[str]().union(*map(columns_of, parts))
        case _:
            return frozenset({condition.column})


def reduced(condition: Condition, values: Mapping[str, Constant]) -> Condition | bool:
    """Return the condition for rows in which some columns have these values.

    The result is True or False if no other column decides. NULL meets no comparison.
    """
    rest: list[Condition | bool]
    match condition:
        case AllOf(parts=parts):
            rest = [part for p in parts if (part := reduced(p, values)) is not True]
            if False in rest:
                return False
            return _joined(AllOf, rest) if rest else True
        case AnyOf(parts=parts):
            rest = [part for p in parts if (part := reduced(p, values)) is not False]
            if True in rest:
                return True
            return _joined(AnyOf, rest) if rest else False
        case _ if condition.column not in values:
            return condition
        case _:
            return _holds(condition, values[condition.column])


def _joined(kind: type[AllOf | AnyOf], parts: Sequence[Condition | bool]) -> Condition:
    conditions = tuple(part for part in parts if not isinstance(part, bool))
    return conditions[0] if len(conditions) == 1 else kind(conditions)


def _holds(condition: Comparison | Membership | NullTest, value: Constant) -> bool:
    match condition:
        case NullTest(is_null=is_null):
            return (value is None) is is_null
        case Membership(values=values):
            return value is not None and value in values
        case Comparison(operator=sign, value=constant):
            if value is None or constant is None:
                return False
            return bool(_COMPARES[sign](value, constant))


def may_hold(condition: Condition, ranges: Mapping[str, tuple[Constant, Constant]]) -> bool:
    """Return False if no row can meet the condition.

    `ranges` has the least and the greatest value of some columns, both inclusive; NULL apart.
    """
    match condition:
        case AllOf(parts=parts):
            return all(may_hold(part, ranges) for part in parts)
        case AnyOf(parts=parts):
            return any(may_hold(part, ranges) for part in parts)
        case NullTest():
            return True
        case _ if condition.column not in ranges:
            return True
        case _:
            return _may_hold(condition, *ranges[condition.column])


def _may_hold(condition: Comparison | Membership, low: Any, high: Any) -> bool:  # noqa: ANN401 - of the column's type
    if isinstance(condition, Membership):
        return any(value is not None and low <= value <= high for value in condition.values)
    if condition.value is None:
        return False
    # If any value of the range meets the comparison, this one does.
    bounds = {"<": low, "<=": low, ">": high, ">=": high}
    if condition.operator in bounds:
        compare = _COMPARES[condition.operator]
        return compare(bounds[condition.operator], condition.value)
    return condition.operator == "<>" or low <= condition.value <= high


def condition_of(text: str, table: TableInfo, parameters: Mapping[str, Parameter]) -> Condition:
    """Parse a condition over a table's columns.

    Raises SparkNeededError if engines may evaluate it differently, or it may be invalid.
    """
    parser = _Parser(_tokens(text), table, parameters)
    condition = parser.any_of(0)
    parser.end()
    return condition


def value_of(text: str, parameters: Mapping[str, Parameter]) -> Value:
    """Parse an expression that is a single literal or parameter; else raise SparkNeededError."""
    parser = _Parser(_tokens(text), None, parameters)
    value = parser.value()
    parser.end()
    return value


def source_column_of(text: str) -> str | None:
    """Return the column of an expression `s.column`, in lower case; None for anything else."""
    tokens, rest = tokens_of(_TOKEN, text.rstrip(_BLANKS))
    words = [token.name for token in tokens]
    is_path = len(tokens) == 3 and tokens[1].text == "." and words[0] == "s"  # noqa: PLR2004 - s . column
    return words[2] or None if is_path and not rest else None


class Token(NamedTuple):
    """A token of SQL; `kind` is the group of the pattern by which it was found."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """The token in upper case; empty for a constant or a quoted name."""
        return self.text.upper() if self.kind in {"word", "symbol"} else ""

    @property
    def name(self) -> str:
        """The column's name in lower case; empty if the token is no name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`").lower()
        return self.text.lower() if self.kind == "word" else ""


_END: Final = Token("end", "")


def tokens_of(pattern: re.Pattern[str], text: str) -> tuple[list[Token], str]:
    """Return the tokens of a text, and the rest that does not begin with a token."""
    tokens: list[Token] = []
    position = 0
    while (match := pattern.match(text, position)) is not None and match.lastgroup is not None:
        tokens.append(Token(match.lastgroup, match[match.lastgroup]))
        position = match.end()
    return tokens, text[position:]


def _tokens(text: str) -> list[Token]:
    tokens, rest = tokens_of(_TOKEN, text.rstrip(_BLANKS))
    if rest:
        raise SparkNeededError(reason=f"{rest.strip()[:20]!r} is not a simple comparison")
    return tokens


class _Parser:
    """A cursor over the tokens of one text. Mutable: it stores the next position."""

    def __init__(
        self,
        tokens: Sequence[Token],
        table: TableInfo | None,
        parameters: Mapping[str, Parameter],
    ) -> None:
        self._tokens, self._table, self._parameters = tokens, table, parameters
        self._next = 0

    def any_of(self, depth: int) -> Condition:
        """Parse conditions between OR."""
        if depth > _DEEPEST:
            raise SparkNeededError(reason="its parentheses are nested too deeply")
        parts = [self._all_of(depth)]
        while self._takes("OR"):
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all_of(self, depth: int) -> Condition:
        parts = [self._one(depth)]
        while self._takes("AND"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, depth: int) -> Condition:
        if self._takes("("):
            condition = self.any_of(depth + 1)
            self._expect(")")
            return condition
        column = self._column()
        token = self._take()
        if token.word in _OPERATORS:
            return self._comparison(column, _OPERATORS[token.word])
        match token.word:
            case "IS":
                is_null = not self._takes("NOT")
                self._expect("NULL")
                return NullTest(column, is_null)
            case "IN":
                return Membership(column, tuple(self._list(column)))
            case "BETWEEN":
                low = self._comparison(column, ">=")
                self._expect("AND")
                return AllOf((low, self._comparison(column, "<=")))
            case _:
                raise SparkNeededError(reason=f"{token.text!r} after {column} is not a comparison")

    def _comparison(self, column: str, sign: str) -> Comparison:
        type_ = self._type(column)
        if sign in _ORDERED and type_ == "boolean":
            raise SparkNeededError(reason=f"{column} is boolean, which has no order in Hive")
        return Comparison(column, sign, self._constant(column, self.value()))

    def _list(self, column: str) -> Iterator[Constant]:
        self._type(column)
        self._expect("(")
        while True:
            for value in self._values():
                yield self._constant(column, value)
            if not self._takes(","):
                break
        self._expect(")")

    def _column(self) -> str:
        token = self._take()
        if self._peek().text == "." and self._peek().kind == "symbol":
            if token.name != _TARGET or self._table is None or _TARGET in self._table.column_names:
                raise SparkNeededError(reason=f"{token.text!r} is not the table's alias t")
            self._take()
            token = self._take()
        name = token.name
        if not name or (token.kind == "word" and token.word in _WORDS):
            raise SparkNeededError(
                reason=f"{token.text or 'the end'!r} stands where a column belongs"
            )
        # A call passes here, because the caller refuses it, at its parenthesis.
        is_call = token.kind == "word" and self._peek().text == "("
        if self._table is None or (name not in self._table.column_names and not is_call):
            raise SparkNeededError(reason=f"{name!r} is not a column of the table")
        return name

    def _type(self, column: str) -> str:
        """Return the column's type if its values can be compared."""
        type_ = column_type(self._table, column)
        if not is_comparable(type_):
            raise SparkNeededError(
                reason=f"engines may compare {column}, of type {type_}, differently"
            )
        return type_

    def _constant(self, column: str, value: Value) -> Constant:
        if self._table is None:
            raise TypeError("a constant needs a column")
        return literal_in(self._table, column, value, "{} may not be exact in {}, of type {}")

    def _values(self) -> tuple[Value, ...]:
        """Parse one constant, or a parameter that is a list."""
        token = self._peek()
        parameter = self._parameters.get(token.text) if token.kind == "marker" else None
        if parameter is not None and parameter.is_list:
            self._take()
            return parameter.values
        return (self.value(),)

    def value(self) -> Value:
        """Parse one constant."""
        token = self._take()
        is_negative = token.text == "-" and token.kind == "symbol"
        if is_negative:
            token = self._take()
        if token.kind == "number":
            return _number(token.text, is_negative=is_negative)
        if is_negative:
            raise SparkNeededError(reason=f"'-{token.text}' is not a number")
        if token.kind == "string":
            return Value(type=ValueType.STRING, text=token.text[1:-1])
        if token.kind == "marker":
            return self._parameter(token.text)
        return self._word(token)

    def _word(self, token: Token) -> Value:
        match token.word:
            case "NULL":
                return Value(type=ValueType.NULL)
            case "TRUE" | "FALSE":
                return Value(type=ValueType.BOOLEAN, text=token.text.lower())
            case "DATE" if self._peek().kind == "string":
                return Value(type=ValueType.DATE, text=self._take().text[1:-1])
            case _:
                raise SparkNeededError(reason=f"{token.text or 'the end'!r} is not a constant")

    def _parameter(self, name: str) -> Value:
        parameter = self._parameters.get(name)
        if parameter is None or parameter.is_list:
            raise SparkNeededError(reason=f":{name} is not a single value")
        return parameter.values[0]

    def end(self) -> None:
        """Check that no token is left."""
        if self._peek() is not _END:
            raise SparkNeededError(reason=f"{self._peek().text!r} is not understood here")

    def _peek(self) -> Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _takes(self, word: str) -> bool:
        if self._peek().word != word:
            return False
        self._next += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._takes(word):
            raise SparkNeededError(
                reason=f"{self._peek().text or 'the end'!r} stands where {word} belongs"
            )


def literal_in(table: TableInfo, name: str, value: Value, why: str) -> Constant:
    """Return a literal or parameter in a column's type, or raise the error of `unfit`.

    `why` has a place for the value, for the column and for the column's type.
    """
    type_ = column_type(table, name)
    constant = literal_of(value, parse_type(type_))
    if constant is UNFIT:
        text = value.text if value.type is ValueType.STRING else None
        why = why.format(value.said, name, type_) + _advice(value, parse_type(type_))
        raise unfit(table, name, text, why)
    return constant


def unfit(table: TableInfo, name: str, text: str | None, why: str) -> HiveAcidError:
    """Return the error for a value that only Spark may cast to a column's type.

    `text` is the value if it is a string. If no cast can succeed, the error is a TypeMismatchError
    whose cause is the SparkNeededError: with Spark, the cast fails only if a row needs it.
    """
    hive_type = parse_type(column_type(table, name))
    needed = SparkNeededError(reason=why)
    if text is None or can_be_cast(text, hive_type):
        return needed
    type_, shown = column_type(table, name), repr(text[:_MOST_SHOWN])
    error = TypeMismatchError(
        table=table.ref, column=name, column_type=type_, value_type=shown, remedy=VALUE_REMEDY
    )
    error.__cause__ = needed
    return error


def _advice(value: Value, hive_type: HiveType) -> str:
    """Return how to write a string as a value of a column's type; empty if it does not help."""
    kind = "int" if type_name(hive_type).endswith("int") else type_name(hive_type)
    if value.type is not ValueType.STRING or kind not in COMPARABLE:
        return ""
    try:
        (typed,) = parameter_of({"type": kind, "value": value.text}, "").values
    except ConfigurationError:
        return ""
    if literal_of(typed, hive_type) is UNFIT:
        return ""
    literal = f"DATE '{typed.text}'" if kind == "date" else typed.text
    return f'; write {literal}, or the parameter {{"type": "{kind}", "value": "{typed.text}"}}'


def column_type(table: TableInfo | None, name: str) -> str:
    """Return the Hive type of a table's column."""
    columns = () if table is None else (*table.columns, *table.partition_columns)
    return next(column.type for column in columns if column.name == name)


def _number(digits: str, *, is_negative: bool) -> Value:
    whole, dot, fraction = digits.partition(".")
    whole = whole.lstrip("0") or "0"
    is_zero = not (whole + fraction).strip("0")
    text = f"-{whole}{dot}{fraction}" if is_negative and not is_zero else f"{whole}{dot}{fraction}"
    return Value(type=ValueType.DECIMAL if dot else ValueType.INT, text=text)
