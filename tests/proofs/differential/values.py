"""The values of both engines in one form, and the rules by which two of them are equal.

Hive's output is read by Hive's type: a char loses its padding, a time its trailing
zeros, a decimal its scale. `RULES` names each of these adjustments for the report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.types import DataType

Value = Any
RULES: Final = (
    "a char is compared without the padding that Hive prints",
    "a decimal is compared by its value, whatever its scale",
    "a time is compared without trailing zeros of its fraction",
    "doubles are equal within 1e-12 of their size, floats within 1e-6",
    "NaN equals NaN, and 0.0 equals -0.0",
    "a number, a date or a time is compared as a string if Hive returns a string for it",
    "if one engine returns bytes and the other a string, the bytes are compared as UTF-8 text",
    "the order of entries in a map and the names of fields in a struct are not compared",
    "the order of `collect_set` is not compared, because no engine promises one",
)
_DOUBLE: Final = 1e-12
_FLOAT: Final = 1e-6
_TYPE: Final = re.compile(r"(\w+)")
_IDLE: Final = re.compile(r"(\.\d*?)0+$")


class Broken:
    """The value of an expression that ends in an error of ours; equal to nothing."""

    def __repr__(self) -> str:
        return "error"


BROKEN: Final = Broken()


class Single(float):
    """A float of 32 bits: a difference beyond its digits does not count."""


class Binary(str):
    """Bytes as hexadecimal digits."""

    __slots__ = ()


def of_hive(value: object, kind: str) -> Value:
    """Return the value that `JsonRow.java` printed, by Hive's type."""
    name = _TYPE.match(kind)
    return None if value is None else _hive(value, kind, name.group(1) if name else "")


def _hive(value: Any, kind: str, name: str) -> Value:  # noqa: ANN401, PLR0911 - JSON; one kind a line
    match name:
        case "float" | "double":
            number = float(value)
            return Single(number) if name == "float" else number
        case "decimal":
            return Decimal(value)
        case "char" | "binary" | "timestamp":
            return _TEXTS[name](value)
        case "array":
            return [of_hive(one, kind[6:-1]) for one in value]
        case "map":
            key, _, item = kind[4:-1].partition(",")
            pairs = [(of_hive(k, key), of_hive(v, item)) for k, v in value]
            return sorted(pairs, key=repr)
        case "struct":
            kinds = [part.partition(":")[2] for part in split_kinds(kind[7:-1])]
            return [of_hive(v, k) for v, k in zip(value.values(), kinds, strict=True)]
        case _:
            return value


_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "char": lambda padded: padded.rstrip(" "),
    "binary": Binary,
    "timestamp": lambda time: trimmed(time),  # noqa: PLW0108 - it is defined below
}


def split_kinds(text: str) -> list[str]:
    """Return the parts between commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def trimmed(time: str) -> str:
    """Return a time without trailing zeros in its fraction."""
    return _IDLE.sub(r"\1", time).rstrip(".") if "." in time else time


def of_spark(value: Any, kind: DataType) -> Value:  # noqa: ANN401 - anything that Spark collects
    name = kind.typeName()
    if value is None:
        return None
    if isinstance(value, Broken):
        return value
    return _spark(value, kind, name)


def _spark(value: Any, kind: Any, name: str) -> Value:  # noqa: ANN401, PLR0911 - as above
    match name:
        case "float":
            return Single(value)
        case "binary":
            return Binary(bytes(value).hex())
        case "timestamp" | "timestamp_ntz" | "date":
            if isinstance(value, datetime):
                return trimmed(value.isoformat(sep=" "))
            return value.isoformat() if isinstance(value, date) else trimmed(str(value))
        case "array":
            return [of_spark(one, kind.elementType) for one in value]
        case "map":
            pairs = [
                (of_spark(k, kind.keyType), of_spark(v, kind.valueType)) for k, v in value.items()
            ]
            return sorted(pairs, key=repr)
        case "struct":
            return [of_spark(v, f.dataType) for v, f in zip(tuple(value), kind.fields, strict=True)]
        case _:
            return value


def same(ours: Value, theirs: Value) -> bool:  # noqa: PLR0911 - one rule a line
    """Return True if two values are equal."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, Broken) or isinstance(theirs, Broken):
        return False
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, Binary) is not isinstance(theirs, Binary):
        return _as_text(ours) == _as_text(theirs)
    if isinstance(ours, str) or isinstance(theirs, str):
        return text(ours) == text(theirs)
    if isinstance(ours, float) or isinstance(theirs, float):
        return _close(ours, theirs)
    return bool(ours == theirs)


def _as_text(value: Value) -> str:
    """Return bytes as their text in UTF-8."""
    if isinstance(value, Binary):
        return bytes.fromhex(value).decode(errors="replace")
    return text(value)


def _close(ours: Any, theirs: Any) -> bool:  # noqa: ANN401 - numbers of several kinds
    a, b = float(ours), float(theirs)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    single = isinstance(ours, Single) or isinstance(theirs, Single)
    return math.isclose(a, b, rel_tol=_FLOAT if single else _DOUBLE)


def text(value: Value) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def sort_key(row: Value) -> str:
    """Return a row's sort key, which does not depend on the last digits of fractions."""
    return repr([_rough(value) for value in row])


def _rough(value: Value) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float | Decimal):
        return f"{float(value) + 0.0:.9g}"
    return str(value)
