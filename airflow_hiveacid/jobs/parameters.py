"""The typed values of a statement's parameters, as part of a job's spec.

SQL refers to a parameter with a marker such as `:day`. The value is never inserted into the SQL
text. The value is sent separately, and `spark.engine.expressions.parsed_sql` puts it into Spark's
plan as a literal.

Example:
    >>> Parameter(values=(Value(type=ValueType.DATE, text="2026-01-31"),)).said
    "date '2026-01-31'"
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class ValueType(enum.Enum):
    """The type of a parameter value; the values of the enum are the names for users."""

    STRING = "string"
    INT = "int"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    MOMENT = "timestamp with local time zone"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value: its type, and its canonical form as text.

    A TIMESTAMP is a wall-clock time without a time zone, such as `2026-01-31 02:00:00.5`. A MOMENT
    has the same form in UTC, and ends in `Z`. The text of NULL is empty.
    """

    type: ValueType
    text: str = ""

    @property
    def said(self) -> str:
        """The type and value, for error messages."""
        return "NULL" if self.type is ValueType.NULL else f"{self.type.value} {self.text!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The value of a parameter, or one or more values for `IN (:ids)` if `is_list` is true."""

    values: tuple[Value, ...]
    is_list: bool = False

    @property
    def said(self) -> str:
        """The values with their types, for error messages."""
        values = ", ".join(value.said for value in self.values)
        return f"({values})" if self.is_list else values
