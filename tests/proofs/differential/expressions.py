"""Expressions as trees, and the dice that make them.

The catalogue's lines and a seed go in; trees over the columns of `rows` come out, so that a
difference can be traced to the innermost piece that differs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_PLACE: Final = re.compile(r"\{([^{}]+)\}")
_NAME: Final = re.compile(r"\W*(\w+)\(")


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of SQL: a line of the catalogue with its arguments, or a column or constant.

    `name` is the function or operator, `kind` a letter of the catalogue.
    """

    name: str
    template: str
    kind: str
    arguments: tuple[Node, ...] = ()

    @property
    def text(self) -> str:
        """The piece as SQL."""
        if self.is_atom:
            return self.template
        parts = iter([argument.text for argument in self.arguments])
        return _PLACE.sub(lambda _found: next(parts), self.template)

    @property
    def is_atom(self) -> bool:
        """True if it is a column or a constant."""
        return not self.arguments

    def pieces(self) -> Iterator[Node]:
        """Yield all pieces, the innermost first, itself last."""
        for argument in self.arguments:
            yield from argument.pieces()
        yield self


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the catalogue: its text, its places and the kind of its answer."""

    template: str
    places: tuple[str, ...]
    kind: str
    name: str


def lines(catalogue: str | Iterable[str]) -> list[Line]:
    texts = catalogue.strip().splitlines() if isinstance(catalogue, str) else list(catalogue)
    return [_line(text) for text in texts]


def _line(text: str) -> Line:
    template, _, kind = text.rpartition(" => ")
    return Line(template, tuple(_PLACE.findall(template)), kind, name_of(template))


def name_of(template: str) -> str:
    """Return the name of a line: its function, or its operator in words."""
    if (call := re.match(r"(\w+)\(", template)) and not template.startswith("CASE"):
        name = call.group(1)
        if name == "cast":
            return f"cast {template.rpartition(' AS ')[2].partition('(')[0].rstrip(')')}"
        return f"{name} over" if " OVER (" in template else name
    bare = re.sub(r"'[^']*'", "", _PLACE.sub(" ", template))
    return " ".join(re.sub(r"[(),]", " ", bare).split()) or template


# Columns and constants of each kind.
ATOMS: Final[dict[str, tuple[str, ...]]] = {
    "I": ("ti", "si", "i", "n", "b", "id", "pq", "0", "1", "-1", "3", "2147483647", "7L", "100S"),
    "J": ("n", "ti % 5", "0", "1", "2", "3", "5", "-1", "-2", "length(y)", "id - 5"),
    "D": (
        *("de", "dx", "1.5", "1.10", "0.1", "-2.50", "7.000", "0.0"),
        *("99999999999999999999999999999999999999", "0.00000000000000000001", "2.5BD"),
    ),
    "F": ("d", "d", "0.1D", "1.5D", "-0.0D", "1e10D", "cast('NaN' AS double)", "0.0D", "f"),
    "f": ("f", "cast(0.1 AS float)"),
    "S": (
        *("s", "s", "x", "y", "vc", "cc", "pp", "''", "'abc'", "'a b'", "'12'", "' 7 '", "'é€'"),
        *("'A\\tb'", "cast(cc AS string)"),
    ),
    "X": ("x", "x", "vc", "cc", "'12'", "' 7 '", "'1.5'", "'-3'", "'\\t7'", "'1e3'", "'abc'"),
    "W": ("w", "w", "'2020-02-29'", "'2020-01-31 10:20:30'", "'1582-10-10'", "cast(dt AS string)"),
    "O": ("j", "j", "'{\"a\":1}'"),
    "T": (
        "dt",
        "dt",
        "date '2020-01-31'",
        "date '1582-10-04'",
        "date '1969-12-31'",
        "cast(ts AS date)",
    ),
    "M": ("ts", "ts", "timestamp '2020-01-31 10:20:30'", "timestamp '1969-12-31 23:59:58'"),
    "B": ("bo", "bo", "true", "false", "id > 5", "cast(NULL AS boolean)"),
    "Z": ("xb", "cast('abc' AS binary)"),
    "a": ("ai", "array(1, 2, 1)", "array(n, id)"),
    "A": ("sa", "array('a', 'b')", "array(s, y)", "split('a,b', ',')"),
    "p": ("m", "map('k', 5)"),
    "r": ("st", "named_struct('a', n, 'c', s)"),
    "U": ("zo",),
    "Y": ("y", "y", "vc", "','", "'b'"),
    "P": ("pp",),
}
# The kinds allowed in the place of a kind.
_WIDER: Final[dict[str, str]] = {"N": "IIDDFf", "V": "TMW", "C": "IDFSTMB", "F": "F", "S": "SSSX"}
_SAME: Final = ("I", "D", "F", "S", "T", "M", "B", "I", "S")
_NEVER_NESTED: Final = frozenset("JUYOP")


class Dice:
    """A maker of expressions. Mutable: it is a random generator's state."""

    def __init__(self, dice: random.Random, nested: Iterable[Line]) -> None:
        """Set the lines of nested expressions."""
        self._dice = dice
        self._by_kind: dict[str, list[Line]] = {}
        for line in nested:
            self._by_kind.setdefault(line.kind, []).append(line)

    def expression(self, line: Line, depth: int) -> Node:
        """Return an expression of this line, with others within it down to a depth."""
        same = self._dice.choice(_SAME)
        arguments = tuple(self._argument(place, same, depth) for place in line.places)
        kind = same if line.kind == "E" else line.kind
        return Node(line.name, line.template, kind, arguments)

    def _argument(self, place: str, same: str, depth: int) -> Node:
        if len(place) > 1 or not place.isalpha():
            return Node("constant", self._dice.choice(place.split("|")), "")
        kind = same if place == "E" else place
        kind = self._dice.choice(_WIDER.get(kind, kind))
        inner = self._by_kind.get(kind, [])
        if depth > 0 and inner and kind not in _NEVER_NESTED and self._dice.random() < 0.45:
            return self.expression(self._dice.choice(inner), depth - 1)
        return Node("atom", self._dice.choice(ATOMS[kind]), kind)
