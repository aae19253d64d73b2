"""Parse and print Hive types, such as `array<struct<a:decimal(10,2)>>`.

Packages with types of Arrow, ORC or Spark convert these.

Example:
    >>> str(parse_type("MAP<String, Decimal>"))
    'map<string,decimal(10,0)>'
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from airflow_hiveacid.format.errors import InvalidNameError

TIMESTAMP_LOCAL: Final = "timestamp with local time zone"

PRIMITIVE_NAMES: Final = frozenset(
    {
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        TIMESTAMP_LOCAL,
    }
)

_ALIASES: Final[Mapping[str, str]] = {
    "integer": "int",
    "double precision": "double",
    "timestamp without time zone": "timestamp",
    "timestamplocaltz": TIMESTAMP_LOCAL,
}
MAX_PRECISION: Final = 38
MAX_CHAR_LENGTH: Final = 255
MAX_VARCHAR_LENGTH: Final = 65535


class HiveType:
    """Base class of all types; `str()` returns Hive's spelling."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PrimitiveType(HiveType):
    """A type without arguments; `PRIMITIVE_NAMES` contains all names."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in PRIMITIVE_NAMES:
            raise InvalidNameError(name=self.name, what="primitive Hive type")

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType(HiveType):
    """`decimal(precision,scale)`; 1 <= precision <= 38, 0 <= scale <= precision."""

    precision: int = 10
    scale: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
            raise InvalidNameError(name=str(self), what="Hive type")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class CharType(HiveType):
    """`char(length)`: values are padded with blanks to `length` characters (1..255)."""

    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_CHAR_LENGTH:
            raise InvalidNameError(name=str(self), what="Hive type")

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class VarcharType(HiveType):
    """`varchar(length)`: values have at most `length` characters (1..65535)."""

    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_VARCHAR_LENGTH:
            raise InvalidNameError(name=str(self), what="Hive type")

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class ArrayType(HiveType):
    """`array<element>`."""

    element: HiveType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(HiveType):
    """`map<key,value>`."""

    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType(HiveType):
    """`struct<name:type,...>`: fields keep their order, and field names keep their case."""

    fields: tuple[tuple[str, HiveType], ...]

    def __post_init__(self) -> None:
        names = [name.lower() for name, _ in self.fields]
        if len(set(names)) != len(names) or not all(map(_FIELD_NAME.fullmatch, names)):
            raise InvalidNameError(name=str(self), what="Hive type (its field names)")

    def __str__(self) -> str:
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields)}>"


@dataclass(frozen=True, slots=True)
class UnionType(HiveType):
    """`uniontype<type,...>`."""

    options: tuple[HiveType, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise InvalidNameError(name=str(self), what="Hive type")

    def __str__(self) -> str:
        return f"uniontype<{','.join(map(str, self.options))}>"


_FIELD_NAME: Final = re.compile(r"[^:<>,`]+")
_WORD: Final = re.compile(r"[a-z_][a-z0-9_]*(?: +[a-z]+)*")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_Item = TypeVar("_Item")


# Cached: a table has few distinct types, and this runs for every column of every file.
@functools.lru_cache(maxsize=1024)
def parse_type(text: str) -> HiveType:
    """Parse a Hive type or alias, in any case, or raise InvalidNameError."""
    parser = _Parser(text)
    parsed = parser.type()
    parser.end()
    return parsed


class _Parser:
    """A recursive-descent parser for one type string; it stores the current position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> HiveType:
        word = self._word()
        match word:
            case "decimal" | "numeric" | "dec":
                return DecimalType(*self._numbers(0, 2))
            case "char":
                return CharType(*self._numbers(1, 1))
            case "varchar":
                return VarcharType(*self._numbers(1, 1))
            case "array" | "map" | "struct" | "uniontype":
                return self._container(word)
            case _:
                name = _ALIASES.get(word, word)
                if name not in PRIMITIVE_NAMES:
                    raise self._error()
                return PrimitiveType(name)

    def end(self) -> None:
        self._skip()
        if self._at != len(self._text):
            raise self._error()

    def _container(self, word: str) -> HiveType:
        self._expect("<")
        parsed: HiveType
        match word:
            case "array":
                parsed = ArrayType(self.type())
            case "map":
                key = self.type()
                self._expect(",")
                parsed = MapType(key, self.type())
            case "struct":
                parsed = StructType(self._several(self._field))
            case _:
                parsed = UnionType(self._several(self.type))
        self._expect(">")
        return parsed

    def _several(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        items = [item()]
        while self._took(","):
            items.append(item())
        return tuple(items)

    def _field(self) -> tuple[str, HiveType]:
        quoted = self._took("`")
        name = self._match(_FIELD_NAME).strip()
        if quoted:
            self._expect("`")
        self._expect(":")
        return name, self.type()

    def _numbers(self, at_least: int, at_most: int) -> tuple[int, ...]:
        numbers: tuple[int, ...] = ()
        if self._took("("):
            numbers = self._several(lambda: int(self._match(_NUMBER)))
            self._expect(")")
        if not at_least <= len(numbers) <= at_most:
            raise self._error()
        return numbers

    def _word(self) -> str:
        self._skip()
        match = _WORD.match(self._text.lower(), self._at)
        if match is None:
            raise self._error()
        self._at = match.end()
        return re.sub(" +", " ", match[0])

    def _match(self, pattern: re.Pattern[str]) -> str:
        self._skip()
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._error()
        self._at = match.end()
        return match[0]

    def _took(self, token: str) -> bool:
        self._skip()
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _expect(self, token: str) -> None:
        if not self._took(token):
            raise self._error()

    def _skip(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _error(self) -> InvalidNameError:
        return InvalidNameError(name=self._text, what=f"Hive type (at character {self._at + 1})")
