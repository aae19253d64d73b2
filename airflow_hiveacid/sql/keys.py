"""The keys of a MERGE: what its ON condition says of them, and the source as they want it.

`ON` is taken apart: equalities of a column of the target with one of the source are keys, what is
left is a further condition. Keys meet by name; where the user's differ, the source is a query that
gives its columns the names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from airflow_hiveacid.plan.statements import quoted
from airflow_hiveacid.sql.expressions import SOURCE, TARGET, Names, column_uses, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hiveacid.jobs.specs import SourceSpec
    from airflow_hiveacid.sql.text import Piece

_SOURCE_ALIAS: Final = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An equality of a column of the target with one of the source, in lower case."""

    target: str
    source: str


def taken_apart(
    piece: Piece, node: exp.Expr, names: Names
) -> tuple[tuple[Key, ...], tuple[Piece, ...]]:
    """The keys of an ON condition, and the parts of it that are none.

    Args:
        piece: it.
        node: the same as sqlglot read it in the whole statement.
        names: what it can name.

    Raises:
        SqlTextError: it has no key; or see `expressions.expression`.
    """
    if parsed(piece, names) != node:
        piece.fail("it is not clear where the condition ends", "put parentheses around it")
    keys: dict[str, Key] = {}
    rest: list[Piece] = []
    for part in _conjuncts(piece):
        key = _key(part, names)
        if key is None or key.target in keys:
            rest.append(part)
        else:
            keys[key.target] = key
    if not keys:
        piece.fail(
            "ON has no equality of a column of the target with a column of the source",
            "write one, both with their tables' aliases, such as t.id = s.id",
        )
    return tuple(keys.values()), tuple(rest)


def _conjuncts(piece: Piece) -> list[Piece]:
    """The parts of a condition that are joined by AND; those of OR stay together."""
    if piece.find("OR") is not None:
        return [piece]
    parts = piece.split("AND")
    if len(parts) > 1:
        return [found for part in parts for found in _conjuncts(part)]
    inner = piece.unwrapped()
    if len(inner) == len(piece):
        return [piece]
    return _conjuncts(inner) if inner.find("OR") is None else [piece]


def _key(piece: Piece, names: Names) -> Key | None:
    tree = parsed(piece, names)
    if not isinstance(tree, exp.EQ):
        return None
    found: dict[str, str] = {}
    for side in (tree.this, tree.expression):
        if not isinstance(side, exp.Column):
            return None
        uses = list(column_uses(piece, side, names))
        if len(uses) != 1 or not uses[0].is_plain or uses[0].side is None:
            return None
        found[uses[0].side] = (uses[0].column.name or "").lower()
    if found.keys() != {TARGET, SOURCE}:
        return None
    return Key(target=found[TARGET], source=found[SOURCE])


def renamed(
    source: SourceSpec,
    names: Names,
    keys: Sequence[Key],
    columns: Mapping[str, str],
) -> tuple[SourceSpec, Names]:
    """A source whose keys are called as the target's are, and what its columns are called then.

    It has the keys and these columns, given by the user's names of them, and no others.
    """
    chosen = {new: old for old, new in columns.items()}
    chosen |= {key.target: key.source for key in keys}
    items = ", ".join(f"{quoted(old)} AS {quoted(new)}" for new, old in chosen.items())
    rows = _SOURCE_ALIAS if source.table else f"({source.query}) AS {_SOURCE_ALIAS}"
    # names are quoted, and the query is the user's
    query = replace(source, query=f"SELECT {items} FROM {rows}")  # noqa: S608
    return query, replace(names, renamed={old: quoted(new) for old, new in columns.items()})


def named_columns(keys: Sequence[Key], names: Names, pieces: Sequence[Piece]) -> dict[str, str]:
    """The source's columns that expressions name, and what they are called beside the keys.

    Raises:
        SqlTextError: one may be a column of either table.
    """
    given = {key.target: key.source for key in keys}
    columns: dict[str, str] = {}
    for piece in pieces:
        for use in column_uses(piece, parsed(piece, names), names):
            if use.side is None and use.inner:
                continue  # of a table of the query that it is in
            if use.side is None:
                piece.fail(
                    f"{use.parts[0].raw} may be a column of either table",
                    "write the table's alias before it: the keys have two names",
                    use.parts[0],
                )
            if use.side == SOURCE:
                name = (use.column.name or "").lower()
                is_free = given.get(name, name) == name
                columns[name] = name if is_free else f"__hiveacid_{name}"
    return columns
