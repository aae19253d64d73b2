"""The result of a question: the two answers side by side, and the innermost piece that differs.

A case is an expression in a form. Its outcome is one of `Outcome`; a difference is traced to a
piece with the same arguments in both engines, and to the rows in which it differs.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from tests.proofs.differential.engines import ROWS, Answer, Form, Refusal, Values
from tests.proofs.differential.expressions import Node
from tests.proofs.differential.values import BROKEN, Value, same

_WORD: Final = re.compile(r"(?<![\w'])[a-z_]+(?![\w'(])")
# The answers of these functions have no order.
UNORDERED: Final = frozenset({"collect_set", "collect_list", "map_keys", "map_values"})


class Outcome(enum.Enum):
    """The result of a question, in the page's words."""

    EQUAL = "equal"
    ERROR = "equal but for an error of ours"
    REFUSED_HERE = "refused by us"
    REFUSED_BY_SPARK = "refused by Spark"
    REFUSED_BY_HIVE = "refused by Hive"
    REFUSED_LIKE_OTHERS = "not asked: an engine refused two like it"
    KNOWN = "different and named"
    DIFFERENT = "different and not named"


@dataclass(frozen=True, slots=True)
class Case:
    """An expression in the form in which it is asked."""

    node: Node
    form: Form = ROWS

    @property
    def text(self) -> str:
        """The expression as SQL."""
        return self.node.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One value that differs, with its piece and the piece's arguments.

    `row` names it; `kinds` are the arguments' types in Hive, `arguments` their values in that row,
    or in all rows if the piece belongs to a group or window. None means unknown.
    """

    name: str
    text: str
    row: object
    ours: Value
    theirs: Value
    texts: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    arguments: tuple[tuple[Value, ...], ...] = ()
    our_kind: str = ""
    their_kind: str = ""

    def values(self) -> Iterator[Value]:
        for argument in self.arguments:
            yield from argument

    def value(self, position: int) -> Value:
        """Return an argument's value in this row; None also if there is no such argument."""
        if position >= len(self.arguments) or len(self.arguments[position]) != 1:
            return None
        return self.arguments[position][0]

    def has(self, *kinds: str) -> bool:
        """Return True if an argument has one of these types."""
        return any(kind.startswith(kinds) for kind in self.kinds)

    @property
    def words(self) -> frozenset[str]:
        """The bare names in its text, including its columns."""
        return frozenset(_WORD.findall(re.sub(r"'[^']*'", "''", self.text)))


@dataclass(frozen=True, slots=True)
class Pair:
    """Both answers to one question."""

    ours: Answer
    theirs: Answer

    def outcome(self, name: str) -> Outcome:
        """Return the outcome, regardless of known differences."""
        if isinstance(self.ours, Refusal):
            return Outcome.REFUSED_HERE if self.ours.by == "us" else Outcome.REFUSED_BY_SPARK
        if isinstance(self.theirs, Refusal):
            return Outcome.REFUSED_BY_HIVE
        if self.differing(name):
            return Outcome.DIFFERENT
        broken = any(value is BROKEN for value in self.ours.by_row.values())
        return Outcome.ERROR if broken else Outcome.EQUAL

    def differing(self, name: str) -> list[tuple[object, Value, Value]]:
        """Return the rows in which the values differ; an error of ours is no difference."""
        if isinstance(self.ours, Refusal) or isinstance(self.theirs, Refusal):
            return []
        found = []
        keys = sorted({*self.ours.by_row, *self.theirs.by_row}, key=repr)
        for key in keys:
            ours = self.ours.by_row.get(key, "no row")
            theirs = self.theirs.by_row.get(key, "no row")
            if name in UNORDERED and isinstance(ours, list) and isinstance(theirs, list):
                ours, theirs = sorted(ours, key=order_of), sorted(theirs, key=order_of)
            if ours is not BROKEN and not same(ours, theirs):
                found.append((key, ours, theirs))
        return found


def order_of(value: Value) -> str:
    """Return a text that sorts both engines' values alike; equal decimals have equal texts."""
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A case with its outcome; if it differs, with the values and the entries that name them."""

    case: Case
    outcome: Outcome
    told: str = ""
    seen: tuple[Seen, ...] = ()
    names: tuple[str, ...] = field(default=())


def blamed(case: Case, pairs: Mapping[tuple[str, Form], Pair]) -> list[Seen]:
    """Return the differing values of the innermost differing piece, or of the whole.

    `pairs` are both answers to the case, and to its pieces over rows.
    """
    for piece in case.node.pieces():
        form = case.form if piece is case.node else ROWS
        pair = pairs.get((piece.text, form))
        if pair is None or piece.is_atom:
            continue
        differing = pair.differing(piece.name)
        if differing:
            return [_seen(piece, pairs, row, pair, by_row=form.is_by_row) for row in differing]
    return []


def _seen(
    piece: Node,
    pairs: Mapping[tuple[str, Form], Pair],
    row: tuple[object, Value, Value],
    pair: Pair,
    *,
    by_row: bool,
) -> Seen:
    key, ours, theirs = row
    kinds, arguments = [], []
    for argument in piece.arguments:
        found = pairs.get((argument.text, ROWS))
        values = found.theirs if found is not None else None
        if not isinstance(values, Values):
            kinds.append("")
            arguments.append(())
            continue
        kinds.append(values.kind)
        arguments.append((values.by_row.get(key),) if by_row else tuple(values.by_row.values()))
    return Seen(
        name=piece.name,
        text=piece.text,
        row=key,
        ours=ours,
        theirs=theirs,
        texts=tuple(argument.text for argument in piece.arguments),
        kinds=tuple(kinds),
        arguments=tuple(arguments),
        our_kind=pair.ours.kind if isinstance(pair.ours, Values) else "",
        their_kind=pair.theirs.kind if isinstance(pair.theirs, Values) else "",
    )
