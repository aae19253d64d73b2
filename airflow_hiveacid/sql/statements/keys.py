"""The parser that finds the keys in the ON condition of a MERGE.

A key is an equality of a target column and a source column in `ON`; the rest is an additional
condition. If their names differ, a query around the source renames the source column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs.specs.statements import SourceSpec
from airflow_hiveacid.plan.statements.dml import quoted
from airflow_hiveacid.sql.expressions import expressions
from airflow_hiveacid.sql.text.text import Span

_SOURCE_ALIAS: Final = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """The lower-case names of a target column and of the source column with an equal value."""

    target: str
    source: str


def taken_apart(
    span: Span, node: exp.Expr, names: expressions.NameScope
) -> tuple[tuple[KeyPair, ...], tuple[Span, ...]]:
    """Split an ON condition into the keys and the remaining conditions; `node` is its tree."""
    if expressions.parsed(span, names) != node:
        span.fail("it is not clear where the condition ends", "put parentheses around it")
    keys: dict[str, KeyPair] = {}
    rest: list[Span] = []
    for part in _conjuncts(span):
        key = _key(part, names)
        if key is None or key.target in keys:
            rest.append(part)
        else:
            keys[key.target] = key
    if not keys:
        span.fail(
            "ON has no equality of a plain target column and a source column, so Spark cannot find"
            " the rows to change",
            "write such an equality with the tables' aliases, such as t.id = s.id; if only an"
            " expression is equal, such as lower(t.name), write UPDATE or DELETE FROM db.t x WHERE"
            " EXISTS (SELECT 1 FROM db.s y WHERE y.name = lower(x.name)), and INSERT ... SELECT",
        )
    return tuple(keys.values()), tuple(rest)


def _conjuncts(span: Span) -> list[Span]:
    """Split a condition at AND; keep a condition with OR whole."""
    if span.find("OR") is not None:
        return [span]
    parts = span.split("AND")
    if len(parts) > 1:
        return [conjunct for part in parts for conjunct in _conjuncts(part)]
    inner = span.unwrapped()
    if len(inner) == len(span):
        return [span]
    return _conjuncts(inner) if inner.find("OR") is None else [span]


def _key(span: Span, names: expressions.NameScope) -> KeyPair | None:
    tree = expressions.parsed(span, names)
    if not isinstance(tree, exp.EQ):
        return None
    columns: dict[str, str] = {}
    for side in (tree.this, tree.expression):
        if not isinstance(side, exp.Column):
            return None
        uses = list(expressions.column_uses(span, side, names))
        if len(uses) != 1 or not uses[0].is_plain or uses[0].side is None:
            return None
        columns[uses[0].side] = (uses[0].column.name or "").lower()
    if columns.keys() != {expressions.TARGET, expressions.SOURCE}:
        return None
    return KeyPair(target=columns[expressions.TARGET], source=columns[expressions.SOURCE])


def renamed(
    source: SourceSpec,
    names: expressions.NameScope,
    keys: Sequence[KeyPair],
    columns: Mapping[str, str],
) -> tuple[SourceSpec, expressions.NameScope]:
    """Return the source with renamed columns, and the name scope for expressions over it.

    Keys get the names of the target's columns. Only they and the columns of `columns`, which maps
    old names to new names, are in the new source.
    """
    chosen = {new: old for old, new in columns.items()}
    chosen |= {key.target: key.source for key in keys}
    items = ", ".join(f"{quoted(old)} AS {quoted(new)}" for new, old in chosen.items())
    rows = _SOURCE_ALIAS if source.table else f"({source.query}) AS {_SOURCE_ALIAS}"
    # The names are quoted, and the query is the user's own SQL.
    query = replace(source, query=f"SELECT {items} FROM {rows}")  # noqa: S608
    return query, replace(names, renamed={old: quoted(new) for old, new in columns.items()})


def named_columns(
    keys: Sequence[KeyPair], names: expressions.NameScope, spans: Sequence[Span]
) -> dict[str, str]:
    """Return new names for source columns in expressions; the new names differ from all keys."""
    source_names = {key.target: key.source for key in keys}
    columns: dict[str, str] = {}
    for span in spans:
        for use in expressions.column_uses(span, expressions.parsed(span, names), names):
            if use.side is None and use.inner:
                continue  # the column belongs to a table of the enclosing query
            if use.side is None:
                span.fail(
                    f"{use.parts[0].raw} may be a column of either table",
                    "write the table's alias before it: the tables' keys have different names",
                    use.parts[0],
                )
            if use.side == expressions.SOURCE:
                name = (use.column.name or "").lower()
                is_free = source_names.get(name, name) == name
                columns[name] = name if is_free else f"__hiveacid_{name}"
    return columns
