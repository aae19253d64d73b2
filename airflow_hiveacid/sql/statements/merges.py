"""The parser of MERGE.

A key is an equality of a target column and a source column in `ON`; the rest is an additional
condition. If their names differ, a query around the source renames the source column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from airflow_hiveacid.jobs import statements
from airflow_hiveacid.plan.statements.dml import quoted, unreachable_clause
from airflow_hiveacid.sql import expressions
from airflow_hiveacid.sql.expressions.queries import QUERY_BEGINS, source_of
from airflow_hiveacid.sql.statements import update_delete
from airflow_hiveacid.sql.text import Span
from airflow_hiveacid.sql.text.names import (
    NamedTable,
    alias_at,
    column_list,
    table_name,
    with_alias,
)
from airflow_hiveacid.sql.text.nodes import check_keys, check_table
from airflow_hiveacid.sql.text.views import Views

_FORM: Final = (
    "write MERGE INTO db.t [AS] t USING db.s | (SELECT ...) [AS] s ON t.id = s.id WHEN ... THEN ..."
)
_ACTIONS: Final = {action.value.upper(): action for action in statements.MergeAction}


@dataclass(frozen=True, slots=True, kw_only=True)
class _When:
    """A WHEN clause, split into spans; `rest` has the tokens after UPDATE, INSERT or DELETE."""

    when: statements.MergeWhen
    action: statements.MergeAction
    condition: Span | None
    rest: Span
    node: exp.When


def merge_of(span: Span, database: str | None) -> statements.MergeSpec:
    """Parse `MERGE INTO t [[AS] a] USING s | (query) [[AS] b] ON condition WHEN ... THEN ...`."""
    _expect(span, 1, "INTO")
    target = with_alias(span, table_name(span, database, 2), stops=frozenset({"USING"}))
    _expect(span, target.end, "USING")
    source, using, index = _source(span, target.end + 1, database)
    _expect(span, index, "ON")
    of_clauses = Views(database, before=len(source.tables or {}), reads_past=False)
    names = _names(span, target, using)
    first = span.find("WHEN", start=index)
    if first is None:
        span.fail("WHEN is missing", _FORM, span.tokens[-1].end)
    tree = _checked(span, target, using)
    on = span[index + 1 : first]
    keys, rest = taken_apart(on, tree.args["on"], names)
    clauses = [
        _when(part, node) for part, node in _whens(span, first, tree.args["whens"].expressions)
    ]
    if (unreached := unreachable_clause((c.when, c.condition) for c in clauses)) is not None:
        clauses[unreached].rest.fail(
            "no row reaches this clause: an earlier clause has no condition",
            "add a condition to that clause, or put it last",
        )
    names = replace(names, views=of_clauses)
    said = tuple(_clause(clause, names) for clause in clauses)
    if any(target_key != source_key for target_key, source_key in keys.items()):
        for star in filter(_means_all, clauses):
            star.rest.fail(
                "a star is ambiguous: the keys have different names in target and source",
                "list the columns",
            )
        columns = named_columns(keys, names, [*rest, *_expressions(clauses)])
        # The clauses were translated once to check them; now translate them with the new names.
        source, names = renamed(source, names, keys, columns)
        said = tuple(_clause(clause, names) for clause in clauses)
    return statements.MergeSpec(
        target=target.full,
        source=source,
        keys=tuple(keys),
        clauses=said,
        condition=" AND ".join(expressions.expression(part, names) for part in rest) or None,
        tables=of_clauses.tables,
    )


def _expect(span: Span, index: int, word: str) -> None:
    if span.word(index) != word:
        span[index:].fail(f"{word} is missing", _FORM)


def _source(
    span: Span, begin: int, database: str | None
) -> tuple[statements.SourceSpec, NamedTable | str, int]:
    """Return the source, its name (of a table or of a query's alias), and the index after it."""
    stops = frozenset({"ON"})
    if span.word(begin) == "(":
        end = span.closing(begin)
        query = span[begin + 1 : end]
        if query.word(0) not in QUERY_BEGINS:
            span.fail("this is not a query", _FORM, span.tokens[begin])
        alias, next_index = alias_at(span, end + 1, stops=stops)
        if alias is None:
            span.fail("the query of USING has no alias", "write one after it", span.tokens[end])
        return source_of(query, Views(database)), alias, next_index
    name = table_name(span, database, begin)
    table = with_alias(span, name, stops=stops)
    as_of = span.tokens[name.end - 1].as_of
    versions = {}
    if as_of is not None:
        as_of.is_read = True
        versions = {statements.SOURCE_VIEW: as_of.version}
    return statements.SourceSpec(table=table.full, versions=versions), table, table.end


def _names(span: Span, target: NamedTable, using: NamedTable | str) -> expressions.NameScope:
    source = (using,) if isinstance(using, str) else using.qualifiers
    both = set(target.qualifiers) & set(source)
    if both:
        span.fail(f"{min(both)!r} is the name of both target and source", "give each its own alias")
    return expressions.NameScope(
        qualifiers={
            **dict.fromkeys(target.qualifiers, expressions.TARGET),
            **dict.fromkeys(source, expressions.SOURCE),
        },
        sides=frozenset({expressions.TARGET, expressions.SOURCE}),
    )


def _checked(span: Span, target: NamedTable, using: NamedTable | str) -> exp.Merge:
    tree = span.parsed()
    if not isinstance(tree, exp.Merge):
        span.fail("this is not a MERGE", _FORM)
    check_keys(span, tree, ("this", "using", "on", "whens"))
    check_table(span, tree.this, target)
    source = tree.args["using"]
    if isinstance(using, NamedTable):
        check_table(span, source, using)
    elif not isinstance(source, exp.Subquery) or source.alias.lower() != using:
        span.fail("the source after USING is ambiguous", _FORM)
    if not isinstance(tree.args.get("on"), exp.Expr):
        span.fail("ON is missing", _FORM)
    return tree


def _whens(span: Span, first: int, nodes: Sequence[exp.When]) -> list[tuple[Span, exp.When]]:
    parts = span[first + 1 :].split("WHEN")
    if len(parts) != len(nodes):
        span.fail("it is not clear where a clause ends", "put parentheses around CASE")
    return list(zip(parts, nodes, strict=True))


def _when(span: Span, node: exp.When) -> _When:
    when, index = _rows_of(span)
    check_keys(span, node, ("matched", "source", "condition", "then"))
    is_by_source = when is statements.MergeWhen.NOT_MATCHED_BY_SOURCE
    said = (when is statements.MergeWhen.MATCHED, is_by_source)
    if (bool(node.args["matched"]), bool(node.args.get("source"))) != said:
        span.fail("it is not clear to which rows this clause applies", _FORM)
    end = span.find("THEN")
    if end is None or end + 1 >= len(span):
        span.fail("THEN is missing", _FORM, span.tokens[-1].end)
    condition = None
    if end != index:
        _expect(span, index, "AND")
        condition = span[index + 1 : end]
    word = span.tokens[end + 1]
    action = _ACTIONS.get(word.word)
    if action is None:
        span.fail(f"{word.raw!r} is not UPDATE, DELETE or INSERT", _FORM, word)
    if (when is statements.MergeWhen.NOT_MATCHED) is not (action is statements.MergeAction.INSERT):
        allowed = "INSERT" if when is statements.MergeWhen.NOT_MATCHED else "UPDATE or DELETE"
        span.fail(f"this clause cannot {word.word}", f"write {allowed}", word)
    return _When(when=when, action=action, condition=condition, rest=span[end + 2 :], node=node)


def _rows_of(span: Span) -> tuple[statements.MergeWhen, int]:
    words = [token.word for token in span.tokens[:4]]
    if words[:1] == ["MATCHED"]:
        return statements.MergeWhen.MATCHED, 1
    if words == ["NOT", "MATCHED", "BY", "SOURCE"]:
        return statements.MergeWhen.NOT_MATCHED_BY_SOURCE, 4
    if words == ["NOT", "MATCHED", "BY", "TARGET"]:
        return statements.MergeWhen.NOT_MATCHED, 4
    if words[:2] != ["NOT", "MATCHED"]:
        span.fail("WHEN is followed by neither MATCHED nor NOT MATCHED", _FORM)
    return statements.MergeWhen.NOT_MATCHED, 2


def _clause(clause: _When, names: expressions.NameScope) -> statements.MergeClause:
    node = clause.node
    condition = None
    if clause.condition is not None:
        condition = update_delete.agreed(clause.condition, node.args.get("condition"), names)
        if (or_index := clause.condition.find("OR")) is not None:
            clause.condition.fail(
                "in Hive, a condition with OR but without parentheses also affects rows of other"
                " clauses, because Hive puts the condition of ON and an AND before it",
                "put parentheses around the condition of this clause",
                clause.condition.tokens[or_index],
            )
    elif node.args.get("condition") is not None:
        clause.rest.fail("the condition of this clause is ambiguous", "put parentheses around it")
    action_node = node.args["then"]
    set_: dict[str, str] | None = None
    values: tuple[str, ...] | None = None
    match clause.action:
        case statements.MergeAction.DELETE:
            update_delete.expect_end(clause.rest, 0)
        case statements.MergeAction.UPDATE:
            set_ = _update(clause, action_node, names)
        case statements.MergeAction.INSERT:
            set_, values = _insert(clause, action_node, names)
    return statements.MergeClause(
        when=clause.when, action=clause.action, condition=condition, set=set_, values=values
    )


def _is_star(clause: _When, index: int) -> bool:
    if clause.rest.word(index) != "*":
        return False
    update_delete.expect_end(clause.rest, index + 1)
    return True


def _update(
    clause: _When, action_node: exp.Expr, names: expressions.NameScope
) -> dict[str, str] | None:
    """Return the values by column; None for `UPDATE SET *`."""
    _expect(clause.rest, 0, "SET")
    if not isinstance(action_node, exp.Update):
        clause.rest.fail("this is not an UPDATE", _FORM)
    check_keys(clause.rest, action_node, ("expressions",))
    if _is_star(clause, 1):
        if clause.when is statements.MergeWhen.NOT_MATCHED_BY_SOURCE:
            clause.rest.fail("this clause has no source row", "write SET column = value")
        return None
    return update_delete.assignments_of(clause.rest[1:], names, action_node.expressions)


def _insert(
    clause: _When, action_node: exp.Expr, names: expressions.NameScope
) -> tuple[dict[str, str] | None, tuple[str, ...] | None]:
    """Return the values by column or, without a column list, in order; neither for `INSERT *`."""
    rest = clause.rest
    if not isinstance(action_node, exp.Insert):
        rest.fail("this is not an INSERT", _FORM)
    check_keys(rest, action_node, ("this", "expression"))
    if _is_star(clause, 0):
        return None, None
    columns: tuple[str, ...] | None = None
    index = 0
    if rest.word(0) == "(":
        index = rest.closing(0) + 1
        columns = column_list(rest[:index])
    if (rest.word(index), rest.word(index + 1)) != ("VALUES", "("):
        rest.fail("VALUES (...) is missing", "write INSERT [(columns)] VALUES (...)")
    update_delete.expect_end(rest, rest.closing(index + 1) + 1)
    cells = rest[index + 2 : -1].split(",")
    node = action_node.expression
    nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
    if len(nodes) != len(cells):
        rest.fail("it is not clear where a value ends", "put parentheses around each")
    values = tuple(
        update_delete.agreed_value(cell, tree, names)
        for cell, tree in zip(cells, nodes, strict=True)
    )
    if columns is None:
        return None, values
    if len(columns) != len(values):
        rest.fail(f"{len(columns)} columns get {len(values)} values", "give each column one value")
    return dict(zip(columns, values, strict=True)), None


def _means_all(clause: _When) -> bool:
    words = [token.word for token in clause.rest.tokens]
    return words in (["*"], ["SET", "*"])


def _expressions(clauses: Sequence[_When]) -> list[Span]:
    spans: list[Span] = []
    for clause in clauses:
        if clause.condition is not None:
            spans.append(clause.condition)
        if _means_all(clause) or clause.action is statements.MergeAction.DELETE:
            continue
        if clause.action is statements.MergeAction.UPDATE:
            for part in clause.rest[1:].split(","):
                equal = part.find("=", "==")
                if equal is not None:
                    spans.append(part[equal + 1 :])
        else:
            index = clause.rest.find("VALUES")
            if index is not None:
                spans.extend(clause.rest[index + 2 : -1].split(","))
    return [span for span in spans if not update_delete.is_default(span)]


_SOURCE_ALIAS: Final = "source"


def taken_apart(
    span: Span, node: exp.Expr, names: expressions.NameScope
) -> tuple[dict[str, str], tuple[Span, ...]]:
    """Split an ON condition into the keys and the remaining conditions; `node` is its tree.

    The keys map target columns to the source columns with an equal value, all in lower case.
    """
    if expressions.parsed(span, names) != node:
        span.fail("it is not clear where the condition ends", "put parentheses around it")
    keys: dict[str, str] = {}
    rest: list[Span] = []
    for part in _conjuncts(span):
        key = _key(part, names)
        if key is None or key[0] in keys:
            rest.append(part)
        else:
            keys[key[0]] = key[1]
    if not keys:
        span.fail(
            "ON has no equality of a plain target column and a source column, so Spark cannot find"
            " the rows to change",
            "write such an equality with the tables' aliases, such as t.id = s.id; if only an"
            " expression is equal, such as lower(t.name), write UPDATE or DELETE FROM db.t x WHERE"
            " EXISTS (SELECT 1 FROM db.s y WHERE y.name = lower(x.name)), and INSERT ... SELECT",
        )
    return keys, tuple(rest)


def _conjuncts(span: Span) -> list[Span]:
    """Split a condition at each AND; a part with OR stays whole, in its parentheses."""
    if span.find("OR") is not None:
        return [span]
    parts = span.split("AND")
    if len(parts) > 1:
        return [conjunct for part in parts for conjunct in _conjuncts(part)]
    inner = span.unwrapped()
    if len(inner) == len(span):
        return [span]
    return _conjuncts(inner) if inner.find("OR") is None else [span]


def _key(span: Span, names: expressions.NameScope) -> tuple[str, str] | None:
    """Return the target's and the source's column of an equality; None for other conditions."""
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
    return columns[expressions.TARGET], columns[expressions.SOURCE]


def renamed(
    source: statements.SourceSpec,
    names: expressions.NameScope,
    keys: Mapping[str, str],
    columns: Mapping[str, str],
) -> tuple[statements.SourceSpec, expressions.NameScope]:
    """Return the source with renamed columns, and the name scope for expressions over it.

    Keys get the names of the target's columns. Only they and the columns of `columns`, which maps
    old names to new names, are in the new source.
    """
    chosen = {new: old for old, new in columns.items()} | dict(keys)
    items = ", ".join(f"{quoted(old)} AS {quoted(new)}" for new, old in chosen.items())
    rows = _SOURCE_ALIAS if source.table else f"({source.query}) AS {_SOURCE_ALIAS}"
    # The names are quoted, and the query is the user's own SQL.
    query = replace(source, query=f"SELECT {items} FROM {rows}")  # noqa: S608
    return query, replace(names, renamed={old: quoted(new) for old, new in columns.items()})


def named_columns(
    keys: Mapping[str, str], names: expressions.NameScope, spans: Sequence[Span]
) -> dict[str, str]:
    """Return new names for source columns in expressions; none is that of another column's key."""
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
                is_free = keys.get(name, name) == name
                columns[name] = name if is_free else f"__hiveacid_{name}"
    return columns
